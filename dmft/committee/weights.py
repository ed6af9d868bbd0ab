"""The macroscopic equations of a committee: m (p, k), C = Q + m m^T and R (blocks p x p) from one row of kernels at a time.

Arrays over slots are flattened, (slot, unit) -> slot p + unit, so that Q, R, M_C and the factors are plain matrices of size
slots p, and "row n" is p rows. steps.py has the formulas; equations/weights.py has the same for one unit.
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np

from dmft.committee.algebra import factor_lines, join_lines, keep_solved
from dmft.committee.arrays import Block, Line, Mean, UnitArrays
from dmft.committee.matrices import Matrices
from dmft.committee.state import UnitState
from dmft.committee.steps import (
    begin_norm,
    begin_residual,
    complete,
    end_norm,
    enter_past,
    find_residual,
    given_past,
    given_weights,
    look_ahead,
    merge_past,
    recoiled,
    scale_step,
    trace_of_past,
)
from dmft.equations.blocks import NONE, sum_of_steps
from dmft.equations.history import History, Plan
from dmft.equations.noise import least_share
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
    used: int  # entries of lines over slots
    order: np.ndarray  # the entries of the past in order of time
    trace: float  # of Q, per step


def wide(merges: np.ndarray, units: int) -> np.ndarray:
    """The merges of a plan for arrays in which every slot has an entry for each unit, (count p, 3)."""
    if not len(merges):
        return merges
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
        self.looks_ahead, self.matrices = experiment.update.looks_ahead, matrices or Matrices(history, network.units)
        self.arrays = UnitArrays.empty(network.units, network.directions, history.slots * network.units)
        lines, pairs, means = self.arrays[1:4]
        self.row = UnitRow(pairs[Block.DELTA_NU], means[Mean.MU], pairs[Block.M_C_NOW], lines[Line.M_C], lines[Line.K_R])
        self.correlation, self.memory, self.completed = lines[Line.CORRELATION], lines[Line.MEMORY], lines[Line.COMPLETED]
        self.residual, self.S, self.m_u = lines[Line.RESIDUAL], pairs[Block.S], means[Mean.M_U]
        if self.looks_ahead:
            state = self.state
            state.Qw_row, state.Rw_row = np.zeros_like(state.Q_row), np.zeros_like(state.R_row)
            state.Qw_now, state.Qww, state.m_w = state.Q_now.copy(), state.Q_now.copy(), state.m.copy()
        self._take_state()

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        super().restore(arrays)
        self._take_state()

    def _take_state(self) -> None:
        """Let compiled code and the matrices work on the arrays of this state."""
        for name, array in self.arrays.of_state(self.looks_ahead).items():
            array[...] = getattr(self.state, name)
            setattr(self.state, name, array)
        self.matrices.take(self.state)
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
            order, last = widened(slots, self.units), int(slots[-1]) * self.units if now.recoil else 0
            self.arrays.given[0] = (now.eta, self.experiment.eta_0, self.free, now.recoil, now.drift, now.heat,
                                    self.estimator.jitter, self.estimator.least_of_jitter, self.looks_ahead, self.used, last)
            self._known = AtStep(self.n, self.used, order, trace_of_past(state.Q, order, self.history.size, state.Q_now))
        return self._known

    @property
    def order(self) -> np.ndarray:
        """The entries of the past in order of time; as of step n until `advance`."""
        return self.known.order

    def take_row(self, row: UnitRow) -> None:
        """Go on with this row."""
        for mine, other in zip(self.row, row):
            if mine is not other:
                mine[...] = other

    def begin(self) -> None:
        """What a row begins with, while the matrices are asked for its products."""
        self.history.unit_weights(self.row.M_C, self.correlation)
        np.multiply(self.correlation, self.experiment.eta_0, out=self.correlation)
        self._remember(self.memory)
        self.matrices.expect(self.correlation, self.memory, self.row.M_C)

    def _remember(self, memory: np.ndarray) -> None:
        """The coefficients of the past (p, slots p) in the step that the row makes. Eqs. [c-h], [momentum]."""
        self.history.unit_weights(self.row.K_R, memory)
        if self.settings.recoil:
            recoiled(self.arrays.given, memory)

    def identity_residual(self) -> tuple[np.ndarray, float]:
        """Find the residual of the identity for the row, which has begun. Returns b_j = <chi_n zeta_j^T> of the past, and the
        largest entry of the residual. Eqs. [c-ibp], [c-Q]."""
        arrays, used, Q = self.arrays[:3], self.known.used, self.state.Q
        begin_residual(*arrays)
        noise, through_memory = self.matrices.noise(self.correlation, used), self.matrices.overlaps(self.memory, used)
        return noise, find_residual(*arrays, Q, self.history.size, through_memory, noise)

    def complete(self) -> None:
        """Correct the row by what solves the identity for its residual. Eq. [c-ibp]."""
        order, (lines, pairs) = self.order, self.arrays[1:3]
        pulled, of_residual = self.matrices.given_weights(self.residual, order)
        self._solved["ridge"] = pulled.half
        given_weights(pairs, self.state.ridge_eps * (self.state.n + 1), pulled.half, len(order))
        complete(lines, pairs, pulled, of_residual(), order, self.history.size)

    def step_from_row(self, row: UnitRow, noise: np.ndarray | None = None) -> UnitStepFromRow:
        """What follows from row n, until another row is asked about; the state stays at step n. noise: b_j of the row, where it has
        been completed."""
        arrays, used, completed, now = self.arrays, self.known.used, noise is not None, self.settings
        memory = self.completed if completed else self.memory
        self.take_row(row)
        if noise is None:
            self.begin()
        else:
            self._remember(memory)
            self.matrices.expect_step(memory)
        self._noise()
        noise = self.matrices.noise(self.correlation, used) if noise is None else noise
        begin_norm(*arrays, completed, noise)
        end_norm(*arrays[:4], completed, noise, self.matrices.overlaps(memory, used))
        A = np.ascontiguousarray(self.network.constraint.projection(self.S), float)  # [c-a]
        of = arrays.pairs[Block.KEEP], memory, arrays.lines[Line.CHI_WEIGHTS], arrays.pairs[Block.CHI_ROOT]
        return UnitStepFromRow(UnitDrive(A, *of, sqrt(now.heat), now.drift), self.S, A @ self.m_u)

    def _noise(self) -> None:
        """Weights (p, slots p) of chi_n given the past, and the root (p, p) of what is left of its covariance. Eq. [c-chi]."""
        self._factored()
        solved = self.matrices.given_noise(self.row.M_C, self.order)
        self._solved["factor"] = solved.half
        given_past(*self.arrays[:3], solved.lines, solved.half, self.order)

    def _factored(self) -> None:
        """Bring the factor of M_C over the past up to date."""
        state, order = self.state, self.order
        if state.factor_from < len(order):
            state.floored += factor_lines(state.M_C, state.jitter, order, state.factor, state.factor_from, state.factor_known,
                                          least_share(self.estimator))
            self.matrices.factored("factor", state.factor_from, len(order))
        state.factor_from = len(order)

    def factor_ridge(self, anyhow: bool = False) -> bool:
        """Bring that of Q + eps S up to date, with eps as it is; returns whether it is. Where pivots are not positive, it is taken
        only if `anyhow`. Eq. [c-ibp]."""
        state, order, start = self.state, self.order, self.state.ridge_from
        if start < len(order):
            diagonal = state.ridge_eps * np.repeat(sum_of_steps(self.history.first, self.history.size), self.units)
            known, least = state.ridge_known, least_share(self.estimator)
            if factor_lines(state.Q, diagonal, order, state.ridge, start, known, least) and not anyhow:
                return False
            self.matrices.factored("ridge", start, len(order))
        state.ridge_from = len(order)
        return True

    def advance(self, after: UnitStepFromRow, point: UnitPoint, plan: Plan) -> None:
        """Enter row n into the past (plan made by History.push for step n) and move to step n+1, to `point`. What samples do not
        need to go on is computed here alone: a card works on them meanwhile."""
        state, p, used, merges = self.state, self.units, self.used, wide(plan.merges, self.units)
        given, lines, pairs, _, m_past = self.arrays
        at, matrices = plan.slot * p, (state.Q, state.R, state.M_C)
        self._keep_solved()
        scale_step(given, lines, pairs, after.drive.A, self.matrices.responses(after.drive.memory, used))
        if self.looks_ahead:
            look_ahead(lines, pairs, self.experiment.update.lookahead(state.n + 1), merges, at)
            state.m_w[...] = after.m
        if len(merges):
            merge_matrices(merges, matrices)
            merge_past(lines, m_past, state.jitter, merges)
        enter_past(lines, pairs, *matrices, at, used)
        state.jitter[at : at + p], state.m_past[:, at : at + p] = self.estimator.jitter * self.row.M_C_now.diagonal(), state.m.T
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
        return UnitPoint(self._ahead(m), m, state.a - network.train * rate * output,  # [c-second]
                         state.beta - network.train_intercepts * rate * hidden)  # [c-second]

    def _ahead(self, m: np.ndarray) -> np.ndarray:
        """m_{n+1} of the point where gradients are taken from that of the weights. Eq. [momentum]."""
        if not self.looks_ahead:
            return m
        beta = self.experiment.update.lookahead(self.n + 1)
        return (1 + beta) * m - beta * self.state.m_w
