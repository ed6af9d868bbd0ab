"""The matrices of the macroscopic equations on a card, where that has the samples: it reads one in the time in which a core reads a
row or two. Lines go to the card and come back three times a step: the products with the row as it was sampled, the solve with its
residual, the products with the completed row.

The host keeps its own matrices up to date, but reads them only to make factors again, and for a checkpoint. The card has Q, R and
the inverse W of a factor L: solves are products then. Rows [half, L22] of L, which come with a step, make rows L22^-1 [-half W, 1]
of W, and half W is what the solve gave that left these rows (algebra.keep_solved). This takes a full history: where blocks of the
past become one, factors change from some row on in every step.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from functools import partial
from pathlib import Path

import numpy as np
from numba import njit

from dmft.committee.lines import put_upto
from dmft.committee.matrices import Matrices, Solved
from dmft.committee.state import UnitState
from dmft.core.compiled import UNCOUNTED
from dmft.core.cuda_numbers import defines
from dmft.core.device import CUDA, WARP, Gpu, source
from dmft.equations.history import History

MATRIX_SOURCE = Path(__file__).parent / "cuda" / "matrices.cu"
WARPS_OF_BLOCK, ROWS_OF_BLOCK = 8, 4  # warps of a block of threads, and the rows that it takes; slots come in groups of four
HEAD = 8  # numbers before lines
NOT_SENT = -1.0
NO_LINES = 1 << 20
Task = tuple[int, ...]  # of `products`: lines, or -1 - a result; matrix, entries that count, result; what it is added to, sign


class OnCard(IntEnum):
    """Matrices on the card; BACK: transposed."""

    Q = 0
    R = 1
    R_BACK = 2
    W = 3
    W_BACK = 4
    RIDGE_W = 5
    RIDGE_W_BACK = 6
    L = 7
    L_BACK = 8


class NewRows(IntEnum):
    """Where rows of a step stand on their way to the card."""

    Q = 0
    R = 1
    W = 2
    RIDGE_W = 3
    L = 4


class Entries(IntEnum):
    """Which entries of a row count: all, those up to its diagonal, those from there on."""

    WHOLE = 0
    UPTO = 1
    FROM = 2


MATRICES_ON_CARD = len(OnCard)
INVERSES = {"factor": NewRows.W, "ridge": NewRows.RIDGE_W}


def _halfway(lines: int, first: int, rest: int, half: int) -> list[list[Task]]:
    """Tasks for half = lines L^-T, as W gives it at first, and improved by what is left of the lines then."""
    return [[(lines, OnCard.W, Entries.UPTO, first)], [(-1 - first, OnCard.L, Entries.UPTO, rest, lines, -1)],
            [(-1 - rest, OnCard.W, Entries.UPTO, half, -1 - first, 1)]]


def _back(half: int, first: int, rest: int, solved: int) -> list[list[Task]]:
    """Tasks for solved = half L^-1, in the same way."""
    return [[(half, OnCard.W_BACK, Entries.FROM, first)], [(-1 - first, OnCard.L_BACK, Entries.FROM, rest, half, -1)],
            [(-1 - rest, OnCard.W_BACK, Entries.FROM, solved, -1 - first, 1)]]


@njit(**UNCOUNTED, error_model="numpy")
def inverse_rows(L, solved, first, out):
    """Rows first .. of the inverse W of a lower triangular L into out (p, size), from solved = L21 W, with L21 what these rows of L
    (p, p) have before their diagonal block."""
    for r in range(len(out)):
        row = out[r]
        for j in range(first):
            row[j] = -solved[r, j]
        for j in range(first, len(row)):
            row[j] = 0.0
        row[first + r] = 1.0
        for q in range(r):
            for j in range(first + q + 1):
                row[j] -= L[r, q] * out[q, j]
        for j in range(first + r + 1):
            row[j] /= L[r, r]


class Trip:
    """Lines on their way to the card and results on their way back. tasks: of `products`, for one launch after the other; a result
    that the next one needs is -1 - its place."""

    def __init__(self, gpu: Gpu, units: int, size: int, lines: int, tasks: list[list[Task]]):
        self.sent = gpu.mirror(HEAD + lines * units * size)
        self.lines = self.sent.host[HEAD:].reshape(lines, units, size)
        self.tasks = [gpu.put(np.array([(*task, NO_LINES, 0)[:6] for task in each], np.int32)) for each in tasks]
        self.results = gpu.mirror((1 + max(task[3] for each in tasks for task in each), units, size))
        self.of: tuple[np.ndarray, ...] = ()  # lines whose results these are
        self.under_way = False


class CardMatrices(Matrices):
    """As Matrices, for a full history. Results are those of the last trip: they are gone with the next one of its kind."""

    def __init__(self, gpu: Gpu, history: History, units: int):
        assert history.full
        super().__init__(history, units)
        self.gpu, self.size, self.queue = gpu, history.slots * units, gpu.queue(urgent=True)
        constants = {"UNITS": units, "LANES": WARP, "WARPS_OF_BLOCK": WARPS_OF_BLOCK, "ROWS_OF_BLOCK": ROWS_OF_BLOCK,
                     "HEAD": HEAD, "NO_LINES": NO_LINES, "PLACES": len(NewRows), **{each.name: int(each) for each in Entries}}
        self.kernel = gpu.kernels("\n".join((defines(constants), source(CUDA / "lanes.cuh"), source(MATRIX_SOURCE))),
                                  ("products", "enter_rows"))
        self.copies = gpu.zeros((MATRICES_ON_CARD, self.size, self.size))
        self.news = gpu.mirror(HEAD + len(NewRows) * units * self.size)  # where rows go, and rows
        self.news_lines = self.news.host[HEAD:].reshape(len(NewRows), units, self.size)
        self.news.host[:HEAD] = NOT_SENT
        self.waiting = self.news_under_way = False  # new rows
        trip = partial(Trip, gpu, units, self.size)
        # Lines of a row: correlation, memory, M_C, Q. Results: noise, overlaps, half of M_C and Q, their lines, and two in between.
        # M_C is nearly singular where kernels are smooth, Q + eps S is not.
        row = [*_halfway(2, 6, 7, 2), *_back(-3, 6, 7, 4)]
        row[0] += [(0, OnCard.R, Entries.UPTO, 0), (1, OnCard.Q, Entries.WHOLE, 1), (3, OnCard.RIDGE_W, Entries.UPTO, 3)]
        row[1] += [(-4, OnCard.RIDGE_W_BACK, Entries.FROM, 5)]
        self.trips = {
            "row": trip(4, row),
            "residual": trip(1, [[(0, OnCard.RIDGE_W, Entries.UPTO, 0)], [(-1, OnCard.RIDGE_W_BACK, Entries.FROM, 1)]]),
            "step": trip(1, [[(0, OnCard.Q, Entries.WHOLE, 0), (0, OnCard.R_BACK, Entries.FROM, 1)]]),
            "factor": trip(1, _back(0, 1, 2, 0)),
            "ridge": trip(1, [[(0, OnCard.RIDGE_W_BACK, Entries.FROM, 0)]])}

    def take(self, state: UnitState) -> None:
        super().take(state)
        self._arrive()
        self.news.host[:HEAD], self.waiting = NOT_SENT, False
        self.rows = dict.fromkeys(INVERSES, 0)  # of W that are on the card, or on their way
        self.next: dict[str, np.ndarray | None] = dict.fromkeys(INVERSES)  # half W of the rows after these, where known
        for trip in self.trips.values():
            trip.of = ()
        for place, matrix in ((OnCard.Q, state.Q), (OnCard.R, state.R), (OnCard.R_BACK, state.R.T)):
            self.gpu.fill(self.copies[place], matrix)
        self.copies[OnCard.W:] = 0.0
        for name, size in (("factor", state.factor_from), ("ridge", state.ridge_from)):
            self.factored(name, 0, size)

    # --- trips -------------------------------------------------------------------------------------------------

    def _go(self, name: str, of: tuple[np.ndarray, ...], lines: tuple[np.ndarray, ...], past: int) -> Trip:
        """Let lines, of which `past` entries count, go to the card; of: those by which their results are found."""
        trip = self.trips[name]
        for place, line in zip(trip.lines, lines):
            put_upto(line, past, place)
        trip.sent.host[0], trip.of, trip.under_way = past, of, True
        self.send()
        self.queue.run(name, partial(self._launch, trip))
        return trip

    def _launch(self, trip: Trip) -> None:
        """All launches of a trip."""
        size = np.int32(self.size)
        trip.sent.send()
        for tasks in trip.tasks:
            self.kernel["products"]((self.size // ROWS_OF_BLOCK, len(tasks)), (WARP * WARPS_OF_BLOCK,), (
                size, tasks, self.copies, trip.sent.device, trip.results.device), 8 * ROWS_OF_BLOCK * self.units * WARPS_OF_BLOCK)
        trip.results.fetch()

    def _launch_news(self) -> None:
        self.news.send()
        grid, threads = (-(-self.size // (WARP * WARPS_OF_BLOCK)), len(NewRows)), (WARP * WARPS_OF_BLOCK,)
        self.kernel["enter_rows"](grid, threads, (np.int32(self.size), self.news.device, self.copies), 0)

    def _arrive(self) -> None:
        """Wait for all that is on its way."""
        self.queue.wait()
        if self.news_under_way:
            self.news.host[:HEAD], self.news_under_way = NOT_SENT, False
        for trip in self.trips.values():
            trip.under_way = False

    def _results(self, trip: Trip) -> np.ndarray:
        if trip.under_way:
            self._arrive()
        return trip.results.host

    def _put(self, place: int, at: int, rows: np.ndarray | None = None) -> np.ndarray:
        """Room for new rows (p, size) from row `at` on, which go before the next trip; rows: what is to stand there."""
        if self.news.host[place] >= 0:  # one block of rows at a time
            self.send()
        if self.news_under_way:
            self._arrive()
        self.news.host[place], self.waiting = at, True
        if rows is not None:
            self.news_lines[place] = rows
        return self.news_lines[place]

    # --- what the equations ask for ----------------------------------------------------------------------------

    def expect(self, correlation: np.ndarray, memory: np.ndarray, M_C: np.ndarray) -> None:
        of = correlation, memory, M_C, self.state.Q_row
        self._go("row", of, of, len(self.history.order) * self.units)

    def expect_step(self, memory: np.ndarray) -> None:
        self._go("step", (memory,), (memory,), len(self.history.order) * self.units)

    def noise(self, correlation: np.ndarray, used: int) -> np.ndarray:
        return self._of_row(0, correlation)[0]

    def _of_row(self, place: int, lines: np.ndarray) -> np.ndarray:
        """Results of the trip of row n, which was made for these lines."""
        trip = self.trips["row"]
        assert trip.of and trip.of[place] is lines
        return self._results(trip)

    def overlaps(self, memory: np.ndarray, used: int) -> np.ndarray:
        if memory is self.trips["row"].of[1]:
            return self._of_row(1, memory)[1]
        return self._of_step(memory)[0]

    def responses(self, memory: np.ndarray, used: int) -> np.ndarray:
        return self._of_step(memory)[1]

    def _of_step(self, memory: np.ndarray) -> np.ndarray:
        trip = self.trips["step"]
        if not (trip.of and trip.of[0] is memory):
            self.expect_step(memory)
        return self._results(trip)

    def given_noise(self, M_C: np.ndarray, order: np.ndarray) -> Solved:
        found = self._of_row(2, M_C)
        self.next["factor"] = found[4, :, : len(order)]
        return Solved(found[4], found[2])

    def given_weights(self, residual: np.ndarray, order: np.ndarray) -> tuple[Solved, Callable[[], Solved]]:
        past, row = len(order), self._of_row(3, self.state.Q_row)
        trip = self._go("residual", (), (residual,), past)
        self.next["ridge"] = row[5, :, :past]
        def of_residual() -> Solved:
            half, lines = self._results(trip)
            return Solved(lines, half)

        return Solved(row[5], row[3]), of_residual

    # --- what changes ------------------------------------------------------------------------------------------

    def send(self) -> None:
        """Let new rows go to the card."""
        if self.waiting:
            self.queue.run("news", self._launch_news)
            self.waiting, self.news_under_way = False, True

    def entered(self, at: int) -> None:
        self.trips["step"].of = ()
        self._put(NewRows.Q, at, self.state.Q[at : at + self.units])
        self._put(NewRows.R, at, self.state.R[at : at + self.units])

    def factored(self, name: str, start: int, size: int) -> None:
        if start < self.rows[name]:
            self.rows[name], self.next[name] = start, None
        factor, p = getattr(self.state, name), self.units
        for first in range(self.rows[name], size, p):
            solved, self.next[name] = self.next[name], None
            if solved is None or solved.shape[1] != first:
                solved = self._results(self._go(name, (), (factor[first : first + p],), first))[0]
            inverse_rows(factor[first : first + p, first : first + p], solved, first, self._put(INVERSES[name], first))
            if name == "factor":
                lower = self._put(NewRows.L, first, factor[first : first + p])
                for r in range(p):
                    lower[r, first + r + 1 :] = 0.0
            self.rows[name] = first + p
