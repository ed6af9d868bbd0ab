"""What the macroscopic equations ask of whole matrices over (slot, unit): products with Q and R, and solves with the two factors.

Where a card has copies of them, card_matrices.py answers in place of this class; all matrices of the state are kept up to date here
in either case.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from dmft.committee.algebra import against, solve_lines, times
from dmft.committee.state import UnitState
from dmft.equations.history import History


class Solved(NamedTuple):
    """Lines in order of time times the inverse of L L^T, and half of it, times that of L^T; they may be longer than the past."""

    lines: np.ndarray
    half: np.ndarray


class Matrices:
    """The matrices of a state, on the host. Lines are (p, slots p), and 0 from `used` on; those that are solved for are in order of
    time, as the factors are."""

    def __init__(self, history: History, units: int):
        size = history.slots * units
        self.units, self.history = units, history
        # (slots p,) where rows of matrices end; those of R end early, rounded up to a multiple of eight for `dot`
        self.whole, self._stop = np.full(size, size), np.minimum(-(-np.repeat(history.stop, units) * units // 8) * 8, size)

    def take(self, state: UnitState) -> None:
        """From now on these are the matrices of this state."""
        self.state = state

    def expect(self, correlation: np.ndarray, memory: np.ndarray, M_C: np.ndarray) -> None:
        """Say for which lines `noise`, `overlaps`, `given_noise` and `given_weights` will be asked, so that it is begun at once."""

    def expect_step(self, memory: np.ndarray) -> None:
        """The same for `overlaps` and `responses` of the completed row."""

    def noise(self, correlation: np.ndarray, used: int) -> np.ndarray:
        """correlation R^T."""
        return against(correlation, self.state.R, self._stop, used)

    def overlaps(self, memory: np.ndarray, used: int) -> np.ndarray:
        """memory Q."""
        return times(memory, self.state.Q, self.whole, used)

    def responses(self, memory: np.ndarray, used: int) -> np.ndarray:
        """memory R."""
        return times(memory, self.state.R, self._stop, used)

    def given_noise(self, M_C: np.ndarray, order: np.ndarray) -> Solved:
        """A row of M_C with the factor of M_C; order: the entries of the past in order of time."""
        return self._solved(self.state.factor, M_C.take(order, axis=1))

    def given_weights(self, residual: np.ndarray, order: np.ndarray) -> tuple[Solved, Callable[[], Solved]]:
        """The present row of Q with the ridge, and what gives the residual with it: that may take until it is asked for."""
        lines = np.concatenate([self.state.Q_row.take(order, axis=1), residual.take(order, axis=1)])
        both, p = self._solved(self.state.ridge, lines), self.units
        return Solved(both.lines[:p], both.half[:p]), lambda: Solved(both.lines[p:], both.half[p:])

    def _solved(self, L: np.ndarray, lines: np.ndarray) -> Solved:
        half = solve_lines(L, lines)
        return Solved(lines, half)

    def entered(self, at: int) -> None:
        """The state has new rows of Q and R, from `at` on."""

    def factored(self, name: str, start: int, size: int) -> None:
        """Rows start .. size-1 of a factor of the state have been made."""

    def send(self) -> None:
        """There will be no more rows before the next step."""
