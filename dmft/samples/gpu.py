"""Samples on a GPU: the same operations as process.Samples, with the sources in dmft/samples/cuda/march.cu.

The card holds everything that has one line per sample; the host keeps the kernels' small linear algebra (equations/weights.py),
which is a few hundred numbers wide and would not keep a card busy. A step transfers data twice: the sums of row n go to the
host, what drives the samples comes back. Neither holds up the host: it turns to another solution while the card works on this one
(solvers/blocks.py). Random numbers are those of the CPU, so results differ by rounding alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dmft.core.device import CUDA, Gpu, source
from dmft.core.errors import RunError
from dmft.equations.history import History, Plan
from dmft.equations.random_start import TEACHER_GROUPS, TEACHER_SCALARS
from dmft.equations.rows import GROUPS, SCALARS, WRONG, V
from dmft.equations.weights import Drive
from dmft.model.experiment import Experiment
from dmft.model.minibatches import cuda_source
from dmft.model.teacher import SMOOTH
from dmft.samples.lost import GONE, LEAVES
from dmft.samples.nesterov import Behind
from dmft.samples.sampling import Draws, Sampling, lines_of
from dmft.samples.state import Past, SampleState, by_name
from dmft.samples.tangents import BOUND, MOST, STABLE, TINY, WIDE, Tangents

KERNELS = ("fields", "row_sums", "teacher_sums", "add_parts", "past", "bounds", "next_tangents", "merge_columns", "merge_rows",
           "move")
BLOCKS = 32  # most blocks of samples; their sums are added on the host, over all ranks, exactly
PARTS = 32  # parts of a block, which the card sums side by side
PULL_BYTES = 16  # size of struct Pull in march.cu, at most
MARCH = Path(__file__).parent / "cuda" / "march.cu"


class Tiling(NamedTuple):
    """How the work of a step is cut up for a card. It changes results by rounding alone."""

    warps: int = 8  # samples of a block of threads, one for each warp of 32 threads
    aligned: int = 32  # columns of tangents are read from a multiple of this on
    columns: int = 7  # columns of tangents that a thread adds up at a time


TILING = Tiling()


def over(threads: int, block: int = 256) -> tuple[tuple[int], tuple[int]]:
    """Grid and block of a kernel with that many threads."""
    return (-(-threads // block),), (block,)


class OnDevice(Mapping):
    """The arrays of some samples by name; each is copied to the host when it is read, because they may be large."""

    def __init__(self, gpu: Gpu, arrays: dict):
        self._gpu, self._arrays = gpu, arrays

    def __getitem__(self, name: str) -> np.ndarray:
        return self._gpu.get(self._arrays[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)


class GpuSamples:
    """A range of samples of one replica at step n, on a card."""

    def __init__(self, gpu: Gpu, experiment: Experiment, history: History, draws: Draws, weight: np.ndarray, block: int,
                 sampling: Sampling, dtype=np.float64, tiling: Tiling = TILING):
        count, slots = len(draws.h), history.slots
        if PULL_BYTES * slots > gpu.shared_bytes:
            raise RunError(f'[theory] device = "gpu": a history of {slots} steps one by one is too long for this card, which takes '
                           f'{gpu.shared_bytes // PULL_BYTES}; take history = "dyadic", or device = "cpu"')
        self.gpu, self.experiment, self.history, self.block, self.keys = gpu, experiment, history, block, sampling.keys
        self.tiling = tiling
        self.stein, self.identity = sampling.stein and experiment.stein and experiment.data.control == SMOOTH, sampling.identity
        self.count, self.slots, self.blocks = count, slots, -(-count // block)
        self.part = -(-block // PARTS)
        self.parts = -(-block // self.part)
        self.n = 0
        kind = "float" if np.dtype(dtype) == np.float32 else "double"
        numbers = {"SCALARS": SCALARS, "GROUPS": GROUPS, "TEACHER_SCALARS": TEACHER_SCALARS, "TEACHER_GROUPS": TEACHER_GROUPS,
                   "TINY": TINY, "STABLE": STABLE, "BOUND": BOUND, "MOST": MOST, "WIDE": WIDE, "LEAVES": LEAVES, "GONE": GONE,
                   "COLUMNS": tiling.columns}
        sources = ["\n".join((source(CUDA / "philox.cuh"), cuda_source(), loss.cuda, f"typedef {kind} tangent;",
                              *(f"#define {name} {value}" for name, value in numbers.items()), source(MARCH)))
                   for loss in experiment.losses]
        self.kernel = gpu.kernels(sources[0], KERNELS)
        self.fields = [self.kernel["fields"], *(gpu.kernels(text, ("fields",))["fields"] for text in sources[1:])]
        start = {**draws._asdict(), "name": draws.name.astype(np.int64), "weight": weight, "Y": np.zeros(count),
                 "line": lines_of(draws.carrier).astype(np.int64)}
        self.state = SampleState(*(gpu.put(start[name]) for name in SampleState._fields))
        self.slope, self.direct = gpu.put(np.ascontiguousarray(draws.slope)), gpu.put(draws.jump + weight * draws.shift)
        self.past = Past(*(gpu.zeros((count, width)) for width in (slots, slots, slots, slots if self.stein else 0)))
        carriers = np.flatnonzero(draws.carrier)
        self.carriers, self.carrier = len(carriers), gpu.put(carriers)
        self.tangents = Tangents(gpu.zeros((self.carriers, history.packed), dtype), gpu.zeros((self.carriers, slots), dtype))
        self.z = gpu.put(np.ascontiguousarray(draws.z))
        self.z_steps = draws.z.shape[1]
        self.changes, self.known = gpu.put(np.ascontiguousarray(draws.changes)), draws.changes.shape[1]
        self.offset, self.stop = gpu.put(history.offset.astype(np.int32)), gpu.put(history.stop.astype(np.int32))
        self.g, self.gp, self.g_y = (gpu.zeros(count) for _ in range(3))
        self.terms, self.dots, self.bound = gpu.zeros((SCALARS, count)), gpu.zeros((3, count)), gpu.zeros(count)
        self.partial = gpu.zeros((self.blocks, self.parts, SCALARS + GROUPS * slots))
        self.sums = gpu.mirror((self.blocks, SCALARS + GROUPS * slots))
        self._begun: tuple[float, float, float] | None = None  # arguments of a `begin_sums` that `row_sums` has not asked for yet
        self.vectors = gpu.mirror((2, slots))
        self.plan = gpu.mirror((slots + history.levels, 3), np.int32)  # rows of tangents that contribute, then merges
        self.merges = self.plan.device[slots:]
        self.next = gpu.zeros((self.carriers, slots), dtype)
        self.teacher: tuple | None = None  # arrays of `teacher_sums`, made when first asked for
        self.behind = Behind(gpu.put(draws.h), gpu.zeros(count), gpu.zeros((self.carriers, slots), dtype)) \
            if experiment.update.nesterov else None

    def _evaluate(self, m: float, b: float, state: SampleState, g, gp, g_y, terms) -> None:
        """The loss of every sample in a state with overlap m, and its terms in the averages."""
        e, step = self.experiment, min(self.n, self.experiment.steps - 1)
        self.fields[e.loss_n[self.n]](*over(self.count), (
            np.int32(self.count), np.float64(m), np.float64(b), np.float64(e.eta_n[step]), np.float64(e.scale_n[step]),
            np.float64(e.data.loss.threshold), np.int32(self.stein), state.weight, state.line, state.k, state.y, state.sd,
            self.slope, self.direct, state.h, state.s, state.Y, g, gp, g_y, terms), 0)

    def begin_sums(self, m: float, b: float = 0.0, m_w: float = 0.0) -> None:
        """Let the card begin with what `row_sums` will be asked for."""
        state, columns = self.state, SCALARS + GROUPS * self.slots
        self._evaluate(m, b, state, self.g, self.gp, self.g_y, self.terms)
        if self.behind:
            weights = state._replace(h=self.behind.h, s=state.s.copy(), Y=state.Y.copy())
            terms, unused = self.gpu.zeros((SCALARS, self.count)), self.gpu.zeros(self.count)
            self._evaluate(m_w, b, weights, unused, unused, unused, terms)
            for name in (V, WRONG):
                self.terms[name] = terms[name]
        self.kernel["bounds"](*over(32 * self.carriers), (
            np.int32(self.carriers), np.int32(self.slots), np.int32(self.count), np.int32(self.identity), self.carrier,
            state.weight, self.gp,
            self.tangents.row, self.bound, self.terms), 0)
        width = min(-(-columns // 32) * 32, 512)
        self.kernel["row_sums"]((self.blocks, self.parts), (width,), (
            np.int32(self.count), np.int32(self.block), np.int32(self.part), np.int32(self.slots), np.int32(self.identity),
            state.weight, state.line, self.g, self.bound, self.terms, self.past.G, self.tangents.row, self.past.H,
            self.partial), 0)
        self.kernel["add_parts"]((self.blocks,), (width,), (
            np.int32(self.parts), np.int32(columns), self.partial, self.sums.device), 0)
        self.sums.fetch()
        self._begun = m, b, m_w

    def row_sums(self, m: float, b: float = 0.0, m_w: float = 0.0) -> np.ndarray:
        """As Samples.row_sums; the array is overwritten by the next sums."""
        if self._begun != (m, b, m_w):
            self.begin_sums(m, b, m_w)
        self._begun = None
        return self.sums.wait()

    def teacher_sums(self) -> np.ndarray:
        """As teacher_sums.teacher_sums, after `row_sums`."""
        state, columns = self.state, TEACHER_SCALARS + TEACHER_GROUPS * self.slots
        if self.teacher is None:
            self.teacher = self.gpu.zeros((self.blocks, self.parts, columns)), self.gpu.zeros((self.blocks, columns))
        partial, sums = self.teacher
        width = min(-(-columns // 32) * 32, 512)
        self.kernel["teacher_sums"]((self.blocks, self.parts), (width,), (
            np.int32(self.count), np.int32(self.block), np.int32(self.part), np.int32(self.slots), np.int32(self.identity),
            state.weight, state.line, state.k, state.h, self.g, self.gp, self.bound, self.terms, self.past.G, self.tangents.row,
            self.past.H, partial), 0)
        self.kernel["add_parts"]((self.blocks,), (width,), (np.int32(self.parts), np.int32(columns), partial, sums), 0)
        return self.gpu.get(sums)

    def advance(self, drive: Drive, plan: Plan) -> None:
        """As Samples.advance."""
        state, past, tangents, history = self.state, self.past, self.tangents, self.history
        used = int(history.stop[plan.slot])
        warps, aligned = self.tiling.warps, self.tiling.aligned
        begin = int(history.order.min()) // aligned * aligned
        rows = np.flatnonzero(drive.memory)  # the other rows are empty, or do not contribute
        lines = self.plan.host
        lines[: len(rows), 0], lines[: len(rows), 1], lines[: len(rows), 2] = rows, history.offset[rows], history.stop[rows]
        lines[self.slots : self.slots + len(plan.merges)] = plan.merges
        self.plan.send()
        self.vectors.host[0], self.vectors.host[1] = drive.memory, drive.chi_weights
        self.vectors.send()
        packed, chain = np.int64(history.packed), self.experiment.batches.chain(self.n)
        rates = (*(np.float64(rate) for rate in (chain.fraction, chain.p_on, chain.p_off)),
                 np.int64(chain.period), np.int64(chain.begin))
        eta, scale, keep = np.float64(self.experiment.eta_n[self.n]), np.float64(drive.a), np.float64(drive.keep)
        count, carriers, slots, slot, stein, merges = (
            np.int32(x) for x in (self.count, self.carriers, self.slots, plan.slot, self.stein, len(plan.merges)))
        columns = np.int32(begin), np.int32(used)
        self.kernel["past"]((-(-self.count // warps),), (32 * warps,), (
            count, slots, *columns, stein, self.vectors.device, self.dots, past.H, past.X, past.Y), 0)
        self.kernel["next_tangents"]((-(-self.carriers // warps),), (32 * warps,), (
            carriers, slots, *columns, packed, eta, scale, keep, np.int32(len(rows)), self.plan.device, self.vectors.device,
            self.carrier, self.gp, tangents.T, tangents.row, self.next), PULL_BYTES * len(rows))
        if merges:
            (blocks,), block = over(self.count, 128)
            self.kernel["merge_columns"]((blocks, self.slots + 6), block, (
                count, carriers, slots, packed, stein, merges, self.merges, self.offset, self.stop, past.H, past.G, past.X,
                tangents.T, tangents.row, past.Y, self.next), 0)
        self.kernel["merge_rows"]((-(-self.carriers // warps),), (32, warps), (
            carriers, slots, *columns, packed, eta, scale, merges, slot, self.merges, self.offset, self.stop, self.carrier,
            self.gp, tangents.T, tangents.row, self.next), 0)
        self.kernel["move"](*over(self.count), (
            count, slots, slot, np.int64(self.n), eta, scale, keep, np.float64(drive.chi_sd), np.float64(drive.thermal),
            stein, np.int32(chain.kind), *rates, *self.keys, state.name, state.sign,
            np.int32(self.z_steps), self.z, np.int32(self.known), self.changes, self.g, self.gp, self.g_y, self.dots, state.h,
            state.s, past.H, past.G, past.X, state.Y, past.Y), 0)
        if self.behind:
            self.behind.turn(state.h, state.Y, tangents.row, plan.merges, self.experiment.update.lookahead(self.n + 1))
        self.n += 1

    def _lines(self) -> tuple[dict, dict]:
        """Arrays with a line per sample, and per sample with tangents."""
        own, carried = by_name(self.state, self.past), self.tangents._asdict()
        return (own | self.behind.arrays(), carried | {"behind": self.behind.row}) if self.behind else (own, carried)

    def own(self) -> Mapping[str, np.ndarray]:
        """As Samples.own, so that a checkpoint goes on on either device."""
        return OnDevice(self.gpu, self._lines()[0])

    def carried(self) -> Mapping[str, np.ndarray]:
        """As Samples.carried."""
        return OnDevice(self.gpu, self._lines()[1])

    def restore(self, own: Mapping[str, np.ndarray], carried: Mapping[str, np.ndarray], n: int) -> None:
        """As Samples.restore."""
        for mine, stored in zip(self._lines(), (own, carried), strict=True):
            for name, array in mine.items():
                self.gpu.fill(array, stored[name])
        self.n, self._begun = n, None
