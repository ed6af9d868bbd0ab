"""The arrays of a committee at step n that compiled code works on (steps.py, rows.py): some of the state, row n of the kernels, and
what follows from it.

Arrays of one shape lie one behind the other in a common one, because a call takes time for each of its arguments; `named` gives
them their names.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from dmft.core.compiled import INNER, record

# The numbers of the step from row n, and how far arrays are in use.
STEP = record(
    eta=float, eta_0=float,
    free=float,  # coefficient of y_n, apart from gradient, recoil and drift
    recoil=float, drift=float, heat=float, jitter=float,
    ahead=int,  # whether gradients are taken at another point than the weights
    used=int,  # entries of lines over slots
    last=int)  # where those of step n - 1 begin, if there is recoil


class Named(NamedTuple):
    """Lines are (p, slots p), pairs (p, p), means (p, k)."""

    # lines, of the state first
    Q_row: np.ndarray
    R_row: np.ndarray
    Qw_row: np.ndarray
    Rw_row: np.ndarray
    M_C: np.ndarray  # of row n, as are the next: sums over the steps of each slot
    K_R: np.ndarray  # of K_R(n, j) = eta_j M_R(n, j)
    overlaps: np.ndarray  # alpha <g_n h_j^T>
    correlation: np.ndarray  # of chi_n with the past, as weights of its blocks
    memory: np.ndarray  # coefficients of the past, of the row as it was sampled
    completed: np.ndarray  # the same of the completed row
    x: np.ndarray  # overlaps of the step before it is scaled with the past
    residual: np.ndarray  # of the identity
    chi_weights: np.ndarray
    next_Q_row: np.ndarray  # of step n+1, before step n itself enters the past
    next_R_row: np.ndarray
    room_line: np.ndarray
    # pairs, of the state first
    Q_now: np.ndarray
    Qw_now: np.ndarray
    Qww: np.ndarray
    delta_nu: np.ndarray
    M_C_now: np.ndarray
    overlaps_now: np.ndarray
    noise_now: np.ndarray  # <chi_n zeta_n^T>
    keep: np.ndarray  # coefficient of the present position
    x_now: np.ndarray  # overlaps of the step with w_n
    residual_now: np.ndarray
    chi_root: np.ndarray
    q_u: np.ndarray
    S: np.ndarray  # Gram matrix of the step before it is scaled
    back: np.ndarray  # <u w_n^T>, 0 unless the rule looks ahead
    next_Q_last: np.ndarray  # of step n+1 with step n
    next_R_last: np.ndarray
    next_Q_now: np.ndarray
    next_back: np.ndarray  # <w_{n+1} w_n^T>, where the rule looks ahead
    room_pair: np.ndarray
    other_pair: np.ndarray
    # means, of the state first
    m: np.ndarray
    m_w: np.ndarray
    mu: np.ndarray
    label: np.ndarray  # what mu by parts has besides what comes through the fields
    m_u: np.ndarray
    m_past: np.ndarray  # (k, slots p), of the state


LINES, PAIRS, MEANS = (Named._fields.index(name) for name in ("Q_now", "m", "m_past"))
OF_STATE = ("Q_row", "R_row", "Q_now", "m", "m_past")
OF_STATE_AHEAD = ("Qw_row", "Rw_row", "Qw_now", "Qww", "m_w")  # where the rule looks ahead


class UnitArrays(NamedTuple):
    """What compiled functions get."""

    given: np.ndarray  # (1,) STEP
    lines: np.ndarray  # (lines, p, slots p)
    pairs: np.ndarray  # (pairs, p, p)
    means: np.ndarray  # (means, p, k)
    m_past: np.ndarray  # (k, slots p)

    @classmethod
    def empty(cls, units: int, directions: int, size: int) -> UnitArrays:
        """All 0."""
        return cls(np.zeros(1, STEP), np.zeros((LINES, units, size)), np.zeros((PAIRS - LINES, units, units)),
                   np.zeros((MEANS - PAIRS, units, directions)), np.zeros((directions, size)))


@njit(**INNER)
def named(lines, pairs, means, m_past):
    """Views."""
    return Named(lines[0], lines[1], lines[2], lines[3], lines[4], lines[5], lines[6], lines[7], lines[8], lines[9], lines[10],
                 lines[11], lines[12], lines[13], lines[14], lines[15],
                 pairs[0], pairs[1], pairs[2], pairs[3], pairs[4], pairs[5], pairs[6], pairs[7], pairs[8], pairs[9], pairs[10],
                 pairs[11], pairs[12], pairs[13], pairs[14], pairs[15], pairs[16], pairs[17], pairs[18], pairs[19],
                 means[0], means[1], means[2], means[3], means[4], m_past)
