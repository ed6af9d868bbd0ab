"""From sums over samples to one row of the kernels. Eqs. [dmft-nu], [dmft-MC], [dmft-MR], [dmft-mu], [stein]."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numba import njit

from dmft.core.compiled import UNCOUNTED
from dmft.equations.ibp import FieldOverlaps, IdentityResidual, corrected, identity_residual
from dmft.equations.noise import dot
from dmft.equations.tuning import ESTIMATOR
from dmft.equations.weights import NoiseOverlaps, Row, StepFromRow, WeightDynamics
from dmft.model.curves import PER_STEP, defined
from dmft.model.experiment import Experiment

# Columns of the sums over samples before the kernels: averages of these (times the weight).
# LABEL: what mu has besides E_n, [stein]; WRONG: wrong labels; PUSH: (s/l) v', which moves the intercept.
# LOST: samples that left their trapping region, [lost].
GP, GK, V, GH, GG, LABEL, WILD, UNSTABLE, WRONG, PUSH, LOST, CARRIED, RESPONSE, RESPONSE2 = range(14)
SCALARS = 14
GROUPS = 3  # a column for every slot: g times past g, g' times tangents, g times past h


class InUse(NamedTuple):
    """Which estimates a solution uses."""

    stein: bool  # the control variate of mu
    identity: bool  # the response is completed by [ibp]
    share: float  # of the samples that have tangents
    trusted: float  # the same as the ridge of [ibp] takes it
    faint: float = ESTIMATOR.control_fade_gradient
    late: float = ESTIMATOR.control_fade_time  # infinite where no response grows


class Estimate(NamedTuple):
    """Row n, and what the row as sampled fails the identity [ibp] by, where it was asked; then its overlaps with the noise are
    known, too."""

    row: Row
    residual: IdentityResidual | None
    noise: NoiseOverlaps | None


def estimate_row(weights: WeightDynamics, sums: np.ndarray, use: InUse) -> Estimate:
    """Row n of the kernels from the sums of `Samples.row_sums` over all samples (weights add up to one)."""
    alpha, m, slots = weights.experiment.alpha, weights.m, weights.history.slots
    products, responses, overlaps = (sums[SCALARS + k * slots : SCALARS + (k + 1) * slots] for k in range(GROUPS))
    row = Row(
        delta_nu=alpha * sums[GP],  # [dmft-nu]
        mu=alpha * sums[GK],  # [dmft-mu]
        M_C_now=alpha * sums[GG],  # [dmft-MC]
        M_C=alpha * products,  # [dmft-MC]
        K_R=-alpha * (responses / sums[CARRIED] if use.identity else responses),  # [dmft-MR]
    )
    residual, noise, spread = None, None, 0.0
    if use.identity:
        noise = weights.noise_overlaps(row)
        residual = identity_residual(weights, row, FieldOverlaps(alpha * overlaps, alpha * (sums[GH] - m * sums[GK])), noise)
        spread = max(float(sums[RESPONSE2] / sums[CARRIED] - (sums[RESPONSE] / sums[CARRIED]) ** 2), 0.0)
        row = corrected(weights, row, residual, sums[GG], use.trusted, spread)  # [ibp]
    if weights.experiment.centred:
        return Estimate(row._replace(mu=0.0), residual, noise)  # by symmetry
    if use.stein:
        row = _controlled(weights, row, sums, use.faint * spread / use.share, use.late)
    return Estimate(row, residual, noise)


def _controlled(weights: WeightDynamics, row: Row, sums: np.ndarray, faint: float, late: float) -> Row:
    """mu from <g k> and from integration by parts in h0, mu = E_n + alpha <g' Y + dg/dy dy/dh0>, with a coefficient that is not
    fitted to the samples. E_n is what comes through the m_k h0 of the fields, known from the row; the rest is what the data model
    says: for labels that jump, pairs of samples on the jump, for clusters <g (k - h0)>. faint: what <g^2> is
    held against, `control_fade_gradient` times K/K_T and the variance of the response over samples; late: what t is held against.
    Eq. [stein]."""
    alpha, t = weights.experiment.alpha, weights.experiment.t_n[weights.n]
    through_fields = row.delta_nu * weights.m - dot(weights.history.weights(row.K_R), weights.state.m_past, weights.used)
    share = 1 / (1 + (sums[WILD] / weights.estimator.control_fade_weight) ** 4) / (1 + (t / late) ** 4)
    if faint > 0.0:
        share *= sums[GG] / (sums[GG] + faint)
    return row._replace(mu=row.mu - share * (row.mu - through_fields - alpha * sums[LABEL]))


def curves_of(experiment: Experiment) -> tuple[str, ...]:
    """Names of the curves of a solution."""
    known = defined(experiment.data, experiment.start.random, experiment.asked)
    return tuple(curve.name for curve in known if curve.theory == PER_STEP) + experiment.observables


def curve_row(experiment: Experiment, n: int, m: float, q: float, estimate: Estimate, sums: np.ndarray, after: StepFromRow,
              b: float = 0.0, averaged: Iterable[float] = (), C_12: float = np.nan) -> dict[str, float]:
    """Every curve at step n, those too that a run does not have. nu_hat_direct is eq. A.19; nu_gap is what the row as sampled fails
    the exact identity of [dmft-nu] by, zero up to Monte-Carlo error; ibp_gap the largest such failure over all steps j of [ibp].
    averaged: the observables; C_12: of clones, where there are any."""
    overlap, row, residual = experiment.alpha * sums[GH], estimate.row, estimate.residual
    step = min(n, experiment.steps - 1)
    temperature, eta = experiment.temperature[step], experiment.eta_n[step]
    constraint, nu_gap = experiment.constraint_at(step), 0.0
    if residual is not None:
        nu_gap = residual.now
    elif constraint.fixes_norm:
        nu_gap = after.lag / eta - overlap
    values = {
        "m": m, "loss": sums[V], "q": q, "delta_nu": row.delta_nu, "mu": row.mu, "nu_hat": after.nu_hat,
        "nu_hat_direct": (temperature - overlap) / (constraint.norm or 1.0), "nu_gap": nu_gap,
        "ibp_gap": residual.largest if residual else 0.0, "unstable": sums[UNSTABLE], "lost": sums[LOST],
        "training_error": sums[WRONG], "b": b, "C_12": C_12,
    }
    values |= zip(experiment.observables, averaged, strict=True)
    return values


@njit(**UNCOUNTED)
def exploded(sums, largest, most_lost):
    """Whether sums over samples are NaN or beyond all bounds, or too many samples are lost. Written so that NaN counts."""
    for k in range(len(sums)):
        if not abs(sums[k]) < largest:
            return True
    return not sums[LOST] <= most_lost


def escaped(norm: float, largest: float = ESTIMATOR.largest) -> bool:
    """Whether the norm of the next position is NaN or beyond all bounds."""
    return not 0 < norm < largest
