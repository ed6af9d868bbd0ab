"""Random starts in the simulator: N m^2 with its error, and when |m| first reaches a level."""

from __future__ import annotations

import numpy as np
import pytest

import sgd_sim
from dmft.model.runfile import parse_run
from tests.run_files import run_text


def run_of(**changes):
    text = run_text("gd", t_max=0.2, problem={"alpha": 2.5, "start": "random"},
                    simulation={"dimension": 120, "instances": 8, "record": "linear"}).replace("m0 = 0.5\n", "")
    return parse_run(text).replace(**changes)


def test_passages_are_the_first_records_at_or_above_a_level():
    result = sgd_sim.simulate(run_of(t_max=2.0, instances=12, kind="langevin", temperature=1.0))
    level = 0.15
    times = result.first_passage(level)
    for i in range(12):
        above = [t for t, m in zip(result.t, result.m[i]) if abs(m) >= level]
        assert times[i] == (above[0] if above else np.inf)
    assert np.isfinite(times).any() and np.isinf(times).any()
    share = result.share_passed(level)
    assert share.count[-1] == np.isfinite(times).sum() and np.all(np.diff(share.count) >= 0)
    assert np.all((share.low <= share.share) & (share.share <= share.high))
    assert np.any(share.count != np.sum(np.abs(result.m) >= level, axis=0))      # some come back below it
    assert np.all(result.first_passage(0.0) == 0.0)


def test_an_instance_that_diverged_has_no_passage():
    result = sgd_sim.simulate(run_of(learning_rate=1.2, t_max=14.4, constraint="ridge", ridge=0.1, alpha=1.0))
    assert result.diverged.any()
    times = result.first_passage(np.inf)
    np.testing.assert_array_equal(np.isnan(times), result.diverged)


@pytest.mark.statistical
def test_V_grows_as_it_does_for_infinite_dimension():
    """Uniform on the sphere: V(0) = 1. Then the table of the derivation (alpha = 2.5, GD, eta = .02): V = 2.300 at t = .1 and 3.811
    at .2 in the limit, 2.27(5) and 3.71(10) at N = 400. The error is that of the mean over instances."""
    result = sgd_sim.simulate(run_of(dimension=200, instances=250, record=(0.0, 0.1, 0.2)))
    assert "V" in result.curves and "V" not in sgd_sim.simulate(run_of(start="warm", m0=0.3)).curves
    V, error = result.mean().V, result.error().V
    np.testing.assert_allclose(V, 200 * np.mean(result.m**2, axis=0), rtol=1e-12)
    np.testing.assert_allclose(error, 200 * np.std(result.m**2, axis=0, ddof=1) / np.sqrt(250), rtol=1e-12)
    assert np.all(np.abs(V - [1.0, 2.30, 3.81]) < 4 * error + 0.1)
    assert np.all(np.abs(V[1:] - [1.0, 1.0]) > 4 * error[1:])      # it is not the V of the start
