"""Late times: the law of m over independent solutions, whether error bars of eight replicas cover its mean, and what a step costs.

    python benchmarks/bench_late.py                                        a small table on the CPU
    python benchmarks/bench_late.py --before PATH --device gpu --samples 32768 --seeds 72 --t-max 10 --processes 12
    python benchmarks/bench_late.py bars --device gpu --samples 2000 --seeds 4000 --t-max 3 --processes 16
    python benchmarks/bench_late.py step --before PATH                     ms a step of 10 000 with 4000 samples, in turn

"solutions" prints mean, median, spread and skewness of m at several times, as it is, and either in the checkout PATH of an earlier
version or without [ibp]; ratios of variances have 95 % intervals by bootstrap. "bars" forms groups of eight solutions and prints
how often the 95 % interval of a group, by Student's t, contains the mean of all. Solutions that diverge are left out, and counted.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np  # noqa: E402
from scipy import stats  # noqa: E402

from benchmarks.checkouts import ROOT, Checkout  # noqa: E402
from benchmarks.common import GD, PERSISTENT, table  # noqa: E402

ETA = 0.02
SGD, LANGEVIN = 'kind = "sgd"\nbatch_fraction = 0.5', 'kind = "langevin"\ntemperature = 0.5'
CASES = {"gd, alpha 2, m0 0.5": (GD, 2.0, 0.5), "persistent sgd, alpha 2, m0 0.5": (PERSISTENT, 2.0, 0.5),
         "sgd, alpha 2, m0 0.5": (SGD, 2.0, 0.5), "langevin, alpha 2, m0 0.5": (LANGEVIN, 2.0, 0.5),
         "gd, alpha 3, m0 0.2": (GD, 3.0, 0.2), "persistent sgd, alpha 3, m0 0.2": (PERSISTENT, 3.0, 0.2),
         "sgd, alpha 3, m0 0.2": (SGD, 3.0, 0.2), "langevin, alpha 3, m0 0.2": (LANGEVIN, 3.0, 0.2)}
TIMES = (0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 10.0)
RESAMPLED = 2000  # bootstrap samples
LATE = 100  # last steps whose time is taken


def sampled(checkout: Checkout, case: str, options: argparse.Namespace, first_seed: int, without=()) -> np.ndarray:
    """m over independent solutions at the TIMES that are reached, (seeds, times); dyadic history."""
    algorithm, alpha, m0 = CASES[case]
    steps = round(options.t_max / ETA)
    asked = {"algorithm": algorithm, "steps": steps, "eta": ETA, "alpha": alpha, "m0": m0, "samples": options.samples,
             "without": without}
    found = checkout.marches([asked | {"seed": first_seed + seed} for seed in range(options.seeds)])
    m = np.array([each["m"] for each in found])
    through = np.isfinite(m[:, -1])
    if not through.all():
        print(f"{case}: {np.count_nonzero(~through)} of {len(m)} solutions diverged")
    return m[through][:, [round(t / ETA) for t in TIMES if t <= options.t_max]]


def ratio(before: np.ndarray, now: np.ndarray) -> str:
    """Ratio of variances with the interval that holds 95 % of bootstrap samples."""
    rng = np.random.default_rng(1)
    drawn = [rng.choice(x, (RESAMPLED, len(x))).var(axis=1, ddof=1) for x in (before, now)]
    low, high = np.quantile(drawn[0] / drawn[1], [0.025, 0.975])
    return f"{before.var(ddof=1) / now.var(ddof=1):.3g} ({low:.2g} to {high:.2g})"


def solutions(options: argparse.Namespace) -> None:
    roots = [ROOT, *([options.before.resolve()] if options.before else [])]
    checkouts = [Checkout(root, options.processes, options.device) for root in roots]
    other = {"before": (checkouts[-1], ())} if options.before else {"without ibp": (checkouts[0], ("ibp",))}
    for checkout in checkouts:
        checkout.warm_up()
    for case in options.cases:
        _law(case, {"as it is": (checkouts[0], ())} | other, options)
    for checkout in checkouts:
        checkout.close()


def _law(case: str, ways: dict[str, tuple[Checkout, tuple[str, ...]]], options: argparse.Namespace) -> None:
    rows, now = [], None
    for label, (checkout, without) in ways.items():
        began = time.perf_counter()
        m = sampled(checkout, case, options, 5000, without)
        each, now = (time.perf_counter() - began) / options.seeds, m if now is None else now
        for t, x, best in zip(TIMES, m.T, now.T, strict=False):
            rows.append([label, f"{t:g}", f"{x.mean():.4f} +- {x.std(ddof=1) / len(x) ** 0.5:.4f}", f"{np.median(x):.4f}",
                         f"{x.std(ddof=1):.4f}", f"{stats.skew(x):+.1f}", f"{(x.mean() - np.median(x)) / x.std(ddof=1):+.2f}",
                         "" if m is now else ratio(x, best), len(x), f"{each:.2f}"])
    table(f"{case}: m over solutions of {options.samples} samples, eta = {ETA}, {options.device}",
          ["way", "t", "mean", "median", "spread", "skewness", "(mean - median)/spread", "variance over that as it is (95 %)",
           "solutions", f"seconds a solution, {options.processes} at a time"], rows)


def bars(options: argparse.Namespace) -> None:
    here, rows = Checkout(ROOT, options.processes, options.device), []
    for case in list(CASES)[:4]:
        for t, x in zip(TIMES, sampled(here, case, options, 7000).T, strict=False):
            groups = x[: len(x) - len(x) % 8].reshape(-1, 8)
            z = (groups.mean(axis=1) - x.mean()) / (groups.std(axis=1, ddof=1) / 8**0.5)
            cover = float(np.mean(np.abs(z) < stats.t(7).ppf(0.975)))
            error = (0.95 * 0.05 / len(groups)) ** 0.5
            rows.append([case, f"{t:g}", len(groups), f"{x.std(ddof=1):.4f}", f"{stats.skew(x):+.2f}",
                         f"{cover:.1%} +- {error:.1%}"])
    here.close()
    table(f"95 % intervals of eight replicas of {options.samples} samples (the error is that of a true 95 %)",
          ["case", "t", "groups", "spread of m", "skewness", "covered"], rows)


def step(options: argparse.Namespace) -> None:
    """What a step costs at the end of 10 000, GD, alpha = 3, m0 = 0.5, eta = 0.01: each checkout alone, one after the other."""
    ways = {"as it is": ROOT} | ({"before": options.before.resolve()} if options.before else {})
    checkouts = {label: Checkout(root, 1, options.device) for label, root in ways.items()}
    asked = {"algorithm": GD, "eta": 0.01, "alpha": 3.0, "m0": 0.5, "samples": options.samples, "seed": 1}
    for checkout in checkouts.values():
        checkout.warm_up()
    rows = []
    for _ in range(options.rounds):
        for label, checkout in checkouts.items():
            found = checkout.march(**asked, steps=10_000, late=LATE, blocks=options.blocks)
            rows.append([label, f"{found['seconds']:.1f}", f"{1e3 * found['late']:.3f}",
                         f"{found['bytes'] / options.samples / 1e3:.1f}", f"{found['m'][-1]:.4f}"])
    for checkout in checkouts.values():
        checkout.close()
    table(f"10 000 steps of {options.samples} samples, dyadic history, {options.device} (CPU seconds on a CPU)",
          ["way", "seconds", "ms a step at the end", "kB a sample in a checkpoint", "m(end)"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=("solutions", "bars", "step"), default="solutions")
    parser.add_argument("--samples", type=int)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--t-max", type=float, default=2.0)
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=1, help="of step")
    parser.add_argument("--blocks", type=int, default=0, help="of step: of a level of the history, in both; default: that of each")
    parser.add_argument("--before", type=Path, metavar="PATH", help="a checkout of an earlier version")
    parser.add_argument("--cases", nargs="+", choices=list(CASES), metavar="CASE", default=list(CASES)[:6],
                        help="of solutions: " + "; ".join(CASES))
    options = parser.parse_args()
    options.samples = options.samples or (4000 if options.what == "step" else 1024)
    {"solutions": solutions, "bars": bars, "step": step}[options.what](options)


if __name__ == "__main__":
    main()
