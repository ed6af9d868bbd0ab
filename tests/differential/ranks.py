"""One rank against three: `mpirun -n 3 python -m tests.differential.ranks FOLDER` computes every run file of a folder, theory and
simulation, and `judge` compares the files with those of one rank, bit by bit. All cases share one start of the ranks."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path

import dmft
import sgd_sim
from tests.differential import plugins
from tests.differential.chance import Finding, left_out
from tests.differential.runs import run_text
from tests.differential.same import SMALL, Arrays, apart, stored, worst
from tests.differential.table import Case

RANKS = 3
ROOT = Path(__file__).resolve().parents[2]


def compute(folder: Path) -> None:
    """Theory and simulation of every run file, each in a file of its own."""
    for path in sorted(folder.glob("*.toml")):
        run = dmft.load_run(path)
        dmft.solve(run, output=path.with_suffix(".theory.h5"), quiet=True)
        sgd_sim.simulate(run, output=path.with_suffix(".simulation.h5"), quiet=True)


def _results(folder: Path, name: str) -> tuple[Arrays, Arrays]:
    return stored(folder / f"{name}.theory.h5"), stored(folder / f"{name}.simulation.h5")


def judge(cases: Sequence[Case]) -> list[Finding]:
    """A finding for each case."""
    beside = Path(sys.executable).parent / "mpirun"
    launcher = str(beside) if beside.exists() else shutil.which("mpirun")
    if launcher is None:
        return [left_out("no mpirun") for _ in cases]
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as three, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for folder in (one, three):
            for k, case in enumerate(cases):
                Path(folder, f"{k}.toml").write_text(run_text(case, **SMALL))
        compute(Path(one))
        paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        subprocess.run([launcher, "-n", str(RANKS), sys.executable, "-W", "ignore", "-m", "tests.differential.ranks", three],
                       check=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": paths})
        pairs = [(_results(Path(one), str(k)), _results(Path(three), str(k))) for k in range(len(cases))]
    return [worst(*(apart(a, b, 0.0) for a, b in zip(*pair))) for pair in pairs]


if __name__ == "__main__":
    plugins.register()
    compute(Path(sys.argv[1]))
