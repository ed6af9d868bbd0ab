"""Columns C(t, t_w), R, M_C, M_R and chi of a history of blocks against those of the full history, with equal random numbers.

    python benchmarks/bench_columns.py                                   250 steps: a minute
    python benchmarks/bench_columns.py --steps 1000 --cases gd sgd       a few minutes on one core
    python benchmarks/bench_columns.py --steps 2000 --device gpu --samples 4096 --seeds 16 --processes 8

Of each kernel four numbers: the mean difference over seeds in units of the error bar of the mean, root mean squares over all
columns, then the largest over waiting times; that in units of its own error; and the largest difference in units of the largest
entry of its column. Error bars are those of so many seeds of so many samples: with few seeds some columns have far too small a bar
by chance.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np  # noqa: E402

from benchmarks.common import GD, PERSISTENT, problem, table  # noqa: E402
from dmft.core.averages import mean_and_error  # noqa: E402
from dmft.core.device import gpu  # noqa: E402
from dmft.core.parallel import Comm  # noqa: E402
from dmft.equations.kernels import COLUMNS, Wanted  # noqa: E402
from dmft.equations.tuning import Estimator  # noqa: E402
from dmft.samples.sampling import PARTS, Sampling  # noqa: E402
from dmft.solvers.march import March  # noqa: E402

Several = Callable[[Callable[[Any], Any], list[Any]], list[Any]]     # a map

ETA = 0.02
CASES = {
    "gd": GD,
    "sgd": 'kind = "sgd"\nbatch_fraction = 0.5',
    "persistent_sgd": PERSISTENT,
    "langevin": 'kind = "langevin"\ntemperature = 0.5',
    "momentum": f"{GD}\nmomentum = 0.8",
}


def columns(task: tuple[str, int | None, int, argparse.Namespace]) -> dict[str, np.ndarray] | None:
    """The columns of one march, each (rows, waiting times); None where it diverged. A history of blocks keeps the past in single
    precision on a card, as the solver does."""
    case, per_level, seed, options = task
    experiment = problem(CASES[case], options.steps, ETA, options.alpha, options.m0)
    sampling = Sampling(options.samples, 9000 + seed, (0,), frozenset(PARTS), options.tangents, Estimator(least_carriers=16))
    card = gpu("theory") if options.device == "gpu" else None
    dtype = np.float32 if card and per_level else np.float64
    march = March(experiment, sampling, per_level, Wanted.plain(experiment.steps), Comm(), dtype, card)
    while not march.done:
        march.step()
    return None if march.diverged else march.columns


def compared(case: str, options: argparse.Namespace, several: Several) -> None:
    """The table of one case."""
    began = time.perf_counter()
    found = several(columns, [(case, per_level, seed, options) for per_level in (None, options.blocks)
                              for seed in range(options.seeds)])
    pairs = [pair for pair in zip(found[:options.seeds], found[options.seeds:]) if None not in pair]
    full, blocks = ([pair[k] for pair in pairs] for k in (0, 1))
    rows = []
    for name in COLUMNS:
        mean, bar = mean_and_error(np.array([each[name] for each in full]))
        off, own = mean_and_error(np.array([b[name] - f[name] for f, b in zip(full, blocks)]))
        size, beside, noise = (np.sqrt(np.nanmean(array**2, axis=0)) for array in (off, bar, own))
        all_size, all_beside = (np.sqrt(np.nanmean(array**2)) for array in (off, bar))
        worst = (size / beside, size / noise, np.nanmax(np.abs(off), axis=0) / np.nanmax(np.abs(mean), axis=0))
        rows.append([name, f"{all_size / all_beside:.2g}", *(f"{np.nanmax(each):.2g}" for each in worst)])
    table(f"{case}, alpha = {options.alpha:g}, m0 = {options.m0:g}, {options.steps} steps of {ETA}: {options.blocks} blocks a "
          f"level against all steps, {len(pairs)} of {options.seeds} x {options.samples} samples, {options.device}, "
          f"{time.perf_counter() - began:.0f} s",
          ["", "difference / bar", "largest of a column", "in its own errors", "in largest entries"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=250)
    parser.add_argument("--samples", type=int, default=512)
    parser.add_argument("--tangents", type=float, default=0.2, help="share of samples with tangents")
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--blocks", type=int, default=12, help="blocks a level (the default of runs)")
    parser.add_argument("--alpha", type=float, default=2.0)
    parser.add_argument("--m0", type=float, default=0.5)
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    with get_context("spawn").Pool(options.processes) as pool:
        for case in options.cases:
            compared(case, options, partial(pool.map, chunksize=1))


if __name__ == "__main__":
    main()
