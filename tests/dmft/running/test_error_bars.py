"""The error bars are right: over many seeds (m - truth)/m_error follows Student's t, by plain sampling, with variance reduction,
and where the identity [ibp] completes the response."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import dmft
from dmft.samples.sampling import PARTS
from tests.marks import slow
from tests.solver_cases import make_run

pytestmark = pytest.mark.statistical

SEEDS, REPLICAS = 100, 4
TIMES, LATE = [2, 4, 6], [12, 14, 16]
# Tails widen the law of a variance. Over 400 replicas of these runs the excess kurtosis of m is 0.67, 0.18, 0.17 at the three times
# (plain) and at most 0.06 (reduced). With 0.67 the logarithm of the ratio below has a standard deviation of
# sqrt(2/99 + 0.67/400 + 2/300 + 0.67/400) = 0.174 instead of 0.164: at 3.9 of them, a factor of 1.04.
TAILS = 1.1


def truth_and_runs(parts: list[str], times: list[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Reference m (75 times as many samples: 0.12 of their error), and m, m_error of many small runs, (seeds, times)."""
    run = make_run({"kind": "persistent_sgd", "batch_fraction": 0.5, "persistence": 0.1}, {"m0": 0.5}, steps=times[-1],
                   samples=400, replicas=REPLICAS, variance_reduction=parts)
    reference = dmft.solve(run.replace({"theory.samples": 20_000, "theory.replicas": 6, "theory.seed": 1000}), quiet=True)
    results = [dmft.solve(run.replace({"theory.seed": seed}), quiet=True) for seed in range(SEEDS)]
    return (reference.m[times], np.array([r.m[times] for r in results]), np.array([r.m_error[times] for r in results]))


@pytest.mark.long
@pytest.mark.parametrize("parts, times", [slow([], TIMES), (["sobol", "weights", "stein"], TIMES), slow(list(PARTS), LATE)],
                         ids=["plain", "reduced", "completed"])
def test_z_scores_follow_student(parts, times):
    truth, m, error = truth_and_runs(parts, times)
    z = (m - truth) / error
    for i in range(len(TIMES)):
        assert stats.kstest(z[:, i], stats.t(REPLICAS - 1).cdf).pvalue > 1e-4
    # and the spread over seeds is what the bars say: chi-squared with SEEDS * (REPLICAS - 1) degrees of freedom
    ratio = m.var(axis=0, ddof=1) / np.mean(error**2, axis=0)
    low, high = stats.f(SEEDS - 1, SEEDS * (REPLICAS - 1)).ppf([5e-5, 1 - 5e-5])
    assert np.all((ratio > low / TAILS) & (ratio < high * TAILS)), ratio
    # twins: bars three times too small fail the first test, bars two times too small the second
    assert all(stats.kstest(3 * z[:, i], stats.t(REPLICAS - 1).cdf).pvalue < 1e-4 for i in range(len(TIMES)))
    assert np.all(4 * ratio > high * TAILS)
