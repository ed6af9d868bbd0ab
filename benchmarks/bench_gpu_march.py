"""The march on a GPU: time, and share of the card's read bandwidth. Needs an NVIDIA GPU and CuPy.

python benchmarks/bench_gpu_march.py [STEPS [SAMPLES]]      (default: 10000 100000)

One solution alone, two in one process (the host then works on one while the card works on the other), and eight ranks that share
the card by NVIDIA's MPS, as `mpirun -n 8 dmft solve --device gpu` does, with one solution or two each. A step is one of all
solutions, over the last hundred, when the history is full. Ranks begin these together, and their steps are counted until the first
one is done, so that all of them are at work all the time. Then, in turn, eight ranks and one with few samples each: do eight cost
what one costs?
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, MutableSequence
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
LATE = 100  # steps at the end whose time is taken
FEW = 4000  # samples of a small solution
PAIRS = 3  # of runs with RANKS ranks and with one


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
    late: float  # seconds of the last steps
    done: int  # steps that all processes together had done of the last ones when this one was done with its own
    read: int  # bytes that such a step of this process has to read
    m: float  # at the end


def marched(case: Case, rank: int, card: Gpu, together: Callable[[], object], progress: MutableSequence[int]) -> Took:
    """The marches of one process; `together` is called before the first step and before the last ones, of which progress (ranks,)
    counts how many are done."""
    samplings = [Sampling(case.samples, 1, (rank * case.solutions + k,), frozenset(PARTS), SHARE) for k in range(case.solutions)]
    marches = [March(problem(case.algorithm, case.steps, m0=0.5), sampling, 16, np.arange(10), Comm(), np.float32, card)
               for sampling in samplings]
    step_together(marches, Comm())  # compiles
    together()
    began = time.perf_counter()
    while marches[0].n < case.steps - LATE:
        step_together(marches, Comm())
    card.wait()
    before = time.perf_counter()
    together()
    late = time.perf_counter()
    for done in range(1, LATE + 1):
        step_together(marches, Comm())
        progress[rank] = done
    card.wait()
    ended = time.perf_counter()
    done = sum(progress)
    while not marches[0].done:
        step_together(marches, Comm())
    # Bytes that must be read, of slots that hold something: G and H in the sums, H, X and Y of the past; of samples with tangents
    # the rows as far as a slot can respond, and the present one twice.
    history, samples, held = marches[0].history, marches[0].samples, marches[0].history.order
    read = case.samples * len(held) * (samples.past.G.itemsize + 4 * samples.past.H.itemsize)
    each = sum(np.count_nonzero(history.stop[held] > j) for j in held) + 2 * len(held)
    read += samplings[0].carriers * each * samples.tangents.T.itemsize
    return Took(before - began + ended - late, ended - late, done, case.solutions * read, float(marches[0].curves["m"][-1]))


def _rank(case: Case, rank: int, barrier, progress, results) -> None:
    results.put((rank, marched(case, rank, gpu("theory"), barrier.wait, progress)))


def in_processes(case: Case) -> list[Took]:
    """The marches of every rank, each in a process of its own."""
    context = get_context("spawn")
    barrier, progress, results = context.Barrier(case.ranks), context.Array("q", case.ranks, lock=False), context.Queue()
    ranks = [context.Process(target=_rank, args=(case, rank, barrier, progress, results)) for rank in range(case.ranks)]
    for rank in ranks:
        rank.start()
    took = [found for _, found in sorted(results.get(timeout=300) for _ in ranks)]
    for rank in ranks:
        rank.join()
    return took


def late_step(took: list[Took]) -> float:
    """Seconds of a step of all ranks, while all of them are at work."""
    first = min(took, key=lambda each: each.done)
    return first.late / first.done * len(took)


def line(case: Case, took: list[Took], limit: float) -> list:
    """One line of the table."""
    step = late_step(took)
    rate, total = sum(each.read for each in took) / step, max(each.total for each in took)
    return [case.name, f"{case.ranks}", f"{case.solutions}", f"{case.steps}", f"{case.samples}", f"{total:.1f}",
            f"{1e3 * step:.3f}", f"{rate / 1e12:.2f}", f"{rate / limit:.0%}", f"{took[0].m:.4f}"]


def side_by_side(steps: int) -> list[list]:
    """Runs with RANKS ranks and with one, in turn: seconds of a run, mean over the ranks, ms a step at the end, and ratios."""
    rows = []
    for _ in range(PAIRS):
        many, one = (in_processes(Case("gd", GD, steps, FEW, ranks=ranks)) for ranks in (RANKS, 1))
        totals = [float(np.mean([each.total for each in took])) for took in (many, one)]
        ends = [late_step(took) for took in (many, one)]
        rows.append([*(f"{total:.2f}" for total in totals), f"{totals[0] / totals[1]:.2f}", *(f"{1e3 * end:.3f}" for end in ends),
                     f"{ends[0] / ends[1]:.2f}"])
    return rows


def main() -> None:
    steps, samples = (int(text) for text in (sys.argv[1:] + ["10000", "100000"][len(sys.argv) - 1:])[:2])
    try:
        card = gpu("theory")
    except UserError as error:
        return print(f"left out: {error}")
    limit = bandwidth(card, card.zeros(2 << 30, np.float32))
    alone = [Case("gd", GD, steps, samples), Case("persistent_sgd", PERSISTENT, steps, samples),
             Case("gd", GD, steps, samples, solutions=2), Case("gd", GD, steps, 4 * samples), Case("gd", GD, steps, FEW)]
    shared = [Case("gd", GD, steps, count, solutions, RANKS) for count in (samples, FEW) for solutions in (1, 2)]
    rows = [line(case, [marched(case, 0, card, card.wait, [0])], limit) for case in alone]
    if turns := share_cards(max(RANKS, visible_cards() + 1)):  # all of them take the first card
        print(f"ranks take turns: {turns}")
    rows += [line(case, in_processes(case), limit) for case in shared]
    table(f"march on {card.name}, read bandwidth measured {limit / 1e12:.2f} TB/s, dyadic history, alpha = 3, m0 = 0.5, eta = 0.01",
          ["algorithm", "ranks", "solutions each", "n", "K", "seconds", "ms a step at the end", "TB/s", "of the bandwidth",
           "m(end)"], rows)
    table(f"{RANKS} ranks and one, gd, K = {FEW} each, n = {steps}, in turn, all by MPS",
          [f"seconds, {RANKS}", "seconds, 1", "ratio", f"ms a step at the end, {RANKS}", "1", "ratio"], side_by_side(steps))


if __name__ == "__main__":
    main()
