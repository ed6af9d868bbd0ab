"""Numbers of figures that are kept: they are those of the results, stand for them, and only for them; solutions side by side."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

import dmft
import sgd_sim
from dmft.core.errors import FileError
from dmft.model.runfile import parse_run
from reproduction.paper import FIGURES, numbers
from reproduction.paper.dimensions import fit
from reproduction.paper.figure import SIZES, Panel, PaperFigure, Series, Size
from reproduction.paper.numbers import Lines, Runs, kept
from reproduction.paper.solutions import side_by_side, solution
from tests.run_files import run_text

TEXT = run_text("gd", t_max=1.0, problem={"start_overlap": "iid"}, algorithm={"learning_rate": 0.05},
                theory={"samples": 200, "replicas": 3}, simulation={"dimension": 40, "instances": 7})


@pytest.fixture(scope="module")
def run():
    return parse_run(TEXT)


@pytest.fixture(scope="module")
def simulation(run):
    return sgd_sim.simulate(run, quiet=True)


@pytest.fixture(scope="module")
def theory(run):
    return dmft.solve(run, quiet=True)


def test_numbers_of_a_simulation_come_back(run, simulation, tmp_path):
    file, whole = tmp_path / "a.json", Runs.of(simulation)
    numbers.keep(file, whole)
    again = kept(file, "simulation", run)
    assert isinstance(again, Runs) and again.instances == 7 and again.lines.shape == simulation.m.shape
    for found in (whole, again):
        np.testing.assert_allclose(found.curves["m"]["mean"], simulation.mean().m, rtol=1e-4)
        np.testing.assert_allclose(found.curves["loss"]["error"], simulation.error().loss, rtol=1e-4)
        np.testing.assert_allclose(found.curves["m"]["median"], simulation.median().m, rtol=1e-4)
        np.testing.assert_array_equal(found.solved, simulation.share_below(1e-7).count)
    assert again.share() == pytest.approx(whole.share()) and file.stat().st_size < 8000 and not list(tmp_path.glob("*.part"))


def test_numbers_of_a_theory_are_thinned_to_the_times_of_a_simulation(run, theory, simulation, tmp_path):
    file, whole = tmp_path / "a.json", Lines.of(theory)
    numbers.keep(file, whole.thinned())
    again = kept(file, "theory", run)
    assert isinstance(again, Lines) and again.count == 3 and again.t[-1] == pytest.approx(1.0)
    at = np.abs(again.t[:, None] - simulation.t).argmin(axis=0)
    np.testing.assert_allclose(again.t[at], simulation.t, atol=1e-9)
    np.testing.assert_allclose(again.curves["m"]["mean"], np.interp(again.t, theory.t, theory.m), rtol=1e-4)


def test_numbers_stand_for_their_run_alone(run, simulation, tmp_path):
    """Another device is the same run; another start, dimension or seed is not. The theory knows no start_overlap."""
    file = tmp_path / "a.json"
    numbers.keep(file, Runs.of(simulation))
    assert kept(file, "simulation", run.replace({"simulation.device": "gpu", "simulation.precision": "float16"})) is not None
    for change in ({"start_overlap": "exact"}, {"dimension": 41}, {"simulation.seed": 2}, {"t_max": 0.9}):
        assert kept(file, "simulation", run.replace(change)) is None
    assert numbers.essence(run, "theory") == numbers.essence(run.replace({"start_overlap": "exact", "dimension": 41}), "theory")
    assert numbers.essence(run, "theory") != numbers.essence(run.replace({"samples": 201}), "theory")
    assert kept(tmp_path / "b.json", "simulation", run) is None


def test_a_diverged_run_is_counted_and_left_out(simulation):
    broken = {name: np.where(np.arange(7)[:, None] == 2, np.nan, values) for name, values in simulation.curves.items()}
    found = Runs.of(replace(simulation, curves=broken, diverged=np.arange(7) == 2))
    others = np.delete(simulation.m, 2, axis=0)
    np.testing.assert_allclose(found.curves["m"]["mean"], others.mean(axis=0))
    assert found.diverged == 1 and found.curve("m").count == 6


@pytest.mark.long
def test_solutions_side_by_side_are_the_replicas(run, theory):
    """The same seeds and numbers as `dmft solve`, in other processes; a deadline leaves what was reached."""
    found = side_by_side(run, 2, None, lambda text: None)
    assert found is not None and found.count == 3
    np.testing.assert_allclose(found.curves["m"]["mean"], theory.m, rtol=1e-9)    # a full history: waiting times change nothing
    np.testing.assert_allclose(found.curves["loss"]["error"], theory.loss_error, rtol=1e-6, atol=1e-12)
    curves, last = solution(run.to_toml(), 1, deadline=time.time() - 1.0)
    assert last < 1 and np.isnan(curves["m"][1:]).all()
    other, _ = solution(run.to_toml(), 2)    # the twin: another replica is another solution
    assert np.abs(other["m"] - theory.replicas["m"][1]).max() > 1e-6


@pytest.mark.slow
@pytest.mark.usefixtures("on_this_card")
def test_a_solution_on_a_card(run):
    """With a history in blocks, as the figures have it."""
    blocks = run.replace({"theory.history": "dyadic", "theory.blocks_per_level": 4, "samples": 600})
    here, last = solution(blocks.to_toml(), 0)
    there, reached = solution(blocks.replace({"theory.device": "gpu"}).to_toml(), 0)
    assert last == reached == 20
    for name in ("m", "loss"):
        np.testing.assert_allclose(there[name], here[name], rtol=1e-5)


def test_a_line_through_points_with_errors():
    x = np.array([1.0, 0.5, 0.25, 0.125])
    value, error, chi = fit(x, 2.0 + 3.0 * x, np.full(4, 0.1))
    assert (value, chi) == pytest.approx((2.0, 0.0), abs=1e-9)
    drawn = np.random.default_rng(1).normal(2.0 + 3.0 * x, 0.1, (2000, 4))
    ends = np.array([fit(x, each, np.full(4, 0.1))[0] for each in drawn])
    assert ends.std() == pytest.approx(error, rel=0.06) and abs(ends.mean() - 2.0) < 4 * error / np.sqrt(2000)


@pytest.mark.long
def test_a_figure_is_made_piece_by_piece(tmp_path, monkeypatch, dmft_main):
    """A second call computes nothing, also where result files are gone; a time limit ends it with exit code 75; it continues."""
    folder = tmp_path / "runs" / "pieces"
    folder.mkdir(parents=True)
    (folder / "gd.toml").write_text(TEXT)
    figure = PaperFigure("pieces", "two pieces", (Series("gd", "gd", "GD"),), (Panel("", ("gd",)),), 1,
                         {size: Size() for size in SIZES})
    monkeypatch.setitem(FIGURES, "pieces", figure)
    words = ("figure", "pieces", "--full", "--numbers", "numbers", "--scale", "0.5")
    done = dmft_main(*words, "--time-limit", "0.001")
    assert done.returncode == 75 and not (tmp_path / "numbers").exists()
    done = dmft_main(*words)
    assert done.returncode == 0 and {path.name for path in (tmp_path / "numbers" / "pieces").iterdir()} == {
        "gd.simulation.json", "gd.theory.json"}
    for path in (tmp_path / "runs" / "out").rglob("*.h5"):
        path.unlink()
    again = dmft_main(*words)
    assert again.returncode == 0 and again.stderr.count("its numbers are kept") == 2 and again.stdout == done.stdout
    (tmp_path / "numbers" / "pieces" / "torn.json").write_text('{"run": ')
    with pytest.raises(FileError, match="torn.json: no numbers of a figure"):
        kept(tmp_path / "numbers" / "pieces" / "torn.json", "theory")
    drawn = dmft_main(*words, "--draw")
    assert drawn.returncode == 0 and "kept" not in drawn.stderr and "max |z|" in drawn.stdout
    (tmp_path / "numbers" / "pieces" / "gd.theory.json").rename(tmp_path / "numbers" / "pieces" / "gd.theory.unfinished")
    assert dmft_main(*words, "--draw").stdout == drawn.stdout       # what a time limit left is drawn, and computed again
    assert dmft_main(*words, "--processes", "1").stderr.count("its numbers are kept") == 1
    assert {path.suffix for path in (tmp_path / "numbers" / "pieces").glob("gd.theory.*")} == {".json"}
    assert dmft_main("figure", "pieces", "--processes", "2").returncode == 2
    assert dmft_main("figure", "pieces", "--scale", "2").returncode == 2
