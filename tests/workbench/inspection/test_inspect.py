"""dmft inspect, diff, export: every kind of file, live checkpoints, and that broken files are called so."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import dmft
from dmft.core import store
from dmft.result.concerns import identity
from tests.marks import slow
from workbench.inspection.aging import shown_waiting_times
from workbench.inspection.checks import theory_checks
from workbench.inspection.curves import decades
from workbench.inspection.live import partial_theory
from workbench.inspection.opening import open_file
from workbench.inspection.page import curve_lines

pytestmark = pytest.mark.cli

KINDS = ("theory", "live", "simulation", "ode", "ensemble")


def _json(dmft_main, path) -> dict:
    done = dmft_main("inspect", str(path), "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_a_page(results, dmft_main, kind):
    done = dmft_main("inspect", str(getattr(results, kind)))
    assert done.returncode == 0 and done.stderr == ""
    for title in ("RUN", "KEY FIGURES", "MADE BY", "ARRAYS", "WARNINGS"):
        assert title in done.stdout
    assert "Traceback" not in done.stdout and max(map(len, done.stdout.splitlines())) < 160


def test_theory_figures_are_those_of_the_result(results, dmft_main):
    facts, theory = _json(dmft_main, results.theory), results.result
    assert facts["kind"] == "theory" and facts["outcome"] == "done" and not facts["checkpoint"]
    assert facts["run"]["algorithm"]["learning_rate"] == 0.02
    last = facts["curves"][-1]
    assert last["t"] == pytest.approx(0.4) and last["m"] == theory.m[-1] and last["m_error"] == theory.m_error[-1]
    m = next(array for array in facts["arrays"] if array["name"] == "m")
    assert m == {"name": "m", "shape": [21], "min": theory.m.min(), "max": theory.m.max(), "not_finite": 0}
    values = {check["name"]: check["value"] for check in facts["checks"]}
    smallest = np.linalg.eigvalsh(theory.kernels.M_C)
    assert values["smallest eigenvalue of M_C over the largest"] == pytest.approx(smallest[0] / smallest[-1], abs=1e-12)
    assert abs(values["C(t,t) - 1"]) < 1e-12
    assert not any("M_C" in text or "C(t,t)" in text for text in facts["warnings"])


@pytest.mark.long
@pytest.mark.parametrize("name, spoil, word", [
    ("kernels/M_C", lambda M: M - 0.9 * np.diag(np.diag(M)), "no covariance"),
    ("kernels/C", lambda C: C + 1e-3, "sphere"),
    ("kernels/M_R", lambda M: M + 1e-3, "causal"),
    ("nu_gap", lambda gap: gap + 500.0, "exact identity"),
    ("unstable", lambda weight: weight + 0.01, "learning rate"),
    ("m", lambda m: m + 1.0, "exceeds 1"),
])
def test_what_looks_off_is_told(results, dmft_main, edited, name, spoil, word):
    path = edited(results.theory, {name: spoil(store.read(results.theory, name))})
    assert any(word in text for text in _json(dmft_main, path)["warnings"])


def _told(dmft_main, edited, results, name: str, size: float, own: float, bar: float) -> tuple[list, list[str]]:
    """What inspect says of a dataset with this systematic error, its error and this error bar: checks, warnings."""
    kind, _, dataset = name.partition("/")
    one = np.ones_like(store.read(results.theory, dataset))
    path = edited(results.theory, {name: size * one, f"{name}_error": own * one, f"{dataset}_error": bar * one})
    facts, title = _json(dmft_main, path), f"of {dataset} over its error bar"
    return ([check["fine"] for check in facts["checks"] if title in check["name"]], [w for w in facts["warnings"]
                                                                                           if f"of {dataset} beyond" in w])


@pytest.mark.long
@pytest.mark.parametrize("name", ["bias/m", slow("bias/loss"), slow("bias/mu"), "bias/columns/C"])
def test_a_bias_larger_than_the_error_bar_is_told(results, dmft_main, edited, name):
    """As the FAQ says, of every curve and column: ten errors from zero and four bars is a warning, two errors is told without one;
    a bias below the bar, or below its noise, is not told (of m, the main curve, it is: fine below the bar)."""
    checks, warnings = _told(dmft_main, edited, results, name, -0.030, 0.003, 0.0073)
    assert checks == [False] and "more samples" in warnings[0] and "-0.03 +- 0.003 at t = " in warnings[0]
    assert _told(dmft_main, edited, results, name, -0.030, 0.016, 0.0073) == ([None], [])
    for own, bar, fine in ((0.016, 0.04, True), (0.030, 0.0073, None)):
        assert _told(dmft_main, edited, results, name, -0.030, own, bar) == ([fine] if name == "bias/m" else [], [])


def test_residuals_have_no_bias_to_be_warned_of(results, dmft_main, edited):
    """nu_gap and ibp_gap are 0 with infinitely many samples: their size says what a bias would."""
    assert _told(dmft_main, edited, results, "bias/ibp_gap", 0.030, 0.001, 0.0073) == ([], [])


def test_a_bias_that_nobody_knows_is_not_called_fine(results, dmft_main, edited):
    """Every solution with half the samples diverged half way: bias/m is NaN from there on."""
    bias = np.where(results.result.t < 0.2, 0.0, np.nan)
    checks = _json(dmft_main, edited(results.theory, {"bias/m": bias}))["checks"]
    check = next(check for check in checks if "bias of m over" in check["name"])
    assert check["fine"] is None and check["value"] is None and "half the samples diverged" in check["meaning"]


def test_diverged_simulations_and_changed_sources_are_told(results, dmft_main, edited):
    diverged = np.arange(12) < 3
    m = store.read(results.simulation, "m").copy()
    m[:3, -1] = np.nan
    path = edited(results.simulation, {"m": m, "state/diverged_at": np.where(diverged, 5, -1)}, {"revision": "abc-dirty"})
    facts = _json(dmft_main, path)
    assert any("diverged" in text for text in facts["warnings"]) and any("abc-dirty" in text for text in facts["warnings"])


def test_live_checkpoint_tells_progress_and_partial_curves(results, dmft_main):
    """Stopped at poll 34: the first replica is done after 21 steps and one poll to see it; the second is at step 11."""
    facts = _json(dmft_main, results.live)
    progress = facts["progress"]
    assert facts["checkpoint"] and progress["replicas_done"] == 1
    assert progress["replicas_under_way"] == [{"t": pytest.approx(0.02 * 10)}]
    assert progress["share"] == pytest.approx((1 + 11 / 20) / 4) and progress["seconds_left"] > 0
    whole = partial_theory(store.load_header(results.live))
    assert np.array_equal(whole.replicas["m"][0], results.result.replicas["m"][0])
    assert np.isfinite(whole.m).all() and np.isfinite(whole.m_error).sum() == 11
    assert np.array_equal(whole.m[:11], results.result.replicas["m"][:2, :11].mean(axis=0))


def test_live_onepass_checkpoint(dmft_main, tmp_path):
    """Four of twenty instances done, a fifth under way: their mean; a checkpoint of an older layout is told apart."""
    from dmft.files.layouts import CHECKPOINTS
    from onepass import runfile

    run = runfile.load_run(Path(__file__).resolve().parents[3] / "runs/arnaboldi/figure1.toml", ["simulation.instances=20"])
    times = run.time.grid().size
    flat = np.random.default_rng(1).uniform(size=(20, times, run.model.layout.size))
    flat[4:] = np.nan
    columns, step = np.array([times] * 4 + [1] + [0] * 15), np.array([9] * 4 + [3] + [0] * 15)
    own = {"flat": flat, "columns": columns, "step": step, "snapshot": np.zeros((20, 8), np.uint8)}
    attrs = {"wall_time": 10.0, "progress": 0.2, "progress_before": 0.1, "checkpoint_layout": CHECKPOINTS["onepass"]}
    arrays = {f"active/0/instances/own/{name}": array for name, array in own.items()}
    store.save(store.checkpoint_path(tmp_path / "old.h5"), "onepass", run.to_toml(), {"flat": flat[:4]}, {}, checkpoint=True)
    done = dmft_main("inspect", "old.h5")
    assert done.returncode == 2 and "another version" in done.stderr and len(done.stderr.splitlines()) == 1
    store.save(store.checkpoint_path(tmp_path / "one.h5"), "onepass", run.to_toml(), arrays, attrs, checkpoint=True)
    facts = _json(dmft_main, tmp_path / "one.h5")
    assert facts["progress"]["share"] == pytest.approx(0.2) and facts["progress"]["seconds_left"] == pytest.approx(80.0)
    assert facts["progress"]["instances_done"] == 4 and facts["curves"][0]["M[0,0]_error"] > 0


def test_a_result_to_come_stands_for_its_checkpoint(results):
    assert open_file(str(results.live).removesuffix(".checkpoint")).live


def test_files_that_are_no_results(dmft_main, tmp_path):
    (tmp_path / "x.h5").write_text("no")
    for command in (["inspect", "x.h5"], ["plot", "x.h5"], ["diff", "x.h5", "x.h5"], ["inspect", "absent.h5"]):
        done = dmft_main(*command)
        assert done.returncode == 2 and len(done.stderr.splitlines()) == 1


def test_diff_of_the_same_file(results, dmft_main):
    done = dmft_main("diff", str(results.theory), str(results.theory))
    assert done.stdout.splitlines()[-1] == "the same numbers" and "the same" in done.stdout.split("RUNS")[1]


def test_diff_names_keys_and_times(results, dmft_main, edited):
    done = dmft_main("diff", str(results.theory), str(results.other))
    assert "algorithm.learning_rate: 0.02 -> 0.04" in done.stdout and "theory.seed: 1 -> 2" in done.stdout
    m = store.read(results.theory, "m").copy()
    m[10:15] += 0.2                              # many errors
    done = dmft_main("diff", str(results.theory), str(edited(results.theory, {"m": m})))
    lines = done.stdout.splitlines()
    worst = lines[lines.index("CURVES AND KERNELS, worst first") + 2]
    assert worst.startswith("  m ") and "t = 0.2 " in worst and "t = 0.16 .. 0.3" in worst
    assert lines[-1] == "differ beyond their errors: m"


def test_diff_without_error_bars_and_with_holes(results, dmft_main, edited, tmp_path):
    """No error bars: a difference, but nothing beyond them. Where one alone is finite, the numbers are not simply the same."""
    m = store.read(results.theory, "m").copy()
    arrays = store.load(results.theory).arrays
    bare = {name: np.full(array.shape, np.nan) for name, array in arrays.items() if name.endswith("_error")}
    one = edited(results.theory, bare).rename(tmp_path / "one.h5")
    two = edited(results.theory, {**bare, "m": m + 0.01})
    done = dmft_main("diff", str(one), str(two))
    row = next(line for line in done.stdout.splitlines() if line.startswith("  m ")).split()
    assert row[3:] == ["-"] * 4 and "nan" not in done.stdout and "chance:" not in done.stdout
    verdict = done.stdout.splitlines()[-1]
    assert verdict.startswith("differ, and cannot be judged without error bars: m; the largest relative difference is "
                              f"{0.01 / m.max():.2g} (m at t = ")
    m[15:] = np.nan
    done = dmft_main("diff", str(results.theory), str(edited(results.theory, {"m": m})))
    assert "  m is finite in one of the two alone at t = 0.3 .. 0.4\n" in done.stdout
    assert done.stdout.splitlines()[-1] == "the same numbers where both are finite"


def test_diff_of_different_kinds(results, dmft_main):
    done = dmft_main("diff", str(results.theory), str(results.simulation))
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == "agree within their errors"


def test_export_gives_the_same_numbers(results, dmft_main, tmp_path):
    assert dmft_main("export", str(results.theory), "--csv", "tables").returncode == 0
    with open(tmp_path / "tables" / "curves.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["m"]) for row in rows] == results.result.m.tolist()
    table = np.loadtxt(tmp_path / "tables" / "kernels_M_R.csv", delimiter=",", skiprows=1)
    assert np.array_equal(table[:, 0], results.result.kernels.t) and np.array_equal(table[:, 1:], results.result.kernels.M_R)
    with open(tmp_path / "tables" / "columns.csv", newline="") as file:
        units = {(row["file"], row["column"]): row["unit"] for row in csv.DictReader(file)}
    assert units["curves.csv", "nu_hat"] == "1/time" and units["kernels_M_R.csv", "all others"] == "1/time^2"
    assert dmft.parse_run((tmp_path / "tables" / "run.toml").read_text()) == results.run
    assert dmft_main("export", str(results.theory), "--csv", "tables").returncode == 2
    assert dmft_main("export", str(results.theory), "--csv", "tables", "--force").returncode == 0


@pytest.mark.parametrize("kind", ("live", "simulation", "ode", "ensemble"))
def test_export_of_other_kinds(results, dmft_main, tmp_path, kind):
    assert dmft_main("export", str(getattr(results, kind)), "--csv", "tables").returncode == 0
    if kind == "simulation":
        table = np.loadtxt(tmp_path / "tables" / "m.csv", delimiter=",", skiprows=1)
        assert np.array_equal(table[:, 1:].T, results.sim.m)
    if kind == "ensemble":
        header = (tmp_path / "tables" / "M.csv").read_text().splitlines()[0].split(",")
        assert header[0] == "t" and len(header) > 1


def test_xarray_has_dimensions_and_units(results):
    pytest.importorskip("xarray")
    data = results.result.to_xarray()
    assert data["m"].dims == ("t",) and data["M_R"].dims == ("t_kernel", "t_prime") and data["M_R"].units == "1/time^2"
    assert float(data["C"].sel(t_kernel=0.4, t_prime=0.0, method="nearest")) == results.result.kernels.C[-1, 0]
    assert results.sim.to_xarray()["loss"].dims == ("instance", "t")
    assert open_file(results.ensemble).result.to_xarray()["M"].dims == ("instance", "t", "M_0", "M_1")


def test_columns_are_those_of_the_maps(results):
    """With every step saved and a full history: C(t, t_w) and so on are columns of the maps, chi is eta times the sum of R over the
    steps from t_w on."""
    kernels, columns, eta = results.result.kernels, results.result.columns, 0.02
    assert columns.t_w == pytest.approx(eta * np.array([0, 1, 2, 4, 8, 16])) and columns.t == pytest.approx(kernels.t)
    assert shown_waiting_times(columns) == [0, 1, 2, 3, 4]  # up to half of the time
    for j, w in enumerate((0, 1, 2, 4, 8, 16)):
        for name in ("C", "M_C", "R", "M_R"):
            tau, value, error = columns.after(name, j)
            assert tau == pytest.approx(eta * np.arange(21 - w))
            np.testing.assert_array_equal(value, getattr(kernels, name)[w:, w])
            np.testing.assert_array_equal(error, getattr(kernels, f"{name}_error")[w:, w])
        assert columns.after("chi", j)[1] == pytest.approx([eta * kernels.R[i, w:i].sum() for i in range(w, 21)], rel=1e-12)


def test_decades():
    """Each round time has its own index on a grid that holds them all; the last time is one of them, or added."""
    t = 0.01 * np.arange(201)
    assert t[decades(t)] == pytest.approx([0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0], abs=1e-12)
    assert t[decades(t[:181])][-2:] == pytest.approx([1.0, 1.8], abs=1e-12)
    assert decades(np.zeros(1)).tolist() == [0]


def test_one_set_of_warnings(results):
    """An identity that chance explains is no alarm (four replicas, many times), nor is one per cent; more is told by all."""
    theory = results.result
    z, bound, _ = identity(theory)
    assert z < bound and not any("identity" in text for text in theory.warnings)

    def off_by(share: float) -> dmft.Theory:
        scale = np.full(theory.t.size, share * np.abs(theory.nu_hat).max())
        return replace(theory, curves={**theory.curves, "nu_gap": scale, "nu_gap_error": scale / (2 * bound)})

    assert identity(off_by(0.01))[0] > bound and not any("identity" in text for text in off_by(0.01).warnings)
    off = off_by(0.1)
    assert any("exact identity" in text for text in off.warnings)
    said = str(dmft.compare(off, results.sim))
    assert all(text in said for text in off.warnings)
    assert [check.name for check in theory_checks(off) if check.fine is False and "identity" in check.name]


def test_netcdf_holds_the_curves(results, dmft_main, tmp_path):
    xarray = pytest.importorskip("xarray")
    assert dmft_main("export", str(results.theory), "--netcdf", "a.nc").returncode == 0
    data = xarray.open_dataset(tmp_path / "a.nc", engine="scipy")
    assert np.array_equal(data["M_R"].values, results.result.kernels.M_R) and data["m"].units == "1" and data["m"].dims == ("t",)
    refused = dmft_main("export", str(results.theory), "--netcdf", "a.nc")
    assert refused.returncode == 2 and "--force" in refused.stderr


def test_a_loss_is_shown_however_small():
    """That of a solved run; an overlap of that size is rounding."""
    lines = curve_lines([{"t": 0.5, "m": 3e-17, "m_error": 2e-17, "loss": 1.5e-20, "loss_error": 2e-21}])
    assert lines[1].split() == ["0.5", "0", "+-", "0", "1.5e-20", "+-", "2e-21"]
