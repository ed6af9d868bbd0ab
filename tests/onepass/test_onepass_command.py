"""Run files and the command line of onepass."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import onepass
from dmft.core.errors import UserError
from dmft.core.store import checkpoint_path
from onepass import runfile
from onepass.cli import main

pytestmark = pytest.mark.cli

RUN = """
title = "two units"
[model]
kind = "QuadraticNetwork"
width = 2
gamma = 0.2
constraint = "sphere"
[initial]
M = [[0.3], [0.1]]
Q = [[1.0, 0.1], [0.1, 1.0]]
[time]
t_max = 0.5
points = 3
[simulation]
process = "chain"
dimension = 300
instances = 6
"""


@pytest.fixture
def run_path(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text(RUN)
    return path


def test_completed_run_file_reads_back_to_itself(run_path):
    run = runfile.load_run(run_path)
    again = runfile.parse_run(run.to_toml())
    assert again.to_toml() == run.to_toml() and again.model == run.model
    assert run.model.width == 2 and run.time.grid().tolist() == [0.0, 0.25, 0.5]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("model.widht=3", r"\[model\] unknown key 'widht'; did you mean 'width'"),
        ("model.kind=Quadratic", r"kind = \"Quadratic\": must be one of .*did you mean 'QuadraticNetwork'"),
        ("model.gamma=-1", r"\[model\] gamma = -1: must be a number > 0"),
        ("model.width=3", r"\[initial\] M has shape \(2, 1\); this model wants \(3, 1\)"),
        ("initial.M=[[1.2],[0.1]]", "run.toml: .*smallest eigenvalue is -0.2"),
        ("initial.m=0.3", r"\[initial\] unknown key 'm'"),
        ("initial.start=random", "M is not used with start"),
        ("time.times=[1.0,0.5]", "run.toml: times must be a strictly increasing"),
        ("simulation.process=gd", "must be one of sgd, chain, sde"),
        ("simulation.dimension=2", "dimension = 2 is too small"),
        ("model.teacher_overlaps=[[-1.0]]", r"\[model\] teacher_overlaps .*smallest eigenvalue"),
    ],
)
def test_bad_run_files_are_answered_in_one_line(run_path, change, message):
    with pytest.raises(UserError, match=message) as error:
        runfile.load_run(run_path, [change])
    assert "\n" not in str(error.value)


def test_every_model_can_be_asked_for():
    for text, kind in [
        ('kind = "Committee"\nwidth = 2\ngamma = 0.5\n', onepass.Committee),
        ('kind = "SpikedTensor"\norder = 3\nsignal = 4.0\n', onepass.SpikedTensor),
        ('kind = "BinaryMixture"\nsnr = inf\nridge = 0.1\n', onepass.BinaryMixture),
        ('kind = "XorMixture"\nsnr = 10.0\nridge = 0.05\n', onepass.XorMixture),
    ]:
        run = runfile.parse_run(f'[model]\n{text}[initial]\nstart = "random"\n')
        assert isinstance(run.model, kind)
        assert runfile.parse_run(run.to_toml()).model == run.model


def test_solve_simulate_compare_and_load(run_path, tmp_path, capsys):
    ode, sim, png = tmp_path / "ode.h5", tmp_path / "sim.h5", tmp_path / "c.png"
    assert main(["solve", str(run_path), "-o", str(ode), "--quiet"]) == 0
    assert main(["simulate", str(run_path), "-o", str(sim), "--quiet"]) == 0
    assert main(["compare", str(ode), str(sim), "--plot", str(png)]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[-1].startswith("max |z| = ") and float(out[-1].split("=")[1]) < 6
    assert png.stat().st_size > 5000
    path, paths = onepass.load(ode), onepass.load(sim)
    assert path.M.shape == (3, 2, 1) and paths.Q.shape == (6, 3, 2, 2) and paths.diverged.shape == (6,)
    np.testing.assert_allclose(path.t, [0.0, 0.25, 0.5])
    assert path.run_text == paths.run_text == runfile.load_run(run_path).to_toml()
    assert main(["solve", str(run_path), "-o", str(ode)]) == 2
    assert "exists" in capsys.readouterr().err
    assert main(["compare", str(sim), str(ode)]) == 2
    assert "onepass solve" in capsys.readouterr().err


def test_what_is_not_finite_is_named_and_never_agreement(run_path, tmp_path, capsys):
    ode, sim = tmp_path / "ode.h5", tmp_path / "sim.h5"
    assert main(["solve", str(run_path), "-o", str(ode), "--quiet"]) == 0
    assert main(["simulate", str(run_path), "-o", str(sim), "--quiet"]) == 0
    path = onepass.load(ode)
    for first, last_line in ((2, "max |z| = "), (0, "max |z| = nan")):
        for array in path.arrays.values():
            array[first:] = np.nan
        path.save(ode)
        capsys.readouterr()
        assert main(["compare", str(ode), str(sim)]) == 0
        out = capsys.readouterr().out
        assert f"M[0,0] at t = {path.t[first]:g}" in out and "left out" in out and out.splitlines()[-1].startswith(last_line)
        assert (float(out.rpartition("=")[2]) < 6) == (first > 0)


def test_more_instances_extend_a_result_and_equal_a_fresh_one(run_path, tmp_path):
    grown, fresh = tmp_path / "grown.h5", tmp_path / "fresh.h5"
    more = ["--set", "simulation.instances=9", "--quiet"]
    assert main(["simulate", str(run_path), "-o", str(grown), "--quiet"]) == 0
    assert main(["simulate", str(run_path), "-o", str(grown), "--resume", *more]) == 0
    assert main(["simulate", str(run_path), "-o", str(fresh), *more]) == 0
    np.testing.assert_array_equal(onepass.load(grown).Q, onepass.load(fresh).Q)
    refused = ["simulate", str(run_path), "-o", str(grown), "--resume", "--quiet", "--set"]
    assert main([*refused, "simulation.seed=2"]) == 2
    assert main([*refused, "model.gamma=0.1"]) == 2
    assert main([*refused, "simulation.instances=4"]) == 2


def test_a_longer_ode_replaces_a_shorter_one_and_another_is_refused(run_path, tmp_path, capsys):
    out = tmp_path / "ode.h5"
    solve = ["solve", str(run_path), "-o", str(out), "--quiet"]
    assert main(solve) == 0
    assert main([*solve, "--resume", "--set", "simulation.instances=3"]) == 0
    assert main([*solve, "--resume", "--set", "time.t_max=0.75"]) == 0
    assert onepass.load(out).t[-1] == 0.75
    assert main([*solve, "--resume", "--set", "model.gamma=0.1"]) == 2
    assert "model.gamma: 0.2 -> 0.1" in capsys.readouterr().err


def test_user_activation_by_plugin(tmp_path):
    plugin = tmp_path / "mine.py"
    plugin.write_text(
        "import onepass\n"
        "onepass.register_activation('cubic', lambda x: x + 0.1 * x * x * x, lambda x: 1.0 + 0.3 * x * x)\n"
    )
    run = tmp_path / "run.toml"
    run.write_text(
        '[model]\nkind = "Committee"\nactivation = "cubic"\nwidth = 1\ngamma = 0.1\n'
        "[initial]\nM = [[0.2]]\nQ = [[0.5]]\n[time]\npoints = 2\n"
    )
    out = tmp_path / "o.h5"
    assert main(["solve", str(run), "-o", str(out), "--quiet"]) == 2
    assert main(["solve", str(run), "-o", str(out), "--quiet", "--plugin", str(plugin)]) == 0


def test_a_stopped_simulation_goes_on_to_the_same_numbers(run_path, tmp_path):
    out, whole = tmp_path / "stopped.h5", tmp_path / "whole.h5"
    long = ["--set", "simulation.dimension=40000", "--set", "simulation.instances=40", "--quiet"]
    long += ["--set", "simulation.checkpoint_interval=0.0"]
    environment = {**os.environ, "PYTHONPATH": str(Path(onepass.__file__).parents[1]), "NUMBA_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "onepass", "simulate", str(run_path), "-o", str(out), *long]
    job = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60.0
    while not checkpoint_path(out).exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    job.send_signal(signal.SIGTERM)
    _, message = job.communicate(timeout=60)
    assert job.returncode == 75 and "--resume" in message and not out.exists()
    assert main(["simulate", str(run_path), "-o", str(out), "--resume", *long]) == 0
    assert main(["simulate", str(run_path), "-o", str(whole), *long]) == 0
    np.testing.assert_array_equal(onepass.load(out).M, onepass.load(whole).M)
