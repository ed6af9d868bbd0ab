"""Samples under Nesterov's momentum: gradients are taken at y_n = w_n + beta_n (w_n - w_{n-1}). Eq. [momentum].

Everything that process.py keeps belongs to y; here is the one row more that belongs to the present weights w_n.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from dmft.samples.tangents import merge_vector


class Behind(NamedTuple):
    """Nesterov's momentum: the present weights w_n, where the rest belongs to y_n; empty without. Eq. [momentum]."""

    h: np.ndarray  # (count,)
    Y: np.ndarray  # (count,) where the control variate is used
    row: np.ndarray  # (carriers, slots) their tangents


@njit(cache=True)
def look_ahead_of(t, step, behind, following, source, used):
    """T_{n+1,J} of y_{n+1} from those of w_{n+1} in `following`, which become the present ones of w. Eq. [momentum]."""
    beta = step.beta
    for j in range(used):
        of_weights = following[j]
        following[j] = (1.0 + beta) * of_weights - beta * behind.row[t, j]
        behind.row[t, j] = of_weights
    for k in range(step.merges.shape[0]):
        merge_vector(behind.row[t], step.merges[k, 0], step.merges[k, 1], step.merges[k, 2])
    behind.row[t, step.slot] = source
