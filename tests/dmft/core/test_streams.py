"""Random streams: known answers, moments, independence, prefix stability."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr

from dmft.core.streams import generator, key, normals, philox, uniforms

ONES = np.uint64(0xFFFFFFFFFFFFFFFF)
KEY_CHI = 15866365306849809058
FIRST_RANDOM = 0.5235838828208691


@pytest.mark.parametrize("stream, index, step, words", [
    (np.uint64(0), np.uint64(0), np.uint64(0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    (ONES, ONES, ONES, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
])
def test_philox_known_answers(stream, index, step, words):
    """The test vectors published with Random123, words from low to high."""
    low, high = (int(word) for word in philox(stream, index, step))
    assert (low & 0xFFFFFFFF, low >> 32, high & 0xFFFFFFFF, high >> 32) == words


def test_moments_of_normals():
    """Mean, variance, skewness and kurtosis of 400 000 normals, each within 4.5 of its standard errors."""
    x = normals(key(1, "moments"), 0, (1000, 400)).ravel()
    for power, moment, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert abs(np.mean(x**power) - moment) < 4.5 * np.sqrt(variance / x.size)


def test_uniforms_are_uniform_and_open():
    u = uniforms(key(1, "uniform"), 0, (1000, 200)).ravel()
    assert u.min() > 0.0 and u.max() < 1.0
    counts = np.histogram(u, 64, (0.0, 1.0))[0]
    expected = u.size / 64
    chi2 = np.sum((counts - expected) ** 2 / expected)
    assert abs(chi2 - 63) < 4.5 * np.sqrt(2 * 63)


def test_normals_follow_the_normal_law():
    x = np.sort(normals(key(2, "law"), 0, (500, 200)).ravel())
    distance = np.max(np.abs(ndtr(x) - (np.arange(x.size) + 0.5) / x.size))
    assert distance < 2.2 / np.sqrt(x.size)       # Kolmogorov: 1e-4


def _correlation(a: np.ndarray, b: np.ndarray) -> float:
    return float(abs(np.mean(a * b)) * np.sqrt(a.size))


@pytest.mark.parametrize("other", [(1, "s", 0), (1, "chi", 1), (2, "chi", 0), (1, "chi", 0, 0)])
def test_streams_of_other_names_are_independent(other):
    shape = (500, 200)
    a, b = normals(key(1, "chi", 0), 0, shape), normals(key(*other), 0, shape)
    assert _correlation(a, b) < 4.5
    assert _correlation(a**2 - 1, b**2 - 1) < 4.5 * 2


def test_neighbours_in_a_stream_are_independent_and_the_test_would_see_otherwise():
    a = normals(key(1, "chi", 0), 0, (500, 200))
    assert _correlation(a[1:], a[:-1]) < 4.5
    assert _correlation(a[:, 1:], a[:, :-1]) < 4.5
    assert _correlation(a[1:], a[:-1] + 0.03 * a[1:]) > 4.5        # 3 % of correlation would be seen


def test_longer_and_later_parts_keep_the_numbers():
    stream = key(3, "prefix")
    whole = normals(stream, 0, (20, 31))
    np.testing.assert_array_equal(normals(stream, 0, (20, 8)), whole[:, :8])
    np.testing.assert_array_equal(normals(stream, 0, (20, 7)), whole[:, :7])
    np.testing.assert_array_equal(normals(stream, 5, (4, 31)), whole[5:9])
    np.testing.assert_array_equal(uniforms(stream, 5, (4, 9)), uniforms(stream, 0, (9, 31))[5:, :9])


def test_generators_are_named_too():
    np.testing.assert_array_equal(generator(1, "data", 3).random(5), generator(1, "data", 3).random(5))
    assert generator(1, "data", 3).random() != generator(1, "data", 4).random()


def test_keys_are_those_of_version_1():
    """Changing how keys are made would change every published result."""
    assert int(key(1, "chi", 0)) == KEY_CHI
    assert generator(1, "chi", 0).random() == FIRST_RANDOM
