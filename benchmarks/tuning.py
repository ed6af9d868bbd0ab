"""What half and double of each tuned number do to m and to its error: `python benchmarks/tuning.py` writes the lines that the table
of docs/notes/tuning.md lacks (ten seconds of one core each; --again: all of them).

Every number is changed alone (dmft.Estimator), in two cases with the random numbers of the default: gradient descent on a barrier
until late times, and persistent SGD, which finds the teacher. Numbers that neither of them reads have a case of their own.
"""

from __future__ import annotations

import argparse
import re
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
UNKNOWN = "not measured yet"
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
    cells = []
    for text in [OWN[name]] if name in OWN else CASES.values():
        half, double = (cell(solved(text, changed(name, factor)), default(text)) for factor in (0.5, 2.0))
        cells.append(f"½: {half}<br>2: {double}")
    return f"{head(name)} {' | '.join([*cells, 'not read'][:2])} |"


def measured(text: str) -> dict[str, str]:
    """{name: line} of the table of a page that stand for the default of today."""
    lines = {found[1]: found[0] for found in re.finditer(r"^\| `(\w+)` \|.*\|$", text, re.MULTILINE)}
    return {each.name: lines[each.name] for each in fields(Estimator)
            if each.name in lines and lines[each.name].startswith(head(each.name)) and UNKNOWN not in lines[each.name]}


def head(name: str) -> str:
    return f"| `{name}` | {getattr(ESTIMATOR, name):.4g} |"


def write(rows: dict[str, str]) -> None:
    """The table of the page, with a mark in the place of lines that are not known."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    lines = [rows.get(each.name, f"{head(each.name)} {UNKNOWN} | {UNKNOWN} |") for each in fields(Estimator)]
    table = "\n".join([f"| number | default | {' | '.join(CASES)} |", "|---|---|---|---|", *lines])
    PAGE.write_text(f"{before}{BEGIN}\n{table}\n{END}{rest.partition(END)[2]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--again", action="store_true", help="measure all lines, not those alone that are missing")
    again = parser.parse_args().again
    default, rows = lru_cache(lambda text: solved(text, ESTIMATOR)), {} if again else measured(PAGE.read_text())
    for each in fields(Estimator):
        if each.name not in rows:
            rows[each.name] = row(each.name, default)
            print(rows[each.name], flush=True)
            write(rows)


if __name__ == "__main__":
    main()
