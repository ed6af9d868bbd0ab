"""March and iterate against the paper's algorithm written straightforwardly: same K, n and result, in one run.

The reference must itself reach the speed of the public peer (4 ns per K n^3/6 and sweep), or nothing is reported. One of
its sweeps is timed at full size; how many it needs is counted at a smaller n, where the answers are compared too.
Then the same march on one rank and on two: with a full history, which reads all tangents of the past, and as users run it,
with ranks that share the samples of one replica or take one each.
python benchmarks/bench_solver.py [--small] [--ranks]        --ranks: ranks alone
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numba
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.common import PERSISTENT, iteration, march, problem, seconds, table  # noqa: E402
from dmft.core import store  # noqa: E402
from dmft.equations import reference  # noqa: E402
from dmft.samples.sampling import Sampling, draw  # noqa: E402

PEER_NS = 4.0
PAIRS = 7  # of runs on one and on two ranks in turn: other work on the machine spoils some
# The march on ranks: steps, samples and what else the run file says of the theory.
ON_RANKS = {
    "full history, no variance reduction": (500, 1500, 'replicas = 1\nhistory = "full"\nvariance_reduction = false'),
    "dyadic history, one replica": (1000, 20_000, 'replicas = 1\nhistory = "dyadic"'),
    "dyadic history, one large replica": (1000, 100_000, 'replicas = 1\nhistory = "dyadic"\ncheckpoint_interval = 3600'),
    "dyadic history, two replicas of half the size": (1000, 10_000, 'replicas = 2\nhistory = "dyadic"'),
}


def reference_sweep(n: int, samples: int) -> float:
    p = problem(PERSISTENT, n)
    sampling = Sampling(samples, 1, (0,), frozenset())
    draws, rows = draw(p, sampling, np.arange(samples)), n + 1
    # kernels small enough for paths to stay finite; their values do not change the work
    none, K_R = np.zeros(rows), np.tril(np.full((rows, rows), 1e-3), -1)
    kernels = reference.FullKernels(none, none, 1e-6 * (np.eye(rows) + 0.1), K_R, none)
    weight, m = np.full(samples, 1 / samples), np.full(rows, 0.5)
    return seconds(lambda: reference.sweep_once(p, draws, weight, sampling.keys, kernels, m))


def sweeps_needed(n: int, samples: int) -> tuple[int, float]:
    """Sweeps of the reference to 1e-6 at a smaller n, and how far its m is from the march."""
    p = problem(PERSISTENT, n)
    sampling = Sampling(samples, 1, (0,), frozenset())
    draws, weight = draw(p, sampling, np.arange(samples)), np.full(samples, 1 / samples)
    _, weights, count = reference.solve(p, draws, weight, sampling.keys, 0.5, 1e-6, 300)
    assert count < 300
    return count, float(np.abs(weights.m - march(p, samples, None, parts=()).curves["m"]).max())


def iterate_sweep(n: int, samples: int) -> float:
    """Time of a typical sweep: the fifth, when the memory kernel is not zero any more."""
    solver = iteration(problem(PERSISTENT, n), samples, 0.5, 1e-9)
    for _ in range(4):
        solver.sweep()
    return seconds(solver.sweep)


def on_ranks(ranks: int, steps: int, samples: int, theory: str) -> float:
    """Wall time of replicas and their half-size companions, from the result file, one thread a rank. Ranks share the samples of one
    replica, and take a replica each where there are as many."""
    with tempfile.TemporaryDirectory() as folder:
        run, out = Path(folder) / "run.toml", Path(folder) / "out.h5"
        run.write_text(f"[problem]\nalpha = 3.0\nm0 = 0.5\n[algorithm]\nlearning_rate = 0.01\nt_max = {0.01 * steps}\n"
                       f"{PERSISTENT}\n[theory]\nsamples = {samples}\n{theory}\n")
        beside = Path(sys.executable).parent / "mpirun"
        launcher = [str(beside if beside.exists() else "mpirun"), "-n", str(ranks)] if ranks > 1 else []
        environment = os.environ | {"NUMBA_NUM_THREADS": "1"}
        command = [*launcher, sys.executable, "-m", "dmft", "solve", str(run), "-o", str(out), "--quiet"]
        subprocess.run(command, check=True, env=environment)
        return float(store.load_header(out).attrs["wall_time"])


def two_ranks(small: bool) -> None:
    """The march on two ranks against one, in turn."""
    rows = []
    for name, (steps, samples, theory) in ON_RANKS.items():
        case = (steps // 4, samples // 4, theory) if small else (steps, samples, theory)
        on_ranks(1, 20, samples, theory)  # compile
        pairs = np.array([[on_ranks(ranks, *case) for ranks in (1, 2)] for _ in range(PAIRS)])
        one, two = np.median(pairs, axis=0)
        ratios = pairs[:, 0] / pairs[:, 1]
        rows.append([f"{name}, n = {case[0]}, K = {case[1]}", f"{one:.1f}", f"{two:.1f}",
                     f"{one / two:.2f}x ({ratios.min():.2f} to {ratios.max():.2f})", "1.9x"])
        print(f"{name}, seconds on 1 and on 2: {', '.join(f'{a:.1f} {b:.1f}' for a, b in pairs)}", flush=True)
    table(f"Two ranks against one, wall seconds, medians of {PAIRS} pairs", ["march", "one rank", "two", "ratio (of single pairs)",
                                                                            "demanded"], rows)


def main() -> None:
    if "--ranks" not in sys.argv:
        against_the_reference()
    two_ranks("--small" in sys.argv)


def against_the_reference() -> None:
    """Both solvers against the paper's algorithm."""
    numba.set_num_threads(1)
    n, samples, small = (500, 1500, 80) if "--small" not in sys.argv else (150, 200, 40)
    reference_sweep(10, 2)
    for per_level in (None, 4):  # compile
        march(problem(PERSISTENT, 10), 8, per_level, parts=())
    iterate_sweep(20, 8)
    one = reference_sweep(n, samples)
    speed = one / (samples * n**3 / 6) * 1e9
    if speed > PEER_NS:
        raise SystemExit(f"the reference takes {speed:.2f} ns per K n^3/6, slower than the peer's {PEER_NS}: nothing is reported")
    sweeps, gap = sweeps_needed(small, 300)
    full = seconds(lambda: march(problem(PERSISTENT, n), samples, None, parts=()))
    dyadic = seconds(lambda: march(problem(PERSISTENT, n), samples, 16, parts=()))
    iterate = iterate_sweep(n, samples)
    print(f"\nreference: {speed:.2f} ns per K n^3/6; {sweeps} sweeps to 1e-6 at n = {small}, where its m differs from the march by "
          f"{gap:.0e}")
    table(f"Solver, n = {n}, K = {samples}, one core", ["what", "seconds", "ratio", "demanded"], [
        ["reference, one sweep", f"{one:.1f}", "", ""],
        ["reference to convergence", f"{one * sweeps:.0f}", "1", ""],
        ["march, full history", f"{full:.2f}", f"{one * sweeps / full:.0f}x", "50x"],
        ["march, dyadic history", f"{dyadic:.2f}", f"{one * sweeps / dyadic:.0f}x", ""],
        ["iterate, one sweep", f"{iterate:.2f}", f"{one / iterate:.1f}x a sweep", "5x"],
    ])


if __name__ == "__main__":
    main()
