"""The state of the macroscopic equations of a committee, which is what a checkpoint holds of them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from dmft.equations.stepping import RecursionState
from dmft.model.network import TwoLayer


@dataclass
class UnitState(RecursionState):
    """The arrays of the recursion at step n; rows are (p, slots p)."""

    Q: np.ndarray  # (slots p, slots p) block sums
    R: np.ndarray  # in units of the first learning rate
    M_C: np.ndarray
    factor: np.ndarray  # Cholesky factor of M_C with jitter, in order of time
    ridge: np.ndarray  # of Q + ridge_eps S. Eq. [c-ibp]
    Q_row: np.ndarray
    R_row: np.ndarray
    jitter: np.ndarray  # (slots p,)
    m_past: np.ndarray  # (k, slots p) sums of m over the steps of each block
    m: np.ndarray  # (p, k)
    Q_now: np.ndarray  # (p, p)
    a: np.ndarray  # (p,)
    beta: np.ndarray  # (p,)
    n: int = 0
    factor_from: int = 0  # rows of the factor from here on are out of date
    factor_known: int = 0  # but up to this column
    floored: int = 0
    ridge_from: int = 0
    ridge_known: int = 0
    ridge_eps: float = 0.0
    ridge_least: float = 0.0
    # Rules that look ahead: Q, R, m above belong to y_n, where gradients are taken, and these to the weights w_n.
    Qw_row: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))  # (p, slots p) <w_n y_j^T>
    Rw_row: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))  # (p, slots p) response of w_n
    Qw_now: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))  # (p, p) <w_n y_n^T>
    Qww: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))  # (p, p) <w_n w_n^T>
    m_w: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))  # (p, k)

    @classmethod
    def at_start(cls, slots: int, network: TwoLayer) -> UnitState:
        """The state at step 0, with an empty past."""
        p, size = network.units, slots * network.units
        Q, R, M_C, factor, ridge = (np.zeros((size, size)) for _ in range(5))
        Q_row, R_row, m_past = np.zeros((p, size)), np.zeros((p, size)), np.zeros((network.directions, size))
        return cls(Q, R, M_C, factor, ridge, Q_row, R_row, np.zeros(size), m_past, network.m0.copy(), network.Q0.copy(),
                   network.a.copy(), network.beta.copy())
