"""The number of ranks changes no bit of a one-pass simulation, also when it changes between a stop and the rest."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import onepass
from dmft.core import store
from onepass import runfile
from tests.conftest import mpirun

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


@pytest.mark.long
def test_ranks_change_nothing(run_python, tmp_path):
    (tmp_path / "a.toml").write_text(RUN)
    run = runfile.parse_run(RUN)
    alone = {
        "sgd": run.model.simulate(100, 7, run.start(7), run.time.grid()),
        "chain": run.model.chain(100, 7, run.start(7), run.time.grid()),
        "sde": run.model.diffuse(100, 7, run.start(7), run.time.grid()),
    }
    all_three = ("from onepass.cli import main\n"
                 f"for p in {list(alone)}: main(['simulate', 'a.toml', '-o', p + '.h5', '--set', 'simulation.process=' + p])")
    done = run_python("-c", all_three, ranks=3, timeout=240.0)
    assert done.returncode == 0 and done.stderr.count("wrote") == 3, done.stderr
    for process, expected in alone.items():
        np.testing.assert_array_equal(onepass.load(tmp_path / f"{process}.h5").Q, expected.Q)


@pytest.mark.slow
def test_exit_times_on_several_ranks(run_python):
    measured = ("import onepass; from onepass.first_passage import measure_exit, overlap_measure; "
                "net = onepass.QuadraticNetwork(2, 1, 0.2, constraint='sphere'); "
                "times = measure_exit(net, 100, 7, overlap_measure(0.5), 3.0).times; print(f'{times.tolist()}\\n', end='')")
    alone, three = run_python("-c", measured), run_python("-c", measured, ranks=3)
    assert alone.returncode == three.returncode == 0, three.stderr
    lines = three.stdout.strip().splitlines()
    assert len(lines) == 3 and set(lines) == {alone.stdout.strip()}     # every rank has all of them


# Some seconds of work on one rank: (dimension, instances).
LONG = {"chain": (900_000, 3), "sgd": (4000, 3), "sde": (100, 300)}


@pytest.mark.slow
@pytest.mark.parametrize("process", ["chain", "sgd", "sde"])
@pytest.mark.parametrize("ranks, later", [(1, 2), (2, 1)])
def test_stopped_on_some_ranks_and_resumed_on_others(run_python, tmp_path, process, ranks, later):
    dimension, instances = LONG[process]
    (tmp_path / "a.toml").write_text(RUN)
    arguments = ["-m", "onepass", "simulate", "a.toml", "-o", "a.h5", "--quiet"]
    for override in (f"process={process}", f"dimension={dimension}", f"instances={instances}", "checkpoint_interval=0.0"):
        arguments += ["--set", f"simulation.{override}"]
    launcher = [mpirun(), "-n", str(ranks)] if ranks > 1 else []
    job = subprocess.Popen([*launcher, sys.executable, *arguments], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    checkpoint, deadline = store.checkpoint_path(tmp_path / "a.h5"), time.monotonic() + 120
    while not _under_way(checkpoint) and time.monotonic() < deadline and job.poll() is None:
        time.sleep(0.02)
    job.send_signal(signal.SIGUSR1)
    message = job.communicate(timeout=60)[1]
    assert job.returncode == 75 and "--resume" in message, message
    assert 0.0 < store.load_header(checkpoint).attrs["progress"] < 1.0 and not (tmp_path / "a.h5").exists()
    assert run_python(*arguments, "--resume", ranks=later, timeout=240.0).returncode == 0
    run = runfile.parse_run(RUN)
    method = {"chain": run.model.chain, "sgd": run.model.simulate, "sde": run.model.diffuse}[process]
    expected = method(dimension, instances, run.model.random_start(dimension, instances, 1), run.time.grid())
    np.testing.assert_array_equal(onepass.load(tmp_path / "a.h5").Q, expected.Q)


def _under_way(checkpoint) -> bool:
    """Whether the checkpoint shows an instance in the middle."""
    return checkpoint.exists() and store.load_header(checkpoint).attrs["progress"] > 0.0
