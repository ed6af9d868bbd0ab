"""Statistics over replicas: kernels by running sums against all of them at once, and the bias from half the samples."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dmft.core.averages import standard_error
from dmft.result.statistics import DIVERGED, ReplicaStatistics, Solution


def solution(m, half_m, kernel, outcome: str = "done") -> Solution:
    return Solution({"m": np.array(m)}, {"C": np.array(kernel)}, np.array(half_m), outcome)


@pytest.mark.parametrize("lost", [None, 0, 2])
def test_running_sums_are_mean_and_standard_error(lost):
    """Four replicas, of which one may have diverged: mean and error of a kernel are those of the others together."""
    kernels = np.random.default_rng(1).standard_normal((4, 3, 3)) + 10
    statistics = ReplicaStatistics()
    for k, kernel in enumerate(kernels):
        statistics.add(solution([0.0], [0.0], kernel, DIVERGED if k == lost else "done"))
    kept = np.delete(kernels, [] if lost is None else lost, axis=0)
    assert_allclose(statistics.kernel_mean["C"], kept.mean(axis=0), rtol=1e-14)
    assert_allclose(statistics.kernel_error("C"), standard_error(kept), rtol=1e-12)


def test_the_bias_is_what_more_samples_would_take_away():
    """m(K) = m + c/K with c/K = 0.1: half the samples are off by 0.2, and m - bias is what infinitely many would give."""
    statistics = ReplicaStatistics()
    for exact in (0.3, 0.5, 0.7):
        statistics.add(solution([0.0, exact + 0.1], [0.0, exact + 0.2], [[1.0]]))
    bias, error = statistics.bias()
    assert_allclose(bias, [0.0, 0.1], atol=1e-15)
    assert_allclose(error, 0.0, atol=1e-15)
    assert_allclose(statistics.mean("m") - bias, [0.0, 0.5])


def test_a_half_that_diverged_alone_is_not_in_the_bias():
    statistics = ReplicaStatistics()
    for half in (0.52, np.nan, 0.56):
        statistics.add(solution([0.5], [half], [[1.0]]))
    bias, error = statistics.bias()
    assert_allclose(bias, [0.04])
    assert_allclose(error, [0.02])
