"""The march on a GPU: time, and share of the card's read bandwidth. Needs an NVIDIA GPU and CuPy.

python benchmarks/bench_gpu_march.py [STEPS [SAMPLES]]      (default: 10000 100000)

One solution alone, two and eight in one process (where the host does the equations, with NUMBA_NUM_THREADS threads). A step is one
of all solutions, over the last 256 or more, when the history is full. The share of the bandwidth counts what the kernels of a step
have to read at least, each array once in every kernel. Then, in turn, eight solutions and one, with few samples each: do eight cost
what one costs?
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.bench_gpu import bandwidth  # noqa: E402
from benchmarks.common import GD, PERSISTENT, SHARE, problem, table  # noqa: E402
from dmft.core.device import Gpu, gpu  # noqa: E402
from dmft.core.errors import UserError  # noqa: E402
from dmft.core.parallel import Comm  # noqa: E402
from dmft.equations.history import History  # noqa: E402
from dmft.equations.kernels import Wanted  # noqa: E402
from dmft.samples.card_steps import VISIT  # noqa: E402
from dmft.samples.gpu import Card  # noqa: E402
from dmft.samples.sampling import PARTS, Sampling  # noqa: E402
from dmft.solvers.blocks import step_together  # noqa: E402
from dmft.solvers.march import March  # noqa: E402

SOLUTIONS = 8  # at a time
LATE = 2 * VISIT  # steps at the end, about, whose time is taken
FEW = 4000  # samples of a small solution
ROUNDS = 3  # of runs with SOLUTIONS solutions and with one
BLOCKS_PER_LEVEL = 12  # of the history
SINGLE, DOUBLE = 4, 8  # bytes of H, X, Y and tangents; of G and of the state


class Case(NamedTuple):
    """Marches of equal size, all with samples of their own."""

    name: str
    algorithm: str
    steps: int
    samples: int
    solutions: int = 1


class Took(NamedTuple):
    """How the marches went."""

    total: float  # seconds
    step: float  # seconds of one of the last steps of all of them
    m: float  # at the end


def marched(case: Case, card: Gpu) -> Took:
    """The marches of a case, all at a time."""
    samplings = [Sampling(case.samples, 1, (k,), frozenset(PARTS), SHARE) for k in range(case.solutions)]
    p = problem(case.algorithm, case.steps, m0=0.5)
    company = Card(card, VISIT)
    marches = [March(p, sampling, BLOCKS_PER_LEVEL, Wanted.plain(p.steps), Comm(), np.float32, company) for sampling in samplings]
    step_together(marches, Comm())  # compiles
    card.wait()
    first = time.perf_counter()
    while marches[0].n < case.steps - LATE:
        step_together(marches, Comm())
    card.wait()
    began, begun = time.perf_counter(), marches[0].n
    while marches[0].n < case.steps:
        step_together(marches, Comm())
    card.wait()
    ended, done = time.perf_counter(), marches[0].n - begun
    while not marches[0].done:
        step_together(marches, Comm())
    return Took(ended - first, (ended - began) / done, float(marches[0].curves["m"][-1]))


def bytes_read(case: Case) -> float:
    """What a step of one solution has to read at least, in the mean over the last ones: of the past G and H in the sums, H, X and Y
    in the step after them; of the tangents every row from a source on, and the present row four times (its totals, sums, next row,
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


def line(case: Case, card: Gpu, limit: float) -> list:
    """One line of the table."""
    took = marched(case, card)
    rate = case.solutions * bytes_read(case) / took.step
    return [case.name, f"{case.solutions}", f"{case.steps}", f"{case.samples}", f"{took.total:.1f}", f"{1e3 * took.step:.3f}",
            f"{rate / 1e12:.2f}", f"{rate / limit:.0%}", f"{took.m:.4f}"]


def in_turn(steps: int, card: Gpu) -> list[list]:
    """Runs with SOLUTIONS solutions and with one, in turn: seconds, ms a step at the end, and the first over the other."""
    rows = []
    for _ in range(ROUNDS):
        many, one = (marched(Case("gd", GD, steps, FEW, solutions), card) for solutions in (SOLUTIONS, 1))
        for how, a, b in (("whole run, s", many.total, one.total), ("a step at the end, ms", 1e3 * many.step, 1e3 * one.step)):
            rows.append([how, f"{a:.3g}", f"{b:.3g}", f"{a / b:.2f}"])
    return rows


def main() -> None:
    steps, samples = (int(text) for text in (sys.argv[1:] + ["10000", "100000"][len(sys.argv) - 1:])[:2])
    try:
        card = gpu("theory")
    except UserError as error:
        return print(f"left out: {error}")
    limit = bandwidth(card, card.zeros(2 << 30, np.float32))
    cases = [Case("gd", GD, steps, samples), Case("persistent_sgd", PERSISTENT, steps, samples),
             Case("gd", GD, steps, 4 * samples), Case("gd", GD, steps, FEW)]
    cases += [Case("gd", GD, steps, count, solutions) for solutions in (2, SOLUTIONS) for count in (samples, FEW)]
    table(f"march on {card.name}, read bandwidth measured {limit / 1e12:.2f} TB/s, dyadic history, alpha = 3, m0 = 0.5, eta = 0.01",
          ["algorithm", "solutions", "n", "K", "seconds", "ms a step at the end", "TB/s", "of the bandwidth", "m(end)"],
          [line(case, card, limit) for case in cases])
    table(f"{SOLUTIONS} solutions and one, gd, K = {FEW} each, n = {steps}, in turn",
          ["", f"{SOLUTIONS}", "one", "ratio"], in_turn(steps, card))


if __name__ == "__main__":
    main()
