"""Statistics over replicas: kernels by running sums against all of them at once, and the bias from half the samples."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dmft.core.averages import standard_error
from dmft.core.tree import flatten
from dmft.result.statistics import (
    BIAS,
    DIVERGED,
    HISTORY_ERROR,
    ReplicaStatistics,
    RunningMeans,
    Solution,
    finite_sample_bias,
    history_error,
)


def solution(m, half_m, kernel, outcome: str = "done", coarse_m=None) -> Solution:
    """One replica whose q is twice its m, in companions too."""
    whole, half, coarse = ({"m": np.array(curve), "q": 2.0 * np.array(curve)} for curve in (m, half_m, half_m if coarse_m is None
                                                                                         else coarse_m))
    told = {BIAS: finite_sample_bias(whole, half)} | ({HISTORY_ERROR: history_error(half, coarse)} if coarse_m is not None else {})
    return Solution(whole, {"C": np.array(kernel)}, told, outcome)


@pytest.mark.parametrize("lost", [None, 0, 2])
def test_running_sums_are_mean_and_standard_error(lost):
    """Four replicas, of which one may have diverged: mean and error of a kernel are those of the others together."""
    kernels = np.random.default_rng(1).standard_normal((4, 3, 3)) + 10
    statistics = ReplicaStatistics()
    for k, kernel in enumerate(kernels):
        statistics.add(solution([0.0], [0.0], kernel, DIVERGED if k == lost else "done"))
    kept = np.delete(kernels, [] if lost is None else lost, axis=0)
    assert_allclose(statistics.kernels.mean["C"], kept.mean(axis=0), rtol=1e-14)
    assert_allclose(statistics.kernels.error("C"), standard_error(kept), rtol=1e-12)


def test_the_bias_is_what_more_samples_would_take_away():
    """m(K) = m + c/K with c/K = 0.1: half the samples are off by 0.2, and m - bias is what infinitely many would give."""
    statistics = ReplicaStatistics()
    for exact in (0.3, 0.5, 0.7):
        statistics.add(solution([0.0, exact + 0.1], [0.0, exact + 0.2], [[1.0]]))
    told = statistics.estimates(BIAS)
    assert_allclose(told["m"], [0.0, 0.1], atol=1e-15)
    assert_allclose(told["m_error"], 0.0, atol=1e-15)
    for name in ("m", "q"):
        assert_allclose(statistics.mean(name) - told[name], [0.0, {"m": 0.5, "q": 1.0}[name]])
    assert statistics.estimates(HISTORY_ERROR) == {}


def test_a_half_that_diverged_alone_is_not_in_the_bias():
    statistics = ReplicaStatistics()
    for half in (0.52, np.nan, 0.56):
        statistics.add(solution([0.5], [half], [[1.0]]))
    told = statistics.estimates(BIAS)
    assert_allclose(told["m"], [0.04])
    assert_allclose(told["m_error"], [0.02])


def test_the_history_error_is_that_of_replicas_with_a_coarse_companion():
    """Every second replica has one. m(q blocks) = m + c/q^2 with c/q^2 = 0.1: half the blocks are off by 0.4. Means go through
    their arrays in between, as in a checkpoint, with the same bits."""
    straight, resumed = ReplicaStatistics(), ReplicaStatistics()
    for k, half in enumerate((0.61, 0.9, 0.6, 0.3, 0.62)):
        one = solution([0.5], [half], [[1.0]], coarse_m=None if k % 2 else [half + 0.3 + 0.03 * (k == 4)])
        straight.add(one)
        resumed = ReplicaStatistics.from_arrays(flatten(resumed.arrays())) if k else resumed
        resumed.add(Solution.from_arrays(flatten(one.arrays())))
    told = straight.estimates(HISTORY_ERROR)
    assert straight.told[HISTORY_ERROR].count == 3 and straight.told[BIAS].count == 5
    assert_allclose(told["m"], [0.1 + 0.01 / 3])
    assert_allclose(told["q"], 2.0 * told["m"])
    assert_allclose(told["m_error"], [standard_error(np.array([0.1, 0.1, 0.11]))])
    for what in (BIAS, HISTORY_ERROR):
        ours, theirs = straight.estimates(what), resumed.estimates(what)
        assert list(ours) == list(theirs) and all(np.array_equal(ours[name], theirs[name]) for name in ours)


def test_what_diverged_counts_until_something_came_to_its_end():
    means = RunningMeans()
    for value, ended in ((5.0, False), (7.0, False)):
        means.add({"m": np.array([value])}, ended)
    assert means.count == 2 and means.mean["m"] == [6.0]
    for value, ended in ((1.0, True), (9.0, False), (2.0, True)):
        means.add({"m": np.array([value])}, ended)
    assert means.count == 2 and means.mean["m"] == [1.5]
