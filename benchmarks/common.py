"""What the solver benchmarks share: runs, timing, tables."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from dmft.core.parallel import Comm
from dmft.equations.kernels import Wanted
from dmft.model.experiment import Experiment
from dmft.model.runfile import parse_run
from dmft.samples.sampling import PARTS, Sampling
from dmft.solvers.iterate import Iteration, Options
from dmft.solvers.march import March

PERSISTENT = 'kind = "persistent_sgd"\nbatch_fraction = 0.5\npersistence = 1.0'
GD = 'kind = "gd"'
SHARE = 1 / 16  # the default of theory.tangents


def problem(algorithm: str, steps: int, eta: float = 0.01, alpha: float = 3.0, m0: float = 0.5) -> Experiment:
    return Experiment.from_run(parse_run(f"[problem]\nalpha = {alpha}\nm0 = {m0}\n[algorithm]\nlearning_rate = {eta}\n"
                                      f"t_max = {eta * steps}\n{algorithm}\n"))


def march(p: Experiment, samples: int, per_level: int | None, seed: int = 1, parts=PARTS, dtype=None,
          tangents: float = 1.0) -> March:
    """A march to its end; a dyadic history keeps its tangents in single precision, as the solver does. tangents: share of the
    samples that have them."""
    dtype = dtype or (np.float64 if per_level is None else np.float32)
    solver = March(p, Sampling(samples, seed, (0,), frozenset(parts), tangents), per_level, Wanted.plain(p.steps), Comm(), dtype)
    while not solver.done:
        solver.step()
    return solver


def iteration(p: Experiment, samples: int, mixing: float, tolerance: float, parts=()) -> Iteration:
    return Iteration(p, Sampling(samples, 1, (0,), frozenset(parts)), Options(mixing, tolerance, 500, False),
                     Wanted.plain(p.steps), Comm())


def seconds(work: Callable[[], object]) -> float:
    """CPU seconds of this process: with one thread the time on a free core, whatever else the machine does."""
    start = time.process_time()
    work()
    return time.process_time() - start


def table(title: str, head: list[str], rows: list[list[object]]) -> None:
    """Print a Markdown table."""
    print(f"\n{title}\n\n| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(str(cell) for cell in row) + " |", flush=True)
