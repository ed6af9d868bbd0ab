"""The laws of the mini-batches."""

from __future__ import annotations

import numpy as np
import pytest

from dmft.core.streams import key
from sgd_sim.kernels import minibatch
from sgd_sim.kernels.minibatch import threshold

STREAM = key(3, "test/minibatch")


def independent(kind, samples, steps, ell, on=0.0, off=0.0):
    """(steps, samples) draws of a kind whose rows are independent."""
    s, words, path = np.zeros(samples, np.uint8), minibatch.make_words(samples), []
    for step in range(steps):
        minibatch.draw_rows(kind, s, 0, samples, STREAM, step, threshold(ell), threshold(on), threshold(off), words)
        path.append(s.copy())
    return np.array(path, float)


def fixed(kind, samples, steps, count):
    s, order, path = np.zeros(samples, np.uint8), minibatch.make_order(samples), []
    for step in range(steps):
        minibatch.draw_fixed_size(kind, s, 0, count, STREAM, step, order)
        path.append(s.copy())
    return np.array(path, float)


def z_of_mean(values, expected):
    return abs(values.mean() - expected) / (values.std(ddof=1) / np.sqrt(values.size))


@pytest.mark.parametrize("ell", [0.01, 0.3, 1.0])
def test_bernoulli(ell):
    s = independent(minibatch.BERNOULLI, 1001, 400, ell)
    if ell == 1.0:
        assert s.all()
        return
    counts = s.sum(axis=1)
    assert z_of_mean(counts, 1001 * ell) < 4
    assert abs(counts.var() / (1001 * ell * (1 - ell)) - 1) < 5 * np.sqrt(2 / 400)
    assert abs(np.mean((s[1:] - ell) * (s[:-1] - ell)) / (ell * (1 - ell))) < 5 / np.sqrt(s.size)


def test_without_replacement_takes_exactly_so_many():
    s = fixed(minibatch.WITHOUT_REPLACEMENT, 101, 2000, 30)
    assert set(np.unique(s)) == {0.0, 1.0}
    assert (s.sum(axis=1) == 30).all()
    ell = 30 / 101
    error = np.sqrt(ell * (1 - ell) / 2000)
    assert np.abs(s.mean(axis=0) - ell).max() < 4.5 * error
    pair = s[:, 7] * s[:, 8]
    assert abs(pair.mean() - 30 * 29 / (101 * 100)) < 5 * np.sqrt(0.09 / 2000)


def test_with_replacement_counts_are_multinomial():
    s = fixed(minibatch.WITH_REPLACEMENT, 100, 4000, 50)
    assert (s.sum(axis=1) == 50).all()
    assert s.max() >= 3
    # close to Poisson(l): variance l (1 - 1/M), twice that of bernoulli at l = 0.5
    assert abs(s.var() / (0.5 * 0.99) - 1) < 5 * np.sqrt(3.0 / s.size)
    assert abs(s.var() / 0.25 - 1) > 0.5


def test_with_replacement_every_row_has_its_share():
    """Five draws of five rows: each row once on average, with standard deviation 0.89; five standard errors of the mean."""
    counts = fixed(minibatch.WITH_REPLACEMENT, 5, 4000, 5)
    assert np.abs(counts.mean(axis=0) - 1).max() < 5 * np.sqrt(0.8 / 4000)


@pytest.mark.parametrize("ell, eta_over_tau", [(0.5, 0.05), (0.2, 0.1), (0.9, 0.3)])
def test_persistent_chain(ell, eta_over_tau):
    """Eq. 7: stationary from the start with P(s = 1) = l; correlations decay as (1 - eta/(l tau))^k."""
    off = (1 - ell) * eta_over_tau / ell
    s = independent(minibatch.PERSISTENT, 20000, 60, ell, eta_over_tau, off)
    error = np.sqrt(ell * (1 - ell) / 20000)
    assert np.abs(s.mean(axis=1) - ell).max() < 4.5 * error
    for lag in (1, 3, 10):
        correlation = np.mean((s[20] - ell) * (s[20 + lag] - ell)) / (ell * (1 - ell))
        assert abs(correlation - (1 - eta_over_tau - off) ** lag) < 5 / np.sqrt(20000) * 1.5
    # holding times: a sample stays out for tau on average
    out = (s[:-1] == 0)
    assert abs(np.mean(s[1:][out]) - eta_over_tau) < 5 * np.sqrt(eta_over_tau / out.sum())


def test_persistent_chain_is_not_bernoulli():
    s = independent(minibatch.PERSISTENT, 20000, 3, 0.5, 0.05, 0.05)
    assert np.mean(s[1] == s[2]) > 0.9


def test_draws_of_a_range_are_those_of_the_whole():
    whole, part, words = np.zeros(1000, np.uint8), np.zeros(1000, np.uint8), minibatch.make_words(1000)
    arguments = (threshold(0.4), 0, 0, words)
    minibatch.draw_rows(minibatch.BERNOULLI, whole, 0, 1000, STREAM, 7, *arguments)
    for first in range(0, 1000, 96):
        minibatch.draw_rows(minibatch.BERNOULLI, part, first, min(first + 96, 1000), STREAM, 7, *arguments)
    assert np.array_equal(whole, part)
