"""The instances of an ensemble, spread over threads and ranks: the worker of a one-pass process (dmft.core.worker).

Instance i belongs to rank i mod P. A rank cuts its instances into batches (one instance of a chain or of SGD, several paths of the
SDE), which its threads take as they become free. After every slice of work a thread posts the state of its instances, so that
stops and checkpoints never have to wait for it. The random numbers of an instance depend on its number alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numba
import numpy as np

from dmft.core.parallel import Comm
from dmft.core.parts import INSTANCES, Part
from dmft.core.pool import SLICE_SECONDS, Pool, next_slice
from onepass.process import Batch

CLOSE_PATIENCE = 0.5       # seconds that `close` waits for the threads; work not posted by then is done again on resume
MOST_PATHS_TOGETHER = 64         # paths of the SDE in a batch: larger ones are no faster, and a step must stay short


@dataclass(frozen=True)
class Walk:
    """What is run: instances from x0 (instances, size), recorded after the given numbers of steps (times,). `begin(indices, step)`
    makes a batch of these instances, ready to restore snapshots taken at `step`; batches of several only if `together`."""

    x0: np.ndarray
    steps: np.ndarray
    begin: Callable[[np.ndarray, int], Batch]
    together: bool


class EnsembleWorker:
    """Steps the unfinished instances of this rank. `done` (instances, times, size): records of the first instances, which an
    earlier run has finished."""

    note = ""

    def __init__(self, walk: Walk, done: np.ndarray, comm: Comm, threads: int | None):
        self.walk, self.ranks, self.total = walk, comm.size, len(walk.x0)
        self.lines = slice(comm.rank, self.total, comm.size)
        self.mine = np.arange(self.total)[self.lines]
        count, times = len(self.mine), len(walk.steps)
        self.flat = np.full((count, times, walk.x0.shape[1]), np.nan)
        self.columns = np.zeros(count, np.int64)      # times recorded so far
        self.step_of = np.zeros(count, np.int64)      # steps taken so far
        old = self.mine < len(done)
        self.flat[old], self.columns[old] = done[self.mine[old]], times
        self.bytes = walk.begin(np.arange(1), 0).snapshot().shape[1]      # a process that cannot begin fails here, on every rank
        self.kept: dict[int, np.ndarray] = {}         # by line: snapshots of the unfinished instances
        self.threads = threads or max(1, min(comm.threads(), numba.get_num_threads()))
        self._pool = Pool()

    # --- for the driver ---------------------------------------------------------------------------------------

    @property
    def done(self) -> bool:
        with self._pool.lock:
            return bool((self.columns == len(self.walk.steps)).all())

    @property
    def progress(self) -> float:
        last = max(int(self.walk.steps[-1]), 1)
        with self._pool.lock:
            reached = np.where(self.columns == len(self.walk.steps), last, self.step_of)
        return float(reached.sum()) * self.ranks / (last * self.total)

    def step(self) -> None:
        """Let the threads work for a round."""
        if not self._pool.started:
            self._pool.start([partial(self._to_the_end, lines) for lines in self._batches()], self.threads)
        self._pool.wait()

    def state(self) -> dict[str, Part]:
        """Records of all instances of this rank, one line each, and snapshots of the unfinished ones."""
        own = dict(self.solution().own)
        with self._pool.lock:
            own |= {"columns": self.columns.copy(), "step": self.step_of.copy()}
            snapshots = np.zeros((len(self.mine), self.bytes), np.uint8)
            for line, kept in self.kept.items():
                snapshots[line] = kept
        return {INSTANCES: Part({}, own | {"snapshot": snapshots}, self.lines, self.total)}

    def restore(self, parts: Mapping[str, Part]) -> None:
        """Continue from a checkpoint; instances that it does not hold stay at their start."""
        old = dict(parts[INSTANCES].own)  # read once each
        count = len(old["columns"])
        self.flat[:count], self.columns[:count], self.step_of[:count] = old["flat"], old["columns"], old["step"]
        for line in np.flatnonzero((old["step"] > 0) & (old["columns"] < len(self.walk.steps))):
            self.kept[int(line)] = old["snapshot"][line]

    def solution(self) -> Part:
        """The records of this rank's instances."""
        with self._pool.lock:
            return Part({}, {"flat": self.flat.copy()}, self.lines, self.total)

    def close(self) -> None:
        """End the threads. A thread in the middle of a long slice is abandoned: what it posts later is ignored."""
        self._pool.close(CLOSE_PATIENCE)

    # --- the threads ------------------------------------------------------------------------------------------

    def _batches(self) -> list[np.ndarray]:
        """Lines of the unfinished instances, grouped into batches of equal step and equal number of records."""
        left = np.flatnonzero(self.columns < len(self.walk.steps))
        if not self.walk.together:
            return [left[i : i + 1] for i in range(len(left))]
        most = max(1, min(MOST_PATHS_TOGETHER, -(-len(left) // self.threads)))
        places = np.stack([self.step_of[left], self.columns[left]], axis=1)
        return [same[i : i + most] for place in np.unique(places, axis=0)
                for same in [left[(places == place).all(axis=1)]] for i in range(0, len(same), most)]

    def _to_the_end(self, lines: np.ndarray) -> None:
        """Take a batch to its last record, in slices. An instance whose statistics are not finite keeps NaN from there on."""
        step, column, steps = int(self.step_of[lines[0]]), int(self.columns[lines[0]]), self.walk.steps
        batch = self.walk.begin(self.mine[lines], step)
        if step > 0:
            batch.restore(np.stack([self.kept[int(line)] for line in lines]))
        records = self.flat[lines]
        length, posted = 1, time.perf_counter()
        while column < len(steps) and not self._pool.halted:
            taken = min(int(steps[column]) - step, length)
            begin = time.perf_counter()
            batch.advance(taken)
            now = time.perf_counter()
            step += taken
            if taken == length:
                length = next_slice(length, now - begin)
            if step == steps[column]:
                flat = batch.flat()
                finite = np.isfinite(flat).all(axis=1)
                records[finite, column] = flat[finite]
                column = column + 1 if finite.any() else len(steps)
            if column < len(steps) and self.bytes and now - posted >= SLICE_SECONDS:
                self._post(lines, records, column, step, batch.snapshot())
                posted = now
        if column == len(steps):
            self._post(lines, records, column, step, None)
        elif self.bytes:
            self._post(lines, records, column, step, batch.snapshot())

    def _post(self, lines: np.ndarray, records: np.ndarray, column: int, step: int, snapshots: np.ndarray | None) -> None:
        """Hand records, step and snapshots of a batch to the main thread."""
        with self._pool.lock:
            self.flat[lines], self.columns[lines], self.step_of[lines] = records, column, step
            for i, line in enumerate(lines):
                if snapshots is None:
                    self.kept.pop(int(line), None)
                else:
                    self.kept[int(line)] = snapshots[i]
