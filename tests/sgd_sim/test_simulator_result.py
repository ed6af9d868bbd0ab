"""Recording times, errors by formula, and the statistics of a result."""

from __future__ import annotations

from contextlib import chdir
from dataclasses import replace

import numpy as np
import pytest

import dmft
import sgd_sim
from dmft.cli import main
from dmft.core.errors import FileError, ResultWarning, RunError, UserError
from dmft.model import registry
from dmft.model.experiment import known_errors
from dmft.model.runfile import parse_run
from sgd_sim.recording import record_steps


@pytest.fixture
def run(demo_text):
    return parse_run(demo_text).replace(dimension=20, instances=5)


@pytest.mark.parametrize("record", ["log", "linear", [0.0, 0.5, 1.99]])
def test_a_longer_run_finds_the_steps_it_needs(run, record):
    run = run.replace(record=record)
    for t_max, longer in ((2.0, 3.0), (2.0, 50.0), (30.0, 1000.0)):
        short, long = record_steps(run.replace(t_max=t_max)), record_steps(run.replace(t_max=longer))
        end = run.replace(t_max=t_max).algorithm.steps
        assert set(long[long <= end]) <= set(short)
        assert (np.diff(short) > 0).all()
        assert short[-1] == end or isinstance(record, list)


def test_long_runs_make_small_files(run):
    steps = record_steps(run.replace(t_max=1000.0, learning_rate=0.01))
    assert 80 < steps.size < 120 and steps[-1] == 100000
    assert record_steps(run.replace(t_max=1000.0, learning_rate=0.01, record="linear")).size < 410


def test_times_beyond_the_end_are_refused(run):
    with pytest.raises(RunError, match="t_max"):
        record_steps(run.replace(record=[1.0, 2.5]))


def test_mse_formula(run):
    """(B.8) is the mean of (|x| - |y|)^2 over Gaussians with covariance (q, m; m, 1)."""
    rng = np.random.default_rng(0)
    y, z = rng.standard_normal((2, 400000))
    for m, q in ((0.3, 1.0), (-0.8, 1.3), (1.0, 1.0), (0.0, 0.7)):
        squares = (np.abs(m * y + np.sqrt(q - m * m) * z) - np.abs(y)) ** 2
        value = known_errors(run, {"m": np.array(m), "q": np.array(q)})["mse"]
        assert abs(squares.mean() - value) < 4 * squares.std() / np.sqrt(y.size) + 1e-12
    linear = run.replace(loss="linear")
    assert known_errors(linear, {"m": np.array(0.3), "q": np.array(1.2)})["mse"] == pytest.approx(1.6)


def test_statistics(run):
    result = sgd_sim.simulate(run)
    assert result.m.shape == result.loss.shape == result.mse.shape == (5, result.t.size)
    np.testing.assert_allclose(result.mean().m, result.m.mean(axis=0))
    np.testing.assert_allclose(result.error()["loss"], result.loss.std(axis=0, ddof=1) / np.sqrt(5))
    np.testing.assert_allclose(result.median().q, np.median(result.q, axis=0))
    np.testing.assert_allclose(result.quantile(0.2).mse, np.quantile(result.mse, 0.2, axis=0))
    share = result.share_below(np.median(result.loss[:, -1]) * (1 + 1e-12))
    assert share.count[-1] == 3 and share.share[-1] == 0.6
    # Wilson's interval, by hand: (p + z^2/2n +- z sqrt(p(1-p)/n + z^2/4n^2)) / (1 + z^2/n)
    z = 1.959963984540054
    half = z * np.sqrt(0.6 * 0.4 / 5 + z * z / 100)
    assert share.low[-1] == pytest.approx((0.6 + z * z / 10 - half) / (1 + z * z / 5))
    assert share.high[-1] == pytest.approx((0.6 + z * z / 10 + half) / (1 + z * z / 5))
    none = result.share_below(0.0)
    assert none.share[0] == 0.0 and none.low[0] == 0.0 and 0.3 < none.high[0] < 0.6


def test_diverged_instances_are_left_out_of_means_but_not_of_shares(run):
    result = sgd_sim.simulate(run)
    loss = result.loss.copy()
    loss[0, 3:] = np.nan
    broken = replace(result, curves=result.curves | {"loss": loss})
    np.testing.assert_allclose(broken.mean().loss[4], loss[1:, 4].mean())
    np.testing.assert_allclose(broken.quantile(0.5).loss[4], np.median(loss[1:, 4]))
    assert broken.share_below(1e9).share[4] == 0.8
    assert np.isnan(replace(result, curves=result.curves | {"loss": np.full_like(loss, np.nan)}).mean().loss).all()


# Weights that grow with every step until some of 256 new samples overflow before the two of the training set do.
OVERFLOWS = {
    "fresh": """[problem]
loss = "linear"
alpha = 0.1
m0 = 0.3
constraint = "ridge"
ridge = 2.5
[algorithm]
kind = "gd"
learning_rate = 1.0
t_max = 120.0
[simulation]
dimension = 20
instances = 4
record = "linear"
""",
    "shared": """[problem]
alpha = 0.95
start = "spectral"
preprocessing = "truncated"
constraint = "ridge"
ridge = 0.01
[algorithm]
kind = "sgd"
minibatch = "without_replacement"
batch_fraction = [[0.0, 0.06], [3.6, 0.7]]
rescale_gradient = false
learning_rate = 1.22
t_max = 4.88
momentum = 0.011
nesterov = true
[simulation]
dimension = 2
instances = 200
landscape = "shared"
record = "linear"
seed = 69
"""}


@pytest.mark.parametrize("landscape", OVERFLOWS)
def test_fields_of_new_samples_beyond_all_numbers_are_divergence(landscape):
    with pytest.warns(ResultWarning, match="instances diverged"):
        result = sgd_sim.simulate(parse_run(OVERFLOWS[landscape]))
    for name in ("m", "q", "loss"):
        np.testing.assert_array_equal(np.isfinite(result.mse_fresh), np.isfinite(getattr(result, name)))
    assert result.diverged.any() and not np.isinf(result.mse_fresh).any()


def test_divergence_is_recorded_and_the_others_go_on(run):
    run = run.replace(constraint="ridge", ridge=0.1, instances=12, record="linear", t_max=3.0)
    for landscape in ("fresh", "shared"):
        run = run.replace(landscape=landscape)
        # between steps that all instances bear and steps that none does there are some that a part bears
        results = (sgd_sim.simulate(run.replace(learning_rate=rate)) for rate in np.arange(0.02, 0.1, 0.004).round(3))
        result = next(result for result in results if 0 < result.diverged.sum() < 12)
        run = result.run
        assert np.isnan(result.m[result.diverged, -1]).all() and np.isfinite(result.m[~result.diverged]).all()
        alone = sgd_sim.simulate(run.replace(instances=int(np.argmin(result.diverged)) + 1))
        np.testing.assert_array_equal(result.m[:alone.instances], alone.m)


def test_files(run, tmp_path):
    result = sgd_sim.simulate(run)
    result.save(tmp_path / "a.h5")
    again = sgd_sim.load(tmp_path / "a.h5")
    assert again.run == result.run
    for name in ("t", "m", "loss", "q", "mse", "mse_fresh", "diverged"):
        np.testing.assert_array_equal(getattr(again, name), getattr(result, name))
    with pytest.raises(FileError):
        sgd_sim.load(tmp_path / "b.h5")


def test_what_does_not_fit_is_refused_before_the_work(run, with_cupy):
    with_cupy(None)
    with pytest.raises(UserError, match="dimension.*GB"):
        sgd_sim.simulate(run.replace(dimension=3_000_000))
    with pytest.raises(UserError, match="gpu"):
        sgd_sim.simulate(run.replace({"simulation.device": "gpu"}))


def test_spectral_start(run):
    """The overlap of the trimmed spectral estimate at alpha = 6 is well above that of a random start."""
    run = run.replace(start="spectral", dimension=300, alpha=6.0, instances=6, t_max=0.02)
    spectral = sgd_sim.simulate(run)
    assert (spectral.m[:, 0] > 0.4).all() and np.allclose(spectral.q[:, 0], 1.0)
    X_start = sgd_sim.simulate(run.replace(start="random"))
    assert np.abs(X_start.m[:, 0]).max() < 5 / np.sqrt(300)


@pytest.mark.parametrize("labels, curves", [
    ("", ("m", "loss", "q")), ("sign", ("m", "loss", "q", "error_fresh", "training_error"))])
def test_a_loss_of_a_users_is_looked_at_where_it_is_not_known(run, tmp_path, labels, curves, monkeypatch):
    """Without declared labels there is no error on fresh samples; a file is read, shown and drawn without the plug-in."""
    dmft.register_loss("mine", lambda f, y: 0.5 * (f - y) ** 2, lambda f, y: f - y, lambda f, y: 1.0 + 0.0 * f, labels=labels)
    result = sgd_sim.simulate(run.replace(loss="mine", t_max=0.1), output=tmp_path / "a.h5", quiet=True)
    assert set(result.curves) == {*curves, *(["error"] if labels else [])}
    monkeypatch.delitem(registry.members["loss"], "mine")
    read = sgd_sim.load(tmp_path / "a.h5")
    assert set(read.curves) == set(result.curves)
    for name in read.curves:  # "error" follows from m and q, which takes the loss to know; the file holds it
        np.testing.assert_array_equal(read.curves[name], result.curves[name])
    assert np.isnan(read.mse_fresh).all() and np.isnan(read.error_fresh).all() == (not labels)
    for command in ("inspect", "export --csv tables", "diff"):
        word, *options = command.split()
        files = [str(tmp_path / "a.h5")] * (2 if word == "diff" else 1)
        with chdir(tmp_path):
            assert main([word, *files, *options]) == 0


@pytest.mark.parametrize("bias", [False, True])
def test_errors_of_clusters_are_read_back(tmp_path, bias):
    """A file has no intercept where none was learnt; errors on new samples and a longer run need it all the same."""
    run = parse_run(f'''[problem]
data = "mixture"
clusters = [[1, 0.4, 1, 0.5], [-1, 0.6, -1, 1.0]]
loss = "logistic"
alpha = 2.0
m0 = 0.3
bias = {str(bias).lower()}
[algorithm]
kind = "gd"
learning_rate = 0.1
t_max = 1.0
[simulation]
dimension = 20
instances = 2
record = "linear"''')
    whole = sgd_sim.simulate(run.replace(t_max=2.0))
    first = sgd_sim.simulate(run, output=tmp_path / "a.h5")
    assert np.isfinite(first.error_from_overlaps).all() and ("b" in first.curves) == bias
    np.testing.assert_array_equal(sgd_sim.load(tmp_path / "a.h5").error_from_overlaps, first.error_from_overlaps)
    longer = sgd_sim.simulate(run.replace(t_max=2.0), output=tmp_path / "a.h5", resume=True)
    np.testing.assert_array_equal(longer.error_from_overlaps, whole.error_from_overlaps)
