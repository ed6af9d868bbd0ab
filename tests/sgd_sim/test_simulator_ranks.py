"""The number of ranks changes no bit of a simulation."""

from __future__ import annotations

import numpy as np
import pytest

import sgd_sim
from dmft.model.runfile import parse_run
from tests.marks import slow

pytestmark = pytest.mark.mpi

TIMEOUT = 240.0     # a loaded machine is slow, not wrong


@pytest.mark.long
@pytest.mark.parametrize("landscape", ["fresh", slow("shared")])
def test_ranks_change_nothing(run_python, tmp_path, demo_text, landscape):
    (tmp_path / "a.toml").write_text(demo_text)
    options = ["-m", "sgd_sim", "run", "a.toml", "--set", "simulation.dimension=60", "--set", f"simulation.landscape={landscape}"]
    # First in this process, which leaves its compiled code for the ranks.
    alone = sgd_sim.simulate(parse_run(demo_text).replace(dimension=60, landscape=landscape, instances=7))
    for ranks, instances in ((3, 5), (2, 7)):
        done = run_python(*options, "-o", "a.h5", "--resume", "--set", f"simulation.instances={instances}", ranks=ranks,
                          timeout=TIMEOUT)
        assert done.returncode == 0 and done.stderr.count("wrote") == 1, done.stderr
    ranks = sgd_sim.load(tmp_path / "a.h5")
    for name in ("m", "loss", "q", "mse", "mse_fresh"):
        np.testing.assert_array_equal(getattr(ranks, name), getattr(alone, name))


@pytest.mark.long
def test_bad_input_is_told_once(run_python, tmp_path, demo_text):
    (tmp_path / "a.toml").write_text(demo_text)
    done = run_python("-m", "sgd_sim", "run", "a.toml", "--set", "simulation.dimension=2000000", ranks=2,
                      timeout=TIMEOUT)
    assert done.returncode == 2 and len(done.stderr.strip().splitlines()) == 1, done.stderr
