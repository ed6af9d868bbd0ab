"""Memory sums of the tangents, one step at a time and several steps ahead, against plain matrices."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from dmft.equations.history import History
from dmft.samples.tangents import MEMORY_TILE, gather, precompute


@pytest.mark.parametrize("first", [16, MEMORY_TILE, MEMORY_TILE + 32])
def test_sums_ahead_are_those_of_each_step(first):
    """Three samples, eight steps ahead, also over more columns than a tile holds, where a column lost at its edge would count.
    Whole numbers: every order of the sums gives the same bits."""
    rng, history = np.random.default_rng(2), History(first + 16)
    square = np.tril(rng.integers(-9, 10, (3, history.slots, history.slots)), -1).astype(float)
    T = np.zeros((3, history.packed))
    for sample in range(3):
        for row in range(first):
            T[sample, history.offset[row] : history.offset[row] + history.stop[row]] = square[sample, row, : history.stop[row]]
    memories = rng.integers(-9, 10, (8, history.slots)).astype(float)
    ahead = np.full((3, 8, history.slots), np.nan)
    precompute(memories, T, history.offset, history.stop, first, ahead)
    assert_array_equal(ahead, np.einsum("si,kij->ksj", memories[:, :first], square[:, :first]))
    for sample in range(3):
        for step in range(8):
            alone = np.zeros(history.slots)
            gather(T[sample], memories[step], history.offset, history.stop, 0, first, alone)
            assert_array_equal(alone, ahead[sample, step])
