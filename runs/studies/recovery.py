"""Recovery: how does the time at which persistent SGD finds the teacher from a random start grow with the dimension?

Takes the runs of figure 7 (makes those that are missing). The time by which a share of the runs is solved, with its
error by bootstrap, is held against a power of N and against a straight line in log N.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from dmft.core.command import OUT
from dmft.figures import FIGURES, jobs
from sgd_sim.cli import SOLVED

SHARES = (0.1, 0.25, 0.5)
DRAWS = 1000


def solved_at(t: np.ndarray, loss: np.ndarray) -> np.ndarray:
    """First recorded time with a solved loss, for each run (runs, times); infinite where there is none."""
    solved = loss < SOLVED
    return np.where(solved.any(axis=1), t[solved.argmax(axis=1)], np.inf)


def time_of_share(times: np.ndarray, share: float) -> np.ndarray:
    """Time by which that share of the runs is solved, over the last axis."""
    return np.sort(times, axis=-1)[..., int(share * times.shape[-1])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the quick runs of figure 7")
    parser.add_argument("--output", type=Path, default=OUT, metavar="DIR", help="where `dmft figure -o` keeps its results")
    options = parser.parse_args()
    size, figure = "quick" if options.quick else "standard", FIGURES["fig7"]
    jobs.make(figure, size, False, True, print, options.output)
    found = jobs.load(figure, size, options.output)
    runs = {sim.run.simulation.dimension: solved_at(sim.t, sim.loss) for name, data in found.items()
            if name.startswith("persistent_sgd") and (sim := data.simulation) is not None}
    rng, log_n = np.random.default_rng(1), np.log(list(runs))
    print("share " + "".join(f"{f'N = {n}':>16}" for n in runs) + "   power of N   chi-squared of a line in log N")
    for share in SHARES:
        values = np.array([time_of_share(times, share) for times in runs.values()])
        drawn = np.array([time_of_share(rng.choice(times, (DRAWS, len(times))), share) for times in runs.values()])
        errors = np.array([np.std(line[np.isfinite(line)]) if np.isfinite(line).any() else np.nan for line in drawn])
        text = f"{share:5.0%} " + "".join(f"{f'{a:.0f} +- {b:.0f}':>16}" for a, b in zip(values, errors, strict=True))
        if np.isfinite(values).all():
            powers = [np.polyfit(log_n, np.log(line), 1)[0] for line in drawn.T if np.isfinite(line).all()]
            fit = np.polyval(np.polyfit(log_n, values, 1, w=1 / errors), log_n)
            text += (f"   {np.polyfit(log_n, np.log(values), 1)[0]:.2f} +- {np.std(powers):.2f}"
                     f"   {(((values - fit) / errors) ** 2).sum():.1f} with {len(runs) - 2} degrees of freedom")
        print(text)


if __name__ == "__main__":
    main()
