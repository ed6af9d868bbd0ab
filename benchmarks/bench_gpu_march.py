"""The march on a GPU: time, and share of the card's read bandwidth. Needs an NVIDIA GPU and CuPy.

python benchmarks/bench_gpu_march.py [STEPS [SAMPLES]]      (default: 10000 100000)

One solution alone, two and eight in one process (in two companies: the host is at one while the card is at the other; with
NUMBA_NUM_THREADS threads at the solutions of a company), and eight ranks that share
the card by NVIDIA's MPS, as `mpirun -n 8 dmft solve --device gpu` does, with one solution or two each. A step is one of all
solutions, over the last hundred, when the history is full. Ranks begin these together, and their steps are counted until the first
one is done, so that all of them are at work all the time. The share of the bandwidth counts what the kernels of a step have to
read at least, each array once in every kernel. Then, in turn, eight ranks, one rank and one process without MPS, with few samples
each: do eight cost what one costs?
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
from dmft.equations.history import History  # noqa: E402
from dmft.equations.kernels import Wanted  # noqa: E402
from dmft.samples.card_steps import LAUNCHED_AHEAD  # noqa: E402
from dmft.samples.gpu import Card  # noqa: E402
from dmft.samples.sampling import PARTS, Sampling  # noqa: E402
from dmft.solvers.blocks import step_together  # noqa: E402
from dmft.solvers.march import March  # noqa: E402

RANKS = 8  # that share the card
LATE = 100  # steps at the end whose time is taken
FEW = 4000  # samples of a small solution
ROUNDS = 3  # of runs with RANKS ranks and with one
BLOCKS_PER_LEVEL = 12  # of the history
SINGLE, DOUBLE = 4, 8  # bytes of H, X, Y and tangents; of G and of the state
PATIENCE = 300.0  # seconds that one process waits for another


class Case(NamedTuple):
    """Marches of equal size, all with samples of their own."""

    name: str
    algorithm: str
    steps: int
    samples: int
    solutions: int = 1  # in one process
    ranks: int = 1  # processes


class Took(NamedTuple):
    """How the marches of one process went; times by a clock that all processes have in common."""

    total: float  # seconds
    began: float  # when the last steps began
    ended: float  # when they ended
    done: int  # steps that all processes together had done of them by then
    m: float  # at the end


def marched(case: Case, rank: int, card: Gpu, together: Callable[[], object], progress: MutableSequence[int]) -> Took:
    """The marches of one process; `together` is called before the first step and before the last ones, of which progress (ranks,)
    counts how many are done."""
    samplings = [Sampling(case.samples, 1, (rank * case.solutions + k,), frozenset(PARTS), SHARE) for k in range(case.solutions)]
    p = problem(case.algorithm, case.steps, m0=0.5)
    company = Card(card, LAUNCHED_AHEAD)
    marches = [March(p, sampling, BLOCKS_PER_LEVEL, Wanted.plain(p.steps), Comm(), np.float32, company) for sampling in samplings]
    step_together(marches, Comm())  # compiles
    together()
    first = time.perf_counter()
    while marches[0].n < case.steps - LATE:
        step_together(marches, Comm())
    card.wait()
    before = time.perf_counter()
    together()
    began = time.perf_counter()
    begun = marches[0].n
    while marches[0].n < case.steps:
        progress[rank] = marches[0].n - begun  # where the host does the equations the card is not done with the last one yet
        step_together(marches, Comm())
    card.wait()
    ended, progress[rank] = time.perf_counter(), marches[0].n - begun
    done = sum(progress)
    while not marches[0].done:
        step_together(marches, Comm())
    return Took(before - first + ended - began, began, ended, done, float(marches[0].curves["m"][-1]))


def bytes_read(case: Case) -> float:
    """What a step of one solution has to read at least, in the mean over the last ones: of the past G and H in the sums, H, X and Y
    in the step after them; of the tangents every row from a source on, and the present row four times (bounds, sums, next row,
    storing it); two blocks of each when they merge; of the state 9 numbers of a sample for the loss, one in the sums, 8 for its
    step."""
    history, seen = History(case.steps, BLOCKS_PER_LEVEL, pins=Wanted.plain(case.steps).pins), []
    carriers = Sampling(case.samples, 1, (0,), frozenset(PARTS), SHARE).carriers
    for step in range(case.steps):
        order, plan = history.order, history.push(step)
        before, after, merges = len(order), len(history.order), len(plan.merges)
        past = (DOUBLE + SINGLE) * after + 3 * SINGLE * before + 2 * (DOUBLE + 3 * SINGLE) * merges + 18 * DOUBLE
        tangents = before * (before + 1) // 2 + 4 * before
        tangents += 2 * sum(np.count_nonzero(order < history.stop[into]) for _, _, into in plan.merges)
        seen.append(case.samples * past + carriers * tangents * SINGLE)
    return float(np.mean(seen[-LATE:]))


def _rank(case: Case, rank: int, barrier, progress, results) -> None:
    results.put((rank, marched(case, rank, gpu("theory"), barrier.wait, progress)))


def in_processes(case: Case) -> list[Took]:
    """The marches of every rank, each in a process of its own."""
    context = get_context("spawn")
    barrier, results = context.Barrier(case.ranks, timeout=PATIENCE), context.Queue()
    progress = context.Array("q", case.ranks, lock=False)
    ranks = [context.Process(target=_rank, args=(case, rank, barrier, progress, results), daemon=True)
             for rank in range(case.ranks)]
    for rank in ranks:
        rank.start()
    took = [found for _, found in sorted(results.get(timeout=PATIENCE) for _ in ranks)]
    for rank in ranks:
        rank.join()
    return took


def alone(case: Case, card: Gpu) -> list[Took]:
    """The marches of a single process, here."""
    return [marched(case, 0, card, card.wait, [0])]


def late_step(took: list[Took]) -> float:
    """Seconds of a step of all ranks, while all of them are at work."""
    first = min(took, key=lambda each: each.ended)
    return (first.ended - min(each.began for each in took)) / first.done * len(took)


def whole(took: list[Took]) -> float:
    """Seconds of the slowest rank, but for its waiting for others."""
    return max(each.total for each in took)


def line(case: Case, took: list[Took], limit: float) -> list:
    """One line of the table."""
    step = late_step(took)
    rate = case.ranks * case.solutions * bytes_read(case) / step
    return [case.name, f"{case.ranks}", f"{case.solutions}", f"{case.steps}", f"{case.samples}", f"{whole(took):.1f}",
            f"{1e3 * step:.3f}", f"{rate / 1e12:.2f}", f"{rate / limit:.0%}", f"{took[0].m:.4f}"]


def side_by_side(steps: int, card: Gpu) -> list[list]:
    """Runs with RANKS ranks, with one rank as they are, and in a single process without MPS, in turn: seconds until the slowest is
    done, ms a step at the end, and the first over the others."""
    rows = []
    for _ in range(ROUNDS):
        ways = [in_processes(Case("gd", GD, steps, FEW, ranks=RANKS)), in_processes(Case("gd", GD, steps, FEW)),
                alone(Case("gd", GD, steps, FEW), card)]
        for how, numbers, scale in (("whole run, s", [whole(took) for took in ways], 1.0),
                                    ("a step at the end, ms", [late_step(took) for took in ways], 1e3)):
            rows.append([how, *(f"{scale * x:.3g}" for x in numbers), *(f"{numbers[0] / x:.2f}" for x in numbers[1:])])
    return rows


def main() -> None:
    steps, samples = (int(text) for text in (sys.argv[1:] + ["10000", "100000"][len(sys.argv) - 1:])[:2])
    try:
        card = gpu("theory")
    except UserError as error:
        return print(f"left out: {error}")
    limit = bandwidth(card, card.zeros(2 << 30, np.float32))
    single = [Case("gd", GD, steps, samples), Case("persistent_sgd", PERSISTENT, steps, samples),
              Case("gd", GD, steps, 4 * samples), Case("gd", GD, steps, FEW)]
    single += [Case("gd", GD, steps, count, solutions) for solutions in (2, 8) for count in (samples, FEW)]
    shared = [Case("gd", GD, steps, count, solutions, RANKS) for count in (samples, FEW) for solutions in (1, 2)]
    rows = [line(case, alone(case, card), limit) for case in single]
    if turns := share_cards(max(RANKS, visible_cards() + 1)):  # all of them take the first card
        print(f"ranks take turns: {turns}")
    rows += [line(case, in_processes(case), limit) for case in shared]
    table(f"march on {card.name}, read bandwidth measured {limit / 1e12:.2f} TB/s, dyadic history, alpha = 3, m0 = 0.5, eta = 0.01",
          ["algorithm", "ranks", "solutions each", "n", "K", "seconds", "ms a step at the end", "TB/s", "of the bandwidth",
           "m(end)"], rows)
    table(f"{RANKS} ranks and one, gd, K = {FEW} each, n = {steps}, in turn",
          ["", f"{RANKS} ranks", "one, by MPS", "one, without", "ratio, by MPS", "ratio, without"], side_by_side(steps, card))


if __name__ == "__main__":
    main()
