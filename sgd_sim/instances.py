"""All instances of a run, spread over threads and ranks: the worker of a simulation (dmft.core.worker).

Instance i belongs to rank i mod P; where instances have two copies, each copy, a line of the states, counts as one here. The
threads of a rank take instances (batches of them on a shared landscape) as they become free. The last ones, when fewer are left
than there are threads, and those whose data are large run one at a time, with their rows spread over the threads. On a GPU as many
as fit are stepped together. None of these choices changes a number. After every slice of work a thread posts the state of its
instances, so that checkpoints never have to wait for it; only the main thread communicates with other ranks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numba
import numpy as np

from dmft.core.device import Gpu, gpu
from dmft.core.parallel import Comm
from dmft.core.parts import INSTANCES, Part
from dmft.core.pool import ROUND_SECONDS, SLICE_SECONDS, Pool, next_slice
from dmft.model.experiment import Experiment
from dmft.model.runfile import Run
from sgd_sim.cpu.by_products import batches
from sgd_sim.cpu.network import NetworkTrajectory
from sgd_sim.cpu.trajectory import InstanceTrajectory, SharedTrajectories, Stepper
from sgd_sim.gpu.products import make_trajectories
from sgd_sim.gpu.trajectories import gpu_batches
from sgd_sim.landscape import data_bytes, make_landscape, sizes
from sgd_sim.memory import SMALL, hold_together
from sgd_sim.states import States

GPU_SLICE_SECONDS = 1.0   # longer than SLICE_SECONDS, since a GPU idles during a post


class Instances:
    """Steps the unfinished instances of this rank, in place in `states`. The keywords are seconds of work, and the bytes of data
    (memory.SMALL) from which on the rows of an instance are spread over threads; no number depends on them."""

    note = ""

    def __init__(self, run: Run, states: States, comm: Comm, *, slice_seconds: float = SLICE_SECONDS,
                 round_seconds: float = ROUND_SECONDS, small: int = SMALL):
        self.run, self.states = run, states
        self._slice_seconds, self._round_seconds, self._small = slice_seconds, round_seconds, small
        self.steps, self.ranks = run.algorithm.steps, comm.size
        self.total = states.step.size
        self.lines = slice(comm.rank, self.total, comm.size)
        self.mine = np.arange(self.total)[self.lines]
        self._threads = max(1, min(comm.threads(), numba.get_num_threads()))
        self._together = hold_together(run, self._threads, comm)
        self._card: Gpu | None = gpu("simulation", *comm.on_node()) if run.simulation.device == "gpu" else None
        self._pool = Pool()

    # --- for the driver ---------------------------------------------------------------------------------------

    @property
    def done(self) -> bool:
        with self._pool.lock:
            return bool(self.states.finished(self.steps)[self.mine].all())

    @property
    def progress(self) -> float:
        with self._pool.lock:
            done = np.where(self.states.finished(self.steps), self.steps, np.maximum(self.states.step, 0))
        return float(done[self.mine].sum()) * self.ranks / (self.steps * self.total)

    def step(self) -> None:
        """Let the threads work for a round."""
        if not self._pool.started:
            self._pool.start([self._work], 1)
        self._pool.wait(self._round_seconds)

    def state(self) -> dict[str, Part]:
        return {INSTANCES: Part({"record": self.states.record}, self.solution().own, self.lines, self.total)}

    def restore(self, parts: Mapping[str, Part]) -> None:
        """Continue from a checkpoint; instances that it does not hold stay at their start."""
        part, samples = parts[INSTANCES], sizes(self.run.simulation.dimension, self.run.problem.alpha)[1]
        old = States.from_arrays(part.shared["record"], self.states.kept, dict(part.own), samples)
        self.states.take_over(old, self.mine[:old.step.size])

    def solution(self) -> Part:
        """The states of this rank's instances."""
        with self._pool.lock:
            return Part({}, self.states.arrays(self.lines), self.lines, self.total)

    def close(self) -> None:
        """End the threads; each finishes its slice."""
        self._pool.close()

    # --- the threads ------------------------------------------------------------------------------------------

    def _work(self) -> None:
        """Work through this rank's instances."""
        numba.set_num_threads(self._threads)   # a setting of this thread, which is the one that starts parallel loops
        left = self.mine[~self.states.finished(self.steps)[self.mine]]
        simulation, alpha, threads = self.run.simulation, self.run.problem.alpha, self._threads
        if self._card is not None:
            self._on_gpu(left, self._card)
            return
        if simulation.landscape == "shared":
            if left.size:
                model = Experiment.from_run(self.run).data
                landscape = make_landscape(simulation.seed, 0, simulation.dimension, alpha, threads > 1,
                                           simulation.precision, model)
                self._in_threads([partial(SharedTrajectories, self.run, batch, self.states, landscape)
                                  for batch in batches(left, self.states.step, threads)])
            return
        alone = left.size % threads if self._together else left.size
        if data_bytes(simulation.dimension, alpha) < self._small or threads == 1:
            alone = 0
        parted = left.size - alone
        kind: Callable[..., Stepper] = NetworkTrajectory if self.run.has_network else InstanceTrajectory
        self._in_threads([partial(kind, self.run, i, self.states, False) for i in left[:parted]])
        for i in left[parted:]:
            self._to_the_end(partial(kind, self.run, i, self.states, True), self._slice_seconds)

    def _on_gpu(self, left: np.ndarray, card: Gpu) -> None:
        card.use()
        for batch in gpu_batches(self.run, left, self.states.step, card):
            self._to_the_end(partial(make_trajectories, self.run, batch, self.states, card), GPU_SLICE_SECONDS)

    def _in_threads(self, makers: Sequence[Callable[[], Stepper]]) -> None:
        """Take what they make to the end, side by side."""
        self._pool.run([partial(self._to_the_end, make, self._slice_seconds) for make in makers], self._threads)

    def _to_the_end(self, make: Callable[[], Stepper], slice_seconds: float) -> None:
        """Make a stepper and take it to the end, in slices."""
        if self._pool.halted:
            return
        stepper, length = make(), 1
        while stepper.step < self.steps and not stepper.finished and not self._pool.halted:
            begin = time.perf_counter()
            stepper.advance(min(self.steps, stepper.step + length))
            with self._pool.lock:
                stepper.post(self.states)
            length = next_slice(length, time.perf_counter() - begin, slice_seconds)
