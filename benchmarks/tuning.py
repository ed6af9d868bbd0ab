"""What half and double of every tuned number do to m and to its error: `python benchmarks/tuning.py` writes the table of
docs/notes/tuning.md (some five minutes of one core; --only NAME prints single rows instead).

Every number is changed alone (dmft.Estimator), in two cases with the random numbers of the default: gradient descent on a barrier
until late times, and persistent SGD, which finds the teacher. Numbers that neither of them reads have a case of their own.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable
from dataclasses import fields, replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import dmft  # noqa: E402
from dmft.equations.tuning import ESTIMATOR, Estimator  # noqa: E402

PAGE = Path(__file__).resolve().parent.parent / "docs" / "notes" / "tuning.md"
BEGIN, END = "<!-- table: benchmarks/tuning.py -->", "<!-- end of table -->"
RUN = """
[problem]
alpha = {alpha}
{start}
[algorithm]
learning_rate = 0.04
t_max = {t_max}
{algorithm}
[theory]
samples = {samples}
replicas = {replicas}
history = "dyadic"
blocks_per_level = 8
"""
GD = RUN.format(alpha=2.0, start="m0 = 0.2", t_max=8.0, samples=256, replicas=6, algorithm='kind = "gd"')
PERSISTENT = RUN.format(alpha=3.0, start="m0 = 0.5", t_max=2.0, samples=1024, replicas=4,
                        algorithm='kind = "persistent_sgd"\nbatch_fraction = 0.5\npersistence = 1.0')
RANDOM = RUN.format(alpha=2.0, start='start = "random"', t_max=1.0, samples=1024, replicas=8, algorithm='kind = "gd"')
JUMPS = RUN.format(alpha=2.0, start='m0 = 0.2\nlabels = "sign"\nloss = "logistic"', t_max=1.0, samples=512, replicas=8,
                   algorithm='kind = "gd"')
CASES = {"GD": GD, "persistent SGD": PERSISTENT}
OWN = {"random_h0_width": RANDOM, "random_h0_max": RANDOM, "random_trust": RANDOM, "jump_pairs": JUMPS}


class Found(NamedTuple):
    """m, or V from a random start, and its standard error, at the end and as an average over the second half of the times."""

    end: float
    error: float
    noise: float


def solved(text: str, estimator: Estimator) -> Found | None:
    """None where the solution diverged."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theory = dmft.solve(dmft.parse_run(text), quiet=True, estimator=estimator)
    if theory.outcome == "diverged":
        return None
    m, error = (theory.V, theory.V_error) if theory.run.problem.start == "random" else (theory.m, theory.m_error)
    return Found(m[-1], error[-1], float(np.sqrt(np.mean(error[len(error) // 2 :] ** 2))))


def changed(name: str, factor: float) -> Estimator:
    """One number halved or doubled; a factor too wide is so of what it is beyond 1, and a factor that shrinks of what it lacks."""
    value = getattr(ESTIMATOR, name)
    if name.endswith(("_width", "_stale")):
        new: float = 1 + factor * (value - 1)
    elif name == "ridge_decay":
        new = 1 - factor * (1 - value)
    else:
        new = type(value)(factor * value)
    return replace(ESTIMATOR, **{name: new})


def cell(found: Found | None, default: Found) -> str:
    """Change of m (in 1e-4, and in errors of m), and the error relative to that of the default."""
    if found is None:
        return "diverged"
    if found == default:
        return "the same"
    shift = found.end - default.end
    return f"{1e4 * shift:+.2g} ({shift / default.error:+.2g} σ), × {found.noise / default.noise:.2f}"


def row(name: str, default: Callable[[str], Found]) -> str:
    """A line of the table; `default`: what the default estimator gives for a run."""
    cells = [f"`{name}`", f"{getattr(ESTIMATOR, name):.4g}"]
    for text in [OWN[name]] if name in OWN else CASES.values():
        half, double = (cell(solved(text, changed(name, factor)), default(text)) for factor in (0.5, 2.0))
        cells.append(f"½: {half}<br>2: {double}")
    return f"| {' | '.join([*cells, 'not read'][:4])} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="NAME", action="append", default=[], help="print the rows of these numbers")
    only = parser.parse_args().only
    default, lines = lru_cache(lambda text: solved(text, ESTIMATOR)), []
    for each in fields(Estimator):
        if not only or each.name in only:
            lines.append(row(each.name, default))
            print(lines[-1], flush=True)
    if not only:
        head, _, rest = PAGE.read_text().partition(BEGIN)
        table = "\n".join([f"| number | default | {' | '.join(CASES)} |", "|---|---|---|---|", *lines])
        PAGE.write_text(f"{head}{BEGIN}\n{table}\n{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    main()
