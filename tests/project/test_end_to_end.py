"""The way of a user: a run file solved, simulated and compared, by the commands."""

from __future__ import annotations

import numpy as np
import pytest

import dmft
import sgd_sim.cli
from dmft.core import store

pytestmark = pytest.mark.cli

SMALL = ["--set", "algorithm.t_max=0.2", "--set", "theory.samples=256", "--set", "theory.replicas=4",
         "--set", "simulation.dimension=200", "--set", "simulation.instances=8", "--quiet"]


def test_solve_simulate_compare(dmft_main, demo_text, tmp_path):
    (tmp_path / "mine.toml").write_text(demo_text)
    done = dmft_main("solve", "mine.toml", *SMALL)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert sgd_sim.cli.main(["run", "mine.toml", *SMALL]) == 0
    out = tmp_path / "runs" / "out"
    assert sorted(path.name for path in out.iterdir()) == ["mine.simulation.h5", "mine.theory.h5"]
    done = dmft_main("compare", str(out / "mine.theory.h5"), str(out / "mine.simulation.h5"), "--plot", "picture.png")
    assert done.returncode == 0 and float(done.stdout.splitlines()[-1].removeprefix("max |z| = ")) < 5.0
    assert (tmp_path / "picture.png").exists()

    refused = dmft_main("solve", "mine.toml", *SMALL)
    assert refused.returncode == 2 and "--force" in refused.stderr
    before = store.load(out / "mine.theory.h5").arrays["m"]
    assert dmft_main("solve", "mine.toml", *SMALL, "--resume").returncode == 0
    assert dmft_main("solve", "mine.toml", *SMALL, "--force").returncode == 0
    np.testing.assert_array_equal(store.load(out / "mine.theory.h5").arrays["m"], before)

    refused = dmft_main("solve", "mine.toml", *SMALL, "--resume", "--set", "problem.alpha=2.5")
    assert refused.returncode == 2 and "problem.alpha: 3.0 -> 2.5" in refused.stderr
    run = dmft.load_run(tmp_path / "mine.toml", SMALL[1:-1:2])
    np.testing.assert_array_equal(dmft.solve(run, quiet=True).m, before)
