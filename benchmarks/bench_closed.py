"""How long closed models take: p = 3, gradient descent at eta = 0.1, and what is found (docs/closed-models.md).

    python benchmarks/bench_closed.py                        t = 100, 1000
    python benchmarks/bench_closed.py --t-max 10000 100000   1e5 steps, 1e6 steps

Seconds are those of one core, of the solution and of its companion with half the blocks.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np  # noqa: E402

import dmft  # noqa: E402
from benchmarks.common import table  # noqa: E402
from dmft.running.replica import Setup  # noqa: E402

THRESHOLD = -2 * np.sqrt(2 / 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--t-max", type=float, nargs="+", default=[100.0, 1000.0])
    parser.add_argument("--blocks", type=int, default=12)
    options = parser.parse_args()
    base = dmft.Experiment(data="p_spin", powers=[[3, 1.0]], m0=0.0, kind="gd", learning_rate=0.1, t_max=20.0, history="dyadic",
                           blocks_per_level=options.blocks)
    dmft.solve(base, quiet=True)  # compiles
    rows = []
    for t_max in options.t_max:
        run = base.replace(t_max=t_max)
        begin = time.process_time()
        theory = dmft.solve(run, quiet=True)
        seconds, setup = time.process_time() - begin, Setup.from_run(run)
        slots = " + ".join(str(setup.history(solution).slots) for solution in setup.solutions(0))
        rows.append([f"{t_max:g}", f"{run.algorithm.steps}", slots, f"{seconds:.1f}", f"{1e6 * seconds / run.algorithm.steps:.0f}",
                     f"{theory.energy[-1] - THRESHOLD:.4e}", f"{theory.history_error['loss'][-1]:.1e}"])
    table("p = 3, gradient descent", ["t", "steps", "slots", "seconds", "us/step", "E - E_th", "by blocks"], rows)


if __name__ == "__main__":
    main()
