"""The examples of docs/extending.md, executed as they stand: files outside of the package, by commands and on several ranks."""

from __future__ import annotations

import dataclasses
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import dmft
import onepass
import sgd_sim
from dmft.cli import main as dmft_command
from dmft.core import store
from dmft.core.command import load_plugin
from dmft.core.errors import RunError, Stopped
from dmft.model import curves
from dmft.model.runfile import load_run, parse_run
from sgd_sim.cli import main as simulator_command
from tests.conftest import registries_restored
from tests.small_results import StopAfter
from workbench.inspection.opening import open_file

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = {"dmft": dmft_command, "sgd-sim": simulator_command}
OBSERVABLE, ONE_PASS = "## An observable", "## A model of one-pass SGD"


def section(title: str) -> dict[str, str]:
    """The code blocks of a section, by their language."""
    text = (ROOT / "docs/extending.md").read_text()
    part = text[text.index(title):].split("\n## ")[0]
    return dict(re.findall(r"```(\w+)\n(.*?)```", part, re.DOTALL))


@pytest.fixture(scope="module")
def sides(tmp_path_factory) -> Path:
    """A folder with the plug-in, the run file, and what the commands of the page make of them."""
    folder, blocks = tmp_path_factory.mktemp("sides"), section(OBSERVABLE)
    (folder / "sides.py").write_text(blocks["python"])
    (folder / "sides.toml").write_text(blocks["toml"])
    with pytest.MonkeyPatch.context() as patch, registries_restored():
        patch.chdir(folder)
        for line in blocks["console"].splitlines():
            program, *arguments = shlex.split(line)
            assert COMMANDS[program](arguments) == 0, line
    return folder


def registered(folder: Path) -> dmft.Run:
    exec(compile((folder / "sides.py").read_text(), str(folder / "sides.py"), "exec"), {"__name__": "dmft_plugin"})
    return load_run(folder / "sides.toml")


@pytest.mark.cli
@pytest.mark.statistical
def test_theory_and_simulation_agree_on_a_users_observable(sides):
    """max |z| of the 21 times of a curve whose neighbours are nearly equal; the twin counts samples on the wrong side of their
    label, a tenth of which is flipped."""
    assert "wrong_side" not in curves.registered
    found = dmft.compare(sides / "sides.theory.h5", sides / "sides.simulation.h5")
    assert [one.observable for one in found.comparisons] == ["m", "wrong_side"]
    assert "wrong_side: theory against simulation" in str(found) and found.verdict == "agree"
    theory, simulation = dmft.load(sides / "sides.theory.h5"), sgd_sim.load(sides / "sides.simulation.h5")
    mean, error = simulation.mean(), simulation.error()
    z = np.abs(mean.wrong_side - theory.wrong_side) / np.hypot(error.wrong_side, theory.wrong_side_error)
    twin = np.abs(mean.training_error - theory.wrong_side) / np.hypot(error.training_error, theory.wrong_side_error)
    assert z.max() < 4.5 < 6.0 < np.median(twin)


@pytest.mark.long
@pytest.mark.cli
def test_files_are_read_where_the_plug_in_is_not_known(sides, run_python):
    for extra in ("matplotlib", "plotly"):
        pytest.importorskip(extra)
    script = f"""
import os
os.chdir({str(sides)!r})
import dmft, sgd_sim
from dmft.cli import main
theory, simulation = dmft.load("sides.theory.h5"), sgd_sim.load("sides.simulation.h5")
assert theory.wrong_side.shape == theory.t.shape == theory.wrong_side_error.shape and "wrong_side" in dir(theory)
assert theory.replicas["wrong_side"].shape == (4, theory.t.size) and "wrong_side" in simulation.curves
assert theory.bias["wrong_side"].shape == theory.bias["wrong_side_error"].shape == theory.t.shape
for result, load in ((theory, dmft.load), (simulation, sgd_sim.load)):
    result.save("again.h5")
    assert (load("again.h5").wrong_side == result.wrong_side).all()
    os.remove("again.h5")
for name in ("theory", "simulation"):
    file = f"sides.{{name}}.h5"
    for words in (["inspect", file], ["plot", file, "-o", f"{{name}}.png"], ["export", file, "--csv", name]):
        assert main(words) == 0, words
assert main(["report", "sides.theory.h5", "sides.simulation.h5", "-o", "page.html"]) == 0
from workbench.plots.theory import draw
from workbench.plots.simulation import draw as draw_simulation
for figure in (draw(theory, None), draw_simulation(simulation, None)):
    assert "share on the wrong side" in [axis.get_ylabel() for axis in figure.axes]
"""
    done = run_python("-c", script, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("wrong_side +- error") == 2
    meaning = "share of training samples on the wrong side of the teacher"
    for name in ("theory", "simulation"):
        assert meaning in (sides / name / "columns.csv").read_text()
    assert meaning in (sides / "page.html").read_text()


@pytest.mark.gpu
def test_an_observable_of_a_file_on_a_card(tmp_path, on_this_card):
    """The file of the page gives the same curve on CPU and card, in theory and simulation; samples on the wrong side of their label
    are others."""
    blocks, plugin = section(OBSERVABLE), tmp_path / "sides.py"
    plugin.write_text(blocks["python"])
    load_plugin(str(plugin))
    run = parse_run(blocks["toml"]).replace(t_max=0.2, samples=64, replicas=1, companions=False, dimension=40, instances=2)
    for solve in (dmft.solve, sgd_sim.simulate):
        cpu, card = (solve(run.replace(device=device), quiet=True) for device in ("cpu", "gpu"))
        np.testing.assert_allclose(card.wrong_side, cpu.wrong_side, rtol=1e-8)
        assert np.ptp(cpu.wrong_side) > 0 and np.abs(card.training_error - card.wrong_side).max() > 1e-3


@pytest.mark.mpi
@pytest.mark.slow       # `make test-differential` has observables on three ranks
def test_ranks_keep_the_bits_of_an_observable(sides, run_python):
    done = run_python("-m", "dmft", "solve", str(sides / "sides.toml"), "--plugin", str(sides / "sides.py"), "-o", "two.h5",
                      ranks=2, timeout=300)
    assert done.returncode == 0, done.stderr
    done = run_python("-c", f"import h5py, numpy as np; a, b = h5py.File('two.h5'), h5py.File({str(sides / 'sides.theory.h5')!r}); "
                      "assert a.attrs['ranks'] == 2; print([np.array_equal(a[n], b[n]) for n in ('wrong_side', 'm')])")
    assert done.stdout == "[True, True]\n", done.stderr


@pytest.mark.long
def test_a_resumed_run_keeps_the_bits_of_an_observable(sides, tmp_path):
    run, output = registered(sides).replace(samples=200, replicas=2), tmp_path / "theory.h5"
    whole = dmft.solve(run, quiet=True)
    with pytest.raises(Stopped):
        dmft.solve(run, output=output, quiet=True, stop=StopAfter(30))
    checkpoint = store.load(store.checkpoint_path(output))
    with registries_restored():
        curves.registered.clear()       # a look at a running job needs no plug-in
        live = open_file(checkpoint.path).result
    # the second replica is under way: no error where the first alone has been
    assert np.isfinite(live.wrong_side_error[0]) and np.isnan(live.wrong_side_error[-1])
    with pytest.raises(RunError, match=r'theory.observables: \["wrong_side"\] -> \[\]'):
        dmft.solve(run.replace(observables=()), output=output, resume=True, quiet=True)
    resumed = dmft.solve(run, output=output, resume=True, quiet=True)
    np.testing.assert_array_equal(resumed.wrong_side, whole.wrong_side)
    more = dmft.solve(run.replace(replicas=3), output=output, resume=True, quiet=True)
    np.testing.assert_array_equal(more.replicas["wrong_side"][:2], whole.replicas["wrong_side"])


def test_a_resumed_simulation_keeps_the_bits_of_an_observable(sides, tmp_path):
    run, output = registered(sides).replace(dimension=50, instances=3), tmp_path / "simulation.h5"
    sgd_sim.simulate(run.replace(t_max=0.5), output=output)
    with pytest.raises(RunError, match=r"theory.observables: "):
        sgd_sim.simulate(run.replace(observables=()), output=output, resume=True)
    longer = sgd_sim.simulate(run, output=output, resume=True)
    np.testing.assert_array_equal(longer.wrong_side, sgd_sim.simulate(run).wrong_side)
    assert np.isfinite(longer.wrong_side).all()


@pytest.mark.statistical
def test_the_model_of_one_pass_is_that_of_its_sgd(capsys):
    """At a point, and over time; the norm of the twin shrinks by too little."""
    scope: dict = {}
    exec(section(ONE_PASS)["python"], scope)
    model, check, ode, runs = (scope[name] for name in ("perceptron", "check", "ode", "runs"))
    assert check.agrees and check.table() in capsys.readouterr().out
    wrong = dataclasses.replace(model, f=lambda u: model.f(u) * np.array([1.0, 0.7]))
    assert not onepass.check_effective(wrong, *scope["sgd"](np.array([0.3, 0.8]), 400)).agrees
    mean, error = runs.mean(), runs.error()
    for name in ("m", "r2"):
        assert (np.abs(getattr(mean, name) - getattr(ode, name)) < 4.5 * getattr(error, name) + 0.02).all()
    np.testing.assert_allclose(ode.m, [0.51, 0.73], atol=0.005)
