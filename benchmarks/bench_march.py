"""The dyadic march: cost against steps, the effect of coarsening, the gain by each part of the variance reduction, bandwidth.

python benchmarks/bench_march.py [scaling coarsening sensitivity shift samples variance same-error late bandwidth]  (default: all)
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numba
import numpy as np
from scipy import stats

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.bench_solver import reference_sweep, sweeps_needed  # noqa: E402
from benchmarks.common import GD, PERSISTENT, SHARE, march, problem, seconds, table  # noqa: E402
from benchmarks.step_parts import read_lines, rows_in_use, where_a_step_goes  # noqa: E402
from dmft.core.averages import standard_error  # noqa: E402
from dmft.core.parallel import Comm  # noqa: E402
from dmft.equations.kernels import Wanted  # noqa: E402
from dmft.samples.sampling import PARTS, Sampling  # noqa: E402
from dmft.solvers.march import March  # noqa: E402

SEEDS = 100
ROUNDS = 3  # of timings, of which the best counts: other work on the machine only adds time


def slope(n: list[int], t: list[float]) -> float:
    return float(np.polyfit(np.log(n), np.log(t), 1)[0])


def scaling() -> None:
    """(a) Time against steps at fixed K, full and dyadic history."""
    numba.set_num_threads(1)
    samples, rows = 100, []
    march(problem(PERSISTENT, 20), 8, 16)
    march(problem(PERSISTENT, 20), 8, None)
    for per_level, steps in ((None, [250, 500, 1000]), (16, [1000, 2000, 5000, 10_000]), (8, [1000, 2000, 5000, 10_000])):
        spent = np.min([[seconds(lambda n=n, q=per_level: march(problem(PERSISTENT, n), samples, q)) for n in steps]
                        for _ in range(ROUNDS)], axis=0).tolist()
        name = "full" if per_level is None else f"dyadic, {per_level} per level"
        rows.append([name, ", ".join(f"{n}: {t:.2f}" for n, t in zip(steps, spent, strict=True)), f"{slope(steps, spent):.2f}",
                     "<= 1.3" if per_level == 16 else ""])
    table(f"(a) CPU seconds against steps n, K = {samples}, one core, best of {ROUNDS}",
          ["history", "n: seconds", "fitted exponent", "demanded"], rows)


def coarsening() -> None:
    """Change of m by the dyadic history with the same random numbers, gradient descent, n = 1000."""
    rows = []
    for m0 in (0.5, 0.2):
        p = problem(GD, 1000, m0=m0)
        full = march(p, 500, None).curves["m"]
        for per_level in (4, 8, 16, 32):
            change = np.abs(march(p, 500, per_level).curves["m"] - full).max()
            rows.append([f"{m0}", per_level, f"{change:.1e}", "< 5e-4" if per_level == 16 else ""])
    table("(coarsening) largest |m(dyadic) - m(full)|, gd, alpha = 3, eta = 0.01, n = 1000, K = 500, same random numbers",
          ["m0", "blocks per level", "change", "demanded"], rows)


def sensitivity() -> None:
    """Change of m by a small change of m0, with the same random numbers: the scale that coarsening is to be compared with."""
    rows = []
    for m0 in (0.5, 0.2):
        base = march(problem(GD, 1000, m0=m0), 500, 16).curves["m"]
        for change in (1e-9, 1e-6):
            moved = np.abs(march(problem(GD, 1000, m0=m0 + change), 500, 16).curves["m"] - base)
            rows.append([m0, f"{change:g}", f"{moved[50]:.1e}", f"{moved[1000]:.1e}", f"{moved.max():.1e}"])
    table("(sensitivity) |change of m| for a change of m0, gd, alpha = 3, eta = 0.01, n = 1000, K = 500",
          ["m0", "change of m0", "t = 0.5", "t = 10", "largest"], rows)


def shift(seeds: int = 240, samples: int = 1000) -> None:
    """Mean change of m by the dyadic history (same random numbers) for persistent SGD, whose single solutions change a lot."""
    at, eta, rows = [0.5, 1.0, 1.5], 0.02, []
    p = problem(PERSISTENT, round(at[-1] / eta), eta)
    steps = [round(t / eta) for t in at]
    full = np.array([march(p, samples, None, seed, PARTS).curves["m"][steps] for seed in range(seeds)])
    rows.append(["full", *(f"{a:.4f}, spread {b:.4f}" for a, b in zip(full.mean(axis=0), full.std(axis=0, ddof=1), strict=True))])
    for per_level in (8, 16):
        change = np.array([march(p, samples, per_level, seed, PARTS).curves["m"][steps] for seed in range(seeds)]) - full
        rows.append([f"{per_level} blocks - full", *(f"{a:+.4f} +- {b:.4f}" for a, b in zip(
            change.mean(axis=0), standard_error(change), strict=True))])
    table(f"(shift) m at t, persistent SGD, alpha = 3, m0 = 0.5, eta = {eta}, K = {samples}, {seeds} seeds, same random numbers",
          ["history", *map(str, at)], rows)


def samples() -> None:
    """The law of m over independent solutions against the number of samples: bias and skewness, with and without [ibp]."""
    at, eta, rows = [0.5, 1.0, 1.5, 2.0], 0.02, []
    steps = [round(t / eta) for t in at]
    p = problem(PERSISTENT, steps[-1], eta, 2.0)
    for label, parts in (("no", ("sobol", "weights", "stein")), ("yes", PARTS)):
        for count, seeds in ((1000, 100), (4000, 60), (16_000, 40), (64_000, 10)):
            m = np.array([march(p, count, 8, seed, parts).curves["m"][steps] for seed in range(seeds)])
            mean, error, middle = m.mean(axis=0), standard_error(m), np.median(m, axis=0)
            rows.append([label, count, seeds, *(f"{a:.4f} +- {b:.4f}, median {c:.4f}" for a, b, c in zip(mean, error, middle)),
                         f"{m[:, -1].std(ddof=1):.4f}", f"{m[:, -1].min():.3f}"])
    table(f"(samples) m at t, persistent SGD, alpha = 2, m0 = 0.5, eta = {eta}, 8 blocks per level",
          ["[ibp]", "K", "seeds", *map(str, at), "spread of m(2)", "least m(2)"], rows)


def variance() -> None:
    """(b) Spread of m over seeds with and without each part, with [ibp] tangents on the default share of the samples."""
    parts = {"plain": (), "stein": ("stein",), "sobol": ("sobol",), "weights": ("weights",), "ibp": ("ibp",),
             "sobol, weights": ("sobol", "weights"),
             **{f"all but {left_out}": tuple(part for part in PARTS if part != left_out) for left_out in PARTS}, "all": PARTS}
    at, eta = [0.1, 0.2, 0.5, 1.0], 0.02
    steps = [round(t / eta) for t in at]
    low, high = stats.f(SEEDS - 1, SEEDS - 1).ppf([0.025, 0.975])
    for name, algorithm in (("gd", GD), ("persistent_sgd", PERSISTENT)):
        p = problem(algorithm, steps[-1], eta, m0=0.2)
        rows, plain = [], None
        for label, chosen in parts.items():
            m = np.array([march(p, 2048, None, seed, chosen, tangents=SHARE).curves["m"][steps] for seed in range(SEEDS)])
            spread = m.var(axis=0, ddof=1)
            if plain is None:
                plain, gains = spread, ["1.0", "1.0"]
            else:
                gains = [f"{gain:.1f} ({gain / high:.1f}-{gain / low:.1f})" for gain in plain[2:] / spread[2:]]
            rows.append([label, *(f"{np.sqrt(v):.4f}" for v in spread), *gains])
        table(f"(b) {name}, alpha = 3, m0 = 0.2, eta = {eta}, K = 2048, {SEEDS} seeds: standard deviation of m at t = {at}",
              ["parts", *map(str, at), *(f"gain in variance at t = {t} (95 %)" for t in at[2:])], rows)


def same_error() -> None:
    """(c) Time to the same error on m(t = 5), n = 500, against the reference run to convergence."""
    numba.set_num_threads(1)
    samples, seeds, n = 1500, 64, 500
    reference_sweep(10, 2)
    one = reference_sweep(n, samples)
    sweeps, _ = sweeps_needed(80, 300)
    p = problem(PERSISTENT, n)
    spread = {}
    for label, chosen in (("plain", ()), ("all", PARTS)):
        values: list[float] = []

        def one_seed(seed: int, chosen=chosen, values=values) -> None:
            values.append(march(p, samples, 16, seed, chosen, tangents=SHARE).curves["m"][-1])

        spent = [seconds(partial(one_seed, seed)) for seed in range(seeds)]
        spread[label] = np.var(values, ddof=1)
    gain = spread["plain"] / spread["all"]
    ratio = one * sweeps / np.median(spent) * gain
    table(f"(c) time to the same error on m(5), persistent SGD, n = {n}, K = {samples}", ["what", "value"], [
        ["reference: seconds a sweep x sweeps", f"{one:.1f} x {sweeps}"],
        ["march, dyadic, all parts: seconds", f"{np.median(spent):.2f}"],
        [f"variance, plain / all parts ({seeds} seeds)", f"{gain:.1f}"],
        ["ratio of times at equal error (demanded: 5000)", f"{ratio:.0f}"],
    ])


def late() -> None:
    """Where a step spends its time once the history is long: GD, n = 10 000, K = 4000, CPU seconds of a thread over its last steps.
    (What a whole step costs, and cost in an earlier version: bench_late.py step.)"""
    numba.set_num_threads(1)
    samples, n = 4000, 10_000
    solver = March(problem(GD, n), Sampling(samples, 1, (0,), frozenset(PARTS), SHARE), 12, Wanted.plain(n), Comm(), np.float32)
    while solver.n < n - 100:
        solver.step()
    where_a_step_goes(solver, 100)


def wall_seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def bandwidth() -> None:
    """(d) Tangent bytes a step over the bytes that a plain read of the same array reaches."""
    rows = []
    for threads in (1, 2):
        numba.set_num_threads(threads)
        p = problem(PERSISTENT, 100_000)
        solver = March(p, Sampling(2000, 1, (0,), frozenset(PARTS)), 12, Wanted.plain(p.steps), Comm(), np.float32)
        for _ in range(600):
            solver.step()
        T = solver.samples.tangents.T
        touched = 4 * len(T) * rows_in_use(solver)
        data, out = T[:, : touched // (4 * len(T))].copy(), np.empty(len(T), np.float32)
        read_lines(data, out)
        reads = [wall_seconds(lambda: read_lines(data, out)) for _ in range(20)]     # noqa: B023 (called at once)
        spent: list[float] = []
        advance = solver.samples.advance
        solver.samples.advance = lambda *a: spent.append(wall_seconds(lambda: advance(*a)))     # noqa: B023
        for _ in range(100):
            solver.step()
        reached, possible = touched / np.median(spent) / 1e9, touched / np.median(reads) / 1e9
        rows.append([threads, f"{touched / 1e6:.0f}", f"{reached:.1f}", f"{possible:.1f}", f"{reached / possible:.2f}"])
    table("(d) reading the tangents, K = 2000, 12 blocks per level, single precision", ["threads", "MB a step", "GB/s of the march",
          "GB/s of a plain read", "fraction"], rows)


PARTS_OF_THIS = {"scaling": scaling, "coarsening": coarsening, "sensitivity": sensitivity, "shift": shift, "samples": samples,
                 "variance": variance,
                 "same-error": same_error, "late": late, "bandwidth": bandwidth}

if __name__ == "__main__":
    for chosen in sys.argv[1:] or PARTS_OF_THIS:
        PARTS_OF_THIS[chosen]()
