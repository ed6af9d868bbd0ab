"""Theory runs as a user starts them: the same bits at any number of ranks, after a stop, and when extended."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from dmft.core import store
from dmft.core.parallel import Comm
from dmft.model.runfile import parse_run
from dmft.running.replica import Replica, Setup
from tests.brake import Brake
from tests.conftest import mpirun
from tests.marks import slow
from tests.run_files import run_text

pytestmark = pytest.mark.mpi

THEORY = {"samples": 600, "replicas": 3, "history": "dyadic", "blocks_per_level": 8}
RUN = run_text(t_max=1.2, algorithm={"persistence": 0.5}, theory=THEORY)
# With what has a line per sample besides, and pairs of samples.
RICH_RUN = run_text(t_max=1.2, algorithm={"persistence": 0.5},
                    theory={**THEORY, "clones": True, "snapshots": [0.0, 0.1, 1.2], "hessian": True})


def command(ranks: int, run: Path, output: Path, *options: str) -> list[str]:
    launcher = [mpirun(), "-n", str(ranks)] if ranks > 1 else []
    return [*launcher, sys.executable, "-m", "dmft", "solve", str(run), "-o", str(output), "--quiet", *options]


def solve(ranks: int, run: Path, output: Path, *options: str) -> dict[str, np.ndarray]:
    subprocess.run(command(ranks, run, output, *options), check=True, timeout=300)
    return store.load(output).arrays


def same(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> None:
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)


@pytest.fixture(scope="module")
def run_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("ranks") / "run.toml"
    path.write_text(RUN)
    return path


@pytest.fixture(scope="module")
def rich_file(run_file):
    path = run_file.with_name("rich.toml")
    path.write_text(RICH_RUN)
    return path


@pytest.fixture(scope="module")
def serial(rich_file):
    return solve(1, rich_file, rich_file.with_name("serial.h5"))


def test_some_samples_of_this_run_have_tangents():
    """So the tests below see both kinds on their ranks."""
    whole = Replica(Setup.from_run(parse_run(RUN)), 0, Comm()).whole
    assert 0 < whole.blocks.carriers < whole.blocks.samples


@pytest.mark.long
@pytest.mark.parametrize("ranks", [slow(2), 3])
def test_march_on_ranks(ranks, rich_file, serial, tmp_path):
    assert serial["C_12"][-1] < 0.95 and np.isfinite(serial["snapshots/g"]).all()
    same(serial, solve(ranks, rich_file, tmp_path / "a.h5"))


@pytest.mark.parametrize("samples", [slow(300), slow(16)])
def test_one_replica_over_ranks_and_iterate(run_file, tmp_path, samples):
    """16 samples are fewer blocks than ranks: one of them has none."""
    for method in ("march", "iterate"):
        options = ["--set", "theory.replicas=1", "--set", f"theory.method={method}", "--set", "algorithm.t_max=0.3",
                   "--set", "theory.mixing=1.0", "--set", f"theory.samples={samples}"]
        same(solve(1, run_file, tmp_path / f"{method}1.h5", *options), solve(3, run_file, tmp_path / f"{method}3.h5", *options))


ITERATE = ["--set", "theory.method=iterate", "--set", "theory.replicas=2", "--set", "algorithm.t_max=0.3"]


@pytest.mark.long
@pytest.mark.parametrize("method, ranks, later", [
    slow("march", 1, 2), ("march", 2, 1), slow("iterate", 1, 2), slow("iterate", 2, 1)])
def test_stop_and_resume_on_other_ranks(run_file, rich_file, serial, tmp_path, method, ranks, later):
    """Stopped by a signal in the middle, resumed on another number of ranks: the same bits. Two ranks have replicas with different
    companions, so that they send different parts to the checkpoint."""
    options = ITERATE if method == "iterate" else []
    run_file = run_file if options else rich_file
    expected = solve(1, run_file, tmp_path / "whole.h5", *options) if options else serial
    output, brake = tmp_path / "a.h5", Brake(tmp_path, 0.2)
    checkpoint = store.checkpoint_path(output)
    job = subprocess.Popen(command(ranks, run_file, output, *options, "--set", "theory.checkpoint_interval=0.0",
                                   "--plugin", str(brake.plugin)))
    deadline = time.monotonic() + 240
    while not checkpoint.exists() and time.monotonic() < deadline and job.poll() is None:
        time.sleep(0.01)
    job.send_signal(signal.SIGUSR1 if ranks > 1 else signal.SIGTERM)        # mpirun passes only USR1 on to its ranks
    assert job.wait(60) == 75
    assert checkpoint.exists() and not output.exists()
    assert 0.0 <= store.load_header(checkpoint).attrs["progress"] < 0.5
    same(expected, solve(later, run_file, output, "--resume", *options))
    assert not checkpoint.exists()


@pytest.mark.slow
def test_more_replicas_and_more_time(run_file, tmp_path):
    """A finished run extended equals the longer run, and a complete one is left alone."""
    output = tmp_path / "a.h5"
    solve(1, run_file, output, "--set", "theory.replicas=2")
    same(solve(1, run_file, tmp_path / "whole.h5"), solve(1, run_file, output, "--resume"))
    before = output.read_bytes()
    solve(1, run_file, output, "--resume")
    assert output.read_bytes() == before
    longer = ["--set", "algorithm.t_max=1.4"]
    same(solve(1, run_file, output, "--resume", *longer), solve(1, run_file, tmp_path / "b.h5", *longer))


def test_another_run_is_refused(run_file, tmp_path, dmft_main):
    words = "solve", str(run_file), "-o", str(tmp_path / "a.h5"), "--quiet", "--set", "theory.replicas=1"
    assert dmft_main(*words).returncode == 0
    done = dmft_main(*words, "--resume", "--set", "problem.alpha=2.5")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1 and "problem.alpha: 3.0 -> 2.5" in done.stderr


def test_a_foreign_file_is_refused(run_file, tmp_path, dmft_main):
    """--resume on a simulation result: one line, no traceback."""
    output = tmp_path / "a.h5"
    store.save(output, "simulation", run_file.read_text(), {"t": np.zeros(2)}, {"outcome": "done"})
    done = dmft_main("solve", str(run_file), "-o", str(output), "--quiet", "--resume")
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1 and "simulation" in done.stderr


@pytest.mark.slow
def test_divergence_does_not_depend_on_ranks(run_file, tmp_path):
    """Replicas that diverge, at times of their own, end none of the others."""
    options = ["--set", "problem.constraint=ridge", "--set", "problem.ridge=0.1", "--set", "algorithm.learning_rate=0.1",
               "--set", "algorithm.t_max=3.0"]
    results = []
    for ranks in (1, 3):
        done = subprocess.run(command(ranks, run_file, tmp_path / f"{ranks}.h5", *options), capture_output=True, text=True)
        assert done.returncode == 3 and "replicas diverged, the first at t" in done.stderr
        results.append(store.load(tmp_path / f"{ranks}.h5").arrays)
    same(*results)
