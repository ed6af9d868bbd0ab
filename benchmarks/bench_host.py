"""The host's part of a step of the march on a GPU, without a GPU: sums of a recorded march are handed to the solver as if a card
had made them, and what it would send to a card goes nowhere.

python benchmarks/bench_host.py [STEPS [SOLUTIONS ...]]      (default: 3000 1 8)

Prints microseconds a step over the last steps, when the history is full, for so many solutions in one process.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.common import GD, SHARE, problem, table  # noqa: E402
from dmft.core.parallel import Comm  # noqa: E402
from dmft.equations.kernels import Wanted  # noqa: E402
from dmft.equations.on_card import NOW_NUMBERS, SOUND  # noqa: E402
from dmft.samples.card_steps import LAUNCHED_AHEAD  # noqa: E402
from dmft.samples.gpu import BLOCKS, Card  # noqa: E402
from dmft.samples.sampling import PARTS, Sampling  # noqa: E402
from dmft.solvers.blocks import step_together  # noqa: E402
from dmft.solvers.march import March  # noqa: E402

SAMPLES = 1024  # of the recorded march, and of those that follow it
BLOCKS_PER_LEVEL = 12
LATE = 256  # steps that are recorded, at the end
ROUNDS = 5  # the best of so many is told


class Nowhere:
    """In the place of a card: arrays hold nothing, kernels do nothing, queues are empty."""

    shared_bytes, sharers = 1 << 20, 1

    def zeros(self, shape: Any, dtype: Any = np.float64) -> np.ndarray:
        return np.broadcast_to(np.zeros((), dtype), shape)

    def put(self, array: np.ndarray) -> np.ndarray:
        return array

    def send(self) -> None:
        """Nowhere."""

    def fill(self, array: np.ndarray, values: np.ndarray) -> None:
        """Nobody reads it."""

    def get(self, array: np.ndarray) -> np.ndarray:
        return array

    def mirror(self, shape: Any, dtype: Any = np.float64) -> Nowhere:
        mirror = Nowhere()
        mirror.host = mirror.device = np.zeros(shape, dtype)  # type: ignore[attr-defined]
        return mirror

    def queue(self) -> Nowhere:
        return self

    def kernels(self, text: str, names: tuple[str, ...]) -> dict[str, None]:
        return dict.fromkeys(names)

    def run(self, name: object, launches: Callable[[], None], record: bool = True) -> None:
        """Nothing is launched."""

    def mark(self) -> Callable[[], None]:
        return self.wait

    def wait(self) -> None:
        """Nothing to wait for."""


def sampling(index: int) -> Sampling:
    return Sampling(SAMPLES, 1, (index,), frozenset(PARTS), SHARE)


def recorded(steps: int) -> tuple[March, dict, list[np.ndarray]]:
    """A march before its last steps, and the sums over blocks of each of these."""
    p = problem(GD, steps)
    march = March(p, sampling(0), BLOCKS_PER_LEVEL, Wanted.plain(steps), Comm(), np.float32)
    while march.n < steps - LATE:
        march.step()
    lines, shared = [], {group: {name: np.array(array) for name, array in arrays.items()}
                         for group, arrays in march.shared().items() if isinstance(arrays, dict)}
    for _ in range(LATE):
        sums = march.terms_of([march])[0][0]
        lines.append(np.add.reduceat(sums, np.arange(0, len(sums), -(-len(sums) // BLOCKS))))
        march.take_of([march], Comm().sums_exact([lines[-1][None]]))
    return march, shared, lines


def replayed(march: March, shared: dict, lines: list[np.ndarray], solutions: int, on_card: bool) -> float:
    """Seconds a step of so many solutions. on_card: whether the card does the equations; it finds the same at every step then."""
    card: Any = Card(Nowhere(), LAUNCHED_AHEAD)  # type: ignore[arg-type]
    March.equations_on_card = lambda *_: on_card  # type: ignore[method-assign]
    marches = [March(march.experiment, sampling(k), BLOCKS_PER_LEVEL, march.wanted, Comm(), np.float32, card)
               for k in range(solutions)]
    spent = []
    for _ in range(ROUNDS):
        for each in marches:
            each.samples.restore = lambda *_: None  # type: ignore[method-assign]
            each.samples.company.begin()
            each.restore({**shared, "diverged": np.array(False)}, {}, {})
        took = 0.0
        while not marches[0].done:
            for each in marches:
                company, sums = each.samples.company, lines[min(each.n - march.experiment.steps + LATE, LATE - 1)]
                company.row.sums.host[each.samples.at, : len(sums)] = sums
                for row in range(each.n, each.n + LAUNCHED_AHEAD if on_card else each.n):
                    found = company.steps.record[row % LAUNCHED_AHEAD].host
                    found[:, 0], numbers = SOUND, each.weights.solutions.now.view(np.float64)
                    found[:, 1 : 1 + NOW_NUMBERS] = numbers.reshape(solutions, -1)
                    found[:, 1] = np.int64(row).view(np.float64)  # the first of these numbers
            began = time.process_time()
            step_together(marches, Comm())
            took += time.process_time() - began
        assert marches[-1].n == march.experiment.steps and not marches[-1].diverged
        spent.append(took / len(lines))
    return min(spent)


def main() -> None:
    steps, *several = [int(text) for text in sys.argv[1:]] or [3000]
    found = recorded(steps)
    rows: list[list[object]] = [[count, *(f"{1e6 * replayed(*found, count, on_card):.0f}" for on_card in (False, True))]
                                for count in several or (1, 8)]
    table(f"the host's part of a step, gd, n = {steps}, {found[0].history.slots} slots, in microseconds",
          ["solutions", "with the equations", "without"], rows)


if __name__ == "__main__":
    main()
