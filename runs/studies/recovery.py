"""Recovery: how does the time at which persistent SGD finds the teacher from a random start grow with the dimension?

Uses the runs of figure 7, and computes those that are missing. The time by which a share of the runs is solved, with its
error by bootstrap, is compared with a power of N and with a straight line in log N.
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
KNOWN = 0.95  # share of the bootstrap draws that must reach the share before the end; else only a bound is reported


def time_of_share(times: np.ndarray, share: float) -> np.ndarray:
    """Time by which that share of the runs is solved, over the last axis."""
    return np.sort(times, axis=-1)[..., int(share * times.shape[-1])]


def fits(log_n: np.ndarray, times: np.ndarray, errors: np.ndarray, drawn: np.ndarray) -> str:
    """Power of N, and how far the times are from a straight line in log N."""
    powers = [np.polyfit(log_n, np.log(line), 1)[0] for line in drawn.T if np.isfinite(line).all()]
    line = np.polyval(np.polyfit(log_n, times, 1, w=1 / errors), log_n)
    return (f"   {np.polyfit(log_n, np.log(times), 1)[0]:.2f} +- {np.std(powers):.2f}"
            f"   {(((times - line) / errors) ** 2).sum():.1f} with {len(times) - 2} degrees of freedom")


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
    runs = {sim.run.simulation.dimension: sim.solved_at for sim in sims}
    rng, log_n, ends = np.random.default_rng(1), np.log(list(runs)), [sim.t[-1] for sim in sims]
    print("share " + "".join(f"{f'N = {n}':>16}" for n in runs) + "   power of N   chi-squared of a line in log N")
    for share in SHARES:
        times = np.array([time_of_share(run, share) for run in runs.values()])
        drawn = np.array([time_of_share(rng.choice(run, (DRAWS, len(run))), share) for run in runs.values()])
        known = np.isfinite(drawn).mean(axis=1) > KNOWN
        errors = np.array([np.std(line[np.isfinite(line)]) if good else np.inf for line, good in zip(drawn, known, strict=True)])
        print(f"{share:5.0%} " + "".join(f"{f'{a:.0f} +- {b:.0f}' if b < np.inf else f'>= {min(a, end):.0f}':>16}"
                                         for a, b, end in zip(times, errors, ends, strict=True))
              + (fits(log_n[known], times[known], errors[known], drawn[known]) if known.sum() > 2 else ""))


if __name__ == "__main__":
    main()
