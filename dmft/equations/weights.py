"""The macroscopic equations of the weights w: m, C = Q + m m^T and R from one row of kernels at a time.

Everything at step n+1 follows from rows <= n, so the same object serves the march, which estimates each row
just before it is needed, and the iteration, which is given all rows. Arrays over slots hold sums over the steps
of a block (history.py); `History.weights` turns a kernel row into the weights of such sums.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import sqrt
from typing import NamedTuple

import numpy as np

from dmft.equations.history import History, Plan
from dmft.equations.noise import conditional, factor_rows, join_rows
from dmft.equations.recursion import (
    Correlations,
    Responses,
    StepCoefficients,
    merge_matrices,
    merge_vectors,
    next_row,
    through_noise,
)
from dmft.equations.stepping import Recursion, RecursionState
from dmft.equations.tuning import ESTIMATOR, Estimator
from dmft.model.experiment import Experiment


class Row(NamedTuple):
    """Row n of the kernels, estimated or given. M_C and K_R are sums over the steps of each slot."""

    delta_nu: float
    mu: float
    M_C_now: float  # M_C(n, n)
    M_C: np.ndarray  # (slots,) sum over block of M_C(n, k)
    K_R: np.ndarray  # (slots,) sum over block of K_R(n, k) = eta_k M_R(n, k)


class Drive(NamedTuple):
    """What a sample needs to go from step n to n+1."""

    a: float
    keep: float  # A - eta delta_nu - eta ridge
    memory: np.ndarray  # (slots,) weights of sums over blocks by K_R(n, k); with momentum -B/eta in the slot of step n - 1
    chi_weights: np.ndarray  # (slots,)
    chi_sd: float
    thermal: float  # standard deviation of the thermal noise
    drift: float = 0.0  # a times the coefficient of w_n, where gradients are taken at another point


class NoiseOverlaps(NamedTuple):
    """b_j = <chi_n zeta_j>, which depends on M_C alone, not on the response. Eq. [dmft-Q]."""

    past: np.ndarray  # (slots,) block sums
    now: float


class NextRow(NamedTuple):
    """Row n+1 of Q and R against the past, before step n itself enters the past, and m_{n+1}."""

    Q_row: np.ndarray  # (slots,) a_n x_j
    Q_with_last: float  # a_n x_n
    Q_now: float  # a_n^2 q_u
    R_row: np.ndarray  # (slots,)
    R_last: float  # a_n eta_n/eta_0
    m: float
    with_previous: float  # <w_{n+1} w_n>, where gradients are taken at another point than w


class Unscaled(NamedTuple):
    """The step before it is scaled by a_n: x_j of [dmft-Q] against the past and the present, q_u, and the next row of R."""

    keep: float
    memory: np.ndarray  # (slots,) as of Drive
    x: np.ndarray  # (slots,) block sums
    x_now: float
    q_u: float
    r: np.ndarray  # (slots,)


class StepFromRow(NamedTuple):
    """What follows from row n of the kernels: what drives the samples, the next row of the weights, and numbers for the curves."""

    drive: Drive
    next: NextRow
    nu_hat: float
    norm: float  # q_u + m_u^2, of the step before it is scaled
    x_now: float  # x_n of [dmft-Q]
    m_u: float
    lag: float  # A_n C(n,n) - B_n C(n,n-1) - x_n - m_n m_u, which is eta alpha <g_n h_n> where the norm is fixed. Eq. [dmft-nu]


@dataclass
class WeightState(RecursionState):
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
    # Rules that look ahead: Q, R, m above belong to y_n, where gradients are taken, and these to the weights w_n.
    Qw_row: np.ndarray = field(default_factory=lambda: np.zeros(0))  # (slots,) <w_n y_j>
    Rw_row: np.ndarray = field(default_factory=lambda: np.zeros(0))  # (slots,) response of w_n
    Qw_now: float = 0.0  # <w_n y_n>
    Qww: float = 0.0  # <w_n w_n>
    m_w: float = 0.0

    @classmethod
    def at_start(cls, slots: int, m0: float, Q0: float, sampled: bool = True) -> WeightState:
        """The state at step 0, with an empty past. Without samples nothing is drawn from M_C, which is not kept then."""
        Q, R = (np.zeros((slots, slots)) for _ in range(2))
        M_C, factor, ridge = (np.zeros((slots, slots) if sampled else (0, 0)) for _ in range(3))
        Q_row, R_row, jitter, m_past = (np.zeros(slots) for _ in range(4))
        return cls(Q, R, M_C, factor, Q_row, R_row, jitter, m_past, 0, m0, Q0, 0, 0, ridge)

    @property
    def correlations(self) -> Correlations:
        return Correlations(self.Q, self.Q_row, self.Q_now)


class WeightDynamics(Recursion):
    """The macroscopic recursion, one row of kernels at a time."""

    state: WeightState

    def __init__(self, experiment: Experiment, history: History, estimator: Estimator = ESTIMATOR):
        super().__init__(experiment, history, estimator)
        self.stop = np.minimum(-(-history.stop // 8) * 8, history.slots)  # rounded up to a multiple of eight for `dot`
        self.state = WeightState.at_start(history.slots, experiment.m0, experiment.q_start - experiment.m0**2,
                                          experiment.data.sampled)
        self.looks_ahead = experiment.update.looks_ahead
        if self.looks_ahead:
            state = self.state
            state.Qw_row, state.Rw_row = np.zeros(history.slots), np.zeros(history.slots)
            state.Qw_now = state.Qww = state.Q_now
            state.m_w = state.m

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
        return state.Qww + state.m_w**2 if self.looks_ahead else state.Q_now + state.m**2

    @property
    def m_w(self) -> float:
        """The overlap of the weights; m is that of the point where the gradient is taken, which differs if the rule looks
        ahead."""
        return self.state.m_w if self.looks_ahead else self.state.m

    def _noise(self, row: Row) -> tuple[np.ndarray, float]:
        """Weights (slots,) and standard deviation of chi_n given the past, where samples need them."""
        if not self.experiment.data.sampled:
            return np.zeros(0), 0.0
        state, order, jitter = self.state, self.history.order, self.estimator.jitter
        state.floored += factor_rows(state.M_C, state.jitter, order, state.factor, state.factor_from)
        state.factor_from = len(order)
        weights = np.zeros(self.history.slots)
        left = conditional(state.factor, order, row.M_C, row.M_C_now * (1 + jitter), np.empty((1, len(order))), weights)
        return weights, float(np.sqrt(max(left, 0.01 * jitter * row.M_C_now)))

    @property
    def eta(self) -> float:
        """eta_n."""
        return self.settings.eta

    @property
    def used(self) -> int:
        """Number of slots up to the last one that was ever in use, rounded up to a multiple of eight for `dot`."""
        return min(-(-self.history.upto // 8) * 8, self.history.slots)

    def noise_overlaps(self, row: Row) -> NoiseOverlaps:
        """b_j of row n."""
        b, correlation = np.zeros(self.history.slots), self.history.weights(row.M_C)
        return NoiseOverlaps(b, through_noise(self.experiment.eta_0, correlation, self._responses, self.used, b))

    @property
    def _responses(self) -> Responses:
        return Responses(self.state.R, self.state.R_row, self.stop)

    def step_coefficients(self, row: Row) -> StepCoefficients:
        """The step that row n makes; `keep` and `memory` are those of a Drive. Eqs. [schedule], [momentum]."""
        now, memory = self.settings, self.history.weights(row.K_R)
        if now.recoil:
            memory[self.history.order[-1]] -= now.recoil / now.eta  # step n - 1 is never in a block
        return StepCoefficients(now.eta, now.inertia - now.eta * row.delta_nu - now.eta * now.ridge, memory)

    def unscaled(self, row: Row, noise: NoiseOverlaps | None = None) -> Unscaled:
        """The step that row n makes, before it is scaled. Eqs. [dmft-Q], [dmft-R]. noise: `noise_overlaps` of the row, where they
        are known."""
        state, now = self.state, self.settings
        step = self.step_coefficients(row)
        x, r = np.empty(self.history.slots), np.empty(self.history.slots)
        x_now, q_u = next_row(step, row.M_C_now, noise or self.noise_overlaps(row), state.correlations, self._responses, self.used,
                              x, r)
        if now.drift:
            x_now += now.drift * state.Qw_now
            q_u += now.drift * (2 * self._with_weights(row, step.keep, step.memory) - now.drift * state.Qww)
            x += now.drift * state.Qw_row
            r += now.drift * state.Rw_row
        return Unscaled(step.keep, step.memory, x, x_now, q_u + now.heat, r)

    def step_from_row(self, row: Row, m_given: float | None = None, noise: NoiseOverlaps | None = None) -> StepFromRow:
        """What follows from row n. Eqs. [dmft-a], [dmft-m], [dmft-nu].

        The state stays at step n; `advance` moves on. The last row of a run is closed for its nu_hat alone. m_given
        prescribes m_{n+1} (the paper's starting guess holds m constant); noise: see `unscaled`."""
        now, eta, m = self.settings, self.eta, self.state.m
        keep, memory, x, x_now, q_u, r = self.unscaled(row, noise)
        m_u = self.free * m - eta * row.mu  # [dmft-m]
        if now.recoil:
            m_u -= now.recoil * self.state.m_past[self.history.order[-1]]  # [momentum]
        if now.drift:
            m_u += now.drift * self.state.m_w
        norm = q_u + m_u**2
        a = now.constraint.scale(norm)  # [dmft-a]
        unit = eta / self.experiment.eta_0
        following = NextRow(a * x, a * x_now, a**2 * q_u, a * r, a * unit, a * m_u if m_given is None else m_given,
                            a * self._with_weights(row, keep, memory))
        drive = Drive(a, keep, memory, *self._noise(row), sqrt(now.heat), a * now.drift)
        nu_hat = (1 / a - 1) / eta + now.ridge  # [dmft-nu], [ridge]
        return StepFromRow(drive, following, nu_hat, norm, x_now, m_u, self._inertial() - x_now - m * m_u)

    def _inertial(self) -> float:
        """A_n C(n,n) - B_n C(n,n-1), with the C(n,n) that a constraint fixes; y_n has another where the rule looks ahead."""
        state, recoil = self.state, self.settings.recoil
        if self.looks_ahead:
            return self.settings.inertia * (state.Q_now + state.m**2) + self.settings.drift * (state.Qw_now + state.m * state.m_w)
        inertial = self.settings.inertia * (self.settings.constraint.norm or 1.0)
        if recoil:
            last = self.history.order[-1]
            inertial -= recoil * (state.Q_row[last] + state.m * state.m_past[last])
        return inertial

    def _with_weights(self, row: Row, keep: float, memory: np.ndarray) -> float:
        """<u w_n>, of the unscaled step u and the weights w_n it starts from; 0 unless the rule looks ahead. Eq. [momentum]."""
        if not self.looks_ahead:
            return 0.0
        state, eta = self.state, self.eta
        noise = self.experiment.eta_0 * float(state.Rw_row @ (self.history.weights(row.M_C)))
        return keep * state.Qw_now + eta * float(memory @ state.Qw_row) + eta * noise + self.settings.drift * state.Qww

    def advance(self, row: Row, following: NextRow, plan: Plan) -> None:
        """Enter row n into the past (plan made by History.push for step n) and move to step n+1."""
        state = self.state
        Q_row, R_row, M_C = state.Q_row, state.R_row, row.M_C.copy()
        if self.looks_ahead:
            following = self._nesterov_point(following, plan)
        x, r = following.Q_row, following.R_row
        sampled = self.experiment.data.sampled
        if len(plan.merges):
            merge_matrices(plan.merges, (state.Q, state.R, state.M_C) if sampled else (state.Q, state.R))
            merge_vectors(plan.merges, (Q_row, R_row, M_C, x, r, state.jitter, state.m_past))
        s = plan.slot
        state.Q[s], state.Q[:, s], state.Q[s, s] = Q_row, Q_row, state.Q_now
        state.R[s] = R_row
        if sampled:
            state.M_C[s], state.M_C[:, s], state.M_C[s, s] = M_C, M_C, row.M_C_now
        state.jitter[s], state.m_past[s] = self.estimator.jitter * row.M_C_now, state.m
        x[s], r[s] = following.Q_with_last, following.R_last
        state.Q_row, state.R_row, state.Q_now = x, r, following.Q_now
        state.m, state.n = following.m, state.n + 1
        for at in plan.joins:
            state.factor_from = join_rows(state.factor, state.factor_from, at)
            state.ridge_from = join_rows(state.ridge, state.ridge_from, at)

    def _nesterov_point(self, following: NextRow, plan: Plan) -> NextRow:
        """Row n+1 of y from that of w, y_{n+1} = (1 + beta) w_{n+1} - beta w_n; stores the row of w_{n+1} in the state. Eq.
        [momentum]."""
        state, beta = self.state, self.experiment.update.lookahead(self.state.n + 1)
        Qw_row, Rw_row, Qw_last, Qww, m_w = state.Qw_row, state.Rw_row, state.Qw_now, state.Qww, state.m_w
        norm, cross = following.Q_now, following.with_previous
        state.Qw_row, state.Rw_row = following.Q_row.copy(), following.R_row.copy()
        if len(plan.merges):
            merge_vectors(plan.merges, (state.Qw_row, state.Rw_row))
        state.Qw_row[plan.slot], state.Rw_row[plan.slot] = following.Q_with_last, following.R_last
        state.Qw_now, state.Qww, state.m_w = (1 + beta) * norm - beta * cross, norm, following.m
        return following._replace(
            Q_row=(1 + beta) * following.Q_row - beta * Qw_row, Q_with_last=(1 + beta) * following.Q_with_last - beta * Qw_last,
            Q_now=(1 + beta) ** 2 * norm + beta**2 * Qww - 2 * beta * (1 + beta) * cross,
            R_row=(1 + beta) * following.R_row - beta * Rw_row, R_last=(1 + beta) * following.R_last,
            m=(1 + beta) * following.m - beta * m_w)
