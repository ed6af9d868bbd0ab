"""The macroscopic side of a solution: m, a, nu_hat, C = Q + m m^T and R from one row of kernels at a time.

Everything at step n+1 follows from rows <= n, so the same object serves the march, which estimates each row
just before it is needed, and the iteration, which is given all rows. Arrays over slots hold sums over the steps
of a block (history.py); a kernel row divided by block sizes is its value, taken as constant across the block.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from dmft.equations.history import History, Plan
from dmft.equations.noise import JITTER, conditional, dot, factor_rows
from dmft.model.experiment import Problem


class Row(NamedTuple):
    """Row n of the kernels, estimated or given. M_C and M_R are sums over the steps of each slot."""

    delta_nu: float
    mu: float
    M_C_now: float  # M_C(n, n)
    M_C: np.ndarray  # (slots,) sum over block of M_C(n, k)
    M_R: np.ndarray  # (slots,) sum over block of eta M_R(n, k)


class Drive(NamedTuple):
    """What a sample needs to go from step n to n+1."""

    a: float
    keep: float  # 1 - eta delta_nu - eta ridge
    memory: np.ndarray  # (slots,) eta M_R(n, k), constant across a block
    chi_weights: np.ndarray  # (slots,)
    chi_sd: float
    thermal: float  # sqrt(2 T eta)


@njit(cache=True)
def _next_row(eta, keep, memory, correlation, c_now, Q, R, Q_row, Q_now, R_row, used):
    """x_j, x_n, q_u without the thermal part, and the unnormalised next row of R. Eqs. [dmft-Q], [dmft-R].

    memory, correlation: kernel values across blocks, (slots,); Q, R: block sums, (slots, slots); used: slots from here on
    hold nothing yet."""
    b = np.zeros(len(memory))
    x = keep * Q_row
    r = keep * R_row
    b_now = eta * dot(R_row, correlation, used)
    x_now = keep * Q_now + eta * dot(memory, Q_row, used) + eta * b_now
    for i in range(used):
        b[i] = eta * dot(R[i], correlation, used)
    for i in range(used):
        weight = eta * memory[i]
        if weight != 0.0:
            for j in range(used):
                x[j] += weight * Q[i, j]
                r[j] += weight * R[i, j]
    x += eta * b
    b_z = keep * b_now + eta * dot(memory, b, used) + eta * c_now
    q_u = keep * x_now + eta * dot(memory, x, used) + eta * b_z
    return x, x_now, q_u, r


@njit(cache=True)
def merge_matrix(A, older, newer, into):
    """Two blocks become one in a matrix of block sums: add columns, then rows."""
    for i in range(len(A)):
        A[i, into] = A[i, older] + A[i, newer]
        A[i, older] = 0.0
        A[i, newer] = 0.0
    for j in range(len(A)):
        A[into, j] = A[older, j] + A[newer, j]
        A[older, j] = 0.0
        A[newer, j] = 0.0


def merge_vector(v: np.ndarray, older: int, newer: int, into: int) -> None:
    v[into] = v[older] + v[newer]
    v[older] = v[newer] = 0.0


class Macro:
    """State of the macroscopic recursion at step n."""

    ARRAYS = ("Q", "R", "M_C", "Q_row", "R_row", "jitter", "factor")

    def __init__(self, problem: Problem, history: History):
        slots = history.slots
        self.problem, self.history = problem, history
        self.Q, self.R, self.M_C, self.factor = (np.zeros((slots, slots)) for _ in range(4))
        self.Q_row, self.R_row = np.zeros(slots), np.zeros(slots)
        self.jitter = np.zeros(slots)
        self.n, self.m, self.Q_now = 0, problem.m0, problem.q_start - problem.m0**2
        self.factor_from, self.floored = 0, 0

    @property
    def q(self) -> float:
        """C(n, n), 1 on the sphere."""
        return self.Q_now + self.m**2

    def _noise(self, row: Row) -> tuple[np.ndarray, float]:
        """Weights (slots,) and standard deviation of chi_n given the past."""
        order = np.array(self.history.order, np.int64)
        self.floored += factor_rows(self.M_C, self.jitter, order, self.factor, self.factor_from)
        weights, left = conditional(self.factor, row.M_C[order], row.M_C_now * (1 + JITTER), len(order))
        spread = np.zeros(self.history.slots)
        spread[order] = weights
        return spread, float(np.sqrt(max(left, 0.01 * JITTER * row.M_C_now)))

    def close(self, row: Row, m_given: float | None = None) -> tuple[Drive, dict[str, float]]:
        """From row n: what drives the samples, and a_n, nu_hat, x_n. Eqs. [dmft-a], [dmft-m], [dmft-nu].

        Does not move on: `advance` does, so that the last row of a run can be closed for its nu_hat alone.
        m_given fixes m_{n+1} (the paper's starting guess holds m constant)."""
        p, eta = self.problem, self.problem.eta
        size = np.maximum(self.history.size, 1)
        memory, correlation = row.M_R / size, row.M_C / size
        keep = 1 - eta * row.delta_nu - eta * p.ridge
        temperature = p.temperature[min(self.n, p.steps - 1)]
        x, x_now, q_u, r = _next_row(
            eta, keep, memory, correlation, row.M_C_now, self.Q, self.R, self.Q_row, self.Q_now, self.R_row,
            min(-(-(max(self.history.order, default=-1) + 1) // 8) * 8, self.history.slots),  # `dot` adds by eights
        )
        q_u += 2 * temperature * eta
        m_u = (1 - eta * p.ridge) * self.m - eta * row.mu
        norm = q_u + m_u**2
        a = 1 / np.sqrt(norm) if p.sphere and norm > 0 else (1.0 if not p.sphere else np.nan)
        self._next = (a * x, a * x_now, a**2 * q_u, a * r, a, a * m_u if m_given is None else m_given)
        weights, sd = self._noise(row)
        drive = Drive(a, keep, memory, weights, sd, float(np.sqrt(2 * temperature * eta)))
        nu_hat = (1 / a - 1) / eta if p.sphere else p.ridge
        return drive, {"nu_hat": nu_hat, "norm": norm, "x_now": x_now, "m_u": m_u, "a": a}

    def advance(self, row: Row, plan: Plan) -> None:
        """Enter row n into the past (plan made by History.push for step n) and move to step n+1."""
        Q_row, R_row, M_C = self.Q_row, self.R_row, row.M_C.copy()
        x, x_now, q_next, r, a, m_next = self._next
        jitter = self.jitter
        for older, newer, into in plan.merges:
            for matrix in (self.Q, self.R, self.M_C):
                merge_matrix(matrix, older, newer, into)
            for vector in (Q_row, R_row, M_C, x, r, jitter):
                merge_vector(vector, older, newer, into)
        s = plan.slot
        self.Q[s], self.Q[:, s], self.Q[s, s] = Q_row, Q_row, self.Q_now
        self.R[s] = R_row
        self.M_C[s], self.M_C[:, s], self.M_C[s, s] = M_C, M_C, row.M_C_now
        jitter[s] = JITTER * row.M_C_now
        x[s], r[s] = x_now, a
        self.Q_row, self.R_row, self.Q_now = x, r, q_next
        self.m, self.n, self.factor_from = m_next, self.n + 1, plan.factor_from

    def state(self) -> dict[str, np.ndarray]:
        arrays = {name: getattr(self, name) for name in self.ARRAYS}
        scalars = [self.n, self.m, self.Q_now, self.factor_from, self.floored]
        return arrays | {"scalars": np.array(scalars, float)}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        for name in self.ARRAYS:
            getattr(self, name)[...] = arrays[name]
        n, self.m, self.Q_now, factor_from, floored = arrays["scalars"]
        self.n, self.factor_from, self.floored = int(n), int(factor_from), int(floored)
