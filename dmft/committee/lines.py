"""Lines (p, slots p) in one pass, in place of one for every operation: what samples on a card wait for counts in microseconds."""

from __future__ import annotations

import numpy as np
from numba import njit

from dmft.core.compiled import UNCOUNTED


@njit(**UNCOUNTED)
def _scaled(groups, alpha, carried, out):
    for r in range(out.shape[1]):
        for j in range(groups.shape[2]):
            out[0, r, j] = alpha * groups[0, r, j]  # [c-MC]
            out[1, r, j] = -alpha * groups[1, r, j] / carried  # [c-MR]
            out[2, r, j] = alpha * groups[2, r, j]  # [c-ibp]


def kernel_lines(groups: np.ndarray, alpha: float, carried: float, size: int) -> np.ndarray:
    """(3, p, size) alpha <g G>, -alpha <g' T> / carried and alpha <g H> from sums groups (3, p, used), 0 from there on. Eqs.
    [c-MC], [c-MR], [c-ibp]."""
    out = np.zeros((*groups.shape[:2], size))
    _scaled(groups, alpha, carried, out)
    return out


@njit(**UNCOUNTED)
def add_both(line, eta, one, other):
    """line += eta one, then eta other; returns it."""
    for r in range(len(line)):
        for j in range(line.shape[1]):
            line[r, j] = line[r, j] + eta * one[r, j] + eta * other[r, j]
    return line


@njit(**UNCOUNTED)
def put_turned(line, out):
    """out (size, p) = line^T."""
    for j in range(len(out)):
        for r in range(out.shape[1]):
            out[j, r] = line[r, j]
