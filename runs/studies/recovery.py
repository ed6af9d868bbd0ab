"""Recovery: how does the time at which persistent SGD finds the teacher from a random start grow with the dimension?

Uses the runs of figure 7, and computes those that are missing. The time by which a share of the runs is solved, with its
error by bootstrap, is compared with a power of N and with a straight line in log N, over all dimensions and over the large ones.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from dmft.core.command import OUT
from reproduction.paper import FIGURES, computations
from reproduction.paper.command import FIGURE_COMMANDS

SHARES = (0.05, 0.1, 0.25, 0.5)
DRAWS = 1000
LARGE = 1000  # dimensions from which on a law is tried by itself


def time_of_share(solved_at: np.ndarray, t: np.ndarray, share: float) -> float:
    """Time by which that share of the runs is solved, between the times t (n,) of the records; infinite where it is not."""
    shares = (solved_at[:, None] <= t).mean(axis=0)
    return float(np.exp(np.interp(share, shares, np.log(t)))) if shares[-1] >= share else np.inf


def error_of(time: float, drawn: np.ndarray) -> float:
    """Half the width of the middle 68 % of the drawn times; what lies below alone, where runs end before the upper end."""
    low, high = np.quantile(drawn, [0.16, 0.84], method="nearest")
    return (high - low) / 2 if np.isfinite(high) else time - low


def fits(n: np.ndarray, times: np.ndarray, errors: np.ndarray) -> str:
    """Power of N, and chi-squared of the power and of a straight line in log N."""
    log_n, relative = np.log(n), errors / times
    (power, start), cov = np.polyfit(log_n, np.log(times), 1, w=1 / relative, cov="unscaled")
    line = np.polyval(np.polyfit(log_n, times, 1, w=1 / errors), log_n)
    off = ((np.log(times) - power * log_n - start) / relative) ** 2, ((times - line) / errors) ** 2
    return f"N^{power:.2f}({np.sqrt(cov[0, 0]):.2f}), {off[0].sum():.1f} and {off[1].sum():.1f} for {len(times) - 2}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    runs_of = parser.add_mutually_exclusive_group()
    runs_of.add_argument("--quick", action="store_true", help="the quick runs of figure 7")
    runs_of.add_argument("--full", action="store_true", help="those at the paper's dimensions (make them on a GPU first)")
    parser.add_argument("--output", type=Path, default=OUT, metavar="DIR", help="where `dmft figure -o` keeps its results")
    parser.add_argument("--numbers", type=Path, metavar="DIR", help="where `dmft figure --numbers` keeps its numbers")
    options = parser.parse_args()
    size, figure = "quick" if options.quick else "full" if options.full else "standard", FIGURES["fig7"]
    way = computations.Way(options.output, numbers=options.numbers, quiet=True)
    if code := computations.make(figure, size, FIGURE_COMMANDS, print, way):
        raise SystemExit(code)
    found = computations.load(figure, size, way)
    sims = [data.simulation for name, data in found.items() if name.startswith("persistent_sgd") and data.simulation is not None]
    runs = {sim.run.simulation.dimension: (sim.solved_at, sim.t[1:]) for sim in sims}
    rng, n = np.random.default_rng(1), np.array(list(runs))
    print("share " + "".join(f"{f'N = {one}':>15}" for one in runs) + "   power of N, chi-squared of it and of a line in log N")
    for share in SHARES:
        times = np.array([time_of_share(*one, share) for one in runs.values()])
        drawn = [np.array([time_of_share(rng.choice(solved, len(solved)), t, share) for _ in range(DRAWS)])
                 for solved, t in runs.values()]
        known = np.isfinite(times)
        errors = np.array([error_of(*one) if good else np.inf for *one, good in zip(times, drawn, known, strict=True)])
        found = [f"{name}: {fits(n[which], times[which], errors[which])}"
                 for name, which in (("all", known), (f"N >= {LARGE}", known & (n >= LARGE))) if which.sum() > 2]
        shown = (f"{a:.0f} +- {b:.0f}" if np.isfinite(a) else f"> {t[-1]:.0f}"
                 for a, b, (_, t) in zip(times, errors, runs.values(), strict=True))
        print(f"{share:5.0%} " + "".join(f"{one:>15}" for one in shown) + "   " + "; ".join(found))


if __name__ == "__main__":
    main()
