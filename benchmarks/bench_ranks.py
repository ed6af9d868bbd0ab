"""How a march scales over MPI ranks: the samples of one replica spread over more and more of them (strong), samples added with the
ranks (weak), and what the ranks tell each other in a step.

Ranks have one thread each. Times are by the clock, between two steps where all ranks meet, without compilation; the reduction's
include waiting for the slowest rank. What it costs alone is measured with the same sums and no samples. What every rank repeats is
the median over the steps of the first one, of all that follows the reduction but for the samples. More ranks than the machine has
cores say nothing.
python benchmarks/bench_ranks.py [--most 16] [--samples 131072] [--weak 8192] [--steps 300]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.common import PERSISTENT, SHARE, problem, table  # noqa: E402
from dmft.core.exact_sum import SUM_NUMBERS  # noqa: E402
from dmft.core.parallel import world  # noqa: E402
from dmft.equations.kernels import Wanted  # noqa: E402
from dmft.samples.sampling import PARTS, Sampling  # noqa: E402
from dmft.solvers.march import March  # noqa: E402

PER_LEVEL = 32
ALONE = 200  # reductions without samples


class Counting:
    """A communicator that counts what its reductions send and how long they take."""

    def __init__(self) -> None:
        self.comm = world()
        self.rank, self.size, self.bytes, self.seconds = self.comm.rank, self.comm.size, 0, 0.0

    def sum_exact(self, partials: np.ndarray) -> np.ndarray:
        return self.sums_exact([partials])[0]

    def sums_exact(self, several: Sequence[np.ndarray]) -> list[np.ndarray]:
        start = time.perf_counter()
        found = self.comm.sums_exact(several)
        self.seconds += time.perf_counter() - start
        self.bytes += sum(8 * SUM_NUMBERS * total.size for total in found)
        return found


def timed(work: Callable[..., None], spent: list[float]) -> Callable[..., None]:
    """`work`, which notes its seconds."""
    def noted(*arguments: object) -> None:
        start = time.perf_counter()
        work(*arguments)
        spent.append(time.perf_counter() - start)

    return noted


def on_this_rank(samples: int, steps: int) -> dict[str, float]:
    """Milliseconds a step of one solution, over the second half of its steps, of its reductions and of one of these alone."""
    comm = Counting()
    march = March(problem(PERSISTENT, steps), Sampling(samples, 1, (0,), PARTS, SHARE), PER_LEVEL, Wanted.plain(steps), comm,
                  np.float32)
    while march.n < steps // 2:
        march.step()
    world().barrier()
    taking: list[float] = []  # from the sums to the next step,
    moving: list[float] = []  # and what the samples of this rank take of that
    march.take_of = timed(march.take_of, taking)  # type: ignore[method-assign]
    march.samples.advance = timed(march.samples.advance, moving)  # type: ignore[method-assign]
    comm.bytes, comm.seconds, start, counted = 0, 0.0, time.perf_counter(), steps - march.n
    while march.n < steps:
        march.step()
    world().barrier()
    took, lines = time.perf_counter() - start, np.ones((1, comm.bytes // counted // (8 * SUM_NUMBERS)))
    world().barrier()
    start = time.perf_counter()
    for _ in range(ALONE):
        world().sum_exact(lines)
    alone = (time.perf_counter() - start) / ALONE
    return {"step": 1e3 * took / counted, "reduction": 1e3 * comm.seconds / counted, "alone": 1e3 * alone,
            "repeated": 1e3 * float(np.median(np.subtract(taking, moving))), "bytes": comm.bytes / counted, "m": march.weights.m}


def on_ranks(ranks: int, samples: int, steps: int) -> dict[str, float]:
    """`on_this_rank` of the first of so many ranks."""
    beside = Path(sys.executable).parent / "mpirun"
    launcher = [str(beside) if beside.exists() else shutil.which("mpirun") or "mpirun", "-n", str(ranks)] if ranks > 1 else []
    command = [*launcher, sys.executable, __file__, "--rank", f"--samples={samples}", f"--steps={steps}"]
    one_thread = dict.fromkeys(("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    said = subprocess.run(command, check=True, env=os.environ | one_thread, capture_output=True, text=True).stdout
    return json.loads(said[said.index("{") : said.rindex("}") + 1])  # launchers talk, too


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=int, default=os.cpu_count(), help="ranks at most")
    parser.add_argument("--samples", type=int, default=131_072, help="of one replica (strong)")
    parser.add_argument("--weak", type=int, default=8192, help="samples a rank (weak)")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--rank", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank:
        found = on_this_rank(options.samples, options.steps)
        if world().is_root:
            print(json.dumps(found))
        return
    counts = [2**k for k in range(20) if 2**k <= options.most]
    on_ranks(1, 2048, options.steps)  # compile
    for title, samples in ((f"strong: {options.samples} samples", lambda _: options.samples),
                           (f"weak: {options.weak} samples a rank", lambda ranks: options.weak * ranks)):
        first, rows = 0.0, []
        for ranks in counts:
            found = on_ranks(ranks, samples(ranks), options.steps)
            first = first or found["step"]
            gain = first / found["step"] * (1 if "strong" in title else ranks)
            rows.append([ranks, f"{found['step']:.3f}", f"{gain:.2f}", f"{found['reduction']:.3f}", f"{found['alone']:.3f}",
                         f"{found['repeated']:.3f}", f"{found['bytes']:.0f}", f"{found['m']:.15f}"])
        table(f"One solution over ranks, {title}, {options.steps} steps of persistent SGD, dyadic history",
              ["ranks", "ms a step", "times one rank", "reduction and waiting", "a reduction alone", "repeated by every rank",
               "bytes a step", "m"], rows)


if __name__ == "__main__":
    main()
