"""The workers of a round that a group of ranks steps abreast: one, unless the job takes several at a time (`Job.abreast`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dmft.core.worker import Worker


def dealt(indices: Sequence[int], groups: int) -> list[list[int]]:
    """Neighbouring workers for each of so many groups of ranks, as evenly as can be."""
    cuts = [group * len(indices) // groups for group in range(groups + 1)]
    return [list(indices[first:last]) for first, last in zip(cuts, cuts[1:], strict=False)]


class Crew:
    """Workers by index, on one rank. step: what steps several of them together."""

    def __init__(self, workers: Mapping[int, Worker], step: Callable[[list[Any]], None] | None = None):
        self.workers, self._step = dict(workers), step

    @property
    def first(self) -> Worker:
        return next(iter(self.workers.values()))

    @property
    def done(self) -> bool:
        return all(worker.done for worker in self.workers.values())

    @property
    def progress(self) -> float:
        return sum(worker.progress for worker in self.workers.values()) / len(self.workers)

    def step(self) -> None:
        """Step those that are not done."""
        active = [worker for worker in self.workers.values() if not worker.done]
        if self._step is not None:
            return self._step(active)
        for worker in active:
            worker.step()

    def close(self) -> None:
        for worker in self.workers.values():
            worker.close()
