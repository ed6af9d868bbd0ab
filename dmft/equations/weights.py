"""The macroscopic equations of the weights w: m, C = Q + m m^T and R from one row of kernels at a time.

Everything at step n+1 follows from rows <= n, so the same object serves the march, which estimates each row
just before it is needed, and the iteration, which is given all rows. Arrays over slots hold sums over the steps
of a block (history.py); a kernel row divided by block sizes is its value, taken as constant across the block.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from dmft.equations.history import History, Plan
from dmft.equations.noise import JITTER, conditional, dot, factor_rows, join_rows
from dmft.model.experiment import Experiment


class Row(NamedTuple):
    """Row n of the kernels, estimated or given. M_C and M_R are sums over the steps of each slot."""

    delta_nu: float
    mu: float
    M_C_now: float  # M_C(n, n)
    M_C: np.ndarray  # (slots,) sum over block of M_C(n, k)
    M_R: np.ndarray  # (slots,) sum over block of K_R(n, k) = eta_k M_R(n, k)


class Drive(NamedTuple):
    """What a sample needs to go from step n to n+1."""

    a: float
    keep: float  # A - eta delta_nu - eta ridge
    memory: np.ndarray  # (slots,) K_R(n, k), constant across a block; with momentum -B/eta in the slot of step n - 1
    chi_weights: np.ndarray  # (slots,)
    chi_sd: float
    thermal: float  # sqrt(2 T eta (1 - beta))


@njit(cache=True)
def _next_row(eta, unit, keep, memory, correlation, c_now, Q, R, Q_row, Q_now, R_row, used):
    """x_j, x_n, q_u without the thermal part, and the unnormalised next row of R. Eqs. [dmft-Q], [dmft-R].

    eta: of this step; unit: the learning rate in whose units R is kept, R = Gam/unit.

    memory, correlation: kernel values across blocks, (slots,); Q, R: block sums, (slots, slots); used: slots from here on
    hold nothing yet."""
    b = np.zeros(len(memory))
    x = keep * Q_row
    r = keep * R_row
    b_now = unit * dot(R_row, correlation, used)
    x_now = keep * Q_now + eta * dot(memory, Q_row, used) + eta * b_now
    for i in range(used):
        b[i] = unit * dot(R[i], correlation, used)
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
    """Two blocks become one in a vector of block sums."""
    v[into] = v[older] + v[newer]
    v[older] = v[newer] = 0.0


class NextRow(NamedTuple):
    """Row n+1 of Q and R against the past, before step n itself enters the past, and m_{n+1}."""

    Q_row: np.ndarray  # (slots,) a_n x_j
    Q_with_last: float  # a_n x_n
    Q_now: float  # a_n^2 q_u
    R_row: np.ndarray  # (slots,)
    R_last: float  # a_n eta_n/eta_0
    m: float
    with_previous: float  # <w_{n+1} w_n>, for Nesterov's momentum alone


class Unscaled(NamedTuple):
    """The step before it is scaled by a_n: x_j of [dmft-Q] against the past and the present, q_u, and the next row of R."""

    keep: float
    memory: np.ndarray  # (slots,) eta M_R(n, k) across a block
    x: np.ndarray  # (slots,) block sums
    x_now: float
    q_u: float
    r: np.ndarray  # (slots,)


class Closing(NamedTuple):
    """What follows from row n of the kernels: what drives the samples, the next row of the weights, and numbers for the curves."""

    drive: Drive
    next: NextRow
    nu_hat: float
    norm: float  # q_u + m_u^2, of the step before it is scaled
    x_now: float  # x_n of [dmft-Q]
    m_u: float
    lag: float  # A_n C(n,n) - B_n C(n,n-1) - x_n - m_n m_u, which is eta alpha <g_n h_n> on the sphere, exactly. Eq. [dmft-nu]


@dataclass
class WeightState:
    """The arrays of the recursion at step n: matrices and vectors over slots, and a few numbers."""

    Q: np.ndarray  # (slots, slots) block sums
    R: np.ndarray  # of Gam/eta_0, the response in units of the first learning rate
    M_C: np.ndarray
    factor: np.ndarray  # Cholesky factor of M_C with jitter, in order of time
    Q_row: np.ndarray  # (slots,) Q(n, j)
    R_row: np.ndarray
    jitter: np.ndarray
    m_past: np.ndarray  # (slots,) sums of m over the steps of each block
    n: int
    m: float
    Q_now: float  # Q(n, n)
    factor_from: int  # rows of the factor from here on are out of date
    floored: int  # pivots that rounding made non-positive
    ridge: np.ndarray  # Cholesky factor of Q + ridge_eps D, in order of time. Eq. [ibp]
    ridge_eps: float = 0.0
    ridge_from: int = 0  # rows of `ridge` from here on are out of date
    ridge_least: float = 0.0  # what ridge_eps must be at least for Q + ridge_eps D to be positive, as far as is known
    b: float = 0.0  # intercept
    # Nesterov's momentum: Q, R, m above belong to y_n, where gradients are taken, and these to the weights w_n.
    Qw_row: np.ndarray = field(default_factory=lambda: np.zeros(0))  # (slots,) <w_n y_j>
    Rw_row: np.ndarray = field(default_factory=lambda: np.zeros(0))  # (slots,) response of w_n
    Qw_now: float = 0.0  # <w_n y_n>
    Qww: float = 0.0  # <w_n w_n>
    m_w: float = 0.0

    def arrays(self) -> dict[str, np.ndarray]:
        """All fields by name, for a checkpoint."""
        return {field.name: np.asarray(getattr(self, field.name)) for field in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> WeightState:
        """The state from what `arrays` gave."""
        values: dict[str, Any] = {name: array.item() if array.ndim == 0 else np.array(array) for name, array in arrays.items()}
        return cls(**values)

    @classmethod
    def at_start(cls, slots: int, m0: float, Q0: float) -> WeightState:
        """The state at step 0, with an empty past."""
        Q, R, M_C, factor, ridge = (np.zeros((slots, slots)) for _ in range(5))
        Q_row, R_row, jitter, m_past = (np.zeros(slots) for _ in range(4))
        return cls(Q, R, M_C, factor, Q_row, R_row, jitter, m_past, 0, m0, Q0, 0, 0, ridge)


class WeightDynamics:
    """The macroscopic recursion, one row of kernels at a time."""

    def __init__(self, experiment: Experiment, history: History):
        self.experiment, self.history = experiment, history
        self.state = WeightState.at_start(history.slots, experiment.m0, experiment.q_start - experiment.m0**2)
        if experiment.update.nesterov:
            state = self.state
            state.Qw_row, state.Rw_row = np.zeros(history.slots), np.zeros(history.slots)
            state.Qw_now = state.Qww = state.Q_now
            state.m_w = state.m

    @property
    def n(self) -> int:
        return self.state.n

    @property
    def m(self) -> float:
        return self.state.m

    @property
    def b(self) -> float:
        """The intercept, 0 where none is learnt."""
        return self.state.b

    def push_intercept(self, slope: float) -> None:
        """b_{n+1} = b_n - eta alpha <(s/l) v'>, from that average of step n; called after `advance`."""
        self.state.b -= self.experiment.eta_n[self.state.n - 1] * self.experiment.alpha * slope

    @property
    def q(self) -> float:
        """C(n, n) of the weights, 1 on the sphere."""
        state = self.state
        return state.Qww + state.m_w**2 if self.experiment.update.nesterov else state.Q_now + state.m**2

    @property
    def m_w(self) -> float:
        """The overlap of the weights; m is that of the point where the gradient is taken, which differs with Nesterov's
        momentum."""
        return self.state.m_w if self.experiment.update.nesterov else self.state.m

    def _noise(self, row: Row) -> tuple[np.ndarray, float]:
        """Weights (slots,) and standard deviation of chi_n given the past."""
        state, order = self.state, self.history.order
        state.floored += factor_rows(state.M_C, state.jitter, order, state.factor, state.factor_from)
        state.factor_from = len(order)
        weights, left = conditional(state.factor, row.M_C[order], row.M_C_now * (1 + JITTER), len(order))
        spread = np.zeros(self.history.slots)
        spread[order] = weights
        return spread, float(np.sqrt(max(left, 0.01 * JITTER * row.M_C_now)))

    @property
    def _step(self) -> int:
        """The step whose settings row n has: n itself, or the last step for the last row, after which no step follows."""
        return min(self.state.n, self.experiment.steps - 1)

    @property
    def eta(self) -> float:
        """eta_n."""
        return float(self.experiment.eta_n[self._step])

    @property
    def used(self) -> int:
        """Number of slots up to the last one in use, rounded up to a multiple of eight for `dot`."""
        return min(-(-(int(self.history.order.max(initial=-1)) + 1) // 8) * 8, self.history.slots)

    @property
    def free(self) -> float:
        """A - eta lambda, the coefficient of w_n in a step, apart from gradient and recoil."""
        e, n = self.experiment, self._step
        return e.update.inertia(n) - self.eta * float(e.ridge_n[n])

    @property
    def recoil(self) -> float:
        """B_n, 0 where there is no step before. Eq. [momentum]."""
        return self.experiment.update.recoil(self._step) if len(self.history.order) else 0.0

    def unscaled(self, row: Row) -> Unscaled:
        """The step that row n makes, before it is scaled. Eqs. [dmft-Q], [dmft-R], [schedule], [momentum]."""
        e, state, eta, n = self.experiment, self.state, self.eta, self._step
        size = np.maximum(self.history.size, 1)
        memory, correlation = row.M_R / size, row.M_C / size
        if self.recoil:
            memory[self.history.order[-1]] -= self.recoil / eta  # step n - 1 is never in a block
        keep = e.update.inertia(n) - eta * row.delta_nu - eta * float(e.ridge_n[n])
        x, x_now, q_u, r = _next_row(
            eta, e.eta, keep, memory, correlation, row.M_C_now, state.Q, state.R, state.Q_row, state.Q_now, state.R_row,
            self.used,
        )
        return Unscaled(keep, memory, x, x_now, q_u + e.heat(n), r)

    def close(self, row: Row, m_given: float | None = None) -> Closing:
        """What follows from row n. Eqs. [dmft-a], [dmft-m], [dmft-nu].

        The state stays at step n; `advance` moves on. The last row of a run is closed for its nu_hat alone. m_given
        prescribes m_{n+1} (the paper's starting guess holds m constant)."""
        n, eta = self._step, self.eta
        constraint = self.experiment.constraint_at(n)
        keep, memory, x, x_now, q_u, r = self.unscaled(row)
        m_u = self.free * self.state.m - eta * row.mu
        if self.recoil:
            m_u -= self.recoil * self.state.m_past[self.history.order[-1]]
        norm = q_u + m_u**2
        a = constraint.scale(norm)
        unit = eta / self.experiment.eta
        following = NextRow(a * x, a * x_now, a**2 * q_u, a * r, a * unit, a * m_u if m_given is None else m_given,
                            a * self._with_weights(row, keep, memory))
        drive = Drive(a, keep, memory, *self._noise(row), float(np.sqrt(self.experiment.heat(n))))
        nu_hat = constraint.multiplier(a, eta) if constraint.fixes_norm else float(self.experiment.ridge_n[n])
        return Closing(drive, following, nu_hat, norm, x_now, m_u, self._inertial() - x_now - self.state.m * m_u)

    def _inertial(self) -> float:
        """A_n C(n,n) - B_n C(n,n-1), with C(n,n) = 1 on the sphere."""
        if self.experiment.update.nesterov:
            return self.state.Q_now + self.state.m**2
        inertial = self.experiment.update.inertia(self._step)
        if self.recoil:
            last = self.history.order[-1]
            inertial -= self.recoil * (self.state.Q_row[last] + self.state.m * self.state.m_past[last])
        return inertial

    def _with_weights(self, row: Row, keep: float, memory: np.ndarray) -> float:
        """<u w_n>, of the unscaled step u and the weights w_n it starts from; 0 unless Nesterov. Eq. [momentum]."""
        if not self.experiment.update.nesterov:
            return 0.0
        state, eta, size = self.state, self.eta, np.maximum(self.history.size, 1)
        noise = self.experiment.eta * float(state.Rw_row @ (row.M_C / size))
        return keep * state.Qw_now + eta * float(memory @ state.Qw_row) + eta * noise

    def advance(self, row: Row, following: NextRow, plan: Plan) -> None:
        """Enter row n into the past (plan made by History.push for step n) and move to step n+1."""
        state = self.state
        Q_row, R_row, M_C = state.Q_row, state.R_row, row.M_C.copy()
        if self.experiment.update.nesterov:
            following = self._look_ahead(following, plan)
        x, r = following.Q_row, following.R_row
        for older, newer, into in plan.merges:
            for matrix in (state.Q, state.R, state.M_C):
                merge_matrix(matrix, older, newer, into)
            for vector in (Q_row, R_row, M_C, x, r, state.jitter, state.m_past):
                merge_vector(vector, older, newer, into)
        s = plan.slot
        state.Q[s], state.Q[:, s], state.Q[s, s] = Q_row, Q_row, state.Q_now
        state.R[s] = R_row
        state.M_C[s], state.M_C[:, s], state.M_C[s, s] = M_C, M_C, row.M_C_now
        state.jitter[s], state.m_past[s] = JITTER * row.M_C_now, state.m
        x[s], r[s] = following.Q_with_last, following.R_last
        state.Q_row, state.R_row, state.Q_now = x, r, following.Q_now
        state.m, state.n = following.m, state.n + 1
        for at in plan.joins:
            state.factor_from = join_rows(state.factor, state.factor_from, at)
            state.ridge_from = join_rows(state.ridge, state.ridge_from, at)

    def _look_ahead(self, following: NextRow, plan: Plan) -> NextRow:
        """Row n+1 of y from that of w, y_{n+1} = (1 + beta) w_{n+1} - beta w_n; stores the row of w_{n+1} in the state. Eq.
        [momentum]."""
        state, beta = self.state, self.experiment.update.lookahead(self.state.n + 1)
        Qw_row, Rw_row, Qw_last, Qww, m_w = state.Qw_row, state.Rw_row, state.Qw_now, state.Qww, state.m_w
        norm, cross = following.Q_now, following.with_previous
        state.Qw_row, state.Rw_row = following.Q_row.copy(), following.R_row.copy()
        for older, newer, into in plan.merges:
            for vector in (state.Qw_row, state.Rw_row):
                merge_vector(vector, older, newer, into)
        state.Qw_row[plan.slot], state.Rw_row[plan.slot] = following.Q_with_last, following.R_last
        state.Qw_now, state.Qww, state.m_w = (1 + beta) * norm - beta * cross, norm, following.m
        return following._replace(
            Q_row=(1 + beta) * following.Q_row - beta * Qw_row, Q_with_last=(1 + beta) * following.Q_with_last - beta * Qw_last,
            Q_now=(1 + beta) ** 2 * norm + beta**2 * Qww - 2 * beta * (1 + beta) * cross,
            R_row=(1 + beta) * following.R_row - beta * Rw_row, R_last=(1 + beta) * following.R_last,
            m=(1 + beta) * following.m - beta * m_w)
