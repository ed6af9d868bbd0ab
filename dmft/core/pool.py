"""The threads of a worker (dmft.core.worker): they take jobs to their end in short slices, while the main thread looks after stop
signals, checkpoints and other ranks.

A thread posts what it has reached after every slice, under `lock`, and asks `halted` before the next one, so that neither stops nor
checkpoints have to wait for it. What fails in a thread is raised in the main thread.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence

SLICE_SECONDS = 0.25      # work of a thread between two posts
ROUND_SECONDS = 0.25      # duration of a worker's `step`, after which the driver polls stop signals and the other ranks


class Pool:
    """Threads of one worker. `lock` guards what they post."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._halt = threading.Event()
        self._failure: BaseException | None = None
        self._running: list[threading.Thread] = []

    @property
    def started(self) -> bool:
        return bool(self._running)

    @property
    def halted(self) -> bool:
        """Whether the threads are to end after their slice."""
        return self._halt.is_set()

    def start(self, jobs: Sequence[Callable[[], None]], threads: int) -> None:
        """Begin the jobs, which so many threads take as they become free."""
        self._running += self._begin(jobs, threads)

    def run(self, jobs: Sequence[Callable[[], None]], threads: int) -> None:
        """The same, to the end of all of them; for a job that has parts."""
        for thread in self._begin(jobs, threads):
            thread.join()

    def wait(self, seconds: float = ROUND_SECONDS) -> None:
        """Let the threads work for so long, or until all jobs are done."""
        self._join(seconds)
        if self._failure is not None:
            raise self._failure

    def close(self, patience: float | None = None) -> None:
        """End the threads, each after its slice. One that takes longer than `patience` seconds is abandoned."""
        self._halt.set()
        self._join(patience)

    def _begin(self, jobs: Sequence[Callable[[], None]], threads: int) -> list[threading.Thread]:
        waiting: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        for job in jobs:
            waiting.put(job)
        begun = [threading.Thread(target=self._work, args=(waiting,), daemon=True) for _ in range(min(threads, len(jobs)))]
        for thread in begun:
            thread.start()
        return begun

    def _work(self, waiting: queue.SimpleQueue[Callable[[], None]]) -> None:
        try:
            while not self.halted:
                waiting.get_nowait()()
        except queue.Empty:
            return
        except BaseException as failure:   # noqa: BLE001 - handed to the main thread, which raises it
            self._failure = failure

    def _join(self, seconds: float | None) -> None:
        deadline = None if seconds is None else time.monotonic() + seconds
        for thread in self._running:
            thread.join(None if deadline is None else max(0.0, deadline - time.monotonic()))


def next_slice(steps: int, taken: float, wanted: float = SLICE_SECONDS) -> int:
    """How many steps the next slice shall have for `wanted` seconds, when one of `steps` took `taken`; at most twice as many."""
    return max(1, min(2 * steps, int(steps * wanted / max(taken, 1e-9))))
