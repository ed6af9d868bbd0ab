"""Run files and the command line of onepass."""

import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import onepass
from dmft.core.errors import UserError
from dmft.core.store import checkpoint_path, load_header
from dmft.result.comparison import Curve
from onepass import runfile
from onepass.cli import main
from tests.marks import slow
from workbench.plots.onepass import draw as draw_onepass
from workbench.plots.onepass_compare import draw_comparison

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
    assert repr(path).startswith("<Trajectory of ode, 3 times from 0 to 0.5: ") and "M (3, 2, 1)" in repr(path)
    assert repr(paths).startswith("<Ensemble of chain, 6 instances, 3 times") and "risk" in dir(paths)
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
        assert "verdict: diverged" in out
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


LONG = {     # each would take minutes: a single chain with a single record, and paths of a committee
    "chain": ["--set", "simulation.dimension=2000000000", "--set", "simulation.instances=1", "--set", "time.points=1"],
    "sde": ["--set", "simulation.process=sde", "--set", "simulation.instances=20000", "--set", "time.points=1"],
}


def _children() -> float:
    """CPU seconds of the processes that were started here and have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


@pytest.mark.long
@pytest.mark.parametrize("number, code, process", [
    slow(signal.SIGTERM, 75, "chain"), (signal.SIGTERM, 75, "sde"), (signal.SIGUSR1, 75, "chain"),
    slow(signal.SIGUSR1, 75, "sde"), slow(signal.SIGINT, 130, "chain"), slow(signal.SIGINT, 130, "sde")])
def test_signals_are_answered_within_two_seconds(run_path, tmp_path, process, number, code):
    """Seconds are those that the job has of a core, which do not depend on what else the machine does."""
    out, others = tmp_path / "stopped.h5", _children()
    command = [sys.executable, "-m", "onepass", "simulate", str(run_path), "-o", str(out), *LONG[process], "--quiet"]
    command += ["--set", "simulation.checkpoint_interval=0.1"]
    job = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    checkpoint, deadline = checkpoint_path(out), time.monotonic() + 120.0
    while not (checkpoint.exists() and load_header(checkpoint).attrs["progress"] > 0.0) and time.monotonic() < deadline:
        time.sleep(0.05)
    before = load_header(checkpoint).attrs["progress"]
    begin = sum(map(int, Path(f"/proc/{job.pid}/stat").read_text().rpartition(")")[2].split()[11:13])) / os.sysconf("SC_CLK_TCK")
    job.send_signal(number)
    _, message = job.communicate(timeout=60)
    seconds = _children() - others - begin
    assert job.returncode == code and "--resume" in message and len(message.splitlines()) == 1, message
    assert seconds < 2.0 and not out.exists()
    assert before <= load_header(checkpoint).attrs["progress"] < 0.5


@pytest.mark.long
def test_an_sde_ensemble_grows_by_the_command(run_path, tmp_path):
    grown, fresh = tmp_path / "grown.h5", tmp_path / "fresh.h5"
    sde = ["--set", "simulation.process=sde", "--quiet"]
    assert main(["simulate", str(run_path), "-o", str(grown), *sde]) == 0
    assert main(["simulate", str(run_path), "-o", str(grown), *sde, "--resume", "--set", "simulation.instances=9"]) == 0
    assert main(["simulate", str(run_path), "-o", str(fresh), *sde, "--set", "simulation.instances=9"]) == 0
    np.testing.assert_array_equal(onepass.load(grown).Q, onepass.load(fresh).Q)


def test_messages_of_a_simulation(run_path, tmp_path, capsys):
    """What it wrote, once; nothing to do; diverged instances also where it is quiet, and exit 3 when all are."""
    out, wild = tmp_path / "a.h5", tmp_path / "wild.h5"
    assert main(["simulate", str(run_path), "-o", str(out)]) == 0
    assert [line.split(":")[0] for line in capsys.readouterr().err.splitlines()] == ["t = 0.5", f"wrote {out}"]
    assert main(["simulate", str(run_path), "-o", str(out), "--resume"]) == 0
    assert "complete" in capsys.readouterr().err
    unstable = ["--set", "model.gamma=40.0", "--set", "model.constraint=none", "--set", "simulation.dimension=5"]
    assert main(["simulate", str(run_path), "-o", str(wild), "--quiet", *unstable, "--set", "time.t_max=4000.0"]) == 3
    assert capsys.readouterr().err.endswith("\nwarning: 6 of 6 instances diverged; a smaller gamma or step may help\n")
    again = ["simulate", str(run_path), "-o", str(wild), "--quiet", "--resume", *unstable, "--set", "time.t_max=4000.0"]
    assert main(again) == 3


def test_compare_gives_a_verdict(run_path, tmp_path, capsys):
    """Agreement on many instances of the same model, disagreement with another ODE, and errors that could hide anything."""
    ode, wrong, sim, few = (tmp_path / f"{name}.h5" for name in ("ode", "wrong", "sim", "few"))
    assert main(["solve", str(run_path), "-o", str(ode), "--quiet"]) == 0
    assert main(["solve", str(run_path), "-o", str(wrong), "--quiet", "--set", "model.gamma=0.15"]) == 0
    many = ["--set", "simulation.dimension=20000", "--set", "simulation.instances=60"]
    assert main(["simulate", str(run_path), "-o", str(sim), "--quiet", *many]) == 0
    noisy = ["--set", "simulation.dimension=10", "--set", "simulation.instances=3"]
    assert main(["simulate", str(run_path), "-o", str(few), "--quiet", *noisy]) == 0
    for files, verdict in (((ode, sim), "agree"), ((wrong, sim), "disagree"), ((ode, few), "cannot tell"),
                           ((wrong, sim, few), "disagree")):
        capsys.readouterr()
        assert main(["compare", *map(str, files)]) == 0
        out = capsys.readouterr().out
        assert f"\nverdict: {verdict}: " in out and "99 % of tables stay below |z| = " in out, out
        bound = float(out.split("below |z| = ")[1].split()[0])
        assert (float(out.rpartition("=")[2]) > bound) == (verdict == "disagree")


def test_compare_names_what_no_dimension_mends(run_path, tmp_path, capsys):
    """From random starts every instance is held against its own ODE, exactly at t = 0 (against that of the first start z is 5
    there); a mean-field reduction differs from its simulations for reasons of its own."""
    ode, sim = tmp_path / "ode.h5", tmp_path / "sim.h5"
    random = RUN.replace("M = [[0.3], [0.1]]\nQ = [[1.0, 0.1], [0.1, 1.0]]", 'start = "random"')
    several = random.replace('start = "random"', 'start = "random"\nstarts = 3')
    reduced = RUN.replace("QuadraticNetwork", "Committee").replace('constraint = "sphere"', 'reduction = "mean_field"')
    for text, told in ((RUN, ""), (random, "compared with the ODE from its own start"),
                       (several, "compared with the ODE from its own start"), (reduced, "off by O(1/width)")):
        run_path.write_text(text)
        for command, file in (("solve", ode), ("simulate", sim)):
            assert main([command, str(run_path), "-o", str(file), "--quiet", "--force"]) == 0
        capsys.readouterr()
        assert main(["compare", str(ode), str(sim)]) == 0
        out = capsys.readouterr().out
        assert told in out and out.count("note: start") + out.count("note: reduction") == bool(told)
        if text in (random, several):
            begin = [line.split() for line in out.splitlines() if line.strip().startswith("0  ")]
            assert begin and all(float(line[-1]) == 0.0 for line in begin) and "verdict: disagree" not in out


def test_pictures_show_what_the_ode_leaves_alone_and_what_is_not_finite():
    """r2 = c stays in the ODE of the spiked tensor and moves in every instance; far out all instances explode."""
    model, times = onepass.SpikedTensor(3, 4.0), [0.0, 0.05, 0.1]
    start = {"m": 0.6, "r2": 1.0}
    ensemble = model.chain(200, 4, start, times, seed=1)
    figure = draw_comparison([(model.solve(start, times), ensemble)], "ODE", None)
    assert [axis.get_ylabel() for axis in figure.axes] == ["m", "r2"]
    for mean, texts in ((np.ones(3), []), (np.full(3, np.nan), ["nothing finite"])):
        picture = draw_onepass({"m": Curve(np.array(times), mean, np.zeros(3), 4)}, "", None)
        assert [text.get_text() for text in picture.axes[0].texts] == texts


@pytest.mark.long
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
