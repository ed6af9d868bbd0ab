"""What compiled code of the macroscopic recursion works on: the state of the weights, room for a step, and the numbers it is made
with. Arrays have the solution as their first index, so that one call takes a step of several; numbers are records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, fields
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numba import njit

from dmft.core.compiled import IN_PLACE, record
from dmft.core.tree import overwrite
from dmft.equations.tuning import Estimator

Arrays = TypeVar("Arrays", bound=tuple)

# Of `matrices`, (slots, slots) each: block sums of Q, of R = Gam/eta_0, the response in units of the first learning rate, and of
# M_C; Cholesky factor of M_C with jitter, in order of time. Without samples nothing is drawn from M_C, which is not kept then.
OF_Q, OF_R, OF_M_C, FACTOR = range(4)
# Of `vectors`, (slots,) each: Q(n, j), the response of y_n, the jitter of M_C, sums of m over the steps of each block; <w_n y_j>
# and the response of w_n, where the rule looks ahead.
Q_ROW, R_ROW, JITTER, M_PAST, QW_ROW, RW_ROW = range(6)
# Of `work`, (slots,) each: row n of M_C and K_R = eta M_R, as sums over blocks; weights of sums over blocks by M_C(n, k);
# <chi_n zeta_j>, the residual of [ibp], x_j of [dmft-Q], which becomes Q(n+1, j), the next row of R; and room for three vectors.
ROW_M_C, ROW_K_R, CORRELATION, B_PAST, E_PAST, X, NEXT_R, ROOM = range(8)
WORK_VECTORS = ROOM + 3
# Of `drive`, (slots,) each: weights of sums over blocks by K_R(n, k), with momentum -B/eta in the slot of step n - 1; of chi_n
# given the past.
MEMORY, CHI_WEIGHTS = range(2)



def named(**kinds: type) -> dict[str, type]:
    """Names of numbers, and their types."""
    return kinds


STATE_NUMBERS = named(
    n=int,
    m=float,
    Q_now=float,  # Q(n, n)
    factor_from=int,  # rows of the factor of M_C from here on are out of date
    floored=int,  # pivots that rounding made non-positive
    ridge_eps=float,
    ridge_from=int,  # rows of `ridge` from here on are out of date
    ridge_least=float,  # what ridge_eps must be at least for Q + ridge_eps S to be positive, as far as is known
    b=float,  # intercept
    # Rules that look ahead: Q, R, m belong to y_n, where gradients are taken, and these to the weights w_n.
    Qw_now=float,  # <w_n y_n>
    Qww=float,  # <w_n w_n>
    m_w=float)
STEP_NUMBERS = named(
    delta_nu=float, mu=float, M_C_now=float,  # row n: alpha <g'>, mu, M_C(n, n)
    push=float,  # <(s/l) v'>, which moves the intercept
    b_now=float,  # <chi_n zeta_n>
    residual=float, largest=float,  # of the identity [ibp]: e_n, and the largest |e_j|
    keep=float, x_now=float, q_u=float, m_u=float,  # of the step before it is scaled
    norm=float,  # q_u + m_u^2
    with_previous=float,  # <u w_n>, then <w_{n+1} w_n>, where gradients are taken at another point than w
    lag=float,  # A_n C(n,n) - B_n C(n,n-1) - x_n - m_n m_u, which is eta alpha <g_n h_n> where the norm is fixed. Eq. [dmft-nu]
    chi_sd=float, a=float, nu_hat=float,
    next_with_last=float, next_Q=float, next_R=float, next_m=float, next_b=float)  # of step n+1
STEP_RECORD = record(**STATE_NUMBERS, **STEP_NUMBERS)

# What the run prescribes for the step from row n; eqs. [schedule], [momentum]. The last row has the settings of the last step.
GIVEN = record(
    alpha=float, eta_0=float, sampled=int, looks_ahead=int, centred=int, bias=int,
    eta=float,
    inertia=float,  # coefficient of y_n: A_n
    recoil=float,  # what is subtracted of y_{n-1}: B_n, 0 where there is no step before
    drift=float,  # coefficient of w_n, where that is not y_n
    ridge=float,  # lambda_n
    heat=float,  # variance of the thermal noise
    ahead=float,  # l_{n+1}
    t=float, temperature=float,
    norm=float, fixes_norm=int)  # that the constraint fixes, or 1, and whether it does

# What moves the samples of a solution on a card from step n on, and what their losses need besides the samples at step n+1: written
# by the host or by the card, read by samples/cuda/march.cu.
SAMPLE_RATES = record(eta=float, a=float, keep=float, chi_sd=float, thermal=float, fraction=float, p_on=float, p_off=float)
PRESENT = record(m=float, b=float, eta=float, scale=float)

ESTIMATING = record(**{each.name: float for each in fields(Estimator)})


def estimating(estimator: Estimator) -> np.ndarray:
    """The numbers of an estimator, for compiled code."""
    return np.array([astuple(estimator)], ESTIMATING)


class SolutionArrays(NamedTuple):
    """The arrays of a solution at step n; of several with one more index in front."""

    matrices: np.ndarray
    ridge: np.ndarray  # (slots, slots) Cholesky factor of Q + ridge_eps S, in order of time. Eq. [ibp]
    vectors: np.ndarray
    work: np.ndarray
    drive: np.ndarray
    curves: np.ndarray  # (curves,) of row n: CURVE_NAMES of rows.py
    now: Any  # STEP_RECORD

    @classmethod
    def at_start(cls, slots: int, curves: int, sampled: bool, looks_ahead: bool) -> SolutionArrays:
        """One of several, alone, with an empty past."""
        return cls(np.zeros((1, 4 if sampled else 2, slots, slots)), np.zeros((1, slots, slots) if sampled else (1, 0, 0)),
                   np.zeros((1, 6 if looks_ahead else 4, slots)), *room(slots, curves), np.zeros(1, STEP_RECORD))


def room(slots: int, curves: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`work`, `drive` and `curves` of one of several solutions."""
    return np.zeros((1, WORK_VECTORS, slots)), np.zeros((1, 2, slots)), np.zeros((1, curves))


class WeightState(NamedTuple):
    """The state of a solution by name: views."""

    Q: np.ndarray
    R: np.ndarray
    M_C: np.ndarray
    factor: np.ndarray
    ridge: np.ndarray
    Q_row: np.ndarray
    R_row: np.ndarray
    jitter: np.ndarray
    m_past: np.ndarray
    Qw_row: np.ndarray
    Rw_row: np.ndarray
    now: Any

    @classmethod
    def of(cls, solution: SolutionArrays) -> WeightState:
        matrices, ridge, vectors, *_, now = solution
        missing = [np.zeros((0, 0))] * (4 - len(matrices)), [np.zeros(0)] * (6 - len(vectors))
        return cls._make((*matrices, *missing[0], ridge, *vectors, *missing[1], now))

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything by name, for a checkpoint."""
        numbers = {name: np.array(self.now[name]) for name in STATE_NUMBERS}
        return {**{name: getattr(self, name) for name in self._fields[:-1]}, **numbers}

    def fill(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take over what `arrays` gave."""
        overwrite({name: getattr(self, name) for name in self._fields[:-1]}, arrays)
        numbers = {name: np.array(self.now[name]) for name in STATE_NUMBERS}
        overwrite(numbers, arrays)
        for name, number in numbers.items():
            self.now[name] = number


@njit(**IN_PLACE)
def solution_of(solutions, at):
    """One of several solutions."""
    return SolutionArrays(solutions.matrices[at], solutions.ridge[at], solutions.vectors[at], solutions.work[at],
                          solutions.drive[at], solutions.curves[at], solutions.now[at])


def one_of(several: Arrays, at: int | slice) -> Arrays:
    """The arrays of one of several solutions: views. With a slice it stays one of several."""
    return type(several)(*(array[at] for array in several))


def stacked(several: Sequence[tuple[Arrays, int]]) -> Arrays:
    """The arrays of solutions one behind the other; of each the arrays it is in, and its place there."""
    first, _ = several[0]
    return type(first)(*(np.concatenate([arrays[k][at : at + 1] for arrays, at in several]) for k in range(len(first))))
