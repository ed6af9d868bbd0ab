"""Whole steps on a card: the equations of a step (equations/on_card.py) between the launches of samples (launches.py), so that the
host launches some steps ahead and collects what they found. The state of the weights lies on the card then; the host has a copy of
it that `fetch` renews."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from dmft.core.device import QUEUE_SIDES, WARP
from dmft.equations.blocks import BlockTable, push_steps
from dmft.equations.on_card import (
    EQUATION_KERNELS,
    KEPT_VECTORS,
    NOW_NUMBERS,
    Pages,
    Room,
    chosen_numbers,
    equations_source,
    take_records,
)
from dmft.equations.rows import GROUPS, SCALARS, InUse
from dmft.equations.state import GIVEN, WORK_VECTORS, one_of
from dmft.equations.stepping import Settings
from dmft.samples.launches import Company
from dmft.samples.written_steps import planned_step

VISIT = 128  # steps between two looks of the driver: before each the card runs out of work
LAUNCHED_AHEAD = 32  # steps that are launched before the first of them is collected, at most
LAUNCHED_AT_ONCE = 4  # steps that are recorded and launched as a whole: a card takes 3 to 5 us from one launch to the next
EQUATION_SIDE, TANGENT_SIDE, COPY_SIDE = range(QUEUE_SIDES)  # what goes beside the samples
SUM_THREADS, ASKING, ASKING_THREADS = 512, 32, 128
assert LAUNCHED_AHEAD % 2 == 0 and LAUNCHED_AHEAD % LAUNCHED_AT_ONCE == 0 and LAUNCHED_AHEAD > LAUNCHED_AT_ONCE


class Launched(NamedTuple):
    """How a step is launched among others."""

    moves: bool  # there is a step from its row
    merging: bool  # in which blocks merge
    summed: bool  # its sums over all samples, which are on several ranks, come from the host
    first: bool  # its page is not there yet
    more: bool  # the next step is launched behind it, whose page it brings along


class CardSteps:
    """The equations of a company's solutions, which are all at the same step when they are stepped. visit: steps between two
    looks of the driver."""

    def __init__(self, company: Company, use: InUse, visit: int):
        first, threads = company.members[0], company.tiling.equations
        gpu, slots, several, history = company.gpu, company.slots, company.solutions, first.history
        self.company, self.visit_steps, self.threads, self.pages = company, visit, threads, Pages(history)
        room = Room.within(gpu.shared_bytes, threads, slots)
        assert room
        self.shared = 8 * room.numbers
        text = equations_source(first.experiment.constraint, use, bool(history.rule.slopes), room)
        self.kernel = gpu.kernels(text, EQUATION_KERNELS)
        self.columns = SCALARS + GROUPS * slots
        self.record_width = 1 + NOW_NUMBERS + SCALARS + KEPT_VECTORS * slots
        page = self.pages.numbers + company.plan.host.size  # which lies behind it
        self.page = [gpu.mirror(page, np.int64) for _ in range(LAUNCHED_AHEAD)]
        self.record = [gpu.mirror((several, self.record_width)) for _ in range(LAUNCHED_AHEAD)]
        self.totals, self.wanted = gpu.mirror((several, self.columns)), gpu.mirror(several, np.int32)
        self.alive, self.now = gpu.zeros((2, several), np.int32), gpu.zeros((several, NOW_NUMBERS))
        self.matrices, self.ridge = gpu.zeros((several, 4, slots, slots)), gpu.zeros((several, slots, slots))
        # of the blocks on the diagonals of both factors, and whether they are there
        self.inverses, self.inverted = gpu.zeros((several, 2, room.of_inverses)), gpu.zeros(several, np.int32)
        self.vectors = gpu.zeros((several, 4, slots))
        self.work, self.noise_work = (gpu.zeros((several, WORK_VECTORS, slots)) for _ in range(2))
        self.spread = gpu.zeros((several, slots))
        self.stop, self.by = gpu.put(history.rule.stop), gpu.put(chosen_numbers(first.by, use))
        self._sent, self._fetched = False, True
        self._visit = range(0)  # rows
        self._launched_to = self._collected_to = 0
        self._done: list[Callable[[], object]] = [lambda: None] * LAUNCHED_AHEAD

    # --- the state of the weights ------------------------------------------------------------------------------

    def _arrays(self) -> list[tuple[Any, np.ndarray]]:
        """What the card has, and the host's copy of it."""
        host = self.company.members[0].solutions
        return [(self.matrices, host.matrices), (self.ridge, host.ridge), (self.vectors, host.vectors),
                (self.now, host.now.view(np.float64).reshape(len(host.now), -1))]

    def fetch(self) -> None:
        """Renew the host's copy."""
        if not self._fetched:
            self.company.queue.wait()
            for mine, host in self._arrays():
                host[...] = self.company.gpu.get(mine)
            self._fetched = True

    def changed(self) -> None:
        """The host's copy, which was up to date, has been changed."""
        self._sent = False

    def _send(self) -> None:
        if not self._sent:
            self.company.queue.wait()
            for mine, host in self._arrays():
                self.company.gpu.fill(mine, host)
            self.company.gpu.fill(self.alive, np.ones((2, self.company.solutions), np.int32))
            self.company.gpu.fill(self.inverted, np.zeros(self.company.solutions, np.int32))
            self._sent = True

    # --- steps -------------------------------------------------------------------------------------------------

    def launch(self, places: list[int], n: int, totals: np.ndarray | None = None) -> None:
        """Launch the steps of a visit of these solutions from row n on, as many as there is room for. totals (places, columns):
        sums of row n over all samples, where these are on several ranks; then it is one."""
        company, first = self.company, self.company.members[places[0]]
        self._send()
        if totals is None:
            company.sum_rows(places)
        wanted = np.zeros(company.solutions, np.int32)
        wanted[places] = 1
        if not np.array_equal(wanted, self.wanted.host):
            company.queue.wait()
            self.wanted.host[:] = wanted
            company.queue.run("wanted", self.wanted.send)
        if totals is not None:
            self.totals.host[places] = totals
        here = one_of(first.history.tables, slice(first.at, first.at + 1))
        self._tables = BlockTable(*(array.copy() for array in here))  # as they will be
        self._summed, self._fetched = totals is not None, False
        self._visit = range(n, n + (1 if self._summed else min(self.visit_steps, company.experiment.steps + 1 - n)))
        self._launched_to = self._collected_to = n
        self._coming = self._write_page(n)
        self.launch_more()
        company.have_summed(places)

    def launch_more(self) -> bool:
        """Launch as many steps of the visit as there is room for; returns whether there is one that has not been collected."""
        stop = self._visit.stop
        while self._launched_to < stop:
            then = min(self._whole_from(self._launched_to), stop)
            if min(then, stop - 1) >= self._collected_to + LAUNCHED_AHEAD:  # the last page that is written
                break
            self._launch([(n, self._next_step(n)) for n in range(self._launched_to, then)])
            self._launched_to = then
        return self._collected_to < stop

    def next_rows(self) -> range:
        """The next rows that the host collects, once the card has found all of them."""
        rows = range(self._collected_to, min(self._whole_from(self._collected_to), self._launched_to))
        self._done[rows.start % LAUNCHED_AHEAD]()
        self._collected_to = rows.stop
        return rows

    @staticmethod
    def _whole_from(n: int) -> int:
        """Where the steps end that are launched as a whole with that from row n."""
        return (n // LAUNCHED_AT_ONCE + 1) * LAUNCHED_AT_ONCE

    def _next_step(self, n: int) -> Launched:
        """How the step from row n is launched; writes the page of the next one."""
        (moves, merging), more = self._coming, n + 1 in self._visit
        if more:
            self._coming = self._write_page(n + 1)
        return Launched(moves, merging, self._summed, n == self._visit.start, more)

    def _write_page(self, n: int) -> tuple[bool, bool]:
        """Whether there is a step from row n, and whether blocks merge in it; the tables are then those after it."""
        company, k, tables = self.company, n % LAUNCHED_AHEAD, self._tables
        rule = company.members[0].history.rule
        e, page, plan = company.experiment, self.page[k].host, self.page[k].host[self.pages.numbers :]
        moves, then, step = n < e.steps, min(n + 1, e.steps - 1), min(n, e.steps - 1)
        chain = e.batches.chain(step)
        given = company.members[0].given_at(Settings.of(e, n))
        self.pages.write_settings(page, given, (moves, step < e.hidden, sqrt(e.heat(step)), chain.fraction, chain.p_on, chain.p_off,
                                                e.eta_n[then], e.scale_n[then]))
        self.pages.write_blocks(page, tables, 0, False)
        self.pages.write_neighbours(page, rule, tables, 0)
        if moves:
            push_steps(n, np.zeros(1, np.int64), rule, tables)
            self.pages.write_blocks(page, tables, 0, True)
            company.write_move(n, 0, tables, plan)
        return moves, moves and bool(planned_step(plan)[0].merges)

    def _launch(self, steps: list[tuple[int, Launched]]) -> None:
        """Launch the steps from these rows as a whole."""
        company, places = self.company, [n % LAUNCHED_AHEAD for n, _ in steps]
        losses = [int(company.experiment.loss_n[n + how.moves]) for n, how in steps]
        company.queue.run(("whole", *zip(places, losses, (how for _, how in steps), strict=True)), partial(self._take, steps))
        last, how = steps[-1]
        company.n = last + how.moves
        done = company.queue.mark()
        for k in places:
            self._done[k] = done

    def _take(self, steps: list[tuple[int, Launched]]) -> None:
        """All launches of these steps."""
        for n, how in steps:
            self.company.n = n + how.moves
            self._step(n % LAUNCHED_AHEAD, how)

    def _step(self, k: int, how: Launched) -> None:
        """All launches of a step."""
        company, solutions, beside = self.company, self.company.solutions, self.company.queue.beside
        if how.first:
            self.page[k].send()
        if how.more:
            beside(COPY_SIDE, self.page[(k + 1) % LAUNCHED_AHEAD].send)
        asked = beside(TANGENT_SIDE, self._ask_for_matrices)
        if how.summed:
            self.totals.send()
        else:
            self.kernel["exact_totals"]((-(-self.columns // WARP), 1, solutions), (SUM_THREADS,), (
                self.wanted.device, np.int32(company.blocks), np.int32(company.parts), np.int32(self.columns), company.row.partial,
                self.totals.device), 24 * SUM_THREADS)
        sizes = np.int32(company.slots), np.int32(self.pages.levels)
        weights, rates = (self.matrices, self.ridge, self.inverses, self.inverted, self.vectors), company.rates.device
        state = *weights, self.work, self.spread, self.now, rates
        on, grid, page, record = company.on.device, (1, 1, solutions), self.page[k].device, self.record[k]
        widths = np.int32(self.columns), np.int32(self.record_width)

        def noise() -> None:
            self.kernel["noise_given_past"](grid, (self.threads,), (
                self.wanted.device, self.alive, *sizes, *widths, page, self.by, self.totals.device, *weights, self.noise_work,
                self.spread, self.now, rates, record.device), self.shared)

        def enter() -> None:
            self.kernel["enter_step"]((1, 2, solutions), (self.threads,), (
                on, self.alive, *sizes, page, self.by, *state), self.shared)

        drawn = beside(EQUATION_SIDE, noise) if how.moves else None
        self.kernel["row_and_step"](grid, (self.threads,), (
            self.wanted.device, self.alive, on, *sizes, *widths, page, self.stop, self.by, self.totals.device, *state,
            company.present.device, record.device), self.shared)
        asked()
        if not drawn:
            return record.fetch()
        drawn()
        entered, fetched = beside(EQUATION_SIDE, enter), beside(COPY_SIDE, record.fetch)
        company.use_plan(page[self.pages.numbers :])
        self._move(how.merging)
        company.sum()
        entered(), fetched()

    def _move(self, merging: bool) -> None:
        """All of the samples. The next row of tangents goes beside the rest where few samples have them, and leave much of the card
        free; what is left to do for tangents goes there always."""
        company = self.company

        def rest() -> None:
            company.merge_tangents(merging)
            company.add_responses()

        def tangents() -> None:
            company.next_tangents()
            rest()

        if not company.few_carriers:
            company.next_tangents()
        moved = company.queue.beside(TANGENT_SIDE, tangents if company.few_carriers else rest)
        company.move()
        moved()

    def _ask_for_matrices(self) -> None:
        counts = np.int64(self.matrices.size), np.int64(self.ridge.size)
        self.kernel["ask_for_matrices"]((ASKING,), (ASKING_THREADS,), (counts[0], self.matrices, counts[1], self.ridge), 0)

    def found(self, n: int) -> np.ndarray:
        """What the step from row n found, (solutions, record_width)."""
        return self.record[n % LAUNCHED_AHEAD].host

    def taken(self, found: np.ndarray, places: np.ndarray, kept: bool) -> np.ndarray:
        """The scalar sums of it for some solutions, (places, SCALARS); the host gets their numbers, and where the row is kept their
        vectors."""
        host, sums = self.company.members[0].solutions, np.empty((len(places), SCALARS))
        take_records(found, places, kept, self._arrays()[-1][1], host.work, host.vectors, sums)
        return sums

    def given(self, n: int) -> np.ndarray:
        """What the run prescribed for row n."""
        return self.page[n % LAUNCHED_AHEAD].host[: self.pages.given].view(GIVEN)
