"""The arrays of a committee at step n that compiled code works on (steps.py, rows.py): some of the state, row n of the kernels, and
what follows from it.

Arrays of one shape lie one behind the other in a common one, because a call takes time for each of its arguments.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from dmft.core.compiled import record

# The numbers of the step from row n, and how far arrays are in use.
UNIT_STEP = record(
    eta=float, eta_0=float,
    free=float,  # coefficient of y_n, apart from gradient, recoil and drift
    recoil=float, drift=float, heat=float, jitter=float, least_of_jitter=float,
    ahead=int,  # whether gradients are taken at another point than the weights
    used=int,  # entries of lines over slots
    last=int)  # where those of step n - 1 begin, if there is recoil



class Line(IntEnum):
    """Of UnitArrays.lines, each (p, slots p)."""

    Q_ROW = 0  # the state
    R_ROW = 1
    QW_ROW = 2
    RW_ROW = 3
    M_C = 4  # row n: sums over the steps of each slot, of K_R(n, j) = eta_j M_R(n, j) and of alpha <g_n h_j^T>
    K_R = 5
    OVERLAPS = 6
    CORRELATION = 7  # of chi_n with the past, as weights of its blocks
    MEMORY = 8  # coefficients of the past, of the row as it was sampled
    COMPLETED = 9  # the same of the completed row
    X = 10  # overlaps of the step before it is scaled with the past
    RESIDUAL = 11  # of the identity
    CHI_WEIGHTS = 12
    NEXT_Q_ROW = 13  # of step n+1, before step n itself enters the past
    NEXT_R_ROW = 14
    ROOM = 15


class Block(IntEnum):
    """Of UnitArrays.pairs, each (p, p)."""

    Q_NOW = 0  # the state
    QW_NOW = 1
    QWW = 2
    DELTA_NU = 3  # row n
    M_C_NOW = 4
    OVERLAPS_NOW = 5
    NOISE_NOW = 6  # <chi_n zeta_n^T>
    KEEP = 7  # coefficient of the present position
    X_NOW = 8  # overlaps of the step with w_n
    RESIDUAL_NOW = 9
    INVERSE = 10  # of what is left of Q(n,n) given the past
    CHI_ROOT = 11
    Q_U = 12
    S = 13  # Gram matrix of the step before it is scaled
    BACK = 14  # <u w_n^T>, 0 unless the rule looks ahead
    NEXT_Q_LAST = 15  # of step n+1 with step n
    NEXT_R_LAST = 16
    NEXT_Q_NOW = 17
    NEXT_BACK = 18  # <w_{n+1} w_n^T>, where the rule looks ahead
    ROOM = 19
    OTHER = 20


class Mean(IntEnum):
    """Of UnitArrays.means, each (p, k)."""

    M = 0  # the state
    M_W = 1
    MU = 2  # row n
    LABEL = 3  # what mu by parts has besides what comes through the fields
    M_U = 4


class UnitArrays(NamedTuple):
    """What compiled functions get."""

    given: np.ndarray  # (1,) UNIT_STEP
    lines: np.ndarray  # (lines, p, slots p)
    pairs: np.ndarray  # (pairs, p, p)
    means: np.ndarray  # (means, p, k)
    m_past: np.ndarray  # (k, slots p)

    @classmethod
    def empty(cls, units: int, directions: int, size: int) -> UnitArrays:
        """All 0."""
        return cls(np.zeros(1, UNIT_STEP), np.zeros((len(Line), units, size)), np.zeros((len(Block), units, units)),
                   np.zeros((len(Mean), units, directions)), np.zeros((directions, size)))

    def of_state(self, ahead: bool) -> dict[str, np.ndarray]:
        """Those of a UnitState, by name; ahead: whether the rule looks ahead."""
        lines, pairs, means = self.lines, self.pairs, self.means
        found = {"Q_row": lines[Line.Q_ROW], "R_row": lines[Line.R_ROW], "Q_now": pairs[Block.Q_NOW], "m": means[Mean.M],
                 "m_past": self.m_past}
        if ahead:
            found |= {"Qw_row": lines[Line.QW_ROW], "Rw_row": lines[Line.RW_ROW], "Qw_now": pairs[Block.QW_NOW],
                      "Qww": pairs[Block.QWW], "m_w": means[Mean.M_W]}
        return found
