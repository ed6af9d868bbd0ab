"""dmft compare: z, extrapolation in 1/N, what is printed, and that wrong physics is seen."""

from __future__ import annotations

import re

import numpy as np
import pytest

import dmft
from dmft.core import store
from dmft.model.runfile import parse_run
from dmft.result.comparison import Curve, compare, extrapolate, instances_curve
from workbench.inspection.against import against_simulations

T = 0.02 * np.arange(101)
M = 0.5 + 0.2 * T


def _theory(path, text, shift=0.0, replicas=8, diverged_from=101, outcome="done", noise=1e-3, blown_up=False):
    rng = np.random.default_rng(1)
    m = M + shift * T + noise * rng.standard_normal((replicas, 101)) * np.sqrt(T)
    m[:, diverged_from:] = np.nan
    m[0, -1] += 30_000.0 * blown_up
    error = m.std(axis=0, ddof=1) / np.sqrt(replicas) if replicas > 1 else np.full(101, np.nan)
    arrays = {"t": T, "m": m.mean(axis=0), "m_error": error, "replicas/m": m}
    store.save(path, "theory", parse_run(text).to_toml(), arrays, {"outcome": outcome})


def _simulation(path, text, dimension=1000, slope=0.0, kind="simulation", nan_rows=0, rounding=0.0, instances=40,
                landscape="fresh"):
    rng = np.random.default_rng(dimension)
    index = np.array([0, 1, 2, 5, 10, 20, 50, 100])
    m = M[index] + slope * T[index] / dimension + 5e-3 * rng.standard_normal((instances, 8)) * np.sqrt(T[index])
    m[:nan_rows, 4:] = np.nan
    m[::2, 0] += rounding
    run = parse_run(text).replace(dimension=dimension, landscape=landscape)
    store.save(path, kind, run.to_toml(), {"t": T[index], "m": m, "diverged": np.isnan(m).any(axis=1)}, {})


def test_z_is_the_difference_in_standard_errors():
    theory = Curve(np.array([0.0, 1.0]), np.array([0.5, 0.7]), np.array([0.0, 0.03]), 8)
    simulation = Curve(np.array([1.0]), np.array([0.65]), np.array([0.04]), 30)
    result = compare("m", theory, [simulation], [1000], 1e-5)
    assert result.z == pytest.approx([1.0], rel=1e-6)
    assert 7 < result.degrees_of_freedom[0] < 36


def test_extrapolation_finds_the_intercept_and_its_error():
    """Two dimensions: the line through the points; y(0) = 2 y(2N) - y(N), error by propagation."""
    t = np.zeros(1)
    small, large = Curve(t, np.array([0.6]), np.array([0.01]), 50), Curve(t, np.array([0.65]), np.array([0.02]), 50)
    result = extrapolate([small, large], [500, 1000])
    assert result.mean[0] == pytest.approx(0.7)
    assert result.error[0] == pytest.approx(np.hypot(2 * 0.02, 0.01), rel=1e-6)
    pooled = extrapolate([small, small], [500, 500])
    assert pooled.mean[0] == pytest.approx(0.6) and pooled.error[0] == pytest.approx(0.01 / np.sqrt(2), rel=1e-6)


def test_diverged_instances_are_left_out():
    values = np.array([[1.0, 2.0], [3.0, 4.0], [1.0, np.nan]])
    curve = instances_curve(np.array([0.0, 1.0]), values)
    assert curve.count == 2 and curve.mean == pytest.approx([2.0, 3.0]) and curve.error == pytest.approx([1.0, 1.0])


def _max_z(done) -> float:
    assert done.returncode == 0, done.stderr
    match = re.fullmatch(r"max \|z\| = (\d+\.\d+)", done.stdout.splitlines()[-1])
    assert match
    return float(match[1])


def test_table_verdict_picture_and_last_line(dmft_main, tmp_path, demo_text):
    _theory(tmp_path / "theory.h5", demo_text)
    _simulation(tmp_path / "sim.h5", demo_text, nan_rows=2)
    done = dmft_main("compare", "theory.h5", "sim.h5", "--plot", "new/picture.png")
    assert _max_z(done) < 4.0
    assert "agree" in done.stdout and "8 replicas, 38 instances" in done.stdout and "2 diverged" in done.stdout
    rows = [line for line in done.stdout.splitlines() if line.count("+-") == 2 and "theory" not in line]
    assert len(rows) == 8 and rows[-1].split()[0] == "2"
    assert (tmp_path / "new" / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_wrong_theory_is_seen(dmft_main, tmp_path, demo_text):
    _theory(tmp_path / "theory.h5", demo_text, shift=0.01)
    _simulation(tmp_path / "sim.h5", demo_text)
    done = dmft_main("compare", "theory.h5", "sim.h5")
    assert _max_z(done) > 5.0 and "differ" in done.stdout


def test_finite_size_is_extrapolated_away(dmft_main, tmp_path, demo_text):
    _theory(tmp_path / "theory.h5", demo_text)
    for dimension in (200, 400, 800):
        _simulation(tmp_path / f"{dimension}.h5", demo_text, dimension, slope=5.0)
    assert _max_z(dmft_main("compare", "theory.h5", "800.h5")) > 5.0
    assert _max_z(dmft_main("compare", "theory.h5", "200.h5", "400.h5", "800.h5")) < 4.0


def test_one_replica_and_another_experiment_are_noted(dmft_main, tmp_path, demo_text):
    _theory(tmp_path / "theory.h5", demo_text, replicas=1)
    _simulation(tmp_path / "sim.h5", demo_text.replace("alpha = 3.0", "alpha = 2.5"))
    done = dmft_main("compare", "theory.h5", "sim.h5")
    _max_z(done)
    assert "one replica" in done.stdout and "problem.alpha 3.0 / 2.5" in done.stdout


def test_diverged_replicas_and_lost_samples_are_noted(tmp_path, demo_text):
    """alpha N lost is 0.3 at N = 1000; the degrees of freedom are those of the replicas that got through."""
    _theory(tmp_path / "theory.h5", demo_text)
    stored = store.load(tmp_path / "theory.h5")
    replicas, alpha = stored.arrays["replicas/m"].copy(), parse_run(demo_text).problem.alpha
    replicas[2, 40:] = np.nan
    arrays = {**stored.arrays, "replicas/m": replicas, "lost": np.linspace(0.0, 3e-4 / alpha, 101)}
    store.save(tmp_path / "theory.h5", "theory", stored.run_text, arrays, stored.attrs)
    _simulation(tmp_path / "sim.h5", demo_text)
    found = str(against_simulations(tmp_path / "theory.h5", [tmp_path / "sim.h5"]))
    assert "1 of 8 replicas diverged; means and errors are those of the others" in found and "7 replicas, 40 instances" in found
    assert "at N = 1000 a simulation has 0.3 data samples on average that leave their trapping region" in found
    _simulation(tmp_path / "small.h5", demo_text, dimension=100)
    assert "trapping" not in str(against_simulations(tmp_path / "theory.h5", [tmp_path / "small.h5"]))


def test_diverged_times_are_left_out_and_named(dmft_main, tmp_path, demo_text):
    _theory(tmp_path / "theory.h5", demo_text, diverged_from=40, outcome="diverged")
    _simulation(tmp_path / "sim.h5", demo_text)
    done = dmft_main("compare", "theory.h5", "sim.h5")
    assert _max_z(done) < 4.0
    assert "verdict: diverged: m is not finite at 2 of 8 common times; up to there they agree" in done.stdout
    assert "t = 1, 2 left out" in done.stdout and "outcome of the theory is 'diverged'" in done.stdout
    assert " nan " not in done.stdout
    _theory(tmp_path / "theory.h5", demo_text, diverged_from=0, outcome="diverged")
    done = dmft_main("compare", "theory.h5", "sim.h5")
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "agree" not in done.stdout


def _verdict(theory: Curve, simulation: Curve) -> str:
    return compare("loss", theory, [simulation], [1000], 1e-5).verdict


def test_verdicts():
    """A blown-up theory, and errors that could hide anything, are no agreement."""
    t = np.array([0.0, 1.0, 2.0])
    simulation = Curve(t, np.array([0.4, 0.3, 0.2]), np.full(3, 0.002), 100)
    small = np.full(3, 0.003)
    assert _verdict(Curve(t, simulation.mean + 0.004, small, 8), simulation) == "agree"
    assert _verdict(Curve(t, simulation.mean + 0.1, small, 8), simulation) == "disagree"
    assert _verdict(Curve(t, np.array([0.4, 0.3, 3564.0]), np.array([0.001, 0.002, 3600.0]), 8), simulation) == "diverged"
    assert _verdict(Curve(t, np.array([0.4, 0.3, np.nan]), small, 8), simulation) == "diverged"
    # A standard error of 0.05 beside values of 0.4: wrong by a quarter, and nobody could tell.
    assert _verdict(Curve(t, simulation.mean + 0.1, np.full(3, 0.05), 8), simulation) == "cannot tell"
    # Large everywhere and far off all the same.
    assert _verdict(Curve(t, simulation.mean + 2.0, np.full(3, 0.05), 8), simulation) == "disagree"
    # One replica against one instance: no error bar at all.
    nan = np.full(3, np.nan)
    assert _verdict(Curve(t, simulation.mean + 0.1, nan, 1), Curve(t, simulation.mean, nan, 1)) == "cannot tell"


@pytest.mark.parametrize("error, verdict", [(1e-3, "agree"), (0.2, "cannot tell")])
def test_the_closing_line_and_the_picture_say_the_verdict(dmft_main, tmp_path, demo_text, error, verdict):
    pytest.importorskip("matplotlib")
    _theory(tmp_path / "theory.h5", demo_text, noise=error)
    _simulation(tmp_path / "sim.h5", demo_text)
    done = dmft_main("compare", "theory.h5", "sim.h5")
    _max_z(done)
    title = dmft.compare(tmp_path / "theory.h5", tmp_path / "sim.h5").plot().get_suptitle()
    assert f"\nverdict: {verdict}: " in done.stdout and f"verdict: {verdict}" in title
    assert "persistent_sgd, alpha = 3, m0 = 0.5, eta = 0.02, N = 1000" in title


def test_a_blown_up_theory_does_not_agree(dmft_main, tmp_path, demo_text):
    _theory(tmp_path / "theory.h5", demo_text, blown_up=True)
    _simulation(tmp_path / "sim.h5", demo_text)
    done = dmft_main("compare", "theory.h5", "sim.h5")
    _max_z(done)
    assert "verdict: diverged: the theory's m has blown up from t = 2 on" in done.stdout


def test_an_exact_start_has_error_zero(dmft_main, tmp_path, demo_text):
    """At t = 0 every instance has m0 up to rounding: its error is printed as 0, not as 5.2e-17."""
    _theory(tmp_path / "theory.h5", demo_text)
    _simulation(tmp_path / "sim.h5", demo_text, rounding=1e-16)
    first = next(line for line in dmft_main("compare", "theory.h5", "sim.h5").stdout.splitlines() if line.split()[0] == "0")
    assert first.split()[3] == "0" and first.split()[6] == "0"


def test_one_instance_has_no_z():
    """The error of one instance is unknown: the small one of the theory must not stand for it. One replica against many is seen."""
    t, nan = np.zeros(1), np.full(1, np.nan)
    result = compare("m", Curve(t, t + 0.5, t + 0.001, 8), [Curve(t, t + 0.9, nan, 1)], [1000], 1e-5)
    assert np.isnan(result.z[0]) and np.isfinite(result.bound) and result.verdict == "cannot tell"
    result = compare("m", Curve(t, t + 0.5, nan, 1), [Curve(t, t + 0.9, t + 0.01, 40)], [1000], 1e-5)
    assert result.verdict == "disagree"


@pytest.mark.parametrize("replicas", [1, 8])
def test_one_instance_gives_no_z(dmft_main, tmp_path, demo_text, replicas):
    """A difference, but no number of standard errors, neither in the table nor at its end."""
    _theory(tmp_path / "theory.h5", demo_text, replicas=replicas)
    _simulation(tmp_path / "sim.h5", demo_text, instances=1)
    done = dmft_main("compare", "theory.h5", "sim.h5")
    rows = [line.split() for line in done.stdout.splitlines() if line.split()[0] in ("0", "0.02", "2")]
    assert [row[6] for row in rows] == [row[7] for row in rows] == ["-"] * 3
    assert [row[3] == "-" for row in rows] == [replicas == 1] * 3
    assert "one instance gives no error bar of the simulation, and no z" in done.stdout
    assert "\nverdict: cannot tell: " in done.stdout and done.stdout.splitlines()[-1] == "max |z| = nan"


def test_one_data_set_for_all_instances_is_noted(dmft_main, tmp_path, demo_text):
    """Errors over starts leave out the spread over data sets, which the theory averages over."""
    _theory(tmp_path / "theory.h5", demo_text)
    for landscape in ("fresh", "shared"):
        _simulation(tmp_path / f"{landscape}.h5", demo_text, landscape=landscape)
        noted = "share one data set" in dmft_main("compare", "theory.h5", f"{landscape}.h5").stdout
        assert noted == (landscape == "shared")


def test_errors_of_what_explodes_do_not_overflow():
    t = np.arange(2.0)
    curves = Curve(t, t, np.array([1e100, 0.0]), 5), Curve(t, t, np.array([3e99, 0.0]), 8)
    with np.errstate(all="raise"):
        freedom = compare("m", curves[0], [curves[1]], [1000], 1e-5).degrees_of_freedom
    assert freedom[0] == pytest.approx(1.09**2 / (1 / 4 + 0.09**2 / 7)) and freedom[1] == 11


def test_wrong_files_are_one_line(dmft_main, tmp_path, demo_text):
    _theory(tmp_path / "theory.h5", demo_text)
    _simulation(tmp_path / "sim.h5", demo_text)
    for files in (["sim.h5", "theory.h5"], ["theory.h5", "none.h5"], ["theory.h5", "sim.h5", "--observable", "q"],
                  ["theory.h5"]):
        done = dmft_main("compare", *files)
        assert done.returncode == 2 and done.stderr.count("\n") == 1 and "Traceback" not in done.stderr
