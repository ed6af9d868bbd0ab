"""What a step of the march launches on a GPU, for all solutions of equal shape at once: replicas, say, or their companions.

The sources are in dmft/samples/cuda/march.cu. Where the host does the equations of a step (else: card_steps.py), it transfers data
twice: the sums of row n go to the host, what drives the samples comes back. Neither holds up the host: it turns to other solutions
while the card works on these (solvers/blocks.py). Every solution has numbers of its own, so that it comes out the same in whatever
company. All arrays have the solution as their first index, and the sample as their last.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np

from dmft.core.cuda_numbers import defines, enum, records_source
from dmft.core.device import CUDA, WARP, Gpu, Kernel, source
from dmft.core.errors import RunError
from dmft.equations import random_start, rows
from dmft.equations.blocks import NONE, BlockTable
from dmft.equations.history import History
from dmft.equations.random_start import OVERLAP_SCALARS
from dmft.equations.rows import GROUPS, LOSSES, SCALARS, WRONG
from dmft.equations.state import PRESENT, SAMPLE_RATES
from dmft.equations.weights import WeightDynamics, join
from dmft.model.channels import SMOOTH
from dmft.model.cuda_loss import averages_source, loss_source
from dmft.model.experiment import Experiment
from dmft.model.minibatches import Chain, cuda_source
from dmft.model.sample_averages import averages
from dmft.samples.formulas import cuda_formulas
from dmft.samples.lost import GONE
from dmft.samples.nesterov import AtWeights
from dmft.samples.sampling import Draws, Sampling, tangent_indices
from dmft.samples.state import Past, SampleState
from dmft.samples.tangents import Bounds
from dmft.samples.tiling import Tiling
from dmft.samples.written_steps import PLANNED_NUMBERS, PLANNED_STEP, plan_size, planned_step, write_plan, write_rates

CUDA_KERNELS = ("fields", "response_totals", "overlap_terms", "row_sums", "add_parts", "move", "next_tangents", "merge_columns",
                "merge_rows")
FOUR = 4  # samples that a thread loads at once; blocks of samples have a multiple of these
ACROSS = FOUR * WARP  # samples of a warp
MOVERS = 2 * FOUR  # warps of a block of threads of `move`: two threads a sample
HELD_BYTES = 24  # of shared memory for a slot of the past that holds something: structs Held and HeldRow of march.cu
MARCH = Path(__file__).parent / "cuda" / "march.cu"
SAMPLE_SOURCE = MARCH.with_name("common.cuh")
# Columns of the sums over samples, but for the last two, which march.cu adds up by itself; one that is not filled is no number.
CUDA_COLUMNS = "#define UNFILLED (0.0 / 0.0)\n" + "\n".join(
    enum({name: getattr(module, name) for name in names}) for module, names in (
        (rows, ("GP", "GK", "LOSSES", "GH", "GG", "LABEL", "WILD", "UNSTABLE", "WRONG", "PUSH", "LOST", "CARRIED")),
        (random_start, ("CURVATURE", "SQUARE", "FIELD", "NOISE"))))


FEW_CARRIERS = 1024  # samples with tangents that are few: on all ranks, because sums depend on it


class Sums:
    """Sums over the samples of every part of a block, and of every block, on the card; the latter on the host too."""

    def __init__(self, gpu: Gpu, solutions: int, columns: int, blocks: int, parts: int):
        self.columns, self.partial = columns, gpu.zeros((solutions, blocks, parts, columns))
        self.sums = gpu.mirror((solutions, blocks, columns))


def whole_lines(count: int) -> int:
    """Numbers of a line of an array over slots: its samples, rounded up so that every line begins with a line of memory."""
    return -(-count // WARP) * WARP


class Company:
    """Solutions of equal shape on a card. All are entered before any is stepped; a step of some of them is one launch, of which
    `terms` gives the sums. draws, sampling: of the first of them; block: samples of a block; make_steps: makes
    `steps`, a CardSteps, where the card does the equations as well."""

    def __init__(self, gpu: Gpu, experiment: Experiment, history: History, draws: Draws, block: int, sampling: Sampling, dtype,
                 tiling: Tiling, make_steps: Callable[[Company], Any] | None = None) -> None:
        count, slots = len(draws.h), history.slots
        self.few_carriers = sampling.carriers <= FEW_CARRIERS
        self.row_shares = tiling.row_shares if self.few_carriers else 1
        most = gpu.shared_bytes // HELD_BYTES - max(tiling.rows_ahead * self.row_shares, tiling.ahead * MOVERS)
        if slots > most:
            raise RunError(f'[theory] device = "gpu": a history of {slots} steps one by one is too long for this card, which takes '
                           f'{most}; take history = "dyadic", or device = "cpu"')
        self.gpu, self.experiment, self.block, self.dtype = gpu, experiment, block, dtype
        self.tiling, self.averages, self._make_steps = tiling, averages(experiment.observables), make_steps
        self.steps: Any = None
        self.stein, self.identity = sampling.stein and experiment.stein and experiment.data.control == SMOOTH, sampling.identity
        assert block % FOUR == 0  # fours of samples lie in one block
        assert tiling.own <= 8 and tiling.warps <= 8  # a block of threads has 1024 at most
        self.count, self.slots, self.packed, self.blocks = count, slots, history.packed, -(-count // block)
        self.width = whole_lines(count)
        own = min(tiling.own, -(-block // ACROSS))
        self.part = own * ACROSS  # samples
        self.parts = -(-block // self.part)
        kind = "float" if np.dtype(dtype) == np.float32 else "double"
        numbers = {"STEIN": int(self.stein), "IDENTITY": int(self.identity), "SCALARS": SCALARS, "GROUPS": GROUPS,
                   "OVERLAP_SCALARS": OVERLAP_SCALARS, "LOST_STEP": sampling.estimator.lost_step,
                   **{name.upper(): value for name, value in Bounds.of(sampling.estimator)._asdict().items()},
                   "GONE": GONE, "NONE": NONE, "LANES": WARP, "FOUR": FOUR, "ACROSS": ACROSS,
                   "MOVERS": MOVERS, "HELD_BYTES": HELD_BYTES, "OWN": own, "AHEAD": tiling.ahead, "ROWS_AHEAD": tiling.rows_ahead,
                   "ROW_SHARES": self.row_shares}
        formulas = "\n".join((source(CUDA / "philox.cuh"), cuda_source(), cuda_formulas(), CUDA_COLUMNS,
                              records_source(Rates=SAMPLE_RATES, Present=PRESENT, Step=PLANNED_STEP),
                              f"typedef {kind} stored;", defines(numbers), averages_source(self.averages)))
        sources = ["\n".join((loss_source(loss), formulas, source(SAMPLE_SOURCE), source(MARCH))) for loss in experiment.losses]
        self.kernel = gpu.kernels(sources[0], CUDA_KERNELS + (("averages",) if self.averages else ()))
        self.fields = [self.kernel["fields"], *(gpu.kernels(text, ("fields",))["fields"] for text in sources[1:])]
        carriers = np.flatnonzero(draws.carrier)
        self.carriers, self.carrier, self.span = len(carriers), gpu.put(carriers), whole_lines(len(carriers))
        # Where the samples with tangents of each block begin among all of them.
        self.cut = gpu.put(np.searchsorted(carriers, block * np.arange(self.blocks + 1)).astype(np.int32))
        self.offset, self.stop = gpu.put(history.offset.astype(np.int32)), gpu.put(history.stop.astype(np.int32))
        self.levels, self.z_steps, self.known = history.levels, draws.z.shape[1], draws.changes.shape[1]
        self.queue = gpu.queue()
        self.members: list[WeightDynamics] = []
        self.n = 0
        self._summed: set[int] = set()  # solutions whose sums of their present row have been launched
        self._ahead: list[Callable[[], None]] = []
        self._entered: list[tuple[Draws, np.ndarray, tuple[np.uint64, np.uint64]]] | None = []

    @property
    def solutions(self) -> int:
        return len(self.members)

    def enter(self, draws: Draws, weight: np.ndarray, sampling: Sampling, weights: WeightDynamics) -> int:
        """Take a solution; returns its place."""
        assert self._entered is not None, "a company that has begun takes no more"
        self._entered.append((draws, weight, sampling.keys))
        self.members.append(weights)
        return self.solutions - 1

    def begin(self) -> None:
        """Put everything on the card, before the first launch."""
        if self._entered is None:
            return
        entered, self._entered = self._entered, None
        gpu, slots, width, span, dtype = self.gpu, self.slots, self.width, self.span, self.dtype
        several = (self.solutions,)

        def over_samples(arrays: list[np.ndarray], dtype=np.float64) -> Any:
            lines = np.zeros((self.solutions, width, *arrays[0].shape[1:]), dtype)
            for line, array in zip(lines, arrays, strict=True):
                line[: self.count] = array
            return gpu.put(lines)

        start: dict[str, Any] = {name: [getattr(draws, name) for draws, _, _ in entered] for name in Draws._fields}
        start |= {"weight": [weight for _, weight, _ in entered], "Y": [np.zeros(self.count)] * self.solutions,
                  "tangent_index": [tangent_indices(draws.carrier) for draws, _, _ in entered],
                  "direct": [draws.jump + weight * draws.shift for draws, weight, _ in entered]}
        whole = ("batch_index", "noise_index", "tangent_index")  # numbers
        self.state = SampleState(*(over_samples(start[name], np.int64 if name in whole else np.float64)
                                   for name in SampleState._fields))
        self.slope, self.direct, self.z = (over_samples(start[name]) for name in ("slope", "direct", "z"))
        self.changes = over_samples(start["changes"], np.int64)
        self.keys = gpu.put(np.array([keys for _, _, keys in entered], np.uint64))
        self.past = Past(H=gpu.zeros((*several, slots, width), dtype), G=gpu.zeros((*several, slots, width)),
                         X=gpu.zeros((*several, slots, width), dtype),
                         Y=gpu.zeros((*several, slots if self.stein else 0, width), dtype))
        self.T = gpu.zeros((*several, self.packed, span), dtype)
        self.rows = [gpu.zeros((*several, slots, span), dtype) for _ in range(2)]  # row n of the tangents is in rows[n % 2]
        self.g, self.gp, self.g_y, self.weighted_g = (gpu.zeros((*several, width)) for _ in range(4))
        self.response, self.bound, self.ends = (gpu.zeros((*several, *shape)) for shape in ((2, span), (span,), (2, span)))
        self.row = Sums(gpu, self.solutions, SCALARS + GROUPS * slots, self.blocks, self.parts)
        self.averaged = Sums(gpu, self.solutions, len(self.averages), self.blocks if self.averages else 0, self.parts)
        self.all = gpu.put(np.ones(self.solutions, np.int32))
        self.on = gpu.mirror((2, self.solutions), np.int32)  # which solutions move, and whose sums are wanted
        numbers, rates = len(PRESENT.names or ()), self.solutions * len(SAMPLE_RATES.names or ())
        self.present = gpu.mirror((self.solutions, 2, numbers))  # PRESENT, twice
        self.rates = gpu.mirror(rates + self.solutions * 2 * slots)  # SAMPLE_RATES of all, then memory and chi_weights of each
        join(self.members)
        self.presents = self.present.host.view(PRESENT)[..., 0]
        self.numbers, drive = self.rates.host[:rates].view(SAMPLE_RATES), self.rates.host[rates:]
        for each in self.members:  # so that a step writes what the card gets
            each.place(each.solutions._replace(drive=drive.reshape(-1, 2, slots)), each.at)
        self.plan = gpu.mirror(plan_size(slots, self.levels), np.int64)
        self.use_plan(self.plan.device)
        self.overlaps: tuple | None = None  # arrays of `overlap_sums`, made when first asked for
        self.at_weights: list[AtWeights] = []
        if self.experiment.update.looks_ahead:
            h, Y, row = over_samples(start["h"]), gpu.zeros((*several, width)), gpu.zeros((*several, slots, span), dtype)
            self.h_at_weights = h
            self.at_weights = [AtWeights(h[k], Y[k], row[k].T) for k in range(self.solutions)]
            self.sums_at_weights = Sums(gpu, self.solutions, SCALARS, self.blocks, self.parts)
        self.steps = self._make_steps(self) if self._make_steps else None

    def use_plan(self, plan: Any) -> None:
        """Where the card finds what a step does to the history."""
        self.device_plan, self.held = plan, plan[-self.slots :]

    def terms(self, places: list[int], overlaps: bool) -> list[np.ndarray]:
        """The sums over blocks of the present rows of some solutions, (places, blocks, columns): those of `Samples.row_sums`,
        `averaged_sums` where there are observables, and `overlap_sums` where they are wanted. They are overwritten by the next
        sums."""
        self.sum_rows(places)
        if self.steps:
            self.queue.run("sums", partial(self._add_parts, self.row))
        self.queue.wait()
        self._summed.difference_update(places)
        found = [self.row, *([self.averaged] if self.averages else []), *([self._overlap_sums()] if overlaps else [])]
        return [each.sums.host if len(places) == self.solutions else each.sums.host[places] for each in found]

    def sum_rows(self, places: list[int]) -> None:
        """Launch the sums of the present rows of some solutions, where that has not been done."""
        if new := [at for at in places if at not in self._summed]:
            first = self.members[new[0]]
            self.queue.wait()  # the card may not yet have taken what was written for others, which caught up with these
            self._write_plan(first.at, first.history.tables, self.plan.host)
            now = first.numbers
            self.launch([], new, first.n, now["m"], now["b"], now["m_w" if first.looks_ahead else "m"])

    def have_summed(self, places: list[int]) -> None:
        """The sums of the present rows of these have been launched."""
        self._summed.update(places)

    def write_move(self, n: int, at: int, tables: BlockTable, plan: np.ndarray) -> Chain:
        """Write down what step n does to the history, and its mini-batches; the history has made room for it."""
        chain = self.experiment.batches.chain(n)
        (step,) = planned_step(plan)
        step.n, step.kind, step.period, step.epochs_from = n, chain.kind, chain.period, chain.begin
        self._write_plan(at, tables, plan)
        return chain

    def _write_plan(self, at: int, tables: BlockTable, plan: np.ndarray) -> None:
        write_plan(at, self.members[0].history.stop, tables, planned_step(plan), plan[PLANNED_NUMBERS:])

    def order_move(self, places: list[int], n: int) -> None:
        """Write down what takes some solutions, all at step n, to step n+1; `launch` does it. Their histories have made room for
        step n, and their drives lie where the card gets them."""
        e, first = self.experiment, self.members[places[0]]
        chain = self.write_move(n, first.at, first.history.tables, self.plan.host)
        write_rates((e.eta_n[n], sqrt(e.heat(n)), chain.fraction, chain.p_on, chain.p_off), first.solutions, self.numbers)
        for at in places if self.at_weights else ():
            self._ahead.append(partial(self.at_weights[at].look_ahead, self.state.h[at], self.state.Y[at],
                                       self.rows[(n + 1) % 2][at].T, first.history.plan.merges, e.update.lookahead(n + 1),
                                       self.members[at].drive.drift))

    # --- what the card does ------------------------------------------------------------------------------------

    def launch(self, moving: list[int], summed: list[int], n: int, m: np.ndarray, b: np.ndarray, m_w: np.ndarray) -> None:
        """Take solutions `moving` to step n, and sum up the rows of those that are there; m, b, m_w (solutions,): of step n."""
        e, step, present, on = self.experiment, min(n, self.experiment.steps - 1), self.presents, self.on.host
        present["m"][:, 0], present["m"][:, 1], present["b"] = m, m_w, b[:, None]
        present["eta"], present["scale"] = e.eta_n[step], e.scale_n[step]
        on[...] = 0
        on[0, moving], on[1, summed] = 1, 1
        self.n, moves = n, len(moving) > 0
        merging = moves and bool(planned_step(self.plan.host)[0].merges)
        self.use_plan(self.plan.device)
        self.queue.run(("step", int(e.loss_n[n]), n % 2, moves, merging), partial(self._step, moves, merging),
                       record=not self.at_weights)
        self.have_summed(summed)
        self._ahead = []

    def forget(self, at: int) -> None:
        """The state of a solution is another: what was launched for it does not count."""
        self.begin()
        self.queue.wait()
        self._summed.discard(at)

    def _step(self, moves: bool, merging: bool) -> None:
        """All launches of a step."""
        for mirror in (self.on, self.plan, self.present):
            mirror.send()
        if moves:
            self.rates.send()
            self.next_tangents()
            self.merge_tangents(merging)
            self.move()
            for look_ahead in self._ahead:
                look_ahead()
        self.add_responses()
        self.sum()

    def _launch(self, kernel: Kernel, grid: tuple[int, ...], threads: int, arguments: tuple, shared: int = 0, on: int = 1) -> None:
        """Launch a kernel for all solutions that want sums (on = 1), or move (on = 0)."""
        across, side = (*grid, 1)[:2]
        numbers = (np.int32(x) if isinstance(x, int) else x for x in arguments)
        kernel((across, side, self.solutions), (threads,), (self.on.device[on], *numbers), shared)

    def _by_parts(self, kernel: Kernel, arguments: tuple, into: Sums, scalars: int) -> None:
        """Let a kernel work with a thread a sample, and sum up its terms in parts of a block."""
        self._launch(kernel, (self.blocks * self.parts,), self.part, (
            self.count, self.width, self.block, self.parts, into.columns, *arguments, into.partial),
            8 * scalars * (self.part // WARP))

    def _evaluate(self, present: Any, state: SampleState, found: tuple[Any, ...], into: Sums) -> None:
        """The loss of every sample in a state, and sums of its terms in the averages. found: arrays that `fields` writes."""
        self._by_parts(self.fields[self.experiment.loss_n[self.n]], (
            self.span, present, state.weight, state.tangent_index, state.k, state.y, state.sd, self.slope,
            self.direct, state.h, state.s, state.Y, self.response, *found), into, SCALARS)

    @property
    def _at_weights(self) -> Any:
        """The second struct Present of every solution."""
        return self.present.device.reshape(-1)[len(PRESENT.names or ()) :]

    def sum(self) -> None:
        """The sums of row n, after `add_responses`."""
        state = self.state
        found = self.g, self.gp, self.g_y, self.weighted_g, self.bound, self.ends
        self._evaluate(self.present.device, state, found, self.row)
        if self.at_weights:
            weights = state._replace(h=self.h_at_weights, s=state.s.copy(), Y=state.Y.copy())
            unused = self.gpu.zeros((self.solutions, self.width))
            self._evaluate(self._at_weights, weights, (*[unused] * 4, self.bound.copy(), self.ends.copy()), self.sums_at_weights)
            for name in (LOSSES, WRONG):
                self.row.partial[..., name] = self.sums_at_weights.partial[..., name]
        if self.averages:
            self._average()
        self._sum_past(SCALARS, self.weighted_g, self.bound, self.ends, self.row)

    def add_responses(self) -> None:
        """What the tangents of row n respond with in all."""
        warps = 4 * self.tiling.warps
        self._launch(self.kernel["response_totals"], (-(-self.carriers // ACROSS),), WARP * warps, (
            self.carriers, self.span, self.slots, self.rows[self.n % 2], self.response), 16 * ACROSS * warps)

    def _average(self) -> None:
        """The sums that observables average."""
        state, into = self.state, self.averaged
        present, h = (self._at_weights, self.h_at_weights) if self.at_weights else (self.present.device, state.h)
        self._by_parts(self.kernel["averages"], (present, state.weight, state.k, state.y, state.sd, h, state.s), into, into.columns)
        self._add_parts(into)

    def _add_parts(self, into: Sums) -> None:
        self.kernel["add_parts"]((self.blocks, 1, self.solutions), (min(-(-into.columns // WARP) * WARP, 512),), (
            self.all, np.int32(self.parts), np.int32(into.columns), into.partial, into.sums.device), 0)
        into.sums.fetch()

    def _sum_past(self, scalars: int, weighted_g: Any, bound: Any, ends: Any, into: Sums) -> None:
        """The sums of the last two terms, and over the past with the weights weighted_g and bound."""
        blocks, parts, warps = self.blocks, self.parts, self.tiling.warps
        side = min(max(self.tiling.spread // max(self.solutions * blocks * parts * warps, 1), 1), -(-self.slots // warps))
        self._launch(self.kernel["row_sums"], (blocks * parts, side), WARP * warps, (
            self.count, self.width, self.span, self.block, parts, self.slots, scalars, self.held, self.cut, weighted_g, bound, ends,
            self.past.G, self.rows[self.n % 2], self.past.H, into.partial))
        if not self.steps:  # which add up the parts themselves
            self._add_parts(into)

    def _overlap_sums(self) -> Sums:
        """Sums with the weight k^2, of random starts; after those of the row."""
        if self.overlaps is None:
            sums = Sums(self.gpu, self.solutions, OVERLAP_SCALARS + GROUPS * self.slots, self.blocks, self.parts)
            shapes = self.width, self.span, (2, self.span)
            self.overlaps = *(self.gpu.zeros((self.solutions, *np.atleast_1d(shape))) for shape in shapes), sums
        self.queue.run(("overlaps", self.n % 2), self._launch_overlaps)
        self.queue.wait()
        return self.overlaps[-1]

    def _launch_overlaps(self) -> None:
        """All launches of `overlap_sums`."""
        assert self.overlaps
        state, (weighted_g, bound, ends, sums) = self.state, self.overlaps
        self._by_parts(self.kernel["overlap_terms"], (
            self.span, state.weight, state.tangent_index, state.k, state.h, self.g, self.gp, self.bound, self.ends,
            weighted_g, bound, ends), sums, OVERLAP_SCALARS)
        self._sum_past(OVERLAP_SCALARS, weighted_g, bound, ends, sums)

    def _moves(self, name: str, grid: tuple[int, ...], threads: int, arguments: tuple, shared: int = 0) -> None:
        """Launch a kernel for all solutions that move."""
        self._launch(self.kernel[name], grid, threads, arguments, shared, on=0)

    def next_tangents(self) -> None:
        """The next row of tangents: from step n - 1 to n."""
        shares, slots = self.row_shares, self.slots
        warps = shares if shares > 1 else self.tiling.warps
        self._moves("next_tangents", (-(-self.carriers * shares // (ACROSS * warps)), slots), WARP * warps, (
            *self._of_tangents, self.device_plan, self.rates.device, self.offset, self.carrier, self.gp, self.T, *self._rows),
            max(HELD_BYTES * (slots + self.tiling.rows_ahead * shares), self.T.itemsize * ACROSS * shares))

    def merge_tangents(self, merging: bool) -> None:
        """The present row of tangents into the past, some blocks of which may merge; the next row comes before."""
        threads, step, table = WARP * self.tiling.warps, self.device_plan, (self.offset, self.stop)
        across, arrays = -(-self.carriers // (FOUR * threads)), (self.T, *self._rows)
        if merging:
            self._moves("merge_columns", (across, self.slots + 2), threads, (*self._of_tangents[2:], step, *table, *arrays))
        self._moves("merge_rows", (across, self.slots), threads, (
            *self._of_tangents, step, self.rates.device, *table, self.carrier, self.gp, *arrays))

    @property
    def _of_tangents(self) -> tuple[int, ...]:
        """Sizes that their kernels are told."""
        return self.carriers, self.width, self.span, self.slots, self.packed

    @property
    def _rows(self) -> tuple[Any, Any]:
        """The present row of tangents, and the next."""
        return self.rows[(self.n - 1) % 2], self.rows[self.n % 2]

    def move(self) -> None:
        """The rest of the samples, from step n - 1 to n."""
        state, past, slots = self.state, self.past, self.slots
        self._moves("move", (-(-self.count // ACROSS),), WARP * MOVERS, (
            self.count, self.width, slots, self.device_plan, self.rates.device, self.keys, state.batch_index, state.noise_index,
            state.sign, self.z_steps, self.z, self.known, self.changes, self.g, self.gp, self.g_y, state.h, state.s, past.H, past.G,
            past.X, state.Y, past.Y), max(HELD_BYTES * (slots + self.tiling.ahead * MOVERS), 8 * 3 * ACROSS * MOVERS))
