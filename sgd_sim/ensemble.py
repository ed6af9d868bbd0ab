"""All instances of a run over threads and ranks, with checkpoints.

Instance i belongs to rank i mod P. On a rank, instances (batches of them on a shared landscape) go to threads as
these become free; those left when there are fewer than threads, and those whose data are large, run one at a time
with their rows spread over the threads. On a GPU as many as it can hold are stepped together. No such choice changes a
number. Threads post where their instances stand
after every slice of work, so that a checkpoint never has to wait for them; the main thread alone talks to other
ranks.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial

import numba
import numpy as np

from dmft.core.device import Gpu, gpu
from dmft.core.parallel import Comm
from dmft.model.runfile import Run
from sgd_sim.cpu.shared import SharedTrajectories, batches
from sgd_sim.cpu.trajectory import Stepper, Trajectory
from sgd_sim.gpu.trajectories import GpuTrajectories, gpu_batches
from sgd_sim.landscape import data_bytes, make_landscape
from sgd_sim.memory import SMALL, hold_together
from sgd_sim.states import PER_INSTANCE, States

SLICE_SECONDS = 0.25      # work between two posts
GPU_SLICE_SECONDS = 1.0   # a GPU idles while it is posted from
ROUND_SECONDS = 0.25      # between two looks at signals and other ranks

_UNFINISHED, _SAVE, _STOP = 1, 2, 4   # flags of a round; wishes to stop are shifted up by _STOP


class Ensemble:
    """Steps the unfinished instances of `states` in place.

    stop: polled, this rank's stop flags, 0 to go on; save: called on rank 0 with the states of all ranks, every
    `checkpoint_interval` seconds and at an early end; report: called on rank 0 with the share of steps done.
    """

    def __init__(self, run: Run, states: States, comm: Comm, stop: Callable[[], int] = lambda: 0,
                 save: Callable[[States], None] | None = None, report: Callable[[float], None] = lambda share: None):
        self.run, self.states, self.comm = run, states, comm
        self.stop, self.save, self.report = stop, save, report
        self.steps = run.algorithm.steps
        self.mine = np.arange(comm.rank, run.simulation.instances, comm.size)
        self._lock, self._halt = threading.Lock(), threading.Event()
        self._failure: BaseException | None = None
        self._card: Gpu | None = None

    def go(self) -> int:
        """Run to the end: 0, or the agreed stop flags when stopped before. Rank 0 then holds all instances."""
        threads = max(1, min(self.comm.threads(), numba.get_num_threads()))
        together = hold_together(self.run, threads, self.comm)
        self._card = gpu("simulation", *self.comm.on_node()) if self.run.simulation.device == "gpu" else None
        driver = threading.Thread(target=self._drive, args=(threads, together), daemon=True)
        driver.start()
        stopped = self._watch(driver)
        self._halt.set()
        driver.join()
        self._collect()
        if stopped:
            self._save()
        return stopped

    def _watch(self, driver: threading.Thread) -> int:
        """Until every rank is done or one wants to stop: report, agree, save. Returns the agreed stop flags."""
        saved = time.monotonic()
        while True:
            if driver.is_alive():
                driver.join(ROUND_SECONDS)
            else:
                time.sleep(ROUND_SECONDS)   # other ranks are still at work: do not spin on them
            if self._failure is not None:
                raise self._failure
            due = time.monotonic() - saved >= self.run.simulation.checkpoint_interval
            flags = _UNFINISHED * driver.is_alive() | _SAVE * (self.comm.is_root and due) | _STOP * self.stop()
            news = self.comm.gather((flags, self._steps_done()))
            flags = int(np.bitwise_or.reduce([flag for flag, _ in news]))
            if self.comm.is_root:
                self.report(sum(done for _, done in news) / (self.steps * self.run.simulation.instances))
            if not flags & _UNFINISHED:
                return 0
            if flags >= _STOP:
                return flags // _STOP
            if flags & _SAVE:
                self._collect()
                self._save()
                saved = time.monotonic()

    def _steps_done(self) -> int:
        with self._lock:
            done = np.where(self.states.finished(self.steps), self.steps, np.maximum(self.states.step, 0))
        return int(done[self.mine].sum())

    def _drive(self, threads: int, together: bool) -> None:
        """Work through this rank's instances."""
        try:
            numba.set_num_threads(threads)   # holds for this thread, which is the one that starts parallel loops
            left = self.mine[~self.states.finished(self.steps)[self.mine]]
            simulation, alpha = self.run.simulation, self.run.problem.alpha
            if self._card is not None:
                self._on_gpu(left, self._card)
                return
            if simulation.landscape == "shared":
                if left.size:
                    landscape = make_landscape(simulation.seed, 0, simulation.dimension, alpha, threads > 1, simulation.precision)
                    self._in_threads([partial(SharedTrajectories, self.run, batch, self.states, landscape)
                                      for batch in batches(left, self.states.step, threads)], threads)
                return
            alone = left.size % threads if together else left.size
            if data_bytes(simulation.dimension, alpha) < SMALL or threads == 1:
                alone = 0
            parted = left.size - alone
            self._in_threads([partial(Trajectory, self.run, i, self.states, False) for i in left[:parted]], threads)
            for i in left[parted:]:
                self._finish(partial(Trajectory, self.run, i, self.states, True))
        except BaseException as failure:   # noqa: BLE001 - handed to the main thread, which raises it
            self._failure = failure

    def _on_gpu(self, left: np.ndarray, card: Gpu) -> None:
        card.use()
        for batch in gpu_batches(self.run, left, self.states.step, card):
            self._finish(partial(GpuTrajectories, self.run, batch, self.states, card), GPU_SLICE_SECONDS)

    def _in_threads(self, jobs: Sequence[Callable[[], Stepper]], threads: int) -> None:
        waiting: queue.SimpleQueue[Callable[[], Stepper]] = queue.SimpleQueue()
        for job in jobs:
            waiting.put(job)

        def work() -> None:
            try:
                while not self._halt.is_set():
                    self._finish(waiting.get_nowait())
            except queue.Empty:
                return
            except BaseException as failure:   # noqa: BLE001
                self._failure = failure

        workers = [threading.Thread(target=work, daemon=True) for _ in range(min(threads, len(jobs)))]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    def _finish(self, make: Callable[[], Stepper], slice_seconds: float = SLICE_SECONDS) -> None:
        """Make a stepper and take it to the end, in slices."""
        if self._halt.is_set():
            return
        stepper, length = make(), 1
        while stepper.step < self.steps and not stepper.finished and not self._halt.is_set():
            begin = time.perf_counter()
            stepper.advance(min(self.steps, stepper.step + length))
            with self._lock:
                stepper.post(self.states)
            taken = time.perf_counter() - begin
            length = max(1, min(2 * length, int(length * slice_seconds / max(taken, 1e-9))))

    def _save(self) -> None:
        """Rank 0 saves; an error (a full disk, say) reaches every rank."""
        def write() -> None:
            if self.save is not None:
                with self._lock:
                    self.save(self.states)

        self.comm.from_root(write)

    def _collect(self) -> None:
        """Bring the states of all ranks to rank 0."""
        with self._lock:
            if not self.comm.is_root:
                rows = self.states.rows(self.mine)
                for name in PER_INSTANCE:
                    self.comm.send_array(rows[name], 0)
                return
            for rank in range(1, self.comm.size):
                theirs = np.arange(rank, self.states.step.size, self.comm.size)
                self.states.put(theirs, {name: self.comm.recv_array(rank) for name in PER_INSTANCE})
