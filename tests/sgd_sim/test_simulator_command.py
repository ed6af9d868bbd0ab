"""sgd-sim run: exit codes, messages, resume, signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import sgd_sim
from dmft.core import store
from dmft.version import __version__
from sgd_sim.cli import main
from tests.marks import slow

pytestmark = pytest.mark.cli

SMALL = "\n[simulation]\ndimension = 60\ninstances = 4\n"


@pytest.fixture
def command(tmp_path, monkeypatch, demo_text, capsys):
    """command(*options): `sgd-sim run a.toml -o a.h5 options` in this process; (exit code, standard error)."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.toml").write_text(demo_text + SMALL)

    def start(*options, output="a.h5"):
        code = main(["run", "a.toml", "-o", output, *options])
        return code, capsys.readouterr().err

    return start


def test_run_and_load(command, tmp_path):
    code, message = command()
    assert code == 0 and "wrote a.h5" in message and "m = " in message
    result = sgd_sim.load(tmp_path / "a.h5")
    assert result.m.shape[0] == 4 and result.t[-1] == 2.0
    stored = store.load("a.h5")
    assert stored.kind == "simulation" and stored.attrs["outcome"] == "complete" and stored.attrs["ranks"] == 1
    assert not store.checkpoint_path("a.h5").exists()


def test_nothing_is_overwritten(command):
    assert command()[0] == 0
    code, message = command()
    assert code == 2 and "--force" in message and len(message.splitlines()) == 1
    assert command("--force", "--quiet") == (0, "")


def test_bad_input_is_one_line(command):
    code, message = command("--set", "simulation.dimensions=3")
    assert code == 2 and "dimension" in message and len(message.splitlines()) == 1
    code, message = command("--set", "simulation.record=[1.0,5.0]")
    assert code == 2 and "t_max" in message and len(message.splitlines()) == 1
    code, message = command("--set", "simulation.dimension=2000000")
    assert code == 2 and "GB" in message and len(message.splitlines()) == 1


def test_errors_after_reading_name_the_run_file(command, with_cupy):
    with_cupy(None)
    for setting in ("simulation.record=[1.0,5.0]", "simulation.device=gpu"):
        code, message = command("--set", setting)
        assert code == 2 and ": a.toml: [simulation]" in message and len(message.splitlines()) == 1


@pytest.mark.parametrize("arguments, words", [(["--version"], [f"sgd-sim {__version__}"]),
                                              (["--help"], ["examples:", "exit codes"]),
                                              (["run", "--help"], ["--resume", "examples:", "exit codes"])])
def test_help_teaches(arguments, words, capsys):
    with pytest.raises(SystemExit) as end:
        main(arguments)
    shown = capsys.readouterr().out
    assert not end.value.code and all(word in shown for word in words)


def test_resume_grows_and_computes_only_what_is_new(command, tmp_path, edited):
    """Instances that are there are not computed again: marks that somebody put on them stay."""
    command()
    assert "nothing to do" in command("--resume")[1]
    marked = edited(tmp_path / "a.h5", {"loss": store.load("a.h5").arrays["loss"] + 7.0})
    code, message = command("--resume", "--set", "simulation.instances=6", output=str(marked))
    assert code == 0 and f"continuing from {marked}, 67 % done" in message
    assert (sgd_sim.load(marked).loss > 7.0).all(axis=1).tolist() == [True] * 4 + [False] * 2
    assert command("--resume", "--set", "simulation.instances=6")[0] == 0
    assert command("--resume", "--set", "simulation.instances=6", "--set", "algorithm.t_max=2.5")[0] == 0
    command("--set", "simulation.instances=6", "--set", "algorithm.t_max=2.5", output="b.h5")
    grown, whole = store.load("a.h5"), store.load("b.h5")
    assert grown.run_text == whole.run_text
    for name, array in whole.arrays.items():
        np.testing.assert_array_equal(grown.arrays[name], array)


def test_one_instance_has_no_error_bar_and_says_so(command, dmft_main):
    code, message = command("--set", "simulation.instances=1")
    assert code == 0 and message.count("(one instance: no error bar)") == 2 and "+-" not in message
    assert "(one instance: no error bar)" in repr(sgd_sim.load("a.h5"))
    assert "one instance: no error bars" in dmft_main("inspect", "a.h5").stdout


def test_resume_refuses_another_run(command):
    command()
    code, message = command("--resume", "--set", "problem.alpha=2.0")
    assert code == 2 and "problem.alpha" in message and "3.0" in message and "2.0" in message
    assert command("--resume", "--set", "simulation.instances=2")[0] == 2
    assert command("--resume", "--set", "theory.seed=7")[0] == 0


def test_divergence_is_reported(command):
    unstable = ("--set", "problem.constraint=ridge", "--set", "problem.ridge=0.1", "--set", "algorithm.learning_rate=0.5",
                "--set", "algorithm.t_max=40.0")
    code, message = command(*unstable)
    assert code == 3 and "4 of 4 instances diverged" in message
    assert store.load("a.h5").attrs["outcome"] == "diverged: 4 of 4 instances"
    assert np.isnan(sgd_sim.load("a.h5").m[:, -1]).all()
    assert command(*unstable, "--resume")[0] == 3          # nothing to do, and no better for that


@pytest.mark.long
@pytest.mark.parametrize("number, code", [slow(signal.SIGTERM, 75), (signal.SIGUSR1, 75), slow(signal.SIGINT, 130)])
def test_signals_leave_a_checkpoint(command, tmp_path, number, code):
    long = ["--set", "algorithm.t_max=400.0", "--set", "simulation.dimension=300", "--set", "simulation.instances=2"]
    arguments = [sys.executable, "-m", "sgd_sim", "run", "a.toml", "-o", "b.h5", *long,
                 "--set", "simulation.checkpoint_interval=0.2"]
    command(output="warm.h5")       # compiled code is ready
    process = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True, start_new_session=True)
    deadline = time.monotonic() + 240
    while not store.checkpoint_path("b.h5").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(process.pid, number)
    message = process.communicate(timeout=240)[1]
    assert process.returncode == code and "--resume" in message and len(message.splitlines()) == 1
    stopped = sgd_sim.load(store.checkpoint_path("b.h5"))
    assert np.isnan(stopped.m[:, -1]).any()
    if number == signal.SIGUSR1:
        assert command(*long, "--resume", output="b.h5")[0] == 0
        assert command(*long, output="c.h5")[0] == 0
        np.testing.assert_array_equal(sgd_sim.load("b.h5").m, sgd_sim.load("c.h5").m)
