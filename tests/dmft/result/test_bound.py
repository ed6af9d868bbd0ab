"""The bound on |z| holds for a whole table of times, not for one of them."""

from __future__ import annotations

import numpy as np
import pytest

from dmft.result.comparison import Comparison, Curve


@pytest.mark.parametrize("times", [1, 50])
def test_one_table_in_a_hundred_exceeds_the_bound(times):
    """4000 tables in which theory and simulation agree, with independent times: 40 +- 6.3 exceed it anywhere. A bound made for
    one time would be exceeded by two tables in five of 50 times."""
    rng, tables, count = np.random.default_rng(5), 4000, 8
    replicas, instances = rng.standard_normal((2, tables, count, times))
    means = replicas.mean(axis=1), instances.mean(axis=1)
    errors = replicas.std(axis=1, ddof=1) / np.sqrt(count), instances.std(axis=1, ddof=1) / np.sqrt(count)
    exceeded, t = 0, np.arange(times)
    for i in range(tables):
        theory, simulation = (Curve(t, mean[i], error[i], count) for mean, error in zip(means, errors))
        z = (theory.mean - simulation.mean) / np.hypot(theory.error, simulation.error)
        exceeded += np.abs(z).max() > Comparison("m", t, theory, simulation, z).bound
    # Bonferroni and the largest of the bounds err on the safe side: fewer is fine, more is not.
    assert 2 <= exceeded < 40 + 5 * 6.3
