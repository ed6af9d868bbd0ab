"""Four rows at a time: the sums to the last bit, and what is left to the caller."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from numba import njit
from numba.core.errors import TypingError
from numpy.testing import assert_array_equal

from dmft.core.streaming import STREAM_ROWS, STREAM_WIDTH, add_rows


@njit
def added(data, start, length, weights, out):
    return add_rows(data, start, length, weights, out)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("length", [4, 16, 20, 44])
def test_rows_are_added_in_order_with_one_rounding_each(dtype, length):
    rng, start = np.random.default_rng(5), 3
    data, before = rng.standard_normal(start + STREAM_ROWS * length).astype(dtype), rng.standard_normal(length).astype(dtype)
    weights, out = tuple(rng.standard_normal(STREAM_ROWS).astype(dtype)), before.copy()
    done = added(data, start, length, weights, out)
    assert done == length // STREAM_WIDTH * STREAM_WIDTH
    want = before.copy()
    for j in range(done):
        for k, weight in enumerate(weights):
            # A Fraction becomes the nearest double; that this is then rounded to single precision once more changes nothing here.
            exact = Fraction(float(want[j])) + Fraction(float(weight)) * Fraction(float(data[start + k * length + j]))
            want[j] = dtype(float(exact))
    assert_array_equal(out, want)


def test_numbers_of_two_precisions_are_refused():
    with pytest.raises(TypingError, match="of one type"):
        added(np.zeros(64, np.float32), 0, 16, (1.0, 1.0, 1.0, 1.0), np.zeros(16, np.float32))
