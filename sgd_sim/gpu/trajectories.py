"""Instances on a GPU: the dynamics of cpu/dynamics.py, many instances at a time, one pass over their data per step.

Data, teachers' fields, mini-batches and thermal noise are made on the card from the same streams as on the CPU; weights are
kept in float64 there. Steps are launched without waiting for their end; records stay on the card until they are posted.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dmft.core.device import Gpu
from dmft.core.errors import RunError
from dmft.core.streams import key
from dmft.files.layouts import SIMULATED_KERNELS
from dmft.model.cuda_loss import averages_source, check_activation, check_averages, check_cuda, loss_source
from dmft.model.data import make_start
from dmft.model.experiment import Experiment, observables_of
from dmft.model.runfile import Run
from dmft.model.sample_averages import averages
from dmft.model.starts import on_sphere
from dmft.model.two_times import simulated_steps, snapshot_steps
from sgd_sim.cpu.lanes import make_noise
from sgd_sim.cpu.starts import MOST_ITERATIONS, TOLERANCE, power_rate, spectral_weights, start_noise
from sgd_sim.cpu.two_times import forces, make_probes
from sgd_sim.gpu.layout import (
    ALL,
    CARD_SETTINGS,
    DRAW,
    PASSES,
    PRODUCT,
    SIMULATOR_KERNELS,
    STEP,
    WIDEST,
    CardLayout,
    make_layout,
)
from sgd_sim.kernels import minibatch
from sgd_sim.kernels.formulas import keep_of, rate_of
from sgd_sim.kernels.step_table import make_flags, make_table
from sgd_sim.landscape import TEST_ROWS, draw_labels, make_teacher, sizes, teacher_fields
from sgd_sim.predictions import asks_channel, fresh_errors
from sgd_sim.recording import MSE_FRESH, record_steps, recorded_rows
from sgd_sim.states import NO_STEPS, NOT_STARTED, States, clone_of, remembers, stops

LAUNCH_STEPS = 16                     # steps of one launch; mini-batches are drawn for as many steps at a time
RING = LAUNCH_STEPS + 1               # mini-batches that are kept: the chain continues from the last one
LOOK_EVERY = 20                       # power iterations between two tests of convergence
MOST_TOGETHER = 65535                 # instances of a batch: the limit of the second axis of a CUDA grid
NULL = np.uint64(0)


def card_layout(run: Run) -> CardLayout:
    """The layout of a run's instances; RunError for what cannot run on a GPU."""
    n, samples = sizes(run.simulation.dimension, run.problem.alpha)
    if n > WIDEST:
        raise RunError(f'[simulation] dimension = {n}: device = "gpu" takes at most {WIDEST}; set device = "cpu"')
    return make_layout(n, samples, run.simulation.precision, run.network.units)


def landscape_bytes(layout: CardLayout) -> int:
    """Memory of one landscape on the card."""
    return (layout.samples + TEST_ROWS) * (layout.stride * np.dtype(layout.stored).itemsize + 8)


def instance_bytes(run: Run, layout: CardLayout) -> int:
    """Memory of one instance on the card, besides its landscape."""
    blocks = max(layout.chunks(layout.samples), layout.chunks(TEST_ROWS))
    batches = layout.samples * (RING + (4 * LAUNCH_STEPS if make_flags(run).batch in minibatch.FIXED_SIZE else 0))
    factors = 4 * (layout.samples + 3) if run.simulation.landscape == "shared" else 0
    start = 8 * (layout.n + layout.samples) if make_start(run.problem).spectral else 0
    kept, units = simulated_steps(run).size, max(run.network.units, 1)
    curves = 8 * (len(recorded_rows(run)) + kept * len(SIMULATED_KERNELS)) * record_steps(run).size
    weights = units * (4 * layout.padded * (blocks + 1) + 8 * layout.n * (2 + remembers(run)))
    weights += 4 * kept * (layout.n + layout.samples)
    weights += 8 * run.network.directions * (layout.n + layout.samples + TEST_ROWS) if run.has_network else 0
    return weights + 8 * (layout.samples + TEST_ROWS) + batches + factors + start + curves + 4096


def gpu_batches(run: Run, instances: np.ndarray, steps: np.ndarray, gpu: Gpu) -> list[np.ndarray]:
    """The instances grouped by step and cut into batches that fit on the card. RunError if not even one instance fits."""
    layout = card_layout(run)
    experiment = Experiment.from_run(run)
    for loss in experiment.losses:
        check_cuda(gpu, loss, "simulation")
    if experiment.network is not None:
        check_activation(gpu, experiment.network.activation, "simulation")
    check_averages(gpu, averages(observables_of(run)), "simulation")
    shared = run.simulation.landscape == "shared"
    room, each = int(0.9 * gpu.free_bytes()), instance_bytes(run, layout) + (0 if shared else landscape_bytes(layout))
    most = min((room - (landscape_bytes(layout) if shared else 0)) // each, MOST_TOGETHER)
    if most < 1:
        raise RunError(f'[simulation] dimension = {layout.n}: an instance at alpha = {run.problem.alpha:g} needs '
                       f'{each / 1e9:.1f} GB of the GPU, {room / 1e9:.1f} GB are free; lower dimension or set device = "cpu"')
    found = []
    for step in np.unique(steps[instances]):
        here = instances[steps[instances] == step]
        found += np.array_split(here, -(-here.size // most))
    return found


class GpuTrajectories:
    """A batch of instances on a GPU, all at the same step. layout: another one than that of the run, for benchmarks."""

    passes = "rows"

    def __init__(self, run: Run, instances: np.ndarray, states: States, gpu: Gpu, layout: CardLayout | None = None):
        simulation, seed = run.simulation, run.simulation.seed
        self.run, self.instances, self.gpu, self.layout = run, instances, gpu, layout or card_layout(run)
        self.flags, self.table, self.steps = make_flags(run), make_table(run, self.layout.samples), run.algorithm.steps
        experiment = Experiment.from_run(run)
        self.model, self.constraint, self.loss_n = experiment.data, experiment.constraint, experiment.loss_n
        observed = averages_source(averages(experiment.observables))
        names = (*SIMULATOR_KERNELS, *PASSES[self.passes])
        self.by_loss = [gpu.kernels(self.layout.code(loss_source(loss) + observed, self.flags, self.constraint,
                                                     len(recorded_rows(run)), self.passes), names)
                        for loss in experiment.losses]
        self.kernels = self.by_loss[0]     # the kernels that do not depend on the loss
        self.shared = simulation.landscape == "shared"
        self.record, self.snapshots = states.record, snapshot_steps(run)
        self.snapshot_w, self.snapshot_b, self.path = (x[instances] for x in (states.snapshot_w, states.snapshot_b, states.path))
        self.step, self.drawn = max(0, int(states.step[instances[0]])), -1
        count, n, samples, put, zeros = instances.size, self.layout.n, self.layout.samples, gpu.put, gpu.zeros
        self.blocks = max(self.layout.chunks(samples), self.layout.chunks(TEST_ROWS))

        own = instances // states.copies    # whose data and noise a line has
        streams = [make_noise(seed, i, clone_of(states, line)) for i, line in zip(own, instances)]
        self.batch_streams, self.thermal_streams = (put(np.array([s[k] for s in streams])) for k in (0, 1))
        landscapes = np.array([0]) if self.shared else own
        teachers = np.array([make_teacher(seed, i, n) for i in landscapes])
        self.w0 = put(teachers)
        self.spread: Any = NULL
        self.data, self.teacher = self._rows("simulation/data", landscapes, samples)
        self.test, _ = self._rows("simulation/test", landscapes, TEST_ROWS)
        self.fresh = states.curves[instances, MSE_FRESH]     # where a user's channel is asked, by the host
        self.test_labels = gpu.get(self.test[1]) if asks_channel(run, self.model) else None
        self.e, self.arrived = zeros((count, self.layout.padded), np.float32), zeros(count, np.uint32)
        settings = self._settings()
        self.settings, self.lines, self.tickets, self.taken = put(settings), np.int64(len(settings)), zeros(1, np.uint64), 0
        self.draws = put(self.table.draws)
        self.b, self.pushes = put(states.b[instances]), zeros((count, self.blocks))
        self.partial = zeros((count, self.blocks, self.layout.padded), np.float32)
        self.m, self.sign = zeros(count), put(np.ones(count))
        self._put_records(states)
        self.w, self.before = put(states.w[instances]), put(states.before[instances]) if states.before.shape[1] else NULL
        self.weights = (self.pushes, self.b, self.before, self.w, self.w0, np.int64(0 if self.shared else n), self.thermal_streams,
                        self.e, self.m, self.sign, self.live, self.diverged_at, put(np.full(count, self.step)))
        self.kept, self.pairs = put(states.kept), put(states.pairs[instances]) if states.kept.size else NULL
        if states.kept.size:
            self.kept_w, self.kept_g = put(states.kept_w[instances]), put(states.kept_g[instances])
            self.probes, self.force = put(make_probes(states.kept.size, n)), put(forces(states)[instances])
        if states.step[instances[0]] == NOT_STARTED:
            self._start(teachers, own)
        self._update(self.step)

    def _put_records(self, states: States) -> None:
        """What both kinds of instances carry besides their weights: curves, which of them live, and mini-batches."""
        count, put = self.instances.size, self.gpu.put
        self.curves, self.diverged_at = put(states.curves[self.instances]), put(np.full(count, -1, np.int64))
        self.live, self._live = put(np.ones(count, np.int32)), np.ones(count, np.int32)
        self.s: Any = NULL
        if self.flags.batch != minibatch.FULL:
            self.s = self.gpu.zeros((RING, count, self.layout.samples), np.uint8)
        if self.flags.batch == minibatch.PERSISTENT:
            self.gpu.fill(self.s[(self.step - 1) % RING], states.s[self.instances])

    def _settings(self) -> np.ndarray:
        """The settings of each step, (steps + 1 or 1, len(CARD_SETTINGS))."""
        table = self.table
        made = {"keep": keep_of(table.inertia, table.eta, table.ridge), "rate": rate_of(table.eta, self.layout.n)}
        return np.stack([made[name] if name in made else getattr(table, name) for name in CARD_SETTINGS], axis=1).astype(np.float64)

    def _rows(self, purpose: str, landscapes: np.ndarray, rows: int) -> tuple[tuple, Any]:
        """Data of landscapes, their labels, the distance in rows between the landscapes of two instances, the number of rows, and
        an array for the fields of the instances; and the fields of w0."""
        data = self.gpu.zeros((landscapes.size, rows, self.layout.stride), self.layout.stored)
        fields = self.gpu.zeros((landscapes.size, rows))
        streams = self.gpu.put(np.array([key(self.run.simulation.seed, purpose, i) for i in landscapes]))
        self.kernels["fill_rows"]((rows, landscapes.size), (128,), (streams, self.w0, np.int32(rows), data, fields), 256)
        teacher = fields if self.model.plain else self._label(purpose, landscapes, rows, data, fields)
        apart = np.int64(0 if self.shared else rows)
        return (data, fields, apart, np.int32(rows), self.gpu.zeros((self.instances.size, rows))), teacher

    def _label(self, purpose: str, landscapes: np.ndarray, rows: int, data: Any, fields: Any) -> Any:
        """Replace the teachers' fields by the labels, and move the rows of a mixture to their clusters; returns the fields of w0,
        where observables need them."""
        seed, h0 = self.run.simulation.seed, self.gpu.get(fields)
        drawn = [draw_labels(self.model, seed, purpose, i, h0[k], self.layout.n) for k, i in enumerate(landscapes)]
        self.gpu.fill(fields, np.array([labels for labels, _ in drawn]))
        places = [place for _, place in drawn if place is not None]
        if places:
            centre, spread = (self.gpu.put(np.array([place[k] for place in places])) for k in (0, 1))
            self.kernels["place_rows"]((rows, landscapes.size), (128,), (self.w0, np.int32(rows), centre, spread, data), 0)
            self.spread = spread if self.spread is NULL else self.spread     # that of the data, which are made first
        if not self.table.averages.size:
            return NULL
        return self.gpu.put(np.array([teacher_fields(h0[k], place, self.layout.n) for k, (_, place) in enumerate(drawn)]))

    def _start(self, teachers: np.ndarray, instances: np.ndarray) -> None:
        """Weights at t = 0 of these instances, as `starts.start_weights`."""
        problem, seed, n = self.run.problem, self.run.simulation.seed, self.layout.n
        own = [teachers[0 if self.shared else k] for k in range(self.instances.size)]
        noise = [start_noise(seed, i, n) for i in instances]
        law = make_start(problem)
        if not law.spectral:
            start = np.array([law.weights(self.constraint, w0, z) for w0, z in zip(own, noise)])
        else:
            self.gpu.fill(self.w, np.array([on_sphere(z) for z in noise]))
            start = np.array([w if w @ w0 >= 0.0 else -w for w, w0 in zip(self._power_iteration(), own)])
        self.gpu.fill(self.w, start)
        if self.before is not NULL:
            self.gpu.fill(self.before, start)

    def _power_iteration(self) -> np.ndarray:
        """The spectral starts, up to their signs, by power iteration from the guesses in w."""
        count, layout = self.instances.size, self.layout
        data, h0, *rest = self.data
        rows = (data, self.gpu.put(np.array([spectral_weights(self.run.problem, each) for each in self.gpu.get(h0)])), *rest)
        zero, moving = self.gpu.zeros(count), self.gpu.put(np.ones(count, np.int32))
        self._update(0, w0=self.gpu.zeros((count, layout.n)), ahead=0)   # e = w
        for iteration in range(MOST_ITERATIONS):
            self._pass(PRODUCT | ALL, 0, rows, zero, moving)
            self.kernels["power_step"]((count,), (layout.threads,), (
                self.w, self.partial, np.int32(layout.chunks(layout.samples)),
                np.float64(power_rate(self.run.problem)), np.float64(TOLERANCE), self.e, moving), 256)
            if iteration % LOOK_EVERY == LOOK_EVERY - 1 and not self.gpu.get(moving).any():
                break
        return self.gpu.get(self.w)

    def _pass(self, mode: int, step: int, rows: tuple, side: Any, going: Any, steps: int = 1) -> None:
        """Launch `steps` passes over rows (data, h0, apart, number, fields) with the given signs, for the instances `going`."""
        layout, count = self.layout, self.instances.size
        blocks = layout.chunks(int(rows[3])) * count * steps
        self.by_loss[self.loss_n[step]]["pass_over_rows"]((blocks,), (layout.threads,), (
            np.int32(mode), np.int64(step), np.uint64(self.taken), self.tickets, np.int32(count), np.int32(RING), self.settings,
            self.lines, *rows, side, going, self.s, self.arrived, self.partial, *self.weights), layout.pass_bytes)
        self.taken += blocks

    def _update(self, step: int, chunks: int = 0, w0: Any = None, ahead: int = 1) -> None:
        """A step of the weights from the gradients of so many chunks. With chunks = 0 the weights stay, and only m and e = w -+ w0
        are computed; where the rule looks ahead e is that of the point ahead, unless ahead = 0."""
        weights = self.weights if w0 is None else (*self.weights[:4], w0, *self.weights[5:])
        self.kernels["update"]((self.instances.size,), (self.layout.threads,), (
            np.int64(step), self.settings, self.lines, np.int32(ahead), self.partial, np.int32(chunks), *weights), 256)

    def _draw_ahead(self, step: int) -> None:
        """Draw the mini-batches of LAUNCH_STEPS steps, from `step` on."""
        batch, samples, count = self.flags.batch, self.layout.samples, self.instances.size
        self.drawn = min(step + LAUNCH_STEPS, self.steps)
        given = (np.int32(batch), np.int32(samples))
        steps = (self.batch_streams, self.live, np.int64(step), np.int64(self.drawn), np.int32(RING))
        if batch not in minibatch.FIXED_SIZE:
            self.kernels["draw_rows"]((-(-samples // 512), count), (128,), (*given, *steps, self.settings, self.lines, self.s), 0)
            return
        shared, scratch = 4 * samples, NULL
        if shared > self.gpu.shared_bytes:
            shared, scratch = 0, self.gpu.zeros((LAUNCH_STEPS, count, samples), np.uint32)
        self.kernels["draw_fixed_size"]((count, LAUNCH_STEPS), (128,), (*given, self.draws, *steps, self.s, scratch), shared)

    def _look(self, step: int, mode: int) -> None:
        """Compute all fields and record them; with mode DRAW the same pass gives the gradient of the step. A rule that looks ahead
        takes its gradient at another point, but records are made at w: then two passes are needed."""
        twice = self.flags.looks_ahead
        if twice:
            self._update(step, ahead=0)
        self._pass(ALL, step, self.test, self.sign, self.live)
        self._pass(ALL if twice else mode | ALL, step, self.data, self.sign, self.live)
        (_, h0, apart, rows, fields), (_, test_h0, test_apart, tests, test_fields) = self.data, self.test
        column = np.int32(np.searchsorted(self.record, step))
        self.by_loss[self.loss_n[step]]["record"]((self.instances.size,), (self.layout.threads,), (
            self.w, self.m, fields, h0, apart, rows, test_fields, test_h0, test_apart, tests, self.b, self.teacher,
            np.int64(step), self.curves, column, np.int32(self.record.size), self.live, self.diverged_at, self.weights[-1]), 256)
        if self.test_labels is not None:
            self.fresh[:, column] = fresh_errors(self.model, self.gpu.get(test_fields), self.test_labels)
        if self.pairs is not NULL:
            self._launch("pair_weights", step, (np.int64(step), column, np.int32(self.record.size), self.kept, self.probes,
                                                self.live, self.w, self.kept_w, self.pairs))
        if twice and mode:
            self._update(step)
            self._pass(mode if self.pairs is NULL else mode | ALL, step, self.data, self.sign, self.live)
        if self.pairs is not NULL and mode:
            self._pair_gradients(step, column)

    def _pair_gradients(self, step: int, column: np.int32) -> None:
        """M_C at a step whose mini-batch has been drawn, and the push of the second copies."""
        _, h0, apart, rows, fields = self.data
        line = min(step, self.table.eta.size - 1)
        batch = self.s if self.s is NULL else self.s[step % RING]
        self._launch("pair_gradients", step, (np.int64(step), column, np.int32(self.record.size), self.kept, self.live,
                                              np.float64(self.table.scale[line]), fields, h0, self.spread, apart, rows, batch,
                                              self.kept_g, self.pairs))
        self._launch("push", step, (np.int64(step), self.kept, self.probes, self.force,
                                    np.float64(rate_of(self.table.eta[line], self.layout.n)),
                                    np.int32(self.layout.chunks(self.layout.samples)), self.partial))

    def _launch(self, name: str, step: int, arguments: tuple) -> None:
        """A kernel with a block for every kept step and instance."""
        self.by_loss[self.loss_n[step]][name]((self.kept.size, self.instances.size), (128,), arguments, 256)

    def advance(self, last: int) -> None:
        """Take all instances to step `last`, with a stop wherever weights are kept."""
        recorded = self.record if self.path.size else NO_STEPS
        for stop in stops(self.step, last, self.snapshots, recorded):
            self._advance(stop)
            if stop not in self.snapshots and stop not in recorded:
                continue
            w, b, live = self.gpu.get(self.w), self.gpu.get(self.b), self.gpu.get(self.live).astype(bool)
            for i in np.flatnonzero(self.snapshots == stop):
                self.snapshot_w[live, i], self.snapshot_b[live, i] = w[live], b[live]
            for i in np.flatnonzero(recorded == stop):
                self.path[live, i] = w[live]

    def _advance(self, last: int) -> None:
        """`advance` without stops. A record at `last` is made by the next call, or now if this is the end of the run."""
        wanted = set(self.record[(self.record >= self.step) & (self.record <= last)].tolist())
        step = self.step
        while step < last:
            if self.flags.batch != minibatch.FULL and step >= self.drawn:
                self._draw_ahead(step)
            if step in wanted:
                self._look(step, DRAW)
                self._update(step, self.layout.chunks(self.layout.samples))
                step += 1
                continue
            end = min([last, step + LAUNCH_STEPS, *(other for other in wanted if other > step)])
            end = step + int(np.argmin(np.append(self.loss_n[step:end] == self.loss_n[step], False)))    # one loss a launch
            if self.flags.batch != minibatch.FULL:
                end = min(end, self.drawn)
            self._pass(DRAW | STEP, step, self.data, self.sign, self.live, end - step)
            step = end
        if last == self.steps and last in wanted:
            self._look(last, 0)
        self.step = last
        self._live = self.gpu.get(self.live)   # waits for the card

    @property
    def finished(self) -> bool:
        """True if all instances have diverged."""
        return not self._live.any()

    def post(self, states: States) -> None:
        """Copy steps, weights and curves of the instances into the states."""
        chosen, diverged = self.instances, self.gpu.get(self.diverged_at)
        states.step[chosen], states.diverged_at[chosen] = np.where(diverged < 0, self.step, diverged), diverged
        states.w[chosen], states.curves[chosen], states.b[chosen] = (self.gpu.get(x) for x in (self.w, self.curves, self.b))
        states.snapshot_w[chosen], states.snapshot_b[chosen], states.path[chosen] = self.snapshot_w, self.snapshot_b, self.path
        if self.test_labels is not None:
            states.curves[chosen, MSE_FRESH] = np.where(np.isfinite(states.curves[chosen, MSE_FRESH]), self.fresh, np.nan)
        if self.before is not NULL:
            states.before[chosen] = self.gpu.get(self.before)
        if self.pairs is not NULL:
            states.pairs[chosen], states.kept_w[chosen], states.kept_g[chosen] = (
                self.gpu.get(x) for x in (self.pairs, self.kept_w, self.kept_g))
        if self.flags.batch == minibatch.PERSISTENT:
            places = (states.step[chosen] - 1) % RING    # a diverged instance stands at an earlier step than the others
            for place in np.unique(places):
                states.s[chosen[places == place]] = self.gpu.get(self.s[place])[places == place]
