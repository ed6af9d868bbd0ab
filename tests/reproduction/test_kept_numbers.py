"""Numbers of figures that are kept: they are those of the results, stand for them, and only for them; those of checkpoints, too."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import dmft
import sgd_sim
from dmft.core.errors import FileError, Stopped
from dmft.model.runfile import parse_run
from reproduction.paper import FIGURES, numbers
from reproduction.paper.computations import Way, computations, load
from reproduction.paper.dimensions import fit
from reproduction.paper.figure import SIZES, Panel, PaperFigure, Series, Size
from reproduction.paper.numbers import Lines, Runs, kept
from tests.run_files import run_text
from tests.small_results import StopAfter

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


def test_of_some_theories_every_solution_and_the_columns_are_kept(run, tmp_path):
    file, theory = tmp_path / "a.json", dmft.solve(run.replace({"theory.waiting_times": [0.0, 0.5]}), quiet=True)
    numbers.keep(file, Lines.of(theory, whole=True).thinned())
    again, plain = kept(file, "theory", run), Lines.of(theory)
    assert isinstance(again, Lines) and again.columns is not None and not plain.solutions and plain.columns is None
    for name in ("m", "loss"):
        at = np.rint(again.t / 0.05).astype(int)
        np.testing.assert_allclose(again.solutions[name], theory.replicas[name][:, at], rtol=1e-4)
        np.testing.assert_allclose(again.solutions[name].mean(axis=0), again.curves[name]["mean"], rtol=1e-4)
    for name, array in theory.columns.arrays.items():
        np.testing.assert_allclose(again.columns.arrays[name], array, rtol=1e-4, err_msg=name)


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


def test_a_time_limit_leaves_what_was_reached(run, tmp_path):
    """The numbers of a checkpoint are those of the whole run, up to the time that all solutions have reached."""
    stopped = run.replace({"theory.companions": False, "theory.history": "full"})
    one = replace(computations(FIGURES["fig2"], "full")[1], output=tmp_path / "a.h5")
    assert one.half == "theory" and one.reached() is None
    with pytest.raises(Stopped):
        dmft.solve(stopped, tmp_path / "a.h5", quiet=True, stop=StopAfter(48))    # in the third replica of 20 steps
    found, whole = one.reached(), Lines.of(dmft.solve(stopped, quiet=True))
    assert found is not None and 1 < found.t.size < whole.t.size and found.count == 3
    for name, each in found.curves.items():
        for kind, values in each.items():
            np.testing.assert_allclose(values, whole.curves[name][kind][: found.t.size], rtol=1e-9, atol=1e-12)


def test_a_line_through_points_with_errors():
    x = np.array([1.0, 0.5, 0.25, 0.125])
    value, error, chi = fit(x, 2.0 + 3.0 * x, np.full(4, 0.1))
    assert (value, chi) == pytest.approx((2.0, 0.0), abs=1e-9)
    drawn = np.random.default_rng(1).normal(2.0 + 3.0 * x, 0.1, (2000, 4))
    ends = np.array([fit(x, each, np.full(4, 0.1))[0] for each in drawn])
    assert ends.std() == pytest.approx(error, rel=0.06) and abs(ends.mean() - 2.0) < 4 * error / np.sqrt(2000)


@pytest.mark.parametrize("there", [True, False])
def test_results_with_and_without_companions_stand_for_each_other(run, theory, tmp_path, monkeypatch, there):
    """What --no-companions has computed is drawn without the option, and the other way; where both are there, what is asked for."""
    folder = tmp_path / "runs" / "pieces"
    folder.mkdir(parents=True)
    (folder / "gd.toml").write_text(TEXT)
    monkeypatch.chdir(tmp_path)
    figure = PaperFigure("pieces", "one piece", (Series("gd", "gd", "GD", simulation=False),), (Panel("", ("gd",)),), 1,
                         {size: Size() for size in SIZES})
    results = {True: theory, False: dmft.solve(run.replace({"theory.companions": False}), quiet=True)}
    ways = {companions: Way(tmp_path, companions=companions) for companions in results}

    def save(companions: bool) -> None:
        place = computations(figure, "full", ways[companions])[0].output
        place.parent.mkdir(parents=True, exist_ok=True)
        results[companions].save(place)

    def known(asked: bool) -> bool:
        """Whether the bias is known of what is drawn."""
        found = load(figure, "full", ways[asked])["gd"].theory
        np.testing.assert_array_equal(found.curves["m"]["mean"], theory.m)
        return found.bias is not None

    assert load(figure, "full", ways[there]) == {}
    save(there)
    assert known(True) == known(False) == there
    save(not there)
    assert known(True) and not known(False)


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
    assert dmft_main(*words, "--no-companions").stderr.count("its numbers are kept") == 1
    assert {path.suffix for path in (tmp_path / "numbers" / "pieces").glob("gd.theory.*")} == {".json"}
    alone = kept(tmp_path / "numbers" / "pieces" / "gd.theory.json", "theory")
    assert isinstance(alone, Lines) and alone.bias is None      # the same solutions, whose bias is not known
    assert dmft_main(*words, "--draw").stdout == drawn.stdout
    assert dmft_main("figure", "pieces", "--scale", "2").returncode == 2
