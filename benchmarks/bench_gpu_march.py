"""The march on a GPU: time, and share of the card's read bandwidth. Needs an NVIDIA GPU and CuPy.

python benchmarks/bench_gpu_march.py [STEPS [SAMPLES]]      (default: 10000 100000)

One solution alone, several side by side in one process (the host then works on one while the card works on the others), one of four
times as many samples, and one and eight solutions of 4000 samples. A step is one of all solutions.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.bench_gpu import bandwidth  # noqa: E402
from benchmarks.common import GD, PERSISTENT, SHARE, problem, table  # noqa: E402
from dmft.core.device import Gpu, gpu  # noqa: E402
from dmft.core.errors import UserError  # noqa: E402
from dmft.core.parallel import Comm  # noqa: E402
from dmft.samples.sampling import PARTS, Sampling  # noqa: E402
from dmft.solvers.blocks import step_together  # noqa: E402
from dmft.solvers.march import March  # noqa: E402


def run(name: str, algorithm: str, steps: int, samples: int, card: Gpu, limit: float, solutions: int = 1) -> list:
    """Whole marches, with the share of the bandwidth over their last hundred steps, when the history is full."""
    samplings = [Sampling(samples, 1, (k,), frozenset(PARTS), SHARE) for k in range(solutions)]
    marches = [March(problem(algorithm, steps, m0=0.5), sampling, 16, np.arange(10), Comm(), np.float32, card)
               for sampling in samplings]
    began = time.perf_counter()
    while not marches[0].done:
        if marches[0].n == steps - 100:
            card.wait()
            late = time.perf_counter()
        step_together(marches, Comm())
    card.wait()
    total, late = time.perf_counter() - began, (time.perf_counter() - late) / 100
    # Bytes that must be read, of slots that hold something: G and H in the sums, H, X and Y of the past; of samples with tangents
    # the rows as far as a slot can respond, and the present one twice.
    history, held = marches[0].history, marches[0].history.order
    read = samples * len(held) * 5 * 8
    read += samplings[0].carriers * 4 * (sum(np.count_nonzero(history.stop[held] > j) for j in held) + 2 * len(held))
    read *= solutions
    return [name, f"{solutions}", f"{steps}", f"{samples}", f"{total:.1f}", f"{1e3 * late:.2f}", f"{read / late / 1e12:.2f}",
            f"{read / late / limit:.0%}", f"{marches[0].curves['m'][-1]:.4f}"]


def main() -> None:
    steps, samples = (int(text) for text in (sys.argv[1:] + ["10000", "100000"][len(sys.argv) - 1:])[:2])
    try:
        card = gpu("theory")
    except UserError as error:
        return print(f"left out: {error}")
    limit = bandwidth(card, card.zeros(2 << 30, np.float32))
    run("warm", PERSISTENT, 200, 100, card, limit)
    cases = [("gd", GD, samples, 1), ("persistent_sgd", PERSISTENT, samples, 1), ("gd", GD, samples, 2), ("gd", GD, 4 * samples, 1),
             ("gd", GD, 4 * samples, 2), ("gd", GD, 4000, 1), ("gd", GD, 4000, 8)]
    table(f"march on {card.name}, read bandwidth measured {limit / 1e12:.2f} TB/s, dyadic history, alpha = 3, m0 = 0.5, eta = 0.01",
          ["algorithm", "solutions", "n", "K", "seconds", "ms a step at the end", "TB/s", "of the bandwidth", "m(end)"],
          [run(name, algorithm, steps, count, card, limit, solutions) for name, algorithm, count, solutions in cases])


if __name__ == "__main__":
    main()
