"""The macroscopic equations of the weights w: m, C = Q + m m^T and R from one row of kernels at a time.

Everything at step n+1 follows from rows <= n, so the same object serves the march, which estimates each row
just before it is needed, and the iteration, which is given all rows. Arrays over slots hold sums over the steps
of a block (history.py); `History.weights` turns a kernel row into the weights of such sums. The equations are in steps.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from dmft.equations.abreast import for_all
from dmft.equations.history import History, Plan
from dmft.equations.ibp import FieldOverlaps, IdentityResidual, correct_at, residual_at, ridge_at
from dmft.equations.rows import CURVE_NAMES, InUse, enter_all_curves, estimates
from dmft.equations.state import (
    CHI_WEIGHTS,
    E_PAST,
    GIVEN,
    MEMORY,
    NEXT_R,
    ROW_K_R,
    ROW_M_C,
    STEP_RECORD,
    SolutionArrays,
    WeightState,
    X,
    estimating,
    one_of,
    room,
    stacked,
)
from dmft.equations.stepping import Recursion, Settings
from dmft.equations.steps import advance_all, scale_steps, steps_from_rows
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


class Estimate(NamedTuple):
    """Row n, and what the row as sampled fails the identity [ibp] by, where it was asked."""

    row: Row
    residual: IdentityResidual | None


class WeightDynamics(Recursion):
    """The macroscopic recursion, one row of kernels at a time. start: m and Q at step 0, where they are not those of the run.

    Its arrays may lie among those of other solutions (`join`); what is to be done for several of these is said with their places,
    all at the same step."""

    def __init__(self, experiment: Experiment, history: History, estimator: Estimator = ESTIMATOR,
                 start: tuple[float, float] | None = None):
        super().__init__(experiment, history, estimator)
        e, sampled = experiment, experiment.data.sampled
        self.looks_ahead, self.by = e.update.looks_ahead, estimating(estimator)
        self.place(SolutionArrays.at_start(history.slots, len(CURVE_NAMES), sampled, self.looks_ahead), 0)
        self.now.m, self.now.Q_now = start or (e.m0, e.q_start - e.m0**2)
        if self.looks_ahead:
            self.now.m_w, self.now.Qw_now, self.now.Qww = self.now.m, self.now.Q_now, self.now.Q_now
        self._given, self._given_for = np.zeros(1, GIVEN), -1
        self._constant = e.alpha, e.eta_0, sampled, self.looks_ahead, e.centred, e.data.bias

    def place(self, solutions: SolutionArrays, at: int) -> None:
        """Let this solution be one of several."""
        self.solutions, self.at = solutions, at
        self.numbers = {name: solutions.now[name] for name in STEP_RECORD.names or ()}  # each (solutions,)

    @property
    def now(self) -> Any:
        """The numbers of step n, by name; they may be changed. (It takes microseconds to read one, which `numbers` do not.)"""
        return self.solutions.now[self.at]

    def number(self, name: str) -> float:
        """One of them."""
        return float(self.numbers[name][self.at])

    def _set(self, values: Sequence[float], *names: str) -> None:
        for name, value in zip(names, values, strict=True):
            self.numbers[name][self.at] = value

    @property
    def state(self) -> WeightState:
        """The arrays of step n, by name: views."""
        return WeightState.of(one_of(self.solutions, self.at))

    @property
    def n(self) -> int:
        return int(self.numbers["n"][self.at])

    @property
    def m(self) -> float:
        return self.number("m")

    @property
    def b(self) -> float:
        """The intercept, 0 where none is learnt."""
        return self.number("b")

    @property
    def q(self) -> float:
        """C(n, n) of the weights, 1 on the sphere."""
        Q, m = map(self.number, ("Qww", "m_w") if self.looks_ahead else ("Q_now", "m"))
        return Q + m * m

    @property
    def m_w(self) -> float:
        """The overlap of the weights; m is that of the point where the gradient is taken, which differs if the rule looks
        ahead."""
        return self.number("m_w" if self.looks_ahead else "m")

    @property
    def eta(self) -> float:
        """eta_n."""
        return self.settings.eta

    @property
    def used(self) -> int:
        """Number of slots up to the last one that was ever in use, rounded up to a multiple of eight for `dot`."""
        return min(-(-self.history.upto // 8) * 8, self.history.slots)

    @property
    def given(self) -> np.ndarray:
        """What the run prescribes for the step from row n."""
        self._look_up()
        return self._given

    def _look_up(self) -> None:
        """Bring `given` up to date."""
        if self._given_for != (n := self.n):
            self._given[0], self._given_for = self.given_at(self.settings), n

    def given_at(self, settings: Settings) -> tuple:
        """A GIVEN, by the settings of a row."""
        e, (n, *rates, constraint) = self.experiment, settings
        return (*self._constant, *rates, e.update.lookahead(n + 1), e.t_n[n], e.temperature[min(n, e.steps - 1)],
                constraint.norm or 1.0, constraint.fixes_norm)

    # --- several solutions ------------------------------------------------------------------------------------

    def estimate_rows(self, places: np.ndarray, sums: np.ndarray, use: InUse) -> None:
        """Row n of each, from sums over samples (places, columns)."""
        for_all(estimates, places, sums, use, self.given, self.by, self.history.rule, self.history.tables, self.solutions)

    def steps_from_rows(self, places: np.ndarray, known: bool) -> None:
        """What follows from these rows, scaled as the constraint says. known: whether their overlaps with the noise and their
        memory are, as after `estimate_rows`. Eqs. [dmft-a], [dmft-m], [dmft-nu]."""
        self._steps(places, known, self.experiment.data.sampled)
        scale = self.settings.constraint.scale
        self.numbers["a"][places] = [scale(norm) for norm in self.numbers["norm"][places].tolist()]  # [dmft-a]
        scale_steps(places, self.given, self.solutions)

    def _steps(self, places: np.ndarray, known: bool, drawn: bool) -> None:
        for_all(steps_from_rows, places, known, drawn, self.given, self.by, self.history.rule, self.history.tables, self.solutions)

    def curve_rows(self, places: np.ndarray, sums: np.ndarray, use: InUse, C_12: float = np.nan) -> None:
        """The curves of these rows, before `advance_rows`."""
        enter_all_curves(places, sums, use, C_12, self.given, self.solutions)

    def advance_rows(self, places: np.ndarray, drawn: bool) -> None:
        """Move each to step n+1; the history has made room for step n. drawn: whether samples go along."""
        for_all(advance_all, places, drawn, self.given, self.by, self.history.tables, self.solutions)
        self._look_up()  # now, while a card is at work

    @property
    def coming(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """m, the intercept and m_w of every solution beside this one, (solutions,), at step n+1, once the steps are scaled; where
        the rule looks ahead, once they are advanced."""
        m, b, m_w = ("m", "b", "m_w") if self.looks_ahead else ("next_m", "next_b", "next_m")
        return self.numbers[m], self.numbers[b], self.numbers[m_w]

    # --- this solution ----------------------------------------------------------------------------------------

    @property
    def _place(self) -> np.ndarray:
        return np.array([self.at])

    @property
    def curves(self) -> np.ndarray:
        """(CURVE_NAMES,) of row n."""
        return self.solutions.curves[self.at]

    @property
    def row(self) -> Row:
        """The last row that was estimated or taken."""
        work = self.solutions.work[self.at]
        return Row(self.number("delta_nu"), self.number("mu"), self.number("M_C_now"), work[ROW_M_C].copy(), work[ROW_K_R].copy())

    @row.setter
    def row(self, row: Row) -> None:
        """Let this be row n."""
        work = self.solutions.work[self.at]
        *numbers, work[ROW_M_C], work[ROW_K_R] = row
        self._set(numbers, "delta_nu", "mu", "M_C_now")

    @property
    def residual(self) -> IdentityResidual:
        """That of the last row."""
        return IdentityResidual(self.solutions.work[self.at, E_PAST].copy(), self.number("residual"), self.number("largest"))

    def estimate_row(self, sums: np.ndarray, use: InUse) -> Estimate:
        """Row n from sums over samples (columns,)."""
        self.estimate_rows(self._place, sums[None], use)
        return Estimate(self.row, self.residual if use.identity else None)

    def unscaled(self, row: Row) -> Unscaled:
        """The step that row n makes, before it is scaled. Eqs. [dmft-Q], [dmft-R]."""
        self.row = row
        self._steps(self._place, False, False)
        number, work, memory = self.number, self.solutions.work[self.at], self.solutions.drive[self.at, MEMORY]
        return Unscaled(number("keep"), memory.copy(), work[X].copy(), number("x_now"), number("q_u"), work[NEXT_R].copy())

    def step_from_row(self, row: Row, m_given: float | None = None) -> StepFromRow:
        """What follows from row n. The state stays at step n; `advance` moves on. The last row of a run is closed for its nu_hat
        alone. m_given prescribes m_{n+1} (the paper's starting guess holds m constant)."""
        self.row = row
        self.steps_from_rows(self._place, False)
        return self.step_found(m_given)

    def step_found(self, m_given: float | None = None) -> StepFromRow:
        """What `steps_from_rows` found."""
        number, work, drive = self.number, self.solutions.work[self.at], self.drive
        following = NextRow(work[X].copy(), number("next_with_last"), number("next_Q"), work[NEXT_R].copy(), number("next_R"),
                            number("next_m") if m_given is None else m_given, number("with_previous"))
        return StepFromRow(drive._replace(memory=drive.memory.copy(), chi_weights=drive.chi_weights.copy()), following,
                           *map(number, ("nu_hat", "norm", "x_now", "m_u", "lag")))

    @property
    def drive(self) -> Drive:
        """What drives the samples from step n: views, which the next row changes."""
        drive, a, step = self.solutions.drive[self.at], self.number("a"), self.settings
        return Drive(a, self.number("keep"), drive[MEMORY], drive[CHI_WEIGHTS], self.number("chi_sd"), sqrt(step.heat),
                     a * step.drift)

    def advance(self, row: Row, following: NextRow, plan: Plan) -> None:
        """Enter row n into the past (plan made by History.push for step n) and move to step n+1."""
        self.row = row
        work = self.solutions.work[self.at]
        work[X], work[NEXT_R] = following.Q_row, following.R_row
        self._set((following.Q_with_last, following.Q_now, following.R_last, following.m, following.with_previous),
                  "next_with_last", "next_Q", "next_R", "next_m", "with_previous")
        self.advance_rows(self._place, False)

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        self.state.fill(arrays)

    def as_it_is(self) -> WeightDynamics:
        """This solution with the history that it has now, as long as it does not advance."""
        own = copy(self)
        own.history = self.history.as_it_is()
        return own

    # --- other rows than that of the step ----------------------------------------------------------------------

    def beside(self) -> WeightDynamics:
        """The same solution with room of its own, for such rows; its numbers and its history are copies."""
        own = self.as_it_is()
        own.history.tables, own.history.at = one_of(own.history.tables, slice(self.at, self.at + 1)), 0
        work, drive, curves = room(self.history.slots, len(CURVE_NAMES))
        mine = one_of(self.solutions, slice(self.at, self.at + 1))
        own.place(mine._replace(work=work, drive=drive, curves=curves, now=mine.now.copy()), 0)
        return own

    def identity_residual(self, row: Row, overlaps: FieldOverlaps) -> IdentityResidual:
        """The residual of the identity for a row. Eq. [ibp]. overlaps: alpha <g_n h_j>."""
        self.row = row
        residual_at(self.at, overlaps, self.given, self.history.rule, self.history.tables, self.solutions)
        return self.residual

    def ridge_strength(self, g_squared: float, share: float, spread: float) -> float:
        """eps of [ibp]; 0 where tangents have no noise (ibp.ridge_strength)."""
        return ridge_at(self.at, g_squared, share, spread, self.by, self.history.tables, self.solutions)

    def corrected(self, row: Row, residual: IdentityResidual, eps: float) -> Row:
        """The row corrected by rho -= D u with (Q + eps S) u = e. Eq. [ibp]."""
        self.row = row
        self.solutions.work[self.at, E_PAST], self.now.residual = residual.past, residual.now
        correct_at(self.at, eps, self.by, self.history.tables, self.solutions)
        return self.row


def join(several: Sequence[WeightDynamics]) -> None:
    """Put the arrays of several solutions of equal shape one behind the other, so that one call takes a step of all of them. Each
    finds its own under its place."""
    solutions = stacked([(each.solutions, each.at) for each in several])
    tables = stacked([(each.history.tables, each.history.at) for each in several])
    for at, each in enumerate(several):
        each.place(solutions, at)
        each.history.tables, each.history.at = tables, at
