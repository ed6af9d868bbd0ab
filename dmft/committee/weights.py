"""The macroscopic equations of a committee: m (p, k), C = Q + m m^T and R (blocks p x p) from one row of kernels at a time.

Arrays over slots are flattened, (slot, unit) -> slot p + unit, so that Q, R, M_C and the factors are plain matrices of size
slots p, and "row n" is p rows. steps.py has the formulas; equations/weights.py has the same for one unit.
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np

from dmft.committee.algebra import factor_lines, join_lines, keep_solved
from dmft.committee.matrices import Matrices
from dmft.committee.state import PresentRow, UnitState
from dmft.committee.steps import (
    StepNumbers,
    UnitNext,
    UnitRoom,
    begin_norm,
    begin_overlaps,
    complete,
    end_norm,
    enter_past,
    find_residual,
    given_past,
    left_of_present,
    look_ahead,
    noise_with_present,
    recoiled,
    scale_step,
    trace_of_past,
)
from dmft.equations.blocks import NONE
from dmft.equations.history import History, Plan
from dmft.equations.recursion import merge_matrices
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


class UnitOverlaps(NamedTuple):
    """Averages with the present row n: with the past, as block sums, and with the present."""

    past: np.ndarray  # (p, slots p)
    now: np.ndarray  # (p, p)


class UnitPoint(NamedTuple):
    """Where the loss is evaluated at a step."""

    m: np.ndarray  # (p, k)
    m_w: np.ndarray  # (p, k) of the weights, where that is another point
    a: np.ndarray  # (p,)
    beta: np.ndarray  # (p,)


class UnitStepFromRow(NamedTuple):
    """What follows from row n of the kernels."""

    drive: UnitDrive
    S: np.ndarray  # (p, p) Gram matrix of the step before it is scaled
    m: np.ndarray  # (p, k) m_{n+1} of the weights


class AtStep(NamedTuple):
    """What a step has before its row is known."""

    n: int
    by: StepNumbers
    order: np.ndarray  # the entries of the past in order of time
    trace: float  # of Q, per step


def wide(merges: np.ndarray, units: int) -> np.ndarray:
    """The merges of a plan for arrays in which every slot has an entry for each unit, (count p, 3)."""
    found = merges[:, None, :] * units + np.arange(units)[None, :, None]
    found[:, :, 1] = np.where(merges[:, None, 1] == NONE, NONE, found[:, :, 1])
    return np.ascontiguousarray(found.reshape(-1, 3))


def widened(order: np.ndarray, units: int) -> np.ndarray:
    """Slots, in any order, as entries of flattened arrays."""
    return (order[:, None] * units + np.arange(units)).ravel()


class UnitWeights(Recursion):
    """The macroscopic recursion of a committee, one row of kernels at a time."""

    state: UnitState

    def __init__(self, experiment: Experiment, network: TwoLayer, history: History, estimator: Estimator = ESTIMATOR,
                 matrices: Matrices | None = None):
        super().__init__(experiment, history, estimator)
        self.network, self.units, self.state = network, network.units, UnitState.at_start(history.slots, network)
        self.looks_ahead, size = experiment.update.looks_ahead, history.slots * network.units
        self.matrices = matrices or Matrices(history, network.units)
        self.room, self.following = UnitRoom.of(network.units, network.directions, size), UnitNext.of(network.units, size)
        if self.looks_ahead:
            state = self.state
            state.Qw_row, state.Rw_row = np.zeros_like(state.Q_row), np.zeros_like(state.R_row)
            state.Qw_now, state.Qww, state.m_w = state.Q_now.copy(), state.Q_now.copy(), state.m.copy()
        self._take_state()

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        super().restore(arrays)
        self._take_state()

    def _take_state(self) -> None:
        self.matrices.take(self.state)
        self.present: PresentRow = self.state.present()
        self._known: AtStep | None = None
        self._solved: dict[str, np.ndarray] = {}  # what solves with the factors left of row n

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
    def known(self) -> AtStep:
        """What is known at step n before its row is; as of step n until `advance`."""
        if self._known is None or self._known.n != self.n:
            now, state, slots = self.settings, self.state, self.history.order
            order = widened(slots, self.units)
            last = int(slots[-1]) * self.units if now.recoil else 0
            by = StepNumbers(now.eta, float(self.experiment.eta_0), float(self.free), float(now.recoil), float(now.drift), now.heat,
                             self.estimator.jitter, self.looks_ahead, self.used, last)
            self._known = AtStep(self.n, by, order, trace_of_past(state.Q, order, self.history.size, state.Q_now))
        return self._known

    @property
    def order(self) -> np.ndarray:
        """The entries of the past in order of time; as of step n until `advance`."""
        return self.known.order

    def begin(self, row: UnitRow) -> None:
        """What a row begins with, while the matrices are asked for its products."""
        by, room = self.known.by, self.room
        self.history.unit_weights(row.M_C, room.correlation)
        np.multiply(room.correlation, by.eta_0, out=room.correlation)
        self._memory(row, room.memory)
        self.matrices.expect(room.correlation, room.memory, row.M_C)
        noise_with_present(by, self.present, room)

    def _memory(self, row: UnitRow, out: np.ndarray) -> None:
        """The coefficients of the past (p, slots p). Eqs. [c-h], [momentum]."""
        self.history.unit_weights(row.K_R, out)
        recoiled(self.known.by, out)

    def identity_residual(self, row: UnitRow, overlaps: UnitOverlaps) -> tuple[np.ndarray, float]:
        """The residual of the identity for a row that has begun, into the room. Returns b_j = <chi_n zeta_j^T> of the past, and the
        largest entry of the residual. overlaps: alpha <g_n h_j^T>. Eqs. [c-ibp], [c-Q]."""
        by, now, room, used = self.known.by, self.present, self.room, self.known.by.used
        begin_overlaps(by, now, row.delta_nu, room.memory, room)
        noise, through_memory = self.matrices.noise(room.correlation, used), self.matrices.overlaps(room.memory, used)
        return noise, find_residual(by, now, self.state.Q, through_memory, noise, overlaps, self.history.size, room)

    def complete(self, row: UnitRow) -> None:
        """Correct a row by what solves the identity for its residual. Eq. [c-ibp]."""
        state, room, order = self.state, self.room, self.order
        pulled, of_residual = self.matrices.given_weights(room.residual, order)
        self._solved["ridge"] = pulled.half
        left_of_present(state.Q_now, state.ridge_eps, pulled.half, len(order), room.work[0])
        values, vectors = np.linalg.eigh(room.work[0])
        left = (vectors / np.maximum(values, state.ridge_eps)) @ vectors.T
        complete(row, left, pulled, of_residual(), order, self.history.size, room)

    def step_from_row(self, row: UnitRow, noise: np.ndarray | None = None) -> UnitStepFromRow:
        """What follows from row n, as long as no other row is asked about; the state stays at step n. noise: b_j of the row, where
        known."""
        by, now, room, used = self.known.by, self.present, self.room, self.known.by.used
        memory = room.memory if noise is None else room.completed
        if noise is None:
            self.begin(row)
        else:
            self._memory(row, memory)
            self.matrices.expect_step(memory)
        self._noise(row)
        begin_overlaps(by, now, row.delta_nu, memory, room)
        noise = self.matrices.noise(room.correlation, used) if noise is None else noise
        begin_norm(by, now, row, memory, noise, room)
        end_norm(by, self.matrices.overlaps(memory, used), noise, memory, room)
        A = np.ascontiguousarray(self.network.constraint.projection(room.S), float)  # [c-a]
        drive = UnitDrive(A, room.keep, memory, room.chi_weights, room.chi_root, sqrt(by.heat), by.drift)
        return UnitStepFromRow(drive, room.S, A @ room.m_u)

    def _noise(self, row: UnitRow) -> None:
        """Weights (p, slots p) of chi_n given the past, and the root (p, p) of what is left of its covariance. Eq. [c-chi]."""
        self._factored()
        solved = self.matrices.given_noise(row.M_C, self.order)
        self._solved["factor"] = solved.half
        given_past(self.known.by, row.M_C_now, solved, self.order, self.room)

    def _factored(self) -> None:
        """Bring the factor of M_C over the past up to date."""
        state, order = self.state, self.order
        if state.factor_from < len(order):
            state.floored += factor_lines(state.M_C, state.jitter, order, state.factor, state.factor_from, state.factor_known)
            self.matrices.factored("factor", state.factor_from, len(order))
        state.factor_from = len(order)

    def factor_ridge(self, anyhow: bool = False) -> bool:
        """Bring that of Q + eps D up to date, with eps as it is; returns whether that is done: where pivots are not positive, only if
        `anyhow`. Eq. [c-ibp]."""
        state, order, start = self.state, self.order, self.state.ridge_from
        if start < len(order):
            diagonal = state.ridge_eps * np.repeat(self.history.size, self.units)
            if factor_lines(state.Q, diagonal, order, state.ridge, start, state.ridge_known) and not anyhow:
                return False
            self.matrices.factored("ridge", start, len(order))
        state.ridge_from = len(order)
        return True

    def advance(self, row: UnitRow, after: UnitStepFromRow, point: UnitPoint, plan: Plan) -> None:
        """Enter row n into the past (plan made by History.push for step n) and move to step n+1, to `point`. What samples do not
        need to go on is computed here alone: a card works on them meanwhile."""
        state, p, used, merges = self.state, self.units, self.used, wide(plan.merges, self.units)
        by, now, room, following, at = self.known.by, self.present, self.room, self.following, plan.slot * self.units
        self._keep_solved()
        scale_step(by, now, after.drive, self.matrices.responses(after.drive.memory, used), room, following)
        if self.looks_ahead:
            look_ahead(self.experiment.update.lookahead(state.n + 1), after.m, now, merges, at, following)
        if len(merges):
            merge_matrices(merges, (state.Q, state.R, state.M_C))
        enter_past(by, now, row, (state.Q, state.R, state.M_C, room.work_line), state.jitter, merges, at, used, following)
        state.m[...], state.a, state.beta, state.n = point.m, point.a, point.beta, state.n + 1
        self.matrices.entered(at)
        for join in plan.joins:
            self._join(join * p)
        self._factored()
        if state.ridge_eps > 0.0:
            self.factor_ridge()
        self.matrices.send()

    def _keep_solved(self) -> None:
        """Rows that solves left for the factors: those of step n, once it belongs to the past."""
        state, past = self.state, len(self.order)
        for name, half in self._solved.items():
            setattr(state, f"{name}_known", keep_solved(getattr(state, name), half[:, :past]))
        self._solved.clear()

    def _join(self, at: int) -> None:
        """Two blocks of the past have become one, whose rows begin at `at`: from there on factors are to be made again, up to that
        column they are known."""
        state, p = self.state, self.units
        state.factor_from, state.factor_known = min(state.factor_from, at), min(state.factor_known, at)
        state.ridge_from, state.ridge_known = min(state.ridge_from, at), min(state.ridge_known, at)
        join_lines(state.factor, at, p, state.factor_known)
        join_lines(state.ridge, at, p, state.ridge_known)

    def point_after(self, after: UnitStepFromRow, output: np.ndarray, hidden: np.ndarray) -> UnitPoint:
        """The point of step n+1. output, hidden: <(s/l) dv/da> and <(s/l) dv/dbeta> (p,) of step n. Eq. [c-second]."""
        e, network, state, m = self.experiment, self.network, self.state, after.m
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
