"""Late times: the law of m over independent solutions, and whether error bars of eight replicas cover its mean.

    python benchmarks/bench_late.py                                        a small table on the CPU
    python benchmarks/bench_late.py --device gpu --samples 32768 --seeds 64 --t-max 10
    python benchmarks/bench_late.py bars --samples 2000 --seeds 640 --t-max 3 --processes 16

"solutions" prints mean, median, spread and skewness of m at several times, with [ibp] and without it. "bars" forms groups of eight
solutions and prints how often the 95 % interval of a group, by Student's t, contains the mean of all.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from multiprocessing import get_context
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ.setdefault("NUMBA_NUM_THREADS", "1")

import numpy as np  # noqa: E402
from scipy import stats  # noqa: E402

from benchmarks.common import GD, PERSISTENT, problem, table  # noqa: E402
from dmft.core.device import gpu  # noqa: E402
from dmft.core.parallel import Comm  # noqa: E402
from dmft.samples.sampling import PARTS, Sampling  # noqa: E402
from dmft.solvers.march import March  # noqa: E402

ETA = 0.02
SGD, LANGEVIN = 'kind = "sgd"\nbatch_fraction = 0.5', 'kind = "langevin"\ntemperature = 0.5'
CASES = {"gd, alpha 2, m0 0.5": (GD, 2.0, 0.5), "persistent sgd, alpha 2, m0 0.5": (PERSISTENT, 2.0, 0.5),
         "sgd, alpha 2, m0 0.5": (SGD, 2.0, 0.5), "langevin, alpha 2, m0 0.5": (LANGEVIN, 2.0, 0.5),
         "gd, alpha 3, m0 0.2": (GD, 3.0, 0.2), "persistent sgd, alpha 3, m0 0.2": (PERSISTENT, 3.0, 0.2)}
TIMES = (0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 10.0)
ESTIMATORS = {"all": PARTS, "without ibp": ("sobol", "weights", "stein")}


def solution(case: str, samples: int, t_max: float, seed: int, parts=PARTS, card=None) -> np.ndarray:
    """m over time of one solution, dyadic history, tangents on a sixteenth of the samples."""
    algorithm, alpha, m0 = CASES[case]
    experiment = problem(algorithm, round(t_max / ETA), ETA, alpha, m0)
    march = March(experiment, Sampling(samples, seed, (0,), frozenset(parts), 1 / 16), 16, np.array([0]), Comm(), np.float32, card)
    while not march.done:
        march.step()
    return march.curves["m"]


def _one(work: tuple) -> np.ndarray:
    return solution(*work)


def solutions(options: argparse.Namespace) -> None:
    card = gpu("theory") if options.device == "gpu" else None
    rows = []
    for case in CASES:
        for label, parts in ESTIMATORS.items():
            began = time.perf_counter()
            m = np.array([solution(case, options.samples, options.t_max, 5000 + seed, parts, card)
                          for seed in range(options.seeds)])
            each = (time.perf_counter() - began) / options.seeds
            for t in (t for t in TIMES if t <= options.t_max):
                x = m[:, round(t / ETA)]
                rows.append([case, label, f"{t:g}", f"{x.mean():.4f} +- {x.std(ddof=1) / len(x) ** 0.5:.4f}", f"{np.median(x):.4f}",
                             f"{x.std(ddof=1):.4f}", f"{stats.skew(x):+.1f}", f"{each:.2f}"])
    table(f"m over {options.seeds} solutions of {options.samples} samples, eta = {ETA}, {options.device}",
          ["case", "estimators", "t", "mean", "median", "spread", "skewness", "seconds a solution"], rows)


def bars(options: argparse.Namespace) -> None:
    count = options.seeds - options.seeds % 8
    rows = []
    with get_context("spawn").Pool(options.processes) as pool:
        for case in list(CASES)[:4]:
            m = np.array(pool.map(_one, [(case, options.samples, options.t_max, 7000 + seed) for seed in range(count)], 4))
            for t in (t for t in TIMES if t <= options.t_max):
                x = m[:, round(t / ETA)]
                groups = x.reshape(-1, 8)
                z = (groups.mean(axis=1) - x.mean()) / (groups.std(axis=1, ddof=1) / 8**0.5)
                cover = float(np.mean(np.abs(z) < stats.t(7).ppf(0.975)))
                error = (0.95 * 0.05 / len(groups)) ** 0.5
                rows.append([case, f"{t:g}", f"{x.std(ddof=1):.4f}", f"{stats.skew(x):+.2f}", f"{cover:.1%} +- {error:.1%}"])
    table(f"95 % intervals of eight replicas of {options.samples} samples, {count // 8} groups (the error is that of a true 95 %)",
          ["case", "t", "spread of m", "skewness", "covered"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=("solutions", "bars"), default="solutions")
    parser.add_argument("--samples", type=int, default=1024)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--t-max", type=float, default=2.0)
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    (solutions if options.what == "solutions" else bars)(options)


if __name__ == "__main__":
    main()
