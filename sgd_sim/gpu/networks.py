"""Instances of networks on a GPU: the dynamics of cpu/network.py, many instances at a time, one pass over the data for all units.

Mini-batches, launches and checkpoints are those of trajectories.py; a step is a pass and an update.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dmft.core import streams
from dmft.core.cuda_numbers import defines, enum
from dmft.core.device import CUDA, Gpu, source
from dmft.core.to_cuda import CudaFunctions
from dmft.model.cuda_loss import activation_source, averages_source, loss_source
from dmft.model.experiment import Experiment, observables_of
from dmft.model.network import TwoLayer
from dmft.model.runfile import Run
from dmft.model.sample_averages import averages
from sgd_sim.cpu.lanes import make_noise
from sgd_sim.cpu.network import start_units
from sgd_sim.gpu.layout import ALL, PASSES, STEP, CardLayout
from sgd_sim.gpu.trajectories import NULL, RING, GpuTrajectories, card_layout
from sgd_sim.kernels import minibatch
from sgd_sim.kernels.step_table import make_flags, make_table
from sgd_sim.landscape import TEST_ROWS, directions_of, make_teacher, network_labels
from sgd_sim.recording import network_shapes, recorded_rows
from sgd_sim.states import NO_STEPS, NOT_STARTED, States

_KERNELS = ("fill_rows", "draw_rows", "draw_fixed_size", *PASSES["units"])


def unit_source(run: Run, network: TwoLayer) -> str:
    """What units.cuh needs besides the loss: formulas from Python, observables, and where the other curves stand among the rows."""
    shapes = network_shapes(run)
    ends = np.cumsum([0, *(int(np.prod(shape)) for shape in shapes.values())])
    places = {f"{name.upper()}_AT": first for name, first in zip(shapes, ends) if name not in observables_of(run)}
    numbers = {"UNITS": network.units, "DIRECTIONS": network.directions}
    scale = CudaFunctions().add(type(network.constraint).scale, given={"self": network.constraint}, name="unit_scale")
    observed = averages_source(averages(observables_of(run)))
    formulas = activation_source(network.activation), scale.text, source(CUDA / "lanes.cuh"), observed
    return "\n".join((*formulas, defines(numbers), enum(places)))


class GpuNetworks(GpuTrajectories):
    """A batch of instances of a network, all at the same step."""

    passes = "units"

    def __init__(self, run: Run, instances: np.ndarray, states: States, gpu: Gpu, layout: CardLayout | None = None):
        experiment, seed = Experiment.from_run(run), run.simulation.seed
        assert experiment.network is not None
        self.run, self.instances, self.gpu, self.layout = run, instances, gpu, layout or card_layout(run)
        self.experiment, self.network, self.loss_n = experiment, experiment.network, experiment.loss_n
        self.flags, self.table, self.steps = make_flags(run), make_table(run, self.layout.samples), run.algorithm.steps
        self.record, self.snapshots, self.path = states.record, NO_STEPS, np.zeros(0)
        more, rows = unit_source(run, self.network), len(recorded_rows(run))
        self.by_loss = [gpu.kernels(self.layout.code(loss_source(loss) + more, self.flags, experiment.constraint, rows,
                                                     self.passes), _KERNELS) for loss in experiment.losses]
        self.kernels, self.step, self.drawn = self.by_loss[0], max(0, int(states.step[instances[0]])), -1
        count, p, n, samples = instances.size, self.network.units, self.layout.n, self.layout.samples
        put, zeros = gpu.put, gpu.zeros
        noise = [make_noise(seed, i) for i in instances]
        heat = [[own.thermal, *(streams.key(seed, "simulation/thermal", i, r) for r in range(1, p))]
                for i, own in zip(instances, noise)]
        self.batch_streams, self.thermal_streams = put(np.array([own.batch for own in noise])), put(np.array(heat))
        settings = self._settings()
        self.settings, self.lines, self.draws = put(settings), np.int64(len(settings)), put(self.table.draws)
        teachers = [make_teacher(seed, i, n) for i in instances]
        found = np.array([directions_of(w0, seed, i, self.network.directions) for w0, i in zip(teachers, instances)])
        self.w0, self.directions = put(np.array(teachers)), put(found)
        self.test, _ = self._labelled("simulation/test", TEST_ROWS)
        self.data, kappa = self._labelled("simulation/data", samples)
        self.kappa = kappa if experiment.observables else NULL
        start = states.w[instances]
        if states.step[instances[0]] == NOT_STARTED:
            units = [start_units(self.network, each, seed, i).ravel() for each, i in zip(found, instances)]
            start = np.array([np.concatenate([w, self.network.a, self.network.beta]) for w in units])
        before = states.before[instances] if states.step[instances[0]] != NOT_STARTED else start
        self.w, self.before = put(start), put(before) if self.flags.remembers else NULL
        chunks = self.layout.chunks(samples)
        self.partial, self.pushes = zeros((count, chunks, p, self.layout.padded), np.float32), zeros((count, chunks, 2, p))
        self.e, self.sign = zeros((count, p, self.layout.padded), np.float32), NULL
        self._put_records(states)
        self._update(self.step)

    def _labelled(self, purpose: str, rows: int) -> tuple[tuple, Any]:
        """Data of all instances, their labels, the number of rows, and an array for the outputs; and the fields of directions."""
        seed, count, threads = self.run.simulation.seed, self.instances.size, (128,)
        data = self.gpu.zeros((count, rows, self.layout.stride), self.layout.stored)
        keys = self.gpu.put(np.array([streams.key(seed, purpose, i) for i in self.instances]))
        outputs, kappa = self.gpu.zeros((count, rows)), self.gpu.zeros((count, rows, self.network.directions))
        self.kernels["fill_rows"]((rows, count), threads, (keys, self.w0, np.int32(rows), data, outputs), 256)
        self.kernels["fields_of_directions"]((rows, count), threads, (data, self.directions, np.int32(rows), kappa), 256)
        fields = self.gpu.get(kappa)
        labels = [network_labels(self.network, seed, purpose, i, fields[k]) for k, i in enumerate(self.instances)]
        return (data, self.gpu.put(np.array(labels)), np.int32(rows), outputs), kappa

    def _over(self, mode: int, step: int, rows: tuple) -> None:
        """Launch a pass over data, labels, their number and outputs."""
        grid = self.layout.chunks(int(rows[2])), self.instances.size
        self.by_loss[self.loss_n[step]]["pass_over_units"](grid, (self.layout.threads,), (
            np.int32(mode), np.int64(step), np.int32(RING), self.settings, self.lines, *rows, self.live, self.s, self.e, self.w,
            self.partial, self.pushes), self.layout.unit_bytes(self.network.units))

    def _pass(self, mode: int, step: int, rows: tuple, side: Any, going: Any, steps: int = 1) -> None:
        """As in trajectories.py."""
        for n in range(step, step + steps):
            self._over(mode, n, rows)
            if mode & STEP:
                self._update(n, self.layout.chunks(self.layout.samples))

    def _update(self, step: int, chunks: int = 0, w0: Any = None, ahead: int = 1) -> None:
        """A step of all parameters from the gradients of so many chunks; with chunks = 0 only e is made."""
        rates = self.network.train, self.network.train_intercepts
        self.kernels["step_units"]((self.instances.size,), (self.layout.threads,), (
            np.int64(step), self.settings, self.lines, np.int32(ahead), np.int32(chunks),
            *(np.float64(rate / self.experiment.eta_0) for rate in rates), self.partial, self.pushes, self.before, self.w,
            self.thermal_streams, self.e, self.live, self.diverged_at), 256)

    def _look(self, step: int, mode: int) -> None:
        """Compute all outputs and record them; as in trajectories.py."""
        twice = self.flags.looks_ahead
        if twice:
            self._update(step, ahead=0)
        self._over(ALL, step, self.test)
        self._over(ALL if twice else mode | ALL, step, self.data)
        (_, labels, rows, outputs), (_, test_labels, tests, test_outputs) = self.data, self.test
        self.by_loss[self.loss_n[step]]["record_units"]((self.instances.size,), (self.layout.threads,), (
            self.w, self.directions, outputs, labels, self.kappa, rows, test_outputs, test_labels, tests, np.int64(step),
            self.curves, np.int32(np.searchsorted(self.record, step)), np.int32(self.record.size), self.live,
            self.diverged_at), 256)
        if twice and mode:
            self._update(step)
            self._over(mode, step, self.data)

    def post(self, states: States) -> None:
        """Copy where the instances stand into the states; what diverged has no weights any more."""
        chosen, diverged = self.instances, self.gpu.get(self.diverged_at)
        lives = (diverged < 0)[:, None]
        states.step[chosen], states.diverged_at[chosen] = np.where(diverged < 0, self.step, diverged), diverged
        states.curves[chosen], states.w[chosen] = self.gpu.get(self.curves), np.where(lives, self.gpu.get(self.w), 0.0)
        if self.flags.remembers:
            states.before[chosen] = np.where(lives, self.gpu.get(self.before), 0.0)
        if self.flags.batch == minibatch.PERSISTENT:
            states.s[chosen] = self.gpu.get(self.s[(self.step - 1) % RING])
