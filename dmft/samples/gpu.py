"""Samples on a GPU: the same operations as process.Samples, with the sources in dmft/samples/cuda/march.cu.

The card holds everything that has one line per sample; the host keeps the kernels' small linear algebra (equations/weights.py),
which is a few hundred numbers wide and would not keep a card busy. A step transfers data twice: the sums of row n go to the
host, what drives the samples comes back. Neither holds up the host: it turns to another solution while the card works on this one
(solvers/blocks.py). Random numbers are those of the CPU, so results differ by rounding alone. Arrays over slots have the sample as
their last index here, and as their first in a checkpoint, as on the CPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dmft.core.cuda_numbers import defines, enum
from dmft.core.device import CUDA, WARP, Gpu, Kernel, source
from dmft.core.errors import RunError
from dmft.core.to_cuda import CudaFunctions
from dmft.equations import random_start, rows
from dmft.equations.history import NONE, History, Plan
from dmft.equations.random_start import OVERLAP_SCALARS
from dmft.equations.rows import GROUPS, SCALARS, WRONG, V
from dmft.equations.weights import Drive
from dmft.model.channels import SMOOTH
from dmft.model.cuda_loss import averages_source, loss_source
from dmft.model.experiment import Experiment
from dmft.model.minibatches import cuda_source
from dmft.model.sample_averages import averages
from dmft.samples.lost import GONE, leaves
from dmft.samples.nesterov import AtWeights
from dmft.samples.sampling import Draws, Sampling, lines_of
from dmft.samples.state import Past, SampleState, by_name
from dmft.samples.tangents import OVERSHOOT, Bounds, Tangents

CUDA_KERNELS = ("fields", "bounds", "overlap_terms", "row_sums", "add_parts", "move", "next_tangents", "merge_columns",
                "merge_rows")
BLOCKS = 32  # most blocks of samples; their sums are added on the host, over all ranks, exactly
FOUR = 4  # samples that a thread loads at once; blocks of samples have a multiple of these
ACROSS = FOUR * WARP  # samples of a warp
MOVERS = 2 * FOUR  # warps of a block of threads of `move`: two threads a sample
HELD_BYTES = 24  # of shared memory for a slot of the past that holds something: structs Held and Pull of march.cu
MARCH = Path(__file__).parent / "cuda" / "march.cu"
SAMPLE_SOURCE = MARCH.with_name("common.cuh")
# Columns of the sums over samples, but for the last two, which march.cu adds up by itself; one that is not filled is no number.
CUDA_COLUMNS = "#define UNFILLED (0.0 / 0.0)\n" + "\n".join(
    enum({name: getattr(module, name) for name in names}) for module, names in (
        (rows, ("GP", "GK", "V", "GH", "GG", "LABEL", "WILD", "UNSTABLE", "WRONG", "PUSH", "LOST", "CARRIED")),
        (random_start, ("CURVATURE", "SQUARE", "FIELD", "NOISE"))))


class Tiling(NamedTuple):
    """How the work of a step is cut up for a card. It changes results by rounding alone."""

    own: int = 4  # fours of samples that a thread sums up: a part of a block has at most own x 128 samples; 8 at most
    ahead: int = 2  # slots of the past, of four samples, that a thread loads before it uses them
    rows_ahead: int = 8  # rows of tangents, of four samples, that a thread loads before it uses them
    warps: int = 4  # warps of a block of threads, 8 at most
    spread: int = 10_000  # warps that sum up the rows side by side, about: enough that those which finish last cost little


TILING = Tiling()


class Sums:
    """Sums over the samples of every part of a block, and of every block, on the card; the latter on the host too."""

    def __init__(self, gpu: Gpu, columns: int, blocks: int, parts: int):
        self.columns, self.partial, self.sums = columns, gpu.zeros((blocks, parts, columns)), gpu.mirror((blocks, columns))


def over(threads: int, block: int) -> tuple[tuple[int], tuple[int]]:
    """Grid and block of a kernel with that many threads."""
    return (-(-threads // block),), (block,)


def whole_lines(count: int) -> int:
    """Numbers of a line of an array over slots: its samples, rounded up so that every line begins with a line of memory."""
    return -(-count // WARP) * WARP


class OnDevice(Mapping):
    """The arrays of `count` samples by name, with a line per sample; each is copied to the host when it is read, because they may
    be large. On the card the sample is the last index, and lines may be longer than there are samples."""

    def __init__(self, gpu: Gpu, arrays: dict, count: int):
        self._gpu, self._arrays, self._count = gpu, arrays, count

    def __getitem__(self, name: str) -> np.ndarray:
        return np.ascontiguousarray(np.moveaxis(self._gpu.get(self._arrays[name])[..., : self._count], -1, 0))

    def fill(self, name: str, values: np.ndarray) -> None:
        """Overwrite one of the arrays by values with a line per sample."""
        array = self._arrays[name]
        lines = np.zeros(array.shape, array.dtype)
        lines[..., : self._count] = np.moveaxis(values, 0, -1)
        self._gpu.fill(array, lines)

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)


class GpuSamples:
    """A range of samples of one replica at step n, on a card. dtype: as of Samples."""

    def __init__(self, gpu: Gpu, experiment: Experiment, history: History, draws: Draws, weight: np.ndarray, block: int,
                 sampling: Sampling, dtype=np.float64, tiling: Tiling = TILING):
        count, slots = len(draws.h), history.slots
        most = gpu.shared_bytes // HELD_BYTES - max(tiling.rows_ahead, tiling.ahead * MOVERS)
        if slots > most:
            raise RunError(f'[theory] device = "gpu": a history of {slots} steps one by one is too long for this card, which takes '
                           f'{most}; take history = "dyadic", or device = "cpu"')
        self.gpu, self.experiment, self.history, self.block, self.keys = gpu, experiment, history, block, sampling.keys
        self.tiling, self.averages = tiling, averages(experiment.observables)
        self.stein, self.identity = sampling.stein and experiment.stein and experiment.data.control == SMOOTH, sampling.identity
        assert block % FOUR == 0  # fours of samples lie in one block
        assert tiling.own <= 8 and tiling.warps <= 8  # a block of threads has 1024 at most
        self.count, self.slots, self.blocks = count, slots, -(-count // block)
        self.width = whole_lines(count)
        own = min(tiling.own, -(-block // ACROSS))
        self.part = own * ACROSS  # samples
        self.parts = -(-block // self.part)
        self.n = 0
        kind = "float" if np.dtype(dtype) == np.float32 else "double"
        numbers = {"STEIN": int(self.stein), "IDENTITY": int(self.identity), "SCALARS": SCALARS, "GROUPS": GROUPS,
                   "OVERLAP_SCALARS": OVERLAP_SCALARS, "OVERSHOOT": OVERSHOOT, "LOST_STEP": sampling.estimator.lost_step,
                   **{name.upper(): value for name, value in Bounds.of(sampling.estimator)._asdict().items()},
                   "GONE": GONE, "NONE": NONE, "LANES": WARP, "FOUR": FOUR, "ACROSS": ACROSS,
                   "MOVERS": MOVERS, "HELD_BYTES": HELD_BYTES, "OWN": own, "AHEAD": tiling.ahead, "ROWS_AHEAD": tiling.rows_ahead}
        formulas = "\n".join((source(CUDA / "philox.cuh"), cuda_source(), CudaFunctions().add(leaves).text, CUDA_COLUMNS,
                              f"typedef {kind} stored;", defines(numbers), averages_source(self.averages)))
        sources = ["\n".join((loss_source(loss), formulas, source(SAMPLE_SOURCE), source(MARCH))) for loss in experiment.losses]
        self.kernel = gpu.kernels(sources[0], CUDA_KERNELS + (("averages",) if self.averages else ()))
        self.fields = [self.kernel["fields"], *(gpu.kernels(text, ("fields",))["fields"] for text in sources[1:])]
        start = {**draws._asdict(), **{name: getattr(draws, name).astype(np.int64) for name in ("name", "noise_name")},
                 "weight": weight, "Y": np.zeros(count), "line": lines_of(draws.carrier).astype(np.int64)}
        self.state = SampleState(*(gpu.put(start[name]) for name in SampleState._fields))
        self.slope, self.direct = gpu.put(np.ascontiguousarray(draws.slope)), gpu.put(draws.jump + weight * draws.shift)
        self.past = Past(H=gpu.zeros((slots, self.width), dtype), G=gpu.zeros((slots, self.width)),
                         X=gpu.zeros((slots, self.width), dtype), Y=gpu.zeros((slots if self.stein else 0, self.width), dtype))
        carriers = np.flatnonzero(draws.carrier)
        self.carriers, self.carrier, self.span = len(carriers), gpu.put(carriers), whole_lines(len(carriers))
        # Where the samples with tangents of each block begin among all of them.
        self.cut = gpu.put(np.searchsorted(carriers, block * np.arange(self.blocks + 1)).astype(np.int32))
        self.T = gpu.zeros((history.packed, self.span), dtype)
        self.rows = [gpu.zeros((slots, self.span), dtype) for _ in range(2)]  # row n of the tangents is in rows[n % 2]
        self.z = gpu.put(np.ascontiguousarray(draws.z))
        self.z_steps = draws.z.shape[1]
        self.changes, self.known = gpu.put(np.ascontiguousarray(draws.changes)), draws.changes.shape[1]
        self.offset, self.stop = gpu.put(history.offset.astype(np.int32)), gpu.put(history.stop.astype(np.int32))
        self.g, self.gp, self.g_y, self.pull = (gpu.zeros(self.width) for _ in range(4))
        self.bound, self.ends = gpu.zeros(self.carriers), gpu.zeros((2, self.carriers))
        self.row = Sums(gpu, SCALARS + GROUPS * slots, self.blocks, self.parts)
        self.averaged = Sums(gpu, len(self.averages), self.blocks if self.averages else 0, self.parts)
        self._begun: tuple[float, float, float] | None = None  # arguments of a `begin_sums` that `row_sums` has not asked for yet
        self.queue = gpu.queue()
        self.present = gpu.mirror((2, 4))  # struct Present of march.cu; with Nesterov's momentum, that of the weights too
        self.rates = gpu.mirror(8 + 2 * slots)  # struct Rates, memory, chi_weights
        self.plan = gpu.mirror(8 + 2 * slots + 3 * history.levels, np.int64)  # struct Step, order, merges, held slots
        self.held = self.plan.device[-slots:]
        self._note_held()
        self.plan.send()
        self.overlaps: tuple | None = None  # arrays of `overlap_sums`, made when first asked for
        self.at_weights = AtWeights(gpu.put(draws.h), gpu.zeros(count), gpu.zeros((slots, self.span), dtype).T) \
            if experiment.update.looks_ahead else None
        self.sums_at_weights = Sums(gpu, SCALARS, self.blocks if self.at_weights else 0, self.parts)  # at the weights

    def _by_parts(self, kernel: Kernel, counts: tuple[int, ...], arguments: tuple, into: Sums, scalars: int) -> None:
        """Let a kernel work with a thread a sample, and sum up its terms in parts of a block."""
        kernel((self.blocks * self.parts,), (self.part,), (
            *(np.int32(x) for x in (*counts, self.block, self.parts, into.columns)), *arguments, into.partial),
            8 * scalars * (self.part // WARP))

    @property
    def tangents(self) -> Tangents:
        """The tangents at step n."""
        return Tangents(self.T, self.rows[self.n % 2])

    def _evaluate(self, present, state: SampleState, g, gp, g_y, pull, into: Sums) -> None:
        """The loss of every sample in a state, and sums of its terms in the averages."""
        e = self.experiment
        self._by_parts(self.fields[e.loss_n[self.n]], (self.count,), (
            present, state.weight, state.line, state.k, state.y, state.sd, self.slope,
            self.direct, state.h, state.s, state.Y, g, gp, g_y, pull), into, SCALARS)

    def begin_sums(self, m: float, b: float = 0.0, m_w: float = 0.0) -> None:
        """Let the card begin with what `row_sums` will be asked for."""
        e, step = self.experiment, min(self.n, self.experiment.steps - 1)
        eta, scale = e.eta_n[step], e.scale_n[step]
        self.present.host[0] = m, b, eta, scale
        self.present.host[1] = m_w, b, eta, scale
        self.queue.run(("sums", int(e.loss_n[self.n]), self.n % 2), self._sums, record=not self.at_weights)
        self._begun = m, b, m_w

    def _sums(self) -> None:
        """All launches of `begin_sums`."""
        state = self.state
        self.present.send()
        self._evaluate(self.present.device, state, self.g, self.gp, self.g_y, self.pull, self.row)
        if self.at_weights:
            weights = state._replace(h=self.at_weights.h, s=state.s.copy(), Y=state.Y.copy())
            unused = self.gpu.zeros(self.count)
            self._evaluate(self.present.device[1:], weights, unused, unused, unused, unused, self.sums_at_weights)
            for name in (V, WRONG):
                self.row.partial[..., name] = self.sums_at_weights.partial[..., name]
        if self.averages:
            self._average()
        warps = 4 * self.tiling.warps
        self.kernel["bounds"]((-(-self.carriers // ACROSS),), (WARP * warps,), (
            *(np.int32(x) for x in (self.carriers, self.span, self.slots)), self.carrier, state.weight, self.gp, self.tangents.row,
            self.bound, self.ends), 16 * ACROSS * warps)
        self._sum_up(SCALARS, self.pull, self.bound, self.ends, self.row)

    def _average(self) -> None:
        """The launches of `averaged_sums`."""
        state, into = self.state, self.averaged
        present, h = (self.present.device[1:], self.at_weights.h) if self.at_weights else (self.present.device, state.h)
        self._by_parts(self.kernel["averages"], (self.count,), (
            present, state.weight, state.k, state.y, state.sd, h, state.s), into, into.columns)
        self._add_parts(into)

    def _add_parts(self, into: Sums) -> None:
        self.kernel["add_parts"]((self.blocks,), (min(-(-into.columns // WARP) * WARP, 512),), (
            np.int32(self.parts), np.int32(into.columns), into.partial, into.sums.device), 0)
        into.sums.fetch()

    def _sum_up(self, scalars: int, pull, bound, ends, into: Sums) -> None:
        """Let the card begin with the sums of the last two terms, and over the past with the weights pull and bound."""
        blocks, parts, warps = self.blocks, self.parts, self.tiling.warps
        side = min(max(self.tiling.spread // max(blocks * parts * warps, 1), 1), -(-self.slots // warps))
        sizes = self.count, self.carriers, self.width, self.span, self.block, parts, self.slots, scalars
        self.kernel["row_sums"]((blocks * parts, side), (WARP * warps,), (
            *(np.int32(x) for x in sizes), self.held, self.cut, pull, bound, ends, self.past.G, self.tangents.row, self.past.H,
            into.partial), 0)
        self._add_parts(into)

    def row_sums(self, m: float, b: float = 0.0, m_w: float = 0.0) -> np.ndarray:
        """As Samples.row_sums; the array is overwritten by the next sums."""
        if self._begun != (m, b, m_w):
            self.queue.wait()
            self.begin_sums(m, b, m_w)
        self._begun = None
        self.queue.wait()
        return self.row.sums.host

    def averaged_sums(self, m: float, b: float = 0.0, m_w: float = 0.0) -> np.ndarray:
        """As Samples.averaged_sums; made together with those of `row_sums`."""
        return self.averaged.sums.host

    def overlap_sums(self) -> np.ndarray:
        """As Samples.overlap_sums."""
        if self.overlaps is None:
            sums = Sums(self.gpu, OVERLAP_SCALARS + GROUPS * self.slots, self.blocks, self.parts)
            shapes = self.width, self.carriers, (2, self.carriers)
            self.overlaps = *(self.gpu.zeros(shape) for shape in shapes), sums
        self.queue.run(("teacher", self.n % 2), self._teacher)
        self.queue.wait()
        return self.overlaps[-1].sums.host

    def _teacher(self) -> None:
        """All launches of `overlap_sums`."""
        assert self.overlaps
        state, (pull, bound, ends, sums) = self.state, self.overlaps
        self._by_parts(self.kernel["overlap_terms"], (self.count, self.carriers), (
            state.weight, state.line, state.k, state.h, self.g, self.gp, self.bound, self.ends, pull, bound, ends), sums,
            OVERLAP_SCALARS)
        self._sum_up(OVERLAP_SCALARS, pull, bound, ends, sums)

    def advance(self, drive: Drive, plan: Plan) -> None:
        """As Samples.advance."""
        e, slots, order = self.experiment, self.slots, self.order
        chain, used = e.batches.chain(self.n), self.history.stop[plan.slot]
        rates = self.rates.host
        rates[:8] = (e.eta_n[self.n], drive.a, drive.keep, drive.chi_sd, drive.thermal, chain.fraction, chain.p_on, chain.p_off)
        rates[8 : 8 + slots], rates[8 + slots :] = drive.memory, drive.chi_weights
        lines, merges = self.plan.host, len(plan.merges)
        lines[:8] = len(order), used, merges, plan.slot, self.n, chain.kind, chain.period, chain.begin
        lines[8 : 8 + len(order)] = order
        lines[8 + slots : 8 + slots + 3 * merges] = plan.merges.ravel()
        self._note_held()
        self.queue.run(("step", merges > 0, self.n % 2), partial(self._step, merges > 0), record=not self.at_weights)
        self.n += 1
        if self.at_weights:
            beta = e.update.lookahead(self.n)
            self.at_weights.look_ahead(self.state.h, self.state.Y, self.tangents.row.T, plan.merges, beta, drive.drift)

    def _note_held(self) -> None:
        """Write down which slots hold something now, for the sums of this step and for the step after it."""
        self.order = self.history.order  # before the next step
        held = self.plan.host[-self.slots :]
        held[: len(self.order)], held[len(self.order) :] = self.order, -1 - np.flatnonzero(self.history.size == 0)

    def _step(self, merging: bool) -> None:
        """All launches of `advance`."""
        state, past, (T, row), coming = self.state, self.past, self.tangents, self.rows[(self.n + 1) % 2]
        self.plan.send()
        self.rates.send()
        count, width, slots = np.int32(self.count), np.int32(self.width), np.int32(self.slots)
        sizes = np.int32(self.carriers), np.int32(self.span), slots
        step, rates, tiling = self.plan.device, self.rates.device, self.tiling
        (across,), threads = over(-(-self.carriers // FOUR), WARP * tiling.warps)
        self.kernel["next_tangents"]((across, self.slots), threads, (
            *sizes, step, rates, self.offset, self.carrier, self.gp, T, row, coming), HELD_BYTES * (self.slots + tiling.rows_ahead))
        if merging:
            self.kernel["merge_columns"]((across, self.slots + 2), threads, (
                *sizes[1:], step, self.offset, self.stop, T, row, coming), 0)
        self.kernel["merge_rows"]((across, self.slots), threads, (
            *sizes, step, rates, self.offset, self.stop, self.carrier, self.gp, T, row, coming), 0)
        self.kernel["move"]((-(-self.count // ACROSS),), (WARP * MOVERS,), (
            count, width, slots, step, rates, *self.keys, state.name, state.noise_name, state.sign, np.int32(self.z_steps),
            self.z, np.int32(self.known), self.changes, self.g, self.gp, self.g_y, state.h, state.s, past.H, past.G, past.X,
            state.Y, past.Y), max(HELD_BYTES * (self.slots + tiling.ahead * MOVERS), 8 * 3 * ACROSS * MOVERS))

    def own(self) -> OnDevice:
        """As Samples.own, so that a checkpoint continues on either device. What merged blocks left in the past is cleared on the
        card before: on the CPU slots that hold nothing are zero."""
        for array in self.past:
            array[np.flatnonzero(self.history.size[: len(array)] == 0)] = 0.0
        return self._own()

    def _own(self) -> OnDevice:
        behind = self.at_weights.arrays() if self.at_weights else {}
        return OnDevice(self.gpu, by_name(self.state, self.past) | behind, self.count)

    def carried(self) -> OnDevice:
        """As Samples.carried, but rows of tangents that hold nothing any more keep what they had: they have no weight."""
        behind = {"behind": self.at_weights.row.T} if self.at_weights else {}
        return OnDevice(self.gpu, self.tangents._asdict() | behind, self.carriers)

    def restore(self, own: Mapping[str, np.ndarray], carried: Mapping[str, np.ndarray], n: int) -> None:
        """As Samples.restore."""
        self.queue.wait()
        self.n, self._begun = n, None
        for mine, stored in ((self._own(), own), (self.carried(), carried)):
            for name in mine:
                mine.fill(name, stored[name])
        self.rows[(n + 1) % 2][...] = 0.0
        self._note_held()
        self.plan.send()
