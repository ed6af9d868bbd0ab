"""Scans on this machine: points side by side, what is there is kept, stops, tables and maps."""

from __future__ import annotations

import time

import numpy as np
import pytest

import dmft
from dmft.core.errors import RunError, Stopped, UserError
from dmft.core.stopping import StopSignals
from tests.run_files import run_text
from workbench.inspection.opening import open_file
from workbench.inspection.tables import export_csv
from workbench.scans.local import run_scan
from workbench.scans.points import Along, GridPoint, grid
from workbench.scans.running import Work, run_side_by_side
from workbench.scans.scan import Scan, ScanRow, make_scan

RUN = dmft.parse_run(run_text(t_max=0.1, theory={"samples": 64, "replicas": 2}, simulation={"dimension": 20, "instances": 4}))


def test_ranges_and_lists():
    assert [point.settings for point in grid(["problem.alpha=2:4:3"])] == [("problem.alpha=2",), ("problem.alpha=3",),
                                                                           ("problem.alpha=4",)]
    assert len(grid(["problem.alpha=2:4:3", "problem.m0=0.1,0.2"])) == 6
    for wrong in ("", "2:4", "2:4:1", "2:4:", "2:4:3:5", "2:4:2.5"):
        with pytest.raises(RunError, match="first:last:count"):
            grid([f"problem.alpha={wrong}"])


def test_messages_name_the_option_that_was_given():
    for option in ("--grid", "--array"):
        for wrong in (["problem.alpha"], ["problem.alpha=2,2"]):
            with pytest.raises(RunError, match=f"^{option}"):
                grid(wrong, option)
        with pytest.raises(RunError, match=f"after the {option}"):
            grid([Along("problem.alpha=2,3")], option)


@pytest.mark.long
@pytest.mark.cli
def test_points_that_diverge_are_named(tmp_path, dmft_main):
    """With a learning rate that is far too large: the table is made, and neither the words nor the exit code call it fine."""
    (tmp_path / "run.toml").write_text(run_text(kind="gd", t_max=8.0, theory={"samples": 64, "replicas": 2}))
    done = dmft_main("scan", "run.toml", "--grid", "algorithm.learning_rate=0.02,2", "-o", "scan", "--processes", "1", "--quiet")
    assert done.returncode == 3 and "diverged, in whole or in part: learning_rate-2.theory.h5 (1 of 2 results)" in done.stdout
    assert "+- nan" not in done.stdout and "1 of 2 results diverged" in dmft_main("inspect", "scan/sweep.h5").stdout
    late = dmft_main("collect", "scan", "--times", "50")
    assert late.returncode == 2 and late.stderr.endswith("--times 50: beyond the end of all runs of the scan, t = 8\n")


@pytest.mark.long
@pytest.mark.cli
def test_a_scan_goes_on_and_grows(tmp_path):
    """Two points, then a third: the first two are not touched again; numbers are those of single runs."""
    folder = tmp_path / "scan"
    found = dmft.scan(RUN, {"problem.m0": np.array([0.3, 0.5])}, folder, processes=2, quiet=True)
    frame = found.to_dataframe()
    assert list(frame["problem.m0"].unique()) == [0.3, 0.5] and len(frame) == 2 * len(found.times)
    alone = dmft.solve(RUN.replace(m0=0.5), quiet=True)
    assert frame["m"].iloc[-1] == alone.m[-1]
    tidy = export_csv(open_file(folder / "sweep.h5"), tmp_path / "tables")
    assert [place.name for place in tidy] == ["run.toml", "scan.csv", "columns.csv"]
    assert tidy[1].read_text().startswith("file,kind,problem.m0,t,m,m_error,loss,")
    cube = found.to_xarray()
    assert cube.m.dims == ("problem.m0", "t") and cube.m.sel({"problem.m0": 0.5}).values[-1] == alone.m[-1]
    before = {path.name: path.stat().st_mtime_ns for path in folder.glob("*.theory.h5")}
    more = dmft.scan(RUN, {"problem.m0": [0.3, 0.4, 0.5]}, folder, processes=1, quiet=True)
    assert [row.run.problem.m0 for row in more.rows] == [0.3, 0.4, 0.5]
    assert {name: (folder / name).stat().st_mtime_ns for name in before} == before
    again = dmft.load(folder / "sweep.h5")
    np.testing.assert_array_equal(again.arrays["m"], more.arrays["m"])
    assert "3 results over problem.m0" in repr(again)
    with pytest.raises(UserError, match="alpha"):
        dmft.scan(RUN, {"problem.alpha": [-1.0]}, folder, quiet=True)


PROGRAM = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
output = sys.argv[sys.argv.index("-o") + 1]
if "bad" in output:
    print("it broke"); sys.exit(1)
time.sleep(60.0 if "slow" in output else 0.0)
open(output, "w").close()
"""


@pytest.fixture
def program(tmp_path, monkeypatch):
    (tmp_path / "worker_for_scans.py").write_text(PROGRAM)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return lambda *names: [Work(["worker_for_scans"], tmp_path / f"{name}.h5") for name in names]


class Soon:
    """A wish to stop that comes after two seconds."""

    def __init__(self):
        self.at = time.monotonic() + 2.0

    @property
    def flags(self) -> int:
        return int(time.monotonic() > self.at)


@pytest.mark.long
def test_programs_that_stop_or_break(program, tmp_path):
    """A stop reaches those that run, and leaves the others undone; what breaks says why."""
    began = time.monotonic()
    codes = run_side_by_side(program("quick", "slow", "slow-too", "never"), 2, Soon(), True)  # type: ignore[arg-type]
    assert time.monotonic() - began < 30.0
    assert codes == {tmp_path / "quick.h5": 0, tmp_path / "slow.h5": 75, tmp_path / "slow-too.h5": 75}
    (bad,) = program("bad")
    assert run_side_by_side([bad], 1, StopSignals(), True) == {bad.output: 1} and bad.said() == "it broke"


def test_a_point_that_was_killed_is_told(tmp_path, monkeypatch):
    """A result that is missing at the end is a failure, whatever the exit code; twin: with its file it is not."""
    monkeypatch.setattr("workbench.scans.local.run_side_by_side", lambda work, *rest: {one.output: -9 for one in work})
    monkeypatch.setattr(Work, "said", lambda self: "Killed")
    with pytest.raises(UserError, match=r"1 of 1 results failed, e.g. m0-0.3.theory.h5: Killed \(exit code -9\)"):
        run_scan(RUN, [GridPoint(("problem.m0=0.3",))], tmp_path, ("theory",), 1, 1e-7, StopSignals(), quiet=True)


def test_a_theory_from_a_random_start_is_refused(tmp_path):
    """Its m is 0; simulations are not refused for that (they end at once here, by a stop)."""
    random, point = RUN.replace(start="random"), [GridPoint(("problem.alpha=2",))]
    with pytest.raises(RunError, match="m is 0 in the theory"):
        run_scan(random, point, tmp_path, ("theory",), 1, 1e-7, StopSignals(), quiet=True)

    class Now:
        flags = 1

    with pytest.raises(Stopped):
        run_scan(random, point, tmp_path, ("simulation",), 1, 1e-7, Now(), quiet=True)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [{}, {"alpha": [2]}, {"problem.alpha": 2.0}, {"problem.alpha": [2, 2.0]}])
def test_grids_that_make_no_sense(tmp_path, wrong):
    with pytest.raises(UserError) as error:
        dmft.scan(RUN, wrong, tmp_path / "none", quiet=True)
    assert "\n" not in str(error.value) and not (tmp_path / "none").exists()


def test_a_stopped_scan_says_so(tmp_path):
    class Now:
        flags = 2

    with pytest.raises(Stopped, match="0 of 1 results are there; the same command continues") as stopped:
        run_scan(RUN, [GridPoint(("problem.m0=0.3",))], tmp_path, ("theory",), 1, 1e-7, Now(), quiet=True)  # type: ignore[arg-type]
    assert stopped.value.exit_code == 130


def plane(values: list[tuple[float, float]]) -> Scan:
    t = np.linspace(0.0, 1.0, 5)
    rows = [ScanRow(None, "theory", RUN.replace(alpha=a, m0=m), 2, t, m + 0 * t, 0 * t, a + 0 * t, 0 * t)  # type: ignore[arg-type]
            for a, m in values]
    return make_scan(rows, [0.5], 1e-7)


@pytest.mark.long
def test_two_keys_make_a_map(tmp_path):
    """All pairs of three by three values are drawn as a map, each where it belongs; with one missing, or --against, as lines."""
    whole = [(a, m) for a in (2.0, 3.0, 4.0) for m in (0.1, 0.2, 0.3)]
    assert plane(whole).plane() == ("problem.alpha", "problem.m0") and plane(whole[:-1]).plane() is None
    axis = plane(whole).plot(tmp_path / "map.png").axes[0]
    np.testing.assert_allclose(axis.collections[0].get_array().reshape(3, 3), np.repeat([[0.1], [0.2], [0.3]], 3, axis=1))
    assert not plane(whole[:-1]).plot().axes[0].collections or plane(whole[:-1]).plot().axes[0].lines


def test_theory_and_simulation_of_one_setting_share_a_colour():
    t = np.linspace(0.0, 1.0, 5)
    rows = [ScanRow(None, kind, RUN.replace(alpha=a, m0=m), 2, t, m + 0 * t, 0 * t, a + 0 * t, 0 * t)  # type: ignore[arg-type]
            for kind in ("theory", "simulation") for m in (0.1, 0.2) for a in (2.0, 3.0, 4.0)]
    axis = make_scan(rows, [0.5], 1e-7).plot().axes[0]
    curves = {bars.get_label(): bars.lines[0].get_color() for bars in axis.containers}
    assert set(curves) == {f"{kind}, $m_0$ = {m}" for kind in ("theory", "simulation") for m in (0.1, 0.2)}
    for m in (0.1, 0.2):
        assert curves[f"theory, $m_0$ = {m}"] == curves[f"simulation, $m_0$ = {m}"]
    assert len(set(curves.values())) == 2
