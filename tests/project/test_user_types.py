"""A user's script is checked by mypy against the types that the packages ship."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mypy")
ROOT = Path(__file__).resolve().parents[2]

SCRIPT = """
import numpy as np

import dmft
import onepass
import sgd_sim

run: dmft.Run = dmft.load_run("run.toml").replace(samples=4000)
mine = dmft.Experiment(alpha=3.0, m0=0.5, kind="gd", learning_rate=0.02, t_max=1.0, constraint=dmft.Ridge(0.5))
theory = dmft.solve(mine, output="theory.h5", quiet=True)
times: np.ndarray = theory.t
simulation: sgd_sim.SimulationResult = sgd_sim.simulate(run)
best: float = dmft.bayes(run).overlap
study = dmft.convergence_study(run, samples=[100, 200])
order: tuple[float, float] = study["samples"].orders["m"]
dmft.register_loss("mine", lambda f, y: f * y, lambda f, y: y, lambda f, y: 0.0)
trajectory: onepass.Trajectory = onepass.load("ode.h5")
"""
WRONG = """
dmft.solve(mine, outptu="theory.h5")
dmft.solve(3.0)
study["samples"].order
simulation.mean(3)
"""


@pytest.mark.cli
def test_a_users_script_is_checked(tmp_path):
    """What is right passes; every slip is found, where it is."""
    (tmp_path / "script.py").write_text(SCRIPT + WRONG)
    cache = ROOT / ".mypy_cache" / "of_users"  # whose settings are not ours
    command = [sys.executable, "-m", "mypy", "--no-error-summary", "--ignore-missing-imports", "--follow-imports=silent",
               f"--cache-dir={cache}", "script.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=os.environ | {"MYPYPATH": str(ROOT)})
    first = SCRIPT.count("\n") + 2
    places = [int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error:" in line]
    assert places == list(range(first, first + WRONG.count("\n") - 1)), done.stdout + done.stderr


def test_types_and_names_of_the_package_are_of_one_list():
    """A checker knows what dmft/model/offered.py lists, Python what dmft lists."""
    import dmft
    from dmft.model import offered

    assert set(offered.__all__) <= set(dmft.__all__)
    assert all(getattr(dmft, name) is getattr(offered, name) for name in offered.__all__)
