"""From sums over samples to one row of the kernels. Eqs. [dmft-MC], [dmft-MR], [dmft-mu], [stein]."""

from __future__ import annotations

import numpy as np

from dmft.equations.weights import Closing, Row
from dmft.model.experiment import Experiment

# Columns of the sums over samples before the kernels: averages of these (times the weight).
GP, GK, V, GH, GG, STEIN, STEIN_GAP2, STEIN_COV, UNSTABLE = range(9)
SCALARS = 9
CURVES = ("m", "loss", "q", "delta_nu", "mu", "nu_hat", "nu_hat_direct", "nu_gap", "unstable")
# Beyond these an explicit step with any reasonable learning rate is lost; sums of g^2 ~ h^6 would overflow soon.
LARGEST = 1e60


def kernel_row(experiment: Experiment, sums: np.ndarray, stein: bool) -> Row:
    """Row n from the sums of `Samples.row_sums` over all samples (weights add up to one)."""
    alpha = experiment.alpha
    slots = (len(sums) - SCALARS) // 2
    return Row(
        delta_nu=alpha * sums[GP],
        mu=alpha * _teacher_overlap(experiment, sums, stein),
        M_C_now=alpha * sums[GG],
        M_C=alpha * sums[SCALARS : SCALARS + slots],
        M_R=-alpha * sums[SCALARS + slots :],
    )


def _teacher_overlap(experiment: Experiment, sums: np.ndarray, stein: bool) -> float:
    """<g h0>, combined with <dg/dh0> along the path (equal to it by Stein's lemma) with the weight that
    regression on the samples finds best. Zero by symmetry where samples come in mirrored pairs."""
    if experiment.mirrored:
        return 0.0
    direct = sums[GK]
    if not stein:
        return float(direct)
    gap = direct - sums[STEIN]
    variance = sums[STEIN_GAP2] - gap**2
    covariance = sums[STEIN_COV] - direct * gap
    return float(direct - covariance / variance * gap) if variance > 0 else float(direct)


def curve_row(experiment: Experiment, n: int, m: float, q: float, row: Row, sums: np.ndarray, closing: Closing
              ) -> dict[str, float]:
    """Every curve at step n. nu_hat_direct is eq. A.19; nu_gap is the exact identity of [dmft-nu], zero up to
    Monte-Carlo error where the constraint fixes the norm."""
    overlap = experiment.alpha * sums[GH]
    temperature = experiment.temperature[min(n, experiment.steps - 1)]
    gap = (1 - closing.x_now - m * closing.m_u) / experiment.eta - overlap if experiment.constraint.fixes_norm else 0.0
    return {
        "m": m, "loss": sums[V], "q": q, "delta_nu": row.delta_nu, "mu": row.mu, "nu_hat": closing.nu_hat,
        "nu_hat_direct": temperature - overlap, "nu_gap": gap, "unstable": sums[UNSTABLE],
    }


def exploded(sums: np.ndarray, norm: float = 1.0) -> bool:
    """Whether sums over samples, or the norm of the next position, are NaN or beyond all bounds. Written so that NaN counts."""
    return not (np.all(np.abs(sums) < LARGEST) and 0 < norm < LARGEST)
