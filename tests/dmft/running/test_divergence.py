"""Replicas that diverge leave the others alone: they are counted, told of, and in no mean."""

from __future__ import annotations

import numpy as np
import pytest

import dmft
from dmft.core.errors import OutcomeWarning, ResultWarning
from dmft.core.parallel import world
from dmft.equations.kernels import KERNELS
from dmft.running.replica import Replica, Setup
from tests.solver_cases import make_run

RUN = make_run({"kind": "sgd", "batch_fraction": 0.3}, {"alpha": 2.5, "m0": 0.5}, steps=30, samples=100, replicas=4)


@pytest.fixture
def tail(redrawn):
    """Sets the weight of a sample at h0 = 7, which leaves its trapping region, by replica."""
    def with_weights(weights: dict[int, float]) -> None:
        def change(draws, experiment, how):
            if (weight := weights.get(how.name[0], 0.0)) > 0:
                draws.k[5] = draws.y[5] = 7.0
                draws.weight[5] = weight * (draws.weight.sum() - draws.weight[5])

        redrawn(change)
    return with_weights


def solution(index: int) -> Replica:
    replica = Replica(Setup.from_run(RUN), index, world())
    while not replica.done:
        replica.step()
    return replica


@pytest.mark.long
@pytest.mark.parametrize("bad", [0, 1])
def test_the_others_give_the_result(tail, tmp_path, bad):
    tail({bad: 1e-3})
    with pytest.warns(OutcomeWarning, match=r"1 of 4 replicas diverged at t = 0\.\d+; means and errors are those of the others"):
        theory = dmft.solve(RUN, tmp_path / "a.h5", quiet=True)
    others = [solution(i).whole for i in range(4) if i != bad]
    assert theory.outcome == "done" and theory.diverged == 1 and "(1 diverged)" in repr(theory)
    assert np.isnan(theory.replicas["m"][bad, -1]) and list(theory.averaged) == [i != bad for i in range(4)]
    np.testing.assert_array_equal(theory.m, np.mean([one.curves["m"] for one in others], axis=0))
    np.testing.assert_array_equal(theory.m_error, np.std([one.curves["m"] for one in others], axis=0, ddof=1) / np.sqrt(3))
    for name in KERNELS:
        rows = np.array([one.kernels[name] for one in others])
        np.testing.assert_allclose(getattr(theory.kernels, name), rows.mean(axis=0), rtol=1e-12, atol=1e-14)
        error = rows.std(axis=0, ddof=1) / np.sqrt(3)
        np.testing.assert_allclose(getattr(theory.kernels, f"{name}_error"), error, rtol=1e-9, atol=1e-12)
    loaded = dmft.load(tmp_path / "a.h5")
    assert loaded.outcome == "done" and loaded.diverged == 1 and np.isfinite(loaded.bias["m"]).all()


@pytest.mark.long
def test_more_replicas_extend_a_run_with_a_diverged_one(tail, tmp_path):
    tail({0: 1e-3})
    with pytest.warns(OutcomeWarning):
        whole = dmft.solve(RUN.replace(replicas=4), quiet=True)
        dmft.solve(RUN.replace(replicas=2), tmp_path / "a.h5", quiet=True)
        extended = dmft.solve(RUN.replace(replicas=4), tmp_path / "a.h5", resume=True, quiet=True)
    for name in ("m", "m_error", "loss", "lost"):
        np.testing.assert_array_equal(whole.curves[name], extended.curves[name])
    np.testing.assert_array_equal(whole.kernels.M_C, extended.kernels.M_C)


def test_the_bound_that_is_told_is_that_of_the_estimator(tail):
    tail({0: 1e-3})
    with pytest.warns(OutcomeWarning, match=r"1 of 4 replicas diverged.*more than 0\.0005 of the weight of the samples left"):
        dmft.solve(RUN, quiet=True, estimator=dmft.Estimator(most_lost=5e-4))


def test_fewer_than_half_are_no_result(tail, tmp_path):
    tail({0: 1e-3, 1: 1e-3, 3: 1e-3})
    with pytest.warns(OutcomeWarning, match="3 of 4 replicas diverged, the first at t = .*fewer than half: no result"):
        assert dmft.solve(RUN, quiet=True).outcome == "diverged"


def test_lost_weight_says_up_to_which_dimension(tail):
    """1/(alpha lost), with lost the mean over replicas."""
    tail({0: 4e-5})
    with pytest.warns(ResultWarning, match="far below 4e\\+04 simulations have no such samples"):
        theory = dmft.solve(RUN, quiet=True)
    assert theory.outcome == "done" and theory.dimension_bound == pytest.approx(1 / (2.5 * 1e-5), rel=1e-3)
