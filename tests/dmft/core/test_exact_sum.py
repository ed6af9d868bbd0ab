"""Sums without an order: right to the last bits, and the same however their terms are grouped."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dmft.core import exact_sum
from dmft.core.parallel import Comm

SPREADS = [(0, 0), (-3, 3), (-12, 12), (-60, 60)]  # decimal orders of magnitude of the terms of a sum


def numbers(spread: tuple[int, int], sums: int = 700, terms: int = 64) -> np.ndarray:
    """Terms (terms, sums), sums of very different size."""
    rng = np.random.default_rng(7)
    scale = 10.0 ** rng.integers(*spread, (terms, sums), endpoint=True)
    return rng.standard_normal((terms, sums)) * scale * 10.0 ** rng.integers(-200, 200, sums)


def digits(terms: np.ndarray) -> np.ndarray:
    out = np.empty((terms.shape[1], exact_sum.SUM_NUMBERS), np.int64)
    exact_sum.digits(np.ascontiguousarray(terms)[None], out)
    return out


@pytest.mark.parametrize("spread", SPREADS)
def test_sums_are_right(spread):
    terms = numbers(spread)
    right = [sum(map(Fraction, column)) for column in terms.T.tolist()]
    error = [abs(Fraction(value) - exact) for value, exact in zip(Comm().sum_exact(terms).tolist(), right, strict=True)]
    # the result is rounded, and each term is cut at 2**-63 of the largest one
    assert all(e <= abs(exact) * Fraction(2) ** -52 + 64 * Fraction(2) ** -63 * Fraction(top)
               for e, exact, top in zip(error, right, np.abs(terms).max(axis=0).tolist(), strict=True))


@pytest.mark.parametrize("spread", SPREADS)
def test_grouping_and_order_change_nothing(spread):
    terms = numbers(spread)
    order = np.random.default_rng(1).permutation(len(terms))
    assert np.any(terms[order].sum(axis=0) != terms.sum(axis=0))  # plain sums do depend on it
    groups = [digits(terms[part]) for part in np.split(order, [1, 20, 20, 50])]
    for way in (groups, groups[::-1]):
        total = way[0].copy()
        for more in way[1:]:
            exact_sum.add(more, total)
        np.testing.assert_array_equal(total, digits(terms))


@pytest.mark.parametrize("scale", [5e-324, 1e-310, 1e-280, 1e-30, 1.0, 1e30, 1e300, 4e307])
def test_any_scale(scale):
    terms = np.array([[1.0, -1.0], [2.0, 1.0], [1.0, 0.0]]) * scale
    np.testing.assert_array_equal(Comm().sum_exact(terms), [4.0 * scale, 0.0])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_term_that_is_not_finite_spoils_its_own_sum(bad):
    terms = np.array([[1.0, bad, 3.0], [2.0, 1.0, 4.0]])
    np.testing.assert_array_equal(Comm().sum_exact(terms), [3.0, np.nan, 7.0])
    total = digits(terms[:1])
    exact_sum.add(digits(terms[1:]), total)
    np.testing.assert_array_equal(exact_sum.value(total), [3.0, np.nan, 7.0])


def test_no_terms():
    np.testing.assert_array_equal(Comm().sum_exact(np.empty((0, 3))), np.zeros(3))
    assert Comm().sums_exact([]) == []


def test_several_arrays_at_once():
    a, b = numbers((-3, 3), 5), numbers((-3, 3), 3, 11)
    together = Comm().sums_exact([a, b])
    np.testing.assert_array_equal(together[0], Comm().sum_exact(a))
    np.testing.assert_array_equal(together[1], Comm().sum_exact(b))


@pytest.mark.slow
def test_threads_change_nothing():
    terms = numbers((-12, 12), sums=2000)
    out, work = np.empty((2000, exact_sum.SUM_NUMBERS), np.int64), np.empty((3, 5, exact_sum.SUMS_TOGETHER))
    exact_sum._digits_shared(terms[None], 3, out, work, work.view(np.int64))
    np.testing.assert_array_equal(out, digits(terms))
