"""Samples on a GPU: the same operations as samples.Samples, with the sources in dmft/samples/cuda/march.cu.

The card holds everything that has one line per sample; the host keeps the kernels' small linear algebra (macro.py),
which is a few hundred numbers wide and would not fill a card. A step crosses the bus twice: the sums of row n go up,
what drives the samples comes down. Random numbers are those of the CPU, so results differ by rounding alone
(until rounding decides whether a sample splits).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from dmft.core.device import CUDA, Gpu, source
from dmft.core.errors import RunError
from dmft.equations.history import History, Plan
from dmft.equations.rows import SCALARS
from dmft.equations.weights import Drive
from dmft.model.experiment import Problem
from dmft.samples import splitting
from dmft.samples.process import Samples
from dmft.samples.sampling import Draws

KERNELS = ("fields", "row_sums", "add_parts", "past", "merge_columns", "merge_rows", "move", "shares")
BLOCKS = 32  # blocks of samples that are summed on the host, over all ranks, in no order
PARTS = 32  # parts of a block that are summed on the card, so that all of it works
WARPS = 8  # samples that one block of threads takes on
PULL_BYTES = 16  # of struct Pull, at most
MARCH = Path(__file__).parent / "cuda" / "march.cu"
ALIGNED = 32  # columns of tangents are read from a multiple of this on


def over(threads: int, block: int = 256) -> tuple[tuple[int], tuple[int]]:
    """Grid and block of a kernel with that many threads."""
    return (-(-threads // block),), (block,)


class OnDevice(Mapping):
    """The arrays of some samples by name, each brought to the host when it is asked for: they may be large."""

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

    def __init__(self, gpu: Gpu, problem: Problem, history: History, draws: Draws, weight: np.ndarray, block: int,
                 keys: tuple[np.uint64, np.uint64], stein: bool, dtype=np.float64):
        count, slots = len(draws.h), history.slots
        if PULL_BYTES * slots > gpu.shared_bytes:
            raise RunError(f'[theory] device = "gpu": a history of {slots} steps one by one is too long for this card, which takes '
                           f'{gpu.shared_bytes // PULL_BYTES}; take history = "dyadic", or device = "cpu"')
        self.gpu, self.problem, self.history, self.block, self.keys, self.stein = gpu, problem, history, block, keys, stein
        self.count, self.slots, self.blocks = count, slots, -(-count // block)
        self.part = -(-block // PARTS)
        self.parts = -(-block // self.part)
        self.n = 0
        kind = "float" if np.dtype(dtype) == np.float32 else "double"
        text = "\n".join((source(CUDA / "philox.cuh"), problem.loss.cuda, f"typedef {kind} tangent;", source(MARCH)))
        self.kernel = gpu.kernels(text, KERNELS)
        self.itemsize = np.dtype(dtype).itemsize
        self.arrays = {"h": gpu.put(draws.h), "s": gpu.put(draws.s)}
        self.arrays |= {name: gpu.zeros((count, slots)) for name in ("H", "G", "X")}
        self.arrays |= {"T": gpu.zeros((count, history.packed), dtype), "row": gpu.zeros((count, slots), dtype),
                        "Y": gpu.zeros(count), "Y_past": gpu.zeros((count, slots if stein else 0)),
                        "weight": gpu.put(weight), "label": gpu.put(draws.label.astype(np.int64)), "h0": gpu.put(draws.h0)}
        assert tuple(self.arrays) == Samples.ARRAYS  # a checkpoint goes on on either device
        self.sign, self.z = gpu.put(draws.sign), gpu.put(np.ascontiguousarray(draws.z))
        self.z_steps = draws.z.shape[1]
        self.offset, self.stop = gpu.put(history.offset.astype(np.int32)), gpu.put(history.stop.astype(np.int32))
        self.g, self.gp, self.g_h0 = (gpu.zeros(count) for _ in range(3))
        self.terms, self.dots = gpu.zeros((SCALARS, count)), gpu.zeros((3, count))
        self.partial = gpu.zeros((self.blocks, self.parts, SCALARS + 2 * slots))
        self.sums = gpu.zeros((self.blocks, SCALARS + 2 * slots))
        self.vectors = gpu.zeros((2, slots))
        self.plan = gpu.zeros((slots + history.levels, 3), np.int32)  # rows of tangents in use, then merges
        self.merges = self.plan[slots:]
        self.next = gpu.zeros((count, slots), dtype)

    def row_sums(self, m: float) -> np.ndarray:
        """As Samples.row_sums."""
        a, columns = self.arrays, SCALARS + 2 * self.slots
        self.kernel["fields"](*over(self.count), (
            np.int32(self.count), np.float64(m), np.float64(self.problem.eta), np.float64(self.problem.gradient_scale),
            np.int32(self.stein), a["weight"], a["h0"], a["h"], a["s"], a["Y"], self.g, self.gp, self.g_h0, self.terms), 0)
        width = min(-(-columns // 32) * 32, 512)
        self.kernel["row_sums"]((self.blocks, self.parts), (width,), (
            np.int32(self.count), np.int32(self.block), np.int32(self.part), np.int32(self.slots), a["weight"], self.g,
            self.gp, self.terms, a["G"], a["row"], self.partial), 0)
        self.kernel["add_parts"]((self.blocks,), (width,), (
            np.int32(self.parts), np.int32(columns), self.partial, self.sums), 0)
        return self.gpu.get(self.sums)

    def advance(self, m: float, drive: Drive, plan: Plan) -> None:
        """As Samples.advance."""
        p, a, history = self.problem, self.arrays, self.history
        used = int(history.stop[plan.slot])
        begin = min(history.order) // ALIGNED * ALIGNED
        rows = np.flatnonzero(drive.memory)  # the others hold nothing, or nothing that counts
        lines = np.zeros((self.slots + history.levels, 3), np.int32)
        lines[: len(rows)] = np.column_stack((rows, history.offset[rows], history.stop[rows]))
        lines[self.slots : self.slots + len(plan.merges)] = plan.merges
        self.gpu.fill(self.plan, lines)
        self.gpu.fill(self.vectors, np.stack((drive.memory, drive.chi_weights)))
        eta, scale, keep, packed = np.float64(p.eta), np.float64(drive.a), np.float64(drive.keep), np.int64(history.packed)
        count, slots, slot, stein, merges = (
            np.int32(x) for x in (self.count, self.slots, plan.slot, self.stein, len(plan.merges)))
        columns = np.int32(begin), np.int32(used)
        self.kernel["past"]((-(-self.count // WARPS),), (32 * WARPS,), (
            count, slots, *columns, packed, eta, scale, keep, stein, np.int32(len(rows)), self.plan, self.vectors, a["weight"],
            self.gp, self.dots, a["H"], a["X"], a["T"], a["row"], a["Y_past"], self.next), PULL_BYTES * len(rows))
        if merges:
            (blocks,), block = over(self.count, 128)
            self.kernel["merge_columns"]((blocks, self.slots + 6), block, (
                count, slots, packed, stein, merges, self.merges, self.offset, self.stop, a["H"], a["G"], a["X"], a["T"],
                a["row"], a["Y_past"], self.next), 0)
        self.kernel["merge_rows"]((-(-self.count // WARPS),), (32, WARPS), (
            count, slots, *columns, packed, eta, scale, merges, slot, self.merges, self.offset, self.stop, self.gp, a["T"],
            a["row"], self.next), 0)
        self.kernel["move"](*over(self.count), (
            count, slots, slot, np.int64(self.n), eta, scale, keep, np.float64(drive.chi_sd), np.float64(drive.thermal),
            np.float64(m), stein, np.int32(p.batch), np.float64(p.batch_fraction), np.float64(p.p_on), np.float64(p.p_off),
            *self.keys, a["weight"], a["label"], self.sign, np.int32(self.z_steps), self.z, self.g, self.gp, self.g_h0, self.dots,
            a["h"], a["s"], a["H"], a["G"], a["X"], a["Y"], a["Y_past"]), 0)
        self.n += 1

    def split(self, key: np.uint64, places: int, spare: int, threshold: float) -> None:
        """As Samples.split; which samples, the host decides."""
        a = self.arrays
        self.kernel["shares"](*over(32 * self.count), (
            np.int32(self.count), np.int32(self.slots), a["weight"], a["row"], self.dots), 0)
        chosen = splitting.pairs(self.gpu.get(self.dots[0]), self.gpu.get(a["weight"]), places, spare, threshold)
        if not len(chosen):
            return
        copies = splitting.labels(self.gpu.get(a["label"])[chosen[:, 0]], key, self.n)
        old, new = (self.gpu.put(np.ascontiguousarray(lines)) for lines in chosen.T)
        a["weight"][old] *= 0.5
        splitting.copy(a.values(), old, new)
        a["label"][new] = self.gpu.put(copies)

    def own(self) -> Mapping[str, np.ndarray]:
        """As Samples.own."""
        return OnDevice(self.gpu, self.arrays)

    def restore(self, own: Mapping[str, np.ndarray], n: int) -> None:
        """As Samples.restore."""
        for name, array in own.items():
            self.gpu.fill(self.arrays[name], array)
        self.n = n
