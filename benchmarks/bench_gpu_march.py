"""The march on a GPU: time, and share of the card's read bandwidth. Needs an NVIDIA GPU and CuPy.

python benchmarks/bench_gpu_march.py [STEPS [SAMPLES]]      (default: 10000 100000)

One solution alone, two in one process (the host then works on one while the card works on the other), and eight ranks that share
the card by NVIDIA's MPS, as `mpirun -n 8 dmft solve --device gpu` does, with one solution or two each. A step is one of all
solutions, over the last hundred, when the history is full; ranks begin these together.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.bench_gpu import bandwidth  # noqa: E402
from benchmarks.common import GD, PERSISTENT, SHARE, problem, table  # noqa: E402
from dmft.core.device import Gpu, gpu  # noqa: E402
from dmft.core.errors import UserError  # noqa: E402
from dmft.core.parallel import Comm  # noqa: E402
from dmft.core.sharing import share_cards, visible_cards  # noqa: E402
from dmft.samples.sampling import PARTS, Sampling  # noqa: E402
from dmft.solvers.blocks import step_together  # noqa: E402
from dmft.solvers.march import March  # noqa: E402

RANKS = 8  # that share the card


class Case(NamedTuple):
    """Marches of equal size, all with samples of their own."""

    name: str
    algorithm: str
    steps: int
    samples: int
    solutions: int = 1  # in one process
    ranks: int = 1  # processes


class Took(NamedTuple):
    """How the marches of one process went."""

    total: float  # seconds
    step: float  # seconds a step of all solutions, over the last hundred
    read: int  # bytes that such a step has to read
    m: float  # at the end


def marched(case: Case, rank: int, card: Gpu, together: Callable[[], object]) -> Took:
    """The marches of one process; `together` is called before the first step and before the last hundred."""
    samplings = [Sampling(case.samples, 1, (rank * case.solutions + k,), frozenset(PARTS), SHARE) for k in range(case.solutions)]
    marches = [March(problem(case.algorithm, case.steps, m0=0.5), sampling, 16, np.arange(10), Comm(), np.float32, card)
               for sampling in samplings]
    step_together(marches, Comm())  # compiles
    together()
    began = time.perf_counter()
    while not marches[0].done:
        if marches[0].n == case.steps - 100:
            card.wait()
            together()
            late = time.perf_counter()
        step_together(marches, Comm())
    card.wait()
    ended = time.perf_counter()
    # Bytes that must be read, of slots that hold something: G and H in the sums, H, X and Y of the past; of samples with tangents
    # the rows as far as a slot can respond, and the present one twice.
    history, samples, held = marches[0].history, marches[0].samples, marches[0].history.order
    read = case.samples * len(held) * (samples.past.G.itemsize + 4 * samples.past.H.itemsize)
    each = sum(np.count_nonzero(history.stop[held] > j) for j in held) + 2 * len(held)
    read += samplings[0].carriers * each * samples.tangents.T.itemsize
    return Took(ended - began, (ended - late) / 100, case.solutions * read, float(marches[0].curves["m"][-1]))


def _rank(case: Case, rank: int, barrier, results) -> None:
    results.put((rank, marched(case, rank, gpu("theory"), barrier.wait)))


def run(case: Case, card: Gpu, limit: float) -> list:
    """One line of the table."""
    if case.ranks == 1:
        took = [marched(case, 0, card, card.wait)]
    else:
        context = get_context("spawn")
        barrier, results = context.Barrier(case.ranks), context.Queue()
        ranks = [context.Process(target=_rank, args=(case, rank, barrier, results)) for rank in range(case.ranks)]
        for rank in ranks:
            rank.start()
        took = [found for _, found in sorted(results.get(timeout=300) for _ in ranks)]
        for rank in ranks:
            rank.join()
    step = max(each.step for each in took)
    rate = sum(each.read for each in took) / step
    total = max(each.total for each in took)
    return [case.name, f"{case.ranks}", f"{case.solutions}", f"{case.steps}", f"{case.samples}", f"{total:.1f}",
            f"{1e3 * step:.2f}", f"{rate / 1e12:.2f}", f"{rate / limit:.0%}", f"{took[0].m:.4f}"]


def main() -> None:
    steps, samples = (int(text) for text in (sys.argv[1:] + ["10000", "100000"][len(sys.argv) - 1:])[:2])
    try:
        card = gpu("theory")
    except UserError as error:
        return print(f"left out: {error}")
    limit = bandwidth(card, card.zeros(2 << 30, np.float32))
    cases = [Case("gd", GD, steps, samples), Case("persistent_sgd", PERSISTENT, steps, samples),
             Case("gd", GD, steps, samples, solutions=2), Case("gd", GD, steps, 4 * samples), Case("gd", GD, steps, 4000)]
    shared = [Case("gd", GD, steps, count, solutions, RANKS) for count in (samples, 4000) for solutions in (1, 2)]
    rows = [run(case, card, limit) for case in cases]
    if turns := share_cards(max(RANKS, visible_cards() + 1)):  # all of them take the first card
        print(f"ranks take turns: {turns}")
    rows += [run(case, card, limit) for case in shared]
    table(f"march on {card.name}, read bandwidth measured {limit / 1e12:.2f} TB/s, dyadic history, alpha = 3, m0 = 0.5, eta = 0.01",
          ["algorithm", "ranks", "solutions each", "n", "K", "seconds", "ms a step at the end", "TB/s", "of the bandwidth",
           "m(end)"], rows)


if __name__ == "__main__":
    main()
