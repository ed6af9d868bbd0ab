"""Samples of a network on a GPU: the same operations as samples.CommitteeSamples, with the sources in dmft/committee/cuda.

As dmft/samples/gpu.py has it for one unit: the card holds what has a line per sample, the host the small linear algebra of the
kernels, which is p times wider here (with a full history card_matrices.py helps). Units and directions are constants of the source.
A checkpoint is that of the CPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dmft.committee.draws import UnitDraws
from dmft.committee.formulas import cuda_formulas
from dmft.committee.lines import put_turned
from dmft.committee.nesterov import UnitsAtWeights
from dmft.committee.rows import SumPlaces, sums_in_use
from dmft.committee.state import UnitState
from dmft.committee.weights import UnitDrive, UnitPoint, widened
from dmft.core.cuda_numbers import defines, enum, records_source
from dmft.core.device import CUDA, WARP, Gpu, source
from dmft.equations.blocks import NONE
from dmft.equations.history import History, Plan
from dmft.model.cuda_loss import activation_source, averages_source, loss_source
from dmft.model.experiment import Experiment
from dmft.model.minibatches import cuda_source
from dmft.model.sample_averages import averages
from dmft.samples.gpu import OnDevice
from dmft.samples.launches import MOVERS, SAMPLE_SOURCE, Sums, whole_lines
from dmft.samples.sampling import Sampling, tangent_indices
from dmft.samples.tangents import Bounds
from dmft.samples.written_steps import PLANNED_NUMBERS, PLANNED_STEP, plan_size, planned_step

UNIT_KERNELS = ("fields", "row_sums", "bounds", "response_sums", "add_parts", "move", "control", "next_tangents", "merge_columns",
                "merge_rows")
MOST_BLOCKS = 8  # of samples; a line of their sums has 3 p^2 numbers for every slot, which the host adds up exactly
UNUSED = -(1 << 62)  # in place of a slot that has not been used yet, behind all others
UNIT_SOURCES = tuple(Path(__file__).parent / "cuda" / name for name in ("units.cu", "responses.cu"))
_ENDS = 64  # blocks of threads that share out the columns of the sums over parts


def unit_present(units: int, directions: int) -> np.dtype:
    """What the losses need besides the samples."""
    return np.dtype([("scale", float), ("a", float, (units,)), ("beta", float, (units,)), ("m", float, (units, directions))])


def unit_rates(units: int) -> np.dtype:
    """What moves the samples from a step on, but for memory and chi_weights, which lie behind it."""
    numbers = "eta", "thermal", "fraction", "p_on", "p_off", "unused"  # an even number, so that lines of p numbers are aligned
    return np.dtype([(name, float) for name in numbers] + [(name, float, (units, units)) for name in ("A", "keep", "chi_root")])


class UnitTiling(NamedTuple):
    """How the work of a step is cut up for a card. It changes results by rounding alone."""

    some: int  # neighbouring samples that a thread loads at once
    own: int  # of these, how many it sums up: a part of a block has at most own x some x 32 samples
    ahead: int  # slots of the past that a thread loads before it uses them
    rows_ahead: int  # the same of rows of tangents
    warps: int = 4  # warps of a block of threads
    spread: int = 10_000  # warps that sum up the rows side by side, about

    @classmethod
    def of(cls, units: int) -> UnitTiling:
        """What a thread holds stays in its registers: sums of every unit for each of its samples."""
        some = 4 if units <= 2 else 2 if units <= 8 else 1
        return cls(some, max(1, min(512 // (WARP * some), 64 // (units * some))), max(1, 8 // units), max(1, 8 // units))


class GpuUnits:
    """A range of samples of one solution of a network at step n, on a card. dtype: as of CommitteeSamples."""

    columns = 1  # of the tangents: their product with one sign vector

    def __init__(self, gpu: Gpu, experiment: Experiment, history: History, draws: UnitDraws, weight: np.ndarray, block: int,
                 sampling: Sampling, dtype=np.float64, tiling: UnitTiling | None = None):
        network = experiment.network
        assert network is not None
        (count, k), p, slots = draws.kappa.shape, network.units, history.slots
        self.gpu, self.experiment, self.network, self.history, self.block = gpu, experiment, network, history, block
        self.tiling, self.keys, self.count, self.slots = tiling or UnitTiling.of(p), sampling.keys, count, slots
        self.stein, self.places = sampling.stein and experiment.stein, SumPlaces.of(network)
        self.averages = averages(experiment.observables)
        self.across, self.blocks, self.width, self.n = self.tiling.some * WARP, -(-count // block), whole_lines(count), 0
        own = min(self.tiling.own, -(-block // self.across))
        assert block % self.tiling.some == 0  # samples that are loaded at once lie in one block
        self.part = own * self.across  # samples
        self.parts = -(-block // self.part)
        kernels = [gpu.kernels("\n".join((loss_source(loss), self._formulas(sampling, own, dtype), source(SAMPLE_SOURCE),
                                          *map(source, UNIT_SOURCES))),
                               UNIT_KERNELS + (("averages",) if self.averages else ())) for loss in experiment.losses]
        self.kernel, self.fields = kernels[0], [each["fields"] for each in kernels]
        self.weight, self.sign, self.y, self.s = (gpu.put(each) for each in (weight, draws.sign, draws.y, np.array(draws.s, float)))
        self.batch_index, self.noise_index, self.tangent_index = (gpu.put(each.astype(np.int64)) for each in (
            draws.batch_index, draws.noise_index, tangent_indices(draws.carrier)))
        self.kappa, self.slope, self.h = (self._lines(each, self.width) for each in (draws.kappa, draws.slope, draws.h))
        self.Y = gpu.zeros((k, p, self.width))
        shapes = {"H": dtype, "G": np.float64, "X": dtype}
        self.past = {name: gpu.zeros((slots * p, self.width), kind) for name, kind in shapes.items()}
        self.past["Y"] = gpu.zeros((k, slots * p if self.stein else 0, self.width), dtype)
        self.g, self.d, self.bend, self.weighted_g = (gpu.zeros((p, self.width)) for _ in range(4))
        self.curve, self.mixed = gpu.zeros(self.width), gpu.zeros(self.width)
        carriers = np.flatnonzero(draws.carrier)
        self.carriers, self.carrier, self.span = len(carriers), gpu.put(carriers), whole_lines(len(carriers))
        self.cut = gpu.put(np.searchsorted(carriers, block * np.arange(self.blocks + 1)).astype(np.int32))
        self.E = self._lines(draws.probe[carriers], self.span)
        self.T = gpu.zeros((history.packed * p, self.span), dtype)
        self.rows = [gpu.zeros((p, slots, self.span), dtype) for _ in range(2)]  # row n of the tangents is in rows[n % 2]
        self.levers, self.ends = gpu.zeros((3 * p, self.span)), gpu.zeros((p * p + 1, self.span))
        self.z, self.changes = gpu.put(np.ascontiguousarray(draws.z)), gpu.put(np.ascontiguousarray(draws.changes))
        self.normals, self.known = np.int32(draws.z.shape[1]), np.int32(draws.changes.shape[1])
        self.offset, self.stop = gpu.put(history.offset.astype(np.int32)), gpu.put(history.stop.astype(np.int32))
        self.on = gpu.put(np.ones(1, np.int32))  # one solution, which always moves
        self.row = Sums(gpu, 1, self.places.numbers + 3 * p * slots * p, self.blocks, self.parts)
        self.averaged = Sums(gpu, 1, len(self.averages), self.blocks if self.averages else 0, self.parts)
        self.queue, self._begun = gpu.queue(), False
        present, rates = unit_present(p, k), unit_rates(p)
        self.present = gpu.mirror((2, present.itemsize // 8))  # that of the gradients, and that of the weights
        self.presents = self.present.host.view(present)[:, 0]
        numbers = rates.itemsize // 8
        self.rates = gpu.mirror(numbers + 2 * slots * p * p)  # and memory, chi_weights
        self.numbers, self.wide = self.rates.host[:numbers].view(rates), self.rates.host[numbers:].reshape(2, slots * p, p)
        self.plan = gpu.mirror(plan_size(slots, history.levels), np.int64)
        self.held = self.plan.device[-slots:]
        self._note_held()
        self.plan.send()
        self.at_weights = [gpu.put(self.gpu.get(self.h)), gpu.zeros(self.Y.shape), gpu.zeros(self.rows[0].shape, dtype)] \
            if experiment.update.looks_ahead else []
        self.sums_at_weights = Sums(gpu, 1, self.row.columns, self.blocks if self.at_weights else 0, self.parts)

    def _lines(self, values: np.ndarray, width: int):
        """Values with a line per sample on the card, where the sample is the last index; zero behind the last one."""
        lines = np.zeros((*values.shape[1:], width))
        lines[..., : len(values)] = np.moveaxis(values, 0, -1)
        return self.gpu.put(lines)

    def _formulas(self, sampling: Sampling, own: int, dtype) -> str:
        """What stands before the kernels: formulas from Python, constants, and where sums stand in a line."""
        network, tiling = self.network, self.tiling
        starts = zip(self.places._fields, self.places.starts)
        places = {f"AT_{name.upper()}": place for name, place in starts if name != "numbers"}
        numbers = {"UNITS": network.units, "DIRECTIONS": network.directions, "KINKED": int(network.kinked),
                   "STEIN": int(self.stein), "IDENTITY": int(sampling.identity), "NONE": NONE, "UNUSED": f"({UNUSED}ll)",
                   **{name.upper(): value for name, value in Bounds.of(sampling.estimator)._asdict().items()},
                   "LANES": WARP, "SOME": tiling.some, "ACROSS": self.across, "OWN": own, "AHEAD": tiling.ahead,
                   "ROWS_AHEAD": tiling.rows_ahead, "MOVERS": MOVERS}
        kind = "float" if np.dtype(dtype) == np.float32 else "double"
        structs = {"Present": unit_present(network.units, network.directions), "Rates": unit_rates(network.units),
                   "Step": PLANNED_STEP}
        return "\n".join((source(CUDA / "philox.cuh"), cuda_source(), activation_source(network.activation),
                          cuda_formulas(network.units, network.directions),
                          records_source(**structs),
                          enum(places | {"SAMPLE_NUMBERS": self.places.numbers}), f"typedef {kind} stored;", defines(numbers),
                          averages_source(self.averages), source(CUDA / "lanes.cuh")))

    def _ints(self, *sizes: int) -> tuple[np.int32, ...]:
        return tuple(np.int32(size) for size in sizes)

    def _evaluate(self, present, h, made: tuple, into: Sums) -> None:
        """The loss of every sample at fields h, and sums of numbers of a sample."""
        self.fields[self.experiment.loss_n[self.n]]((self.blocks * self.parts,), (self.part,), (
            *self._ints(self.count, self.block, self.parts, into.columns, self.width), present, self.weight, self.tangent_index,
            self.kappa, self.y, self.slope, h, self.s, self.Y, *made, into.partial), 8 * self.places.numbers * (self.part // WARP))

    def begin_sums(self, point: UnitPoint | UnitState) -> None:
        """Let the card begin with what `row_sums` will be asked for."""
        e, present = self.experiment, self.presents
        present["scale"], present["a"], present["beta"] = e.scale_n[min(self.n, e.steps - 1)], point.a, point.beta
        present["m"][0], present["m"][1] = point.m, point.m_w if self.at_weights else point.m
        self.queue.run(("sums", int(e.loss_n[self.n]), self.n % 2), self._sums, record=not self.at_weights)
        self._begun = True

    def _sums(self) -> None:
        """All launches of `begin_sums`. The training loss is that of the weights."""
        into, row = self.row, self.rows[self.n % 2]
        self.present.send()
        self._evaluate(self.present.device, self.h, (self.g, self.d, self.curve, self.bend, self.mixed, self.weighted_g), into)
        if self.at_weights:
            unused, numbers = [self.gpu.zeros(self.g.shape) for _ in range(4)], [self.gpu.zeros(self.width) for _ in range(2)]
            made = unused[0], unused[1], numbers[0], unused[2], numbers[1], unused[3]
            self._evaluate(self.present.device[1:], self.at_weights[0], made, self.sums_at_weights)
            into.partial[..., self.places.v] = self.sums_at_weights.partial[..., self.places.v]
        if self.averages:
            self._average()
        threads, blocks = WARP * self.tiling.warps, self.blocks * self.parts
        side = min(max(self.tiling.spread // max(blocks * self.tiling.warps, 1), 1), -(-self.slots // self.tiling.warps))
        self.kernel["row_sums"]((blocks, side), (threads,), (
            *self._ints(self.count, self.width, self.block, self.parts, into.columns, self.slots), self.held, self.weighted_g,
            self.past["G"], self.past["H"], into.partial), 0)
        p = self.network.units
        warps = p * max(1, 16 // p)
        self.kernel["bounds"]((-(-self.carriers // self.across),), (WARP * warps,), (
            *self._ints(self.carriers, self.width, self.span, self.slots), self.held, self.carrier, self.weight, self.d, self.curve,
            self.bend, row, self.E, self.levers, self.ends), 16 * self.across * warps)
        self.kernel["response_sums"]((blocks, side), (threads,), (
            *self._ints(self.span, self.parts, into.columns, self.slots), self.held, self.cut, self.levers, self.ends, row, self.E,
            into.partial), 0)
        self._add_parts(into)

    def _average(self) -> None:
        """The sums that observables average."""
        into, present, h = self.averaged, self.present.device, self.h
        if self.at_weights:
            present, h = present[1:], self.at_weights[0]
        self.kernel["averages"]((self.blocks * self.parts,), (self.part,), (
            *self._ints(self.count, self.block, self.parts, into.columns, self.width), present, self.weight, self.kappa, self.y, h,
            self.s, into.partial), 8 * into.columns * (self.part // WARP))
        self._add_parts(into)

    def _add_parts(self, into: Sums) -> None:
        """Sums of every block from those of its parts, on their way to the host."""
        self.kernel["add_parts"]((self.blocks, _ENDS), (WARP * self.tiling.warps,), (
            self.on, *self._ints(self.parts, into.columns), into.partial, into.sums.device), 0)
        into.sums.fetch()

    def row_sums(self, state: UnitState, used: int) -> np.ndarray:
        """As CommitteeSamples.row_sums."""
        if not self._begun:
            self.begin_sums(state)
        self._begun = False
        self.queue.wait()
        lines, numbers, p = self.row.sums.host[0], self.places.numbers, self.network.units
        return sums_in_use(lines[:, :numbers], lines[:, numbers:].reshape(len(lines), 3 * p, self.slots * p), used)

    def averaged_sums(self, state: UnitState) -> np.ndarray:
        """As CommitteeSamples.averaged_sums; the card has summed them up with those of the row."""
        return self.averaged.sums.host[0]

    def advance(self, drive: UnitDrive, plan: Plan) -> None:
        """As CommitteeSamples.advance."""
        e, slots, order = self.experiment, self.slots, self.order
        chain, merges, rates, lines = e.batches.chain(self.n), len(plan.merges), self.numbers, self.plan.host[PLANNED_NUMBERS:]
        rates["eta"], rates["thermal"], rates["fraction"] = e.eta_n[self.n], drive.thermal, chain.fraction
        rates["p_on"], rates["p_off"] = chain.p_on, chain.p_off
        rates["A"], rates["keep"], rates["chi_root"] = drive.A, drive.keep, drive.chi_root
        put_turned(drive.memory, self.wide[0])
        put_turned(drive.chi_weights, self.wide[1])
        (step,) = planned_step(self.plan.host)
        step.active, step.used, step.merges, step.slot = len(order), self.history.stop[plan.slot], merges, plan.slot
        step.n, step.kind, step.period, step.epochs_from = self.n, chain.kind, chain.period, chain.begin
        lines[: len(order)] = order
        lines[slots : slots + 3 * merges] = plan.merges.ravel()
        self._note_held()
        self.queue.run(("step", merges > 0, self.n % 2), partial(self._step, merges > 0), record=not self.at_weights)
        self.n += 1
        if self.at_weights:
            views = [(h.T, Y.transpose(2, 0, 1), row.transpose(2, 0, 1))  # as on the CPU, with the sample as first index
                     for h, Y, row in ((self.h, self.Y, self.rows[self.n % 2]), self.at_weights)]
            h, Y, row = views[0]
            UnitsAtWeights(*views[1]).look_ahead(h, Y, row, plan.merges, self.columns, e.update.lookahead(self.n), drive)

    def _note_held(self) -> None:
        """Write down which slots hold something now, then those that did once, for the sums of this step and the step after it."""
        self.order = self.history.order  # before the next step
        held, count, upto = self.plan.host[-self.slots :], len(self.order), self.history.upto
        held[:count], held[upto:] = self.order, UNUSED
        if upto > count:
            held[count:upto] = -1 - np.flatnonzero(self.history.size[:upto] == 0)

    def _step(self, merging: bool) -> None:
        """All launches of `advance`."""
        p, row, coming = self.network.units, self.rows[self.n % 2], self.rows[(self.n + 1) % 2]
        self.plan.send()
        self.rates.send()
        step, rates, past = self.plan.device, self.rates.device, self.past
        sizes, size = self._ints(self.carriers, self.width, self.span, self.slots), self._ints(self.count, self.width, self.slots)
        fields = self.d, self.curve, self.bend
        threads = WARP * self.tiling.warps
        across = -(-self.carriers // (self.tiling.some * threads))
        self.kernel["next_tangents"]((across, self.slots), (threads,), (
            *sizes, step, rates, self.offset, self.stop, self.carrier, *fields, self.T, row, coming), 0)
        if merging:
            self.kernel["merge_columns"]((across, (self.slots + 2) * p), (threads,), (
                *sizes[2:], step, self.offset, self.stop, self.T, row, coming), 0)
        self.kernel["merge_rows"]((across, self.slots), (threads,), (
            *sizes, step, rates, self.offset, self.stop, self.carrier, *fields, self.E, self.T, row, coming), 0)
        groups, warps = -(-self.count // self.across), (WARP * MOVERS,)
        if self.stein:
            self.kernel["control"]((groups, self.network.directions), warps, (
                *size, step, rates, *fields, self.mixed, self.slope, self.Y, past["Y"]), 8 * (MOVERS + 1) * p * self.across)
        self.kernel["move"]((groups,), warps, (
            *size, step, rates, *self.keys, self.batch_index, self.noise_index, self.sign, self.normals, self.z, self.known,
            self.changes, self.g, self.h, self.s, past["H"], past["G"], past["X"]), 8 * (2 * MOVERS + 3) * p * self.across)

    def per_sample(self) -> OnDevice:
        """As CommitteeSamples.per_sample. What merged blocks left in the past is cleared on the card: on the CPU it is zero."""
        self.queue.wait()
        empty = widened(np.flatnonzero(self.history.size == 0), self.network.units)
        for array in self.past.values():
            if array.shape[-2]:
                array[..., empty, :] = 0.0
        return self._per_sample()

    def _per_sample(self) -> OnDevice:
        behind = dict(zip(("behind/h", "behind/Y"), self.at_weights))
        past = {f"past/{name}": array for name, array in self.past.items()}
        return OnDevice(self.gpu, {"state/h": self.h, "state/s": self.s, "state/Y": self.Y} | past | behind, self.count)

    def per_tangent(self) -> OnDevice:
        """As CommitteeSamples.per_tangent, but rows of tangents that hold nothing keep what they had: they have no weight."""
        behind = {"behind": self.at_weights[2]} if self.at_weights else {}
        return OnDevice(self.gpu, {"T": self.T, "row": self.rows[self.n % 2]} | behind, self.carriers)

    def restore(self, per_sample: Mapping[str, np.ndarray], per_tangent: Mapping[str, np.ndarray], n: int) -> None:
        """As CommitteeSamples.restore."""
        self.queue.wait()
        self.n, self._begun = n, False
        for mine, stored in ((self._per_sample(), per_sample), (self.per_tangent(), per_tangent)):
            for name in mine:
                mine.fill(name, stored[name])
        self.rows[(n + 1) % 2][...], self.row.partial[...] = 0.0, 0.0
        self._note_held()
        self.plan.send()
