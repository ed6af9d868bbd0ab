"""From sums over samples to one row of the kernels. Eqs. [dmft-MC], [dmft-MR], [dmft-mu], [stein]."""

from __future__ import annotations

import numpy as np

from dmft.equations.weights import Row
from dmft.model.experiment import Problem

# Columns of the sums over samples before the kernels: averages of these (times the weight).
GP, GH0, V, GH, GG, STEIN, STEIN_GAP2, STEIN_COV, UNSTABLE = range(9)
SCALARS = 9
CURVES = ("m", "loss", "q", "delta_nu", "mu", "nu_hat", "nu_hat_direct", "nu_gap", "unstable")
# Beyond these an explicit step with any reasonable learning rate is lost; sums of g^2 ~ h^6 would overflow soon.
LARGEST = 1e60


def kernel_row(problem: Problem, sums: np.ndarray, stein: bool) -> Row:
    """Row n from the sums of `Samples.row_sums` over all samples (weights add up to one)."""
    alpha = problem.alpha
    slots = (len(sums) - SCALARS) // 2
    return Row(
        delta_nu=alpha * sums[GP],
        mu=alpha * _teacher_overlap(problem, sums, stein),
        M_C_now=alpha * sums[GG],
        M_C=alpha * sums[SCALARS : SCALARS + slots],
        M_R=-alpha * sums[SCALARS + slots :],
    )


def _teacher_overlap(problem: Problem, sums: np.ndarray, stein: bool) -> float:
    """<g h0>, combined with <dg/dh0> along the path (equal to it by Stein's lemma) with the weight that
    regression on the samples finds best. Zero by symmetry where samples come in mirrored pairs."""
    if problem.mirrored:
        return 0.0
    direct = sums[GH0]
    if not stein:
        return float(direct)
    gap = direct - sums[STEIN]
    variance = sums[STEIN_GAP2] - gap**2
    covariance = sums[STEIN_COV] - direct * gap
    return float(direct - covariance / variance * gap) if variance > 0 else float(direct)


def curve_row(problem: Problem, n: int, m: float, q: float, row: Row, sums: np.ndarray, closed: dict[str, float]
              ) -> dict[str, float]:
    """Every curve at step n. nu_hat_direct is eq. A.19; nu_gap is the exact identity of [dmft-nu], zero up to
    Monte-Carlo error on the sphere."""
    overlap = problem.alpha * sums[GH]
    temperature = problem.temperature[min(n, problem.steps - 1)]
    gap = (1 - closed["x_now"] - m * closed["m_u"]) / problem.eta - overlap if problem.sphere else 0.0
    return {
        "m": m, "loss": sums[V], "q": q, "delta_nu": row.delta_nu, "mu": row.mu, "nu_hat": closed["nu_hat"],
        "nu_hat_direct": temperature - overlap, "nu_gap": gap, "unstable": sums[UNSTABLE],
    }


def exploded(sums: np.ndarray, closed: dict[str, float] | None = None) -> bool:
    """NaN, infinite or beyond all bounds. Written so that NaN counts as exploded."""
    if not np.all(np.abs(sums) < LARGEST):
        return True
    return closed is not None and not (0 < closed["norm"] < LARGEST)
