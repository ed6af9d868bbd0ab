"""Vectorised normals: the right words, the right function of them, the right law."""

import numpy as np
from scipy import stats

from dmft.core import streams
from sgd_sim.kernels.fast_normals import BLOCK, buffers, fill_block, philox_words


def block(key, index, first):
    out = np.empty(BLOCK)
    fill_block(key, index, first, out, buffers())
    return out


def test_words_are_those_of_the_streams():
    key = streams.key(7, "words")
    one, two = np.empty(16, np.uint64), np.empty(16, np.uint64)
    philox_words(key, 2**33 + 5, 11, one, two)
    for i in range(16):
        assert (one[i], two[i]) == streams.philox(key, 2**33 + 5, 11 + i)


def test_normals_are_box_muller_of_the_words():
    key = streams.key(1, "normals")
    found = block(key, 3, 5 * BLOCK)
    half, quarter = BLOCK // 2, BLOCK // 4
    for i in (0, 1, 77, quarter - 1):
        for word, place in zip(streams.philox(key, 3, 5 * quarter + i), (i, quarter + i), strict=True):
            low, high = int(word) & 0xFFFFFFFF, int(word) >> 32
            radius = np.sqrt(-2.0 * np.log(((low >> 1) + 0.5) * 2.0**-31))
            angle = 2.0 * np.pi * (high / 2.0**32) - np.pi / 4
            np.testing.assert_allclose(
                [found[place], found[half + place]], [radius * np.cos(angle), radius * np.sin(angle)], atol=3e-6
            )


def test_law_and_independence():
    key = streams.key(2, "law")
    x = np.concatenate([block(key, 9, i * BLOCK) for i in range(2000)])
    assert stats.kstest(x, "norm").pvalue > 1e-4
    for power, exact in ((1, 0.0), (2, 1.0), (3, 0.0), (4, 3.0), (6, 15.0)):
        assert abs(np.mean(x**power) - exact) < 4.5 * np.std(x**power) / np.sqrt(x.size)
    rows = np.array([block(key, i, 0) for i in range(400)])
    correlation = np.corrcoef(rows.T) - np.eye(BLOCK)
    assert np.abs(correlation).max() < 6.5 / np.sqrt(400)
