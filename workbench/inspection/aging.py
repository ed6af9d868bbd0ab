"""Two-time kernels from a waiting time t_w on: C(t_w + tau, t_w), and the response to a force switched on at t_w."""

from __future__ import annotations

import numpy as np

from dmft.result.theory import Kernels


def waiting_times(kernels: Kernels, count: int = 5) -> list[int]:
    """Indices of t = 0 and of saved times equally spaced in log t, up to half of the time reached."""
    reached = np.flatnonzero(np.isfinite(np.diag(kernels.C)))
    if reached.size < 3:
        return list(reached[:1])
    last, first = kernels.t[reached[-1]] / 2.0, kernels.t[1]
    wanted = np.geomspace(first, max(last, first), count - 1)
    return [0, *np.unique([int(np.argmin(np.abs(kernels.t - time))) for time in wanted if time > 0])]


def correlation_slice(kernels: Kernels, w: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """tau, C(t_w + tau, t_w) and its error, for the saved times from index w on."""
    return kernels.t[w:] - kernels.t[w], kernels.C[w:, w], kernels.C_error[w:, w]


def integrated_response(kernels: Kernels, w: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """tau, the integral of R(t_w + tau, s) over s from t_w to t_w + tau, and a bound on its error.

    R(t_i, t_j) acts over the step from t_j on, so the sum over steps is a left Riemann sum; between saved times that are
    further apart R is taken as linear. The R of one time all come from the same replicas, so their errors are added.
    """
    t = kernels.t
    value, error = np.zeros(t.size - w), np.full(t.size - w, np.nan)
    error[0] = 0.0
    step = t[1] - t[0]
    for i in range(w + 1, t.size):
        weights = _weights(t[w:i + 1], step)
        value[i - w] = weights @ kernels.R[i, w:i]
        error[i - w] = weights @ kernels.R_error[i, w:i]
    return t[w:] - t[w], value, error


def _weights(t: np.ndarray, step: float) -> np.ndarray:
    """Weights of R at t[:-1] in the sum over all steps from t[0] to t[-1] (excluded) of step * R, R linear between saved
    times and constant in the last interval, where the saved R ends at t[-2]."""
    counts = np.rint(np.diff(t) / step)
    # In an interval of c steps the left end has the weight sum_k (1 - k/c) = (c + 1)/2, the right end (c - 1)/2.
    weights = (counts + 1.0) / 2.0
    weights[1:] += (counts[:-1] - 1.0) / 2.0
    weights[-1] = counts[-1] + ((counts[-2] - 1.0) / 2.0 if counts.size > 1 else 0.0)
    return step * weights
