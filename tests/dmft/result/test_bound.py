"""The bound on |z| holds for a whole table of times, not for one of them."""

from __future__ import annotations

import numpy as np
import pytest

from dmft.result.comparison import DISAGREE, Comparison, Curve, judged_together, of_pair


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


def test_tables_that_are_judged_together_share_their_chance():
    """z = 3.4 at one of five times with many degrees of freedom: chance has it in 1 of 300 tables, but in 1 of 30 sets of ten. What
    is exact, as a norm on a sphere, is no test."""
    t, zero = np.arange(5.0), np.zeros(5)
    exact = of_pair("C[0,0]", Curve(t, zero + 1.0, zero + 1e-16, 1000), Curve(t, zero + 1.0, zero + 1e-8, 1000))
    off = of_pair("m[0,0]", Curve(t, np.array([3.4, 0.0, 0.0, 0.0, 0.0]), zero, 1000), Curve(t, zero, zero + 1.0, 1000))
    assert off.verdict == judged_together([off, *[exact] * 9])[0].verdict == DISAGREE
    assert all(table.worst < table.bound and table.among == 10 for table in judged_together([off] * 10))
