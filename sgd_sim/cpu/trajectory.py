"""Steppers: instances while they are stepped. The worker (sgd_sim.instances) uses `step`, `finished`, `advance`, `post` alone."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from dmft.model.data import data_of
from dmft.model.experiment import Experiment
from dmft.model.runfile import Run
from dmft.model.two_times import snapshot_steps
from sgd_sim.cpu.by_products import ByProducts, make_products, product_lanes
from sgd_sim.cpu.by_rows import ByRows, make_rows, row_lanes
from sgd_sim.cpu.dynamics import advance
from sgd_sim.cpu.lanes import Lanes, Records, make_noise
from sgd_sim.cpu.starts import start_weights
from sgd_sim.cpu.two_times import make_pairs
from sgd_sim.kernels.step_table import make_flags, make_table
from sgd_sim.landscape import TEST_ROWS, Landscape, make_landscape
from sgd_sim.predictions import asks_channel, fresh_errors
from sgd_sim.recording import MSE_FRESH
from sgd_sim.states import NO_STEPS, NOT_STARTED, States, clone_of, stops


class Stepper(Protocol):
    """Some instances that are stepped together; `step` is the step that they have reached."""

    step: int

    @property
    def finished(self) -> bool:
        """True if nothing is left to step, because all have diverged."""

    def advance(self, last: int) -> None:
        """Go on to step `last`."""

    def post(self, states: States) -> None:
        """Copy where the instances stand into the states."""


class Trajectories:
    """Lines on one landscape, all at the same step, from their starts or from their saved states."""

    def __init__(self, run: Run, instances: np.ndarray, states: States, landscape: Landscape, lanes: Lanes,
                 passes: ByRows | ByProducts, rows: ByRows):
        self.instances, self.landscape, self.lanes, self.passes = instances, landscape, lanes, passes
        self.flags, self.table = make_flags(run), make_table(run, landscape.h0.size)
        experiment, width, seed = Experiment.from_run(run), lanes.w.shape[1], run.simulation.seed
        self.data, self.asks_channel = experiment.data, asks_channel(run, experiment.data)
        self.records = Records(states.record, np.full((width, *states.curves.shape[1:]), np.nan), np.full(width, -1),
                               np.zeros((width, 0, TEST_ROWS)),
                               make_pairs(states, instances, width, landscape.w0.size, landscape.h0.size))
        self.step, self.snapshots = max(0, int(states.step[instances[0]])), snapshot_steps(run)
        self.path = np.full((width, *states.path.shape[1:]), np.nan, np.float32)
        self.snapshot_w, self.snapshot_b = (np.full((width, *array.shape[1:]), np.nan)
                                            for array in (states.snapshot_w, states.snapshot_b))
        for lane, i in enumerate(instances):
            instance = i // states.copies
            lanes.batch[lane], lanes.thermal[lane] = make_noise(seed, instance, clone_of(states, i))
            self.records.curves[lane], self.records.diverged_at[lane] = states.curves[i], states.diverged_at[i]
            self.snapshot_w[lane], self.snapshot_b[lane] = states.snapshot_w[i], states.snapshot_b[i]
            self.path[lane] = states.path[i]
            lanes.live[lane] = states.diverged_at[i] < 0
            if states.step[i] == NOT_STARTED:
                lanes.w[:, lane] = start_weights(run.problem, experiment.constraint, landscape, rows, seed, instance)
                lanes.before[:, lane] = lanes.w[:states.before.shape[1], lane]
            else:
                lanes.w[:, lane], lanes.b[lane], lanes.before[:, lane] = states.w[i], states.b[i], states.before[i]
                if states.s.shape[1]:
                    lanes.s[lane] = states.s[i]

    @property
    def finished(self) -> bool:
        """True if all have diverged."""
        return not self.lanes.live.any()

    def advance(self, last: int) -> None:
        """Go on to step `last`, with a stop wherever weights are kept."""
        for stop in stops(self.step, last, self.snapshots, self.records.steps if self.path.size else NO_STEPS):
            if stop > self.step:
                self._advance(stop)
            live = self.lanes.live.astype(bool)
            for i in np.flatnonzero(self.snapshots == stop):
                self.snapshot_w[live, i], self.snapshot_b[live, i] = self.lanes.w.T[live], self.lanes.b[live]
            for i in np.flatnonzero(self.records.steps == stop) if self.path.size else ():
                self.path[live, i] = self.lanes.w.T[live]

    def _advance(self, last: int) -> None:
        """`advance` without stops."""
        records, made = self.records, slice(*np.searchsorted(self.records.steps, [self.step, last + 1]))
        if self.asks_channel:
            records = records._replace(fresh=np.zeros((records.curves.shape[0], made.stop - made.start, TEST_ROWS)))
        advance(self.landscape, self.flags, self.table, self.passes, self.lanes, records, self.step, last)
        self.step = last
        if self.asks_channel:
            found = records.curves[:, MSE_FRESH, made]
            found[:] = np.where(np.isfinite(found), fresh_errors(self.data, records.fresh, self.landscape.test_h0), np.nan)

    def post(self, states: States) -> None:
        """Copy steps, weights and curves of the instances into the states; what diverged has no weights any more."""
        for lane, i in enumerate(self.instances):
            diverged, lives = self.records.diverged_at[lane], self.lanes.live[lane]
            states.step[i], states.diverged_at[i] = self.step if diverged < 0 else diverged, diverged
            states.curves[i], states.b[i] = self.records.curves[lane], self.lanes.b[lane]
            states.snapshot_w[i], states.snapshot_b[i] = self.snapshot_w[lane], self.snapshot_b[lane]
            states.path[i] = self.path[lane]
            if states.kept.size:
                pairs = self.records.pairs
                states.pairs[i], states.kept_w[i], states.kept_g[i] = pairs.values[lane], pairs.w[lane], pairs.g[lane]
            states.w[i] = self.lanes.w[:, lane] if lives else 0.0
            states.before[i] = self.lanes.before[:, lane] if lives else 0.0
            if states.s.shape[1]:
                states.s[i] = self.lanes.s[lane]


class InstanceTrajectory(Trajectories):
    """One line on its own landscape, or the one that is given."""

    def __init__(self, run: Run, line: int, states: States, threads: bool, landscape: Landscape | None = None):
        simulation, problem = run.simulation, run.problem
        landscape = landscape or make_landscape(simulation.seed, line // states.copies, simulation.dimension, problem.alpha,
                                                threads, simulation.precision, data_of(problem))
        rows = make_rows(landscape, threads)
        super().__init__(run, np.array([line]), states, landscape, row_lanes(landscape, rows, states.before.shape[1] > 0), rows,
                         rows)


class SharedTrajectories(Trajectories):
    """A batch of starts on one landscape."""

    def __init__(self, run: Run, instances: np.ndarray, states: States, landscape: Landscape):
        lanes = product_lanes(landscape, instances.size, states.before.shape[1] > 0)
        products = make_products(landscape, lanes.w.shape[1], Experiment.from_run(run).losses)
        super().__init__(run, instances, states, landscape, lanes, products, make_rows(landscape))
