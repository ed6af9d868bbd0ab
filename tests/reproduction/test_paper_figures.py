"""dmft figure: descriptions, run files, and the way from run file to picture on a tiny example."""

from __future__ import annotations

import shlex
import tomllib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from dmft.model.runfile import load_run
from reproduction.paper import FIGURES, findings, numbers, validation
from reproduction.paper.computations import Data, Way, computations
from reproduction.paper.figure import SIZES, Panel, PaperFigure, Series, Size
from tests.run_files import run_text

ROOT = Path(__file__).resolve().parents[2]
NAMES = [*(f"fig{k}" for k in range(1, 8)), *(f"figB{k}" for k in range(1, 5))]
RUN_FILES = [path for path in sorted((ROOT / "runs").rglob("*.toml")) if "out" not in path.relative_to(ROOT).parts]

TINY = run_text("gd", t_max=1.0, algorithm={"learning_rate": 0.05}, theory={"samples": 200, "replicas": 4},
                simulation={"dimension": 40, "instances": 6})


def all_of(planned):
    """Numbers of every computation, to its end."""
    endless = SimpleNamespace(t=np.array([0.0, np.inf]))
    return {one.series.name: Data(one.series, endless, endless) for one in planned}


def test_every_figure_of_the_paper_is_there(dmft_main):
    done = dmft_main("figure", "--list")
    assert done.returncode == 0
    assert [line.split()[0] for line in done.stdout.splitlines()] == [*NAMES, "gmm2", "gmm3", "longtimes", "validation",
                                                                    "headline", "dimensions"]
    for name in NAMES:
        assert (ROOT / "runs" / name / "README.md").exists() and FIGURES[name].panels


@pytest.mark.parametrize("path", RUN_FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_run_file_loads(path):
    if "model" in tomllib.loads(path.read_text()):
        pytest.skip("a run file of onepass, tested there")
    load_run(path)


@pytest.mark.long
@pytest.mark.parametrize("name", FIGURES)
def test_every_job_of_every_size_is_a_valid_run_with_its_own_output(name, monkeypatch):
    monkeypatch.chdir(ROOT)
    for size in SIZES:
        found = computations(FIGURES[name], size)
        assert found and len({job.output for job in found}) == len({job.place for job in found}) == len(found)
        for job in found:
            job.run()
        assert "Simulation: N " in findings.caption("x", "", found, computations(FIGURES[name], "full"), all_of(found))
    used = {job.run_file for size in SIZES for job in computations(FIGURES[name], size) if job.run_file.parent.name == name}
    assert used == set((Path("runs") / name).glob("*.toml"))    # figures made of others' runs have none


def test_figures_of_others_runs_share_their_results():
    outputs = {name: {job.output for job in computations(FIGURES[name], "full")}
               for name in ("fig2", "fig3", "fig4", "headline", "dimensions")}
    assert outputs["fig3"] < outputs["fig2"] and len(outputs["headline"] & outputs["fig2"]) == 6
    assert len(outputs["fig4"] & outputs["fig2"]) == 6    # GD in two panels, SGD, tau = 1
    assert len(outputs["dimensions"] & outputs["fig2"]) == 2 and len(outputs["dimensions"] & outputs["headline"]) == 3


@pytest.mark.parametrize("name", FIGURES)
def test_everything_can_be_scaled_down(name, monkeypatch):
    """By one number: dimension, runs, samples, solutions, steps, and times of schedules and records with them."""
    monkeypatch.chdir(ROOT)
    for whole, small in zip(computations(FIGURES[name], "full"), computations(FIGURES[name], "full", Way(scale=0.02)), strict=True):
        a, b = whole.run(), small.run()
        assert b.algorithm.steps <= max(20, 0.021 * a.algorithm.steps) and b.algorithm.learning_rate == a.algorithm.learning_rate
        if whole.half == "simulation":
            assert b.simulation.instances <= max(4, 0.03 * a.simulation.instances)
            assert b.simulation.dimension <= max(32, 0.03 * a.simulation.dimension)
        else:
            assert b.theory.samples <= max(64, 0.03 * a.theory.samples) and b.theory.replicas == 2
        if isinstance(a.algorithm.temperature, tuple) and len(a.algorithm.temperature) > 1:
            assert b.algorithm.temperature[-1][0] / b.algorithm.t_max == pytest.approx(
                a.algorithm.temperature[-1][0] / a.algorithm.t_max, rel=0.03)


def test_a_smaller_size_is_told_in_the_caption():
    figure = FIGURES["fig2"]
    quick, whole = computations(figure, "quick"), computations(figure, "full")
    text = findings.caption(figure.about, figure.note, quick, whole, all_of(quick))
    assert "N 300 (full size 1000)" in text and "(full size 500)" in text and "t up to 100 (full size 1000)" in text
    full = findings.caption(figure.about, "", whole, whole, all_of(whole))
    assert "full size" not in full and "N 1000" in full and "Not computed" not in full


def test_a_caption_tells_what_is_not_there_and_where_a_theory_ends():
    """Sizes are those of what is drawn; a theory that a time limit stopped is not told as complete."""
    figure = FIGURES["longtimes"]
    planned = computations(figure, "full")
    data = all_of(planned)
    data["gd_longer"] = replace(data["gd_longer"], simulation=None, theory=SimpleNamespace(t=np.array([0.0, 9660.5])))
    del data["persistent_sgd_longer"]
    text = findings.caption(figure.about, "", planned, planned, data)
    assert "Simulation: N 1000, instances 500 (full size 24 to 500), t up to 1000 (full size 1000 to 10000)." in text
    assert "Not computed: simulation of GD (longer); theory of persistent SGD (longer)." in text
    assert "Not computed to the end: theory of GD (longer) to t = 9660.5. Bands" in text
    assert "Not computed to" not in findings.caption(figure.about, "", planned, planned, all_of(planned))
    scan = computations(FIGURES["fig7"], "full")
    alone = findings.caption("x", "", scan, scan, all_of(scan[1:]))
    assert "Not computed: simulation of GD (dimension = " in alone


def test_a_caption_tells_parameters_and_what_is_left_out():
    def told(name: str, size: str) -> str:
        figure = FIGURES[name]
        planned = computations(figure, size)
        return findings.caption(figure.about, figure.note, planned, computations(figure, "full"), all_of(planned))

    assert "alpha = 3, m0 = 0.2, eta = 0.01." in told("fig2", "full")
    assert "Left out at this size, to save time: SGD, with replacement." in told("fig2", "quick")
    assert "temperature switched off at t = 70" in told("fig4", "quick") and "switched off at t = 700" in told("fig4", "full")
    assert "random start" in told("fig7", "quick") and "GD (dimension = 2500)" in told("fig7", "quick")
    assert all("2 standard errors" in told(name, "quick") and not set("$\\") & set(told(name, "quick")) for name in NAMES)


@pytest.mark.slow
def test_logs_are_free_of_latex(tiny, dmft_main, monkeypatch):
    series = (replace(tiny.series[0], label=r"SGD, $\ell = 0.5$, $\tau = 1$"), tiny.series[1])
    monkeypatch.setitem(FIGURES, "tiny", replace(tiny, series=series))
    done = dmft_main("figure", "tiny", "--quick")
    assert done.returncode == 0 and "SGD, l = 0.5, tau = 1" in done.stderr
    assert "$" not in done.stdout + done.stderr and "\\" not in done.stdout + done.stderr


@pytest.mark.slow
def test_a_picture_without_its_caption(tiny, dmft_main, tmp_path):
    heights = []
    for words in ([], ["--no-caption"]):
        done = dmft_main("figure", "tiny", "--quick", "--quiet", *words)
        assert done.returncode == 0 and "tiny (quick). A tiny figure." in done.stdout
        heights.append(pytest.importorskip("matplotlib.image").imread(tmp_path / "runs/out/tiny/quick/tiny.png").shape[0])
    assert heights[1] < heights[0]


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """A figure of two series in a fresh folder: mean with theory, and single runs."""
    folder = tmp_path / "runs" / "tiny"
    folder.mkdir(parents=True)
    (folder / "gd.toml").write_text(TINY)
    figure = PaperFigure("tiny", "a tiny figure",
                    (Series("gd", "gd", "GD", whole=True),
                     Series("fast", "gd", "fast", {"algorithm.learning_rate": 0.1}, 0.5, theory=False)),
                    (Panel("mean", ("gd", "fast"), inset="loss"), Panel("runs", ("gd",), statistic="instances"),
                     Panel("median", ("gd", "fast"), "loss", "median", log_y=True),
                     Panel("solutions", ("gd", "fast"), "loss", "solutions"), Panel("C", ("gd",), statistic="correlation")), 3,
                    {size: Size() for size in SIZES})
    monkeypatch.setitem(FIGURES, "tiny", figure)
    return figure


@pytest.mark.long
def test_from_run_file_to_picture_and_reuse(tiny, dmft_main, tmp_path):
    done = dmft_main("figure", "tiny", "--quick", "--quiet")
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "runs" / "out" / "tiny" / "quick"
    assert (folder / "tiny.png").read_bytes().startswith(b"\x89PNG") and (folder / "tiny.pdf").read_bytes().startswith(b"%PDF")
    row = next(line for line in done.stdout.splitlines() if line.startswith("gd "))
    assert " 40 " in row and "max |z|" in row
    results = {path: path.stat().st_mtime_ns for path in folder.glob("*.h5")}
    assert len(results) == 3
    assert dmft_main("figure", "tiny", "--quick", "--quiet").returncode == 0
    assert {path: path.stat().st_mtime_ns for path in folder.glob("*.h5")} == results
    file = tmp_path / "runs" / "tiny" / "gd.toml"  # a changed run file is not mixed with old data
    file.write_text(file.read_text().replace("m0 = 0.5", "m0 = 0.4"))
    done = dmft_main("figure", "tiny", "--quick", "--quiet")
    assert done.returncode == 2 and "problem.m0: 0.5 -> 0.4" in done.stderr


def test_commands_are_printed_and_nothing_runs(tiny, dmft_main, tmp_path):
    done = dmft_main("figure", "tiny", "--full", "--commands")
    lines = done.stdout.splitlines()
    assert len(lines) == 3 and lines[0].startswith("sgd-sim run runs/tiny/gd.toml -o runs/out/tiny/full/gd.simulation.h5")
    assert lines[1].startswith("dmft solve") and "--set algorithm.learning_rate=0.1" in lines[2]
    done = dmft_main("figure", "tiny", "--full", "--submit")
    line = done.stdout.splitlines()[0]
    assert line == "dmft submit runs/tiny/gd.toml -o runs/out/tiny/full/gd.simulation.h5 --simulate"
    assert not (tmp_path / "runs" / "out").exists()
    assert dmft_main(*shlex.split(line)[1:], "--dry-run").returncode == 0


def test_wrong_names_are_one_line(dmft_main):
    for words in (["fig9"], []):
        done = dmft_main("figure", *words)
        assert done.returncode == 2 and done.stderr.count("\n") == 1 and "--list" in done.stderr


def test_validation_table_says_what_was_not_run():
    rows = [row for row in validation.table({}) if row.startswith("|")]
    assert len(rows) == 2 + 8 + 2 + 3 and all("not run" in row for row in (*rows[2:10], *rows[12:]))


def test_points_are_spread_over_a_logarithmic_axis():
    from reproduction.paper.drawing import DRAWN_TIMES, drawn_places
    x = 0.01 * (1 + np.arange(100_000))
    index = drawn_places(x)
    assert index[0] == 0 and index[-1] == x.size - 1 and index.size <= DRAWN_TIMES
    assert np.all(np.diff(np.log(x[index])) < 1.0)


def test_times_and_rises():
    t = np.array([0.0, 1.0, 2.0, 3.0])
    assert findings.first_passage(t, np.array([0.2, 0.5, 0.95, 0.8]), 0.9) == 2.0
    assert np.isnan(findings.first_passage(t, np.array([0.2, 0.5, 0.6, 0.8]), 0.9))
    fall_rise_fall = np.array([[1.0, 0.4, 0.7, 0.2], [1.0, 0.5, 0.9, 0.3]])
    assert numbers.largest_rise(fall_rise_fall) == pytest.approx((0.35, 0.05))
    assert numbers.largest_rise(np.array([[3.0, 2.0, 1.0], [3.0, 1.5, 1.0]]))[0] == 0.0
