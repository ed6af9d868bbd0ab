"""The number of ranks changes no bit of a one-pass simulation."""

from __future__ import annotations

import numpy as np
import pytest

import onepass
from onepass import runfile

pytestmark = pytest.mark.mpi

RUN = """
[model]
kind = "QuadraticNetwork"
width = 2
gamma = 0.2
constraint = "sphere"
[initial]
start = "random"
[time]
t_max = 0.5
points = 3
[simulation]
dimension = 100
instances = 7
"""


def test_ranks_change_nothing(run_python, tmp_path):
    (tmp_path / "a.toml").write_text(RUN)
    run = runfile.parse_run(RUN)
    alone = {
        "sgd": run.model.simulate(100, 7, run.start(7), run.time.grid()),
        "chain": run.model.chain(100, 7, run.start(7), run.time.grid()),
    }
    for process, expected in alone.items():
        done = run_python("-m", "onepass", "simulate", "a.toml", "-o", f"{process}.h5", "--set", f"simulation.process={process}",
                          ranks=3, timeout=240.0)  # fmt: skip
        assert done.returncode == 0 and done.stderr.count("wrote") == 1, done.stderr
        np.testing.assert_array_equal(onepass.load(tmp_path / f"{process}.h5").Q, expected.Q)
