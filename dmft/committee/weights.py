"""The macroscopic equations of a committee: m (p, k), C = Q + m m^T and R (blocks p x p) from one row of kernels at a time.

Arrays over slots are flattened, (slot, unit) -> slot p + unit, so that Q, R, M_C and the factors are plain matrices of size
slots p, and "row n" is p rows. equations/weights.py has the same for one unit. Eqs. [c-Q], [c-m], [c-a], [c-R], [c-chi].
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np

from dmft.committee.algebra import against, factor_lines, join_lines, keep_solved
from dmft.committee.lines import add_both
from dmft.committee.matrices import Matrices
from dmft.committee.state import UnitState
from dmft.equations.blocks import NONE
from dmft.equations.history import History, Plan
from dmft.equations.recursion import merge_matrices, merge_vectors
from dmft.equations.stepping import Recursion
from dmft.equations.tuning import ESTIMATOR, Estimator
from dmft.model.experiment import Experiment
from dmft.model.network import TwoLayer


class UnitRow(NamedTuple):
    """Row n of the kernels. M_C and K_R are sums over the steps of each slot."""

    delta_nu: np.ndarray  # (p, p)
    mu: np.ndarray  # (p, k)
    M_C_now: np.ndarray  # (p, p)
    M_C: np.ndarray  # (p, slots p)
    K_R: np.ndarray  # (p, slots p) of K_R(n, j) = eta_j M_R(n, j)


class UnitDrive(NamedTuple):
    """What a sample needs to go from step n to n+1."""

    A: np.ndarray  # (p, p)
    keep: np.ndarray  # (p, p)
    memory: np.ndarray  # (p, slots p)
    chi_weights: np.ndarray  # (p, slots p)
    chi_root: np.ndarray  # (p, p) lower triangular
    thermal: float
    drift: float = 0.0  # coefficient of w_n, where gradients are taken at another point; A works on it, too


class UnitCoefficients(NamedTuple):
    """A step before it is scaled: the coefficients of the present position and of the past."""

    keep: np.ndarray  # (p, p)
    memory: np.ndarray  # (p, slots p)


class UnitBegun(NamedTuple):
    """What follows from a row as it was sampled, before it is completed."""

    correlation: np.ndarray  # (p, slots p) of chi_n with the past, as weights of its blocks
    step: UnitCoefficients


class UnitOverlaps(NamedTuple):
    """Averages with the present row n: with the past, as block sums, and with the present."""

    past: np.ndarray  # (p, slots p)
    now: np.ndarray  # (p, p)


class UnitNext(NamedTuple):
    """Row n+1 of Q against the past, before step n itself enters the past, and m_{n+1}."""

    Q_row: np.ndarray  # (p, slots p)
    Q_with_last: np.ndarray  # (p, p)
    Q_now: np.ndarray  # (p, p)
    m: np.ndarray  # (p, k)
    with_previous: np.ndarray  # (p, p) <w_{n+1} w_n^T>, where the rule looks ahead


class UnitPoint(NamedTuple):
    """Where the loss is evaluated at a step."""

    m: np.ndarray  # (p, k)
    m_w: np.ndarray  # (p, k) of the weights, where that is another point
    a: np.ndarray  # (p,)
    beta: np.ndarray  # (p,)


class UnitStepFromRow(NamedTuple):
    """What follows from row n of the kernels."""

    drive: UnitDrive
    next: UnitNext
    S: np.ndarray  # (p, p) Gram matrix of the step before it is scaled


def wide(merges: np.ndarray, units: int) -> np.ndarray:
    """The merges of a plan for arrays in which every slot has an entry for each unit, (count p, 3)."""
    found = merges[:, None, :] * units + np.arange(units)[None, :, None]
    found[:, :, 1] = np.where(merges[:, None, 1] == NONE, NONE, found[:, :, 1])
    return np.ascontiguousarray(found.reshape(-1, 3))


def widened(order: np.ndarray, units: int) -> np.ndarray:
    """Slots, in any order, as entries of flattened arrays."""
    return (order[:, None] * units + np.arange(units)).ravel()


def lower_root(S: np.ndarray, least: np.ndarray) -> np.ndarray:
    """Lower triangular root of a nearly positive matrix (p, p); pivots are at least those of `least` (p,)."""
    root = np.zeros_like(S)
    for i in range(len(S)):
        for j in range(i):
            root[i, j] = (S[i, j] - root[i, :j] @ root[j, :j]) / root[j, j] if root[j, j] > 0 else 0.0
        root[i, i] = sqrt(max(S[i, i] - root[i, :i] @ root[i, :i], least[i], 0.0))
    return root


class UnitWeights(Recursion):
    """The macroscopic recursion of a committee, one row of kernels at a time."""

    state: UnitState

    def __init__(self, experiment: Experiment, network: TwoLayer, history: History, estimator: Estimator = ESTIMATOR,
                 matrices: Matrices | None = None):
        super().__init__(experiment, history, estimator)
        self.network, self.units, self.state = network, network.units, UnitState.at_start(history.slots, network)
        self.looks_ahead, self._one = experiment.update.looks_ahead, np.eye(network.units)
        self.matrices, self._order = matrices or Matrices(history, network.units), (-1, np.empty(0, np.int64))
        self.matrices.take(self.state)
        if self.looks_ahead:
            state = self.state
            state.Qw_row, state.Rw_row = np.zeros_like(state.Q_row), np.zeros_like(state.R_row)
            state.Qw_now, state.Qww, state.m_w = state.Q_now.copy(), state.Q_now.copy(), state.m.copy()

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        super().restore(arrays)
        self.matrices.take(self.state)

    @property
    def C_now(self) -> np.ndarray:
        """C(n, n) of the weights, (p, p)."""
        state, m = self.state, self.m_w
        return (state.Qww if self.looks_ahead else state.Q_now) + m @ m.T

    @property
    def m_w(self) -> np.ndarray:
        """Overlaps (p, k) of the weights; `state.m` is that of the point where gradients are taken."""
        return self.state.m_w if self.looks_ahead else self.state.m

    @property
    def used(self) -> int:
        """Entries of flattened arrays up to the last one that was ever in use, rounded up to a multiple of eight: after a restart
        fewer slots may be known to have been in use, and sums must not change their order."""
        return min(-(-self.history.upto * self.units // 8) * 8, self.history.slots * self.units)

    @property
    def last(self) -> slice:
        """The entries of step n - 1."""
        first = int(self.history.order[-1]) * self.units
        return slice(first, first + self.units)

    @property
    def order(self) -> np.ndarray:
        """The entries of the past in order of time; as of step n until `advance`."""
        if self._order[0] != self.n:
            self._order = self.n, widened(self.history.order, self.units)
        return self._order[1]

    @property
    def past(self) -> np.ndarray | slice:
        """The same as an index."""
        return slice(0, len(self.order)) if self.history.full else self.order

    def _against(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        """A B^T of lines over slots."""
        return against(A, B, self.matrices.whole, self.used)

    def inner(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        """A B^T of a few lines in order of time."""
        return against(A, B, self.matrices.whole, A.shape[1])

    def begin(self, row: UnitRow) -> UnitBegun:
        """What a row begins with, while the matrices are asked for its products."""
        begun = UnitBegun(self.experiment.eta_0 * self.history.unit_weights(row.M_C), self.step_coefficients(row))
        self.matrices.expect(begun.correlation, begun.step.memory, row.M_C)
        return begun

    def noise_overlaps(self, correlation: np.ndarray) -> UnitOverlaps:
        """b_j = <chi_n zeta_j^T>. Eq. [c-Q]."""
        return UnitOverlaps(self.matrices.noise(correlation, self.used), self._against(correlation, self.state.R_row))

    def step_coefficients(self, row: UnitRow) -> UnitCoefficients:
        """What samples and overlaps have in common in a step. Eqs. [c-h], [momentum]."""
        now, memory = self.settings, self.history.unit_weights(row.K_R)
        if now.recoil:
            memory[:, self.last] -= now.recoil / now.eta * self._one
        return UnitCoefficients(self.free * self._one - now.eta * row.delta_nu, memory)

    def overlaps_of_step(self, step: UnitCoefficients, noise: UnitOverlaps) -> UnitOverlaps:
        """x_j, of the step before it is scaled, with the past and with w_n. Eq. [c-Q]."""
        state, eta, (keep, memory) = self.state, self.settings.eta, step
        past = add_both(keep @ state.Q_row, eta, self.matrices.overlaps(memory, self.used), noise.past)
        now = keep @ state.Q_now + eta * self._against(memory, state.Q_row) + eta * noise.now
        if self.settings.drift:
            past, now = past + self.settings.drift * state.Qw_row, now + self.settings.drift * state.Qw_now
        return UnitOverlaps(past, now)

    def step_from_row(self, row: UnitRow, noise: UnitOverlaps | None = None) -> UnitStepFromRow:
        """What follows from row n; the state stays at step n. noise: that of the row, where known."""
        state, now, eta = self.state, self.settings, self.settings.eta
        if noise is None:
            correlation, step = self.begin(row)
            noise = self.noise_overlaps(correlation)
        else:
            step = self.step_coefficients(row)
            self.matrices.expect_step(step.memory)
        (keep, memory), chi = step, self._noise(row)
        x = self.overlaps_of_step(step, noise)
        b_z = keep @ noise.now.T + eta * self._against(memory, noise.past) + eta * row.M_C_now  # [c-Q]
        m_u = self.free * state.m - eta * row.mu  # [c-m]
        if now.recoil:
            m_u -= now.recoil * state.m_past[:, self.last].T
        back, chi_w = self._with_weights(row, keep, memory)
        q_u = x.now @ keep.T + eta * self._against(x.past, memory) + eta * b_z + now.heat * self._one  # [c-Q]
        if now.drift:  # x has its part already
            q_u += now.drift * (back + eta * chi_w.T)
            m_u += now.drift * state.m_w
        q_u = 0.5 * (q_u + q_u.T)
        S = q_u + m_u @ m_u.T
        A = self.network.constraint.projection(S)  # [c-a]
        following = UnitNext(A @ x.past, A @ x.now, A @ q_u @ A.T, A @ m_u, A @ back)
        return UnitStepFromRow(UnitDrive(A, keep, memory, *chi, sqrt(now.heat), now.drift), following, S)

    def _with_weights(self, row: UnitRow, keep: np.ndarray, memory: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """<u w_n^T> and <chi_n w_n^T> (p, p), of the unscaled step u and the weights w_n it starts from; 0 unless the rule looks
        ahead. Eq. [momentum]."""
        if not self.looks_ahead:
            return np.zeros((self.units, self.units)), np.zeros((self.units, self.units))
        state, eta = self.state, self.settings.eta
        noise = self.experiment.eta_0 * self._against(self.history.unit_weights(row.M_C), state.Rw_row)
        back = keep @ state.Qw_now.T + eta * self._against(memory, state.Qw_row) + eta * noise + self.settings.drift * state.Qww
        return back, noise

    def _noise(self, row: UnitRow) -> tuple[np.ndarray, np.ndarray]:
        """Weights (p, slots p) of chi_n given the past, and the root (p, p) of what is left of its covariance. Eq. [c-chi]."""
        self._factored()
        state, jitter = self.state, self.estimator.jitter
        weights, white = np.zeros_like(row.M_C), jitter * np.diag(row.M_C_now)
        lines, half = self.matrices.given_noise(row.M_C, self.order)
        state.factor_known = keep_solved(state.factor, half)
        left = row.M_C_now + np.diag(white) - self.inner(half, half)
        weights[:, self.past] = lines
        return weights, lower_root(left, 0.01 * white)

    def _factored(self) -> None:
        """Bring the factor of M_C over the past up to date."""
        state, order = self.state, self.order
        if state.factor_from < len(order):
            state.floored += factor_lines(state.M_C, state.jitter, order, state.factor, state.factor_from, state.factor_known)
            self.matrices.factored("factor", state.factor_from, len(order))
        state.factor_from = len(order)

    def _responses(self, drive: UnitDrive) -> tuple[np.ndarray, np.ndarray]:
        """Row n+1 of R against the past (p, slots p), and R(n+1, n)."""
        state, eta = self.state, self.settings.eta
        r = drive.keep @ state.R_row + eta * self.matrices.responses(drive.memory, self.used)  # [c-R]
        if drive.drift:
            r += drive.drift * state.Rw_row
        return drive.A @ r, eta / self.experiment.eta_0 * drive.A

    def advance(self, row: UnitRow, after: UnitStepFromRow, point: UnitPoint, plan: Plan) -> None:
        """Enter row n into the past (plan made by History.push for step n) and move to step n+1, to `point`. What samples do not
        need to go on is computed here alone: a card works on them meanwhile."""
        state, p, merges, following = self.state, self.units, wide(plan.merges, self.units), after.next
        r, r_last = self._responses(after.drive)
        if self.looks_ahead:
            following, r, r_last = self._nesterov_point(following, r, r_last, plan, merges)
        Q_row, R_row, M_C, x = state.Q_row, state.R_row, row.M_C.copy(), following.Q_row
        if len(merges):
            merge_matrices(merges, (state.Q, state.R, state.M_C))
            for rows in (Q_row, R_row, M_C, x, r, state.m_past, state.jitter[None]):
                for line in rows:
                    merge_vectors(merges, (line,))
        s, used = slice(plan.slot * p, (plan.slot + 1) * p), self.used
        state.Q[s], state.Q[:used, s], state.Q[s, s] = Q_row, Q_row[:, :used].T, state.Q_now
        state.R[s] = R_row
        state.M_C[s], state.M_C[:used, s], state.M_C[s, s] = M_C, M_C[:, :used].T, row.M_C_now
        state.jitter[s], state.m_past[:, s] = self.estimator.jitter * np.diag(row.M_C_now), state.m.T
        x[:, s], r[:, s] = following.Q_with_last, r_last
        state.Q_row, state.R_row, state.Q_now = x, r, following.Q_now
        state.m, state.a, state.beta, state.n = point.m, point.a, point.beta, state.n + 1
        self.matrices.entered(s.start)
        for at in plan.joins:
            self._join(at * p)
        self._factored()

    def _join(self, at: int) -> None:
        """Two blocks of the past have become one, whose rows begin at `at`: from there on factors are to be made again, up to that
        column they are known."""
        state, p = self.state, self.units
        state.factor_from, state.factor_known = min(state.factor_from, at), min(state.factor_known, at)
        state.ridge_from, state.ridge_known = min(state.ridge_from, at), min(state.ridge_known, at)
        join_lines(state.factor, at, p, state.factor_known)
        join_lines(state.ridge, at, p, state.ridge_known)

    def _nesterov_point(self, following: UnitNext, r: np.ndarray, r_last: np.ndarray, plan: Plan, merges: np.ndarray
                        ) -> tuple[UnitNext, np.ndarray, np.ndarray]:
        """Row n+1 of y from that of w, y_{n+1} = (1 + beta) w_{n+1} - beta w_n, with r and r_last, its responses; stores the row of
        w_{n+1} in the state. Eq. [momentum]."""
        state, beta = self.state, self.experiment.update.lookahead(self.state.n + 1)
        Qw_row, Rw_row, Qw_last, Qww = state.Qw_row, state.Rw_row, state.Qw_now, state.Qww
        norm, cross = following.Q_now, following.with_previous
        state.Qw_row, state.Rw_row = following.Q_row.copy(), r.copy()
        for line in (*state.Qw_row, *state.Rw_row):
            merge_vectors(merges, (line,))
        s = slice(plan.slot * self.units, (plan.slot + 1) * self.units)
        state.Qw_row[:, s], state.Rw_row[:, s] = following.Q_with_last, r_last
        state.Qw_now, state.Qww, state.m_w = (1 + beta) * norm - beta * cross, norm, following.m
        ahead = following._replace(
            Q_row=(1 + beta) * following.Q_row - beta * Qw_row, Q_with_last=(1 + beta) * following.Q_with_last - beta * Qw_last,
            Q_now=(1 + beta) ** 2 * norm + beta**2 * Qww - beta * (1 + beta) * (cross + cross.T))
        return ahead, (1 + beta) * r - beta * Rw_row, (1 + beta) * r_last

    def point_after(self, after: UnitStepFromRow, output: np.ndarray, hidden: np.ndarray) -> UnitPoint:
        """The point of step n+1. output, hidden: <(s/l) dv/da> and <(s/l) dv/dbeta> (p,) of step n. Eq. [c-second]."""
        e, network, state, m = self.experiment, self.network, self.state, after.next.m
        if not network.trained:
            return UnitPoint(self._ahead(m), m, state.a, state.beta)
        rate = e.alpha * e.eta_n[state.n] / e.eta_0
        return UnitPoint(self._ahead(m), m, state.a - network.train * rate * output,
                         state.beta - network.train_intercepts * rate * hidden)

    def _ahead(self, m: np.ndarray) -> np.ndarray:
        """m_{n+1} of the point where gradients are taken from that of the weights. Eq. [momentum]."""
        if not self.looks_ahead:
            return m
        beta = self.experiment.update.lookahead(self.n + 1)
        return (1 + beta) * m - beta * self.state.m_w
