"""Whole steps on a card: the equations of a step (equations/on_card.py) between the launches of samples (launches.py), so that the
host launches some steps ahead and collects what they found. The state of the weights lies on the card then; the host has a copy of
it that `fetch` renews."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from dmft.core.device import WARP
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

LAUNCHED_AHEAD = 32  # steps that are launched before the first of them is collected; an even number
SUM_THREADS = 512


class Launched(NamedTuple):
    """How a step is launched among others."""

    summed: bool  # its sums over all samples, which are on several ranks, come from the host
    first: bool  # its page is not there yet
    more: bool  # the next step is launched behind it, whose page it brings along


class CardSteps:
    """The equations of a company's solutions, which are all at the same step when they are stepped. ahead: steps between two visits
    of the host."""

    def __init__(self, company: Company, use: InUse, ahead: int):
        first, threads = company.members[0], company.tiling.equations
        gpu, slots, several, history = company.gpu, company.slots, company.solutions, first.history
        self.company, self.ahead, self.threads, self.pages = company, ahead, threads, Pages(history)
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
        self.alive, self.now = gpu.zeros(several, np.int32), gpu.zeros((several, NOW_NUMBERS))
        self.matrices, self.ridge = gpu.zeros((several, 4, slots, slots)), gpu.zeros((several, slots, slots))
        # of the blocks on the diagonals of both factors, and whether they are there
        self.inverses, self.inverted = gpu.zeros((several, 2, room.of_inverses)), gpu.zeros(several, np.int32)
        self.vectors, self.work = gpu.zeros((several, 4, slots)), gpu.zeros((several, WORK_VECTORS, slots))
        self.spread = gpu.zeros((several, slots))
        self.stop, self.by = gpu.put(history.rule.stop), gpu.put(chosen_numbers(first.by, use))
        self._sent, self._fetched = False, True
        self.launched = range(0)  # rows
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
            self.company.gpu.fill(self.alive, np.ones(self.company.solutions, np.int32))
            self.company.gpu.fill(self.inverted, np.zeros(self.company.solutions, np.int32))
            self._sent = True

    # --- steps -------------------------------------------------------------------------------------------------

    def launch(self, places: list[int], n: int, totals: np.ndarray | None = None) -> None:
        """Launch some steps of these solutions from row n on. totals (places, columns): sums of row n over all samples, where these
        are on several ranks; then it is one."""
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
        rule, here = first.history.rule, one_of(first.history.tables, slice(first.at, first.at + 1))
        tables = BlockTable(*(array.copy() for array in here))  # as they will be
        count = 1 if totals is not None else min(self.ahead, company.experiment.steps + 1 - n)
        self.launched, self._fetched = range(n, n + count), False
        present = self._write_page(n, rule, tables)
        for row in self.launched:
            more = row + 1 in self.launched
            coming = self._write_page(row + 1, rule, tables) if more else present
            self._launch_step(row, present, Launched(totals is not None, row == n, more))
            present = coming
        company.have_summed(places)

    def _write_page(self, n: int, rule: Any, tables: BlockTable) -> tuple[bool, bool]:
        """Whether there is a step from row n, and whether blocks merge in it; the tables are then those after it."""
        company, k = self.company, n % LAUNCHED_AHEAD
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

    def _launch_step(self, n: int, present: tuple[bool, bool], how: Launched) -> None:
        company, k = self.company, n % LAUNCHED_AHEAD
        company.n = n + present[0]
        name = "whole", k, int(company.experiment.loss_n[company.n]), *present, how
        company.queue.run(name, partial(self._step, k, *present, how))
        self._done[k] = company.queue.mark()

    def _step(self, k: int, moves: bool, merging: bool, how: Launched) -> None:
        """All launches of a step."""
        company, solutions = self.company, self.company.solutions
        if how.first:
            self.page[k].send()
        if how.summed:
            self.totals.send()
        else:
            self.kernel["exact_totals"]((-(-self.columns // WARP), 1, solutions), (SUM_THREADS,), (
                self.wanted.device, np.int32(company.blocks), np.int32(company.parts), np.int32(self.columns), company.row.partial,
                self.totals.device), 24 * SUM_THREADS)
        sizes = np.int32(company.slots), np.int32(self.pages.levels)
        state = (self.matrices, self.ridge, self.inverses, self.inverted, self.vectors, self.work, self.spread, self.now,
                 company.rates.device)
        on, grid, page = company.on.device, (1, 1, solutions), self.page[k].device
        self.kernel["row_and_step"](grid, (self.threads,), (
            self.wanted.device, self.alive, on, *sizes, np.int32(self.columns), np.int32(self.record_width), page, self.stop,
            self.by, self.totals.device, *state, company.present.device, self.record[k].device), self.shared)

        if not moves:
            return self.record[k].fetch()

        def noise() -> None:
            self.kernel["noise_given_past"](grid, (self.threads,), (
                on, *sizes, page, self.by, *state, np.int32(self.record_width), self.record[k].device), self.shared)

        def enter() -> None:
            if how.more:
                self.page[(k + 1) % LAUNCHED_AHEAD].send()
            self.record[k].fetch()
            self.kernel["enter_step"]((1, 2, solutions), (self.threads,), (on, *sizes, page, self.by, *state), self.shared)

        company.use_plan(page[self.pages.numbers :])
        drawn, entered = company.queue.beside(noise, enter)
        company.move_tangents(merging)
        drawn()
        company.move()
        company.sum()
        entered()

    def found(self, n: int) -> np.ndarray:
        """What the step from row n found, (solutions, record_width), once it has."""
        self._done[n % LAUNCHED_AHEAD]()
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
