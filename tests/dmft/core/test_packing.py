"""Arrays packed without loss: the same bits for any numbers, small where rows foretell each other, refused where damaged."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from dmft.core import packing
from dmft.core.packing import Guide, pack, unpack

KINDS = [np.float32, np.float64]
LENGTH = np.array([4, 4, 8, 8, 12, 12, 12, 3])
BEGIN = np.cumsum(LENGTH) - LENGTH
SIZE, CENTRE = np.array([1.0, 2, 2, 1, 4, 4, 8, 8]), np.array([0.0, 1.5, 3.5, 5, 7.5, 11.5, 17, 25])
GUIDE = Guide.through(BEGIN[::-1], LENGTH[::-1], SIZE, CENTRE)
NUMBERS = int(LENGTH.sum())  # no multiple of the eight that are written together


def bits(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).view(np.uint8)


def awkward(kind: type) -> np.ndarray:
    """Any bits at all, and lines of what is special: no numbers, infinite ones, zeros of both signs, smallest and largest ones."""
    rng = np.random.default_rng(1)
    whole = rng.integers(0, 256, (40, NUMBERS * np.dtype(kind).itemsize), np.uint8).view(kind)
    limits = np.finfo(kind)
    special = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, limits.max, limits.min, limits.tiny,
                        limits.smallest_subnormal, 1.0], kind)
    return np.concatenate([whole, rng.choice(special, (40, NUMBERS)), np.zeros((1, NUMBERS), kind)])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("at_once", [1, 300, 1 << 22], ids=["line by line", "some lines", "all lines"])
def test_any_bits_come_back(monkeypatch, kind, at_once):
    monkeypatch.setattr(packing, "PACKED_AT_ONCE", at_once)
    array = awkward(kind)
    found = unpack(pack(array, GUIDE))
    assert found.dtype == kind and found.shape == array.shape
    assert_array_equal(bits(found), bits(array))


@pytest.mark.parametrize("shape", [(0, NUMBERS), (3, 0)])
def test_nothing_is_packed_too(shape):
    guide = GUIDE if shape[1] else Guide.through(*np.zeros((4, 0)))
    assert unpack(pack(np.zeros(shape), guide)).shape == shape


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_in_no_row_comes_back_as_zero(kind):
    array = np.random.default_rng(2).normal(size=(5, NUMBERS + 9)).astype(kind)
    other = array.copy()
    other[:, NUMBERS:] = np.nan
    assert_array_equal(pack(array, GUIDE), pack(other, GUIDE))
    found = unpack(pack(other, GUIDE))
    assert_array_equal(found[:, :NUMBERS], array[:, :NUMBERS])
    assert not bits(found[:, NUMBERS:]).any()


@pytest.mark.parametrize(("kind", "most"), [(np.float32, 0.6), (np.float64, 0.8)])
def test_rows_on_a_straight_line_are_small(kind, most):
    """Sums over blocks of a nearly straight course; and noise is no larger than it is, but for a byte of each eight numbers."""
    size, rows = np.repeat([1, 2, 4, 8], 12), 48
    centre = np.cumsum(size) - size / 2
    course = 3.0 + 0.01 * centre + 1e-3 * np.sin(centre / 50)
    array = (np.outer(np.random.default_rng(3).normal(size=200), course) * size).astype(kind)
    guide = Guide.through(np.arange(rows), np.ones(rows, np.int64), size, centre)
    assert_array_equal(unpack(pack(array, guide)), array)
    assert len(pack(array, guide)) < most * array.nbytes
    noise = np.random.default_rng(4).integers(0, 256, array.nbytes, np.uint8).view(kind).reshape(array.shape)
    head = 8 * (packing.STREAM_HEAD + 5 * rows + len(noise))
    assert noise.nbytes < len(pack(noise, guide)) <= noise.nbytes + noise.size // 8 + head
    alone = guide._replace(one=guide.alone, two=0.0 * guide.two)  # twin: foretold by one row
    assert len(pack(array, alone)) > 1.05 * len(pack(array, guide))


def test_a_twin_read_with_another_guide_is_another_array():
    """The guide is in the stream, because the numbers do not come back without it."""
    array = np.random.default_rng(5).normal(size=(5, NUMBERS))
    stream = pack(array, GUIDE)
    place = 8 * (packing.STREAM_HEAD + 3 * len(BEGIN)) + 8 * 4
    stream[place : place + 8] = np.array([0.7]).view(np.uint8)
    assert not np.array_equal(unpack(stream), array)


@pytest.mark.parametrize("damage", ["cut", "longer", "size", "lines", "numbers", "rows", "begin", "length", "width", "negative"])
def test_a_damaged_stream_is_refused(damage):
    array = np.random.default_rng(6).normal(size=(5, NUMBERS))
    stream, rows = pack(array, GUIDE), len(BEGIN)
    numbers = {"size": 0, "lines": 1, "numbers": 2, "rows": 3, "begin": packing.STREAM_HEAD, "length": packing.STREAM_HEAD + rows,
               "negative": packing.STREAM_HEAD + 5 * rows}
    if damage == "cut":
        stream = stream[:-1]
    elif damage == "longer":
        stream = np.append(stream, np.uint8(0))
    elif damage == "width":
        stream[8 * (packing.STREAM_HEAD + 5 * rows + len(array))] += 1
    else:
        place = slice(8 * numbers[damage], 8 * numbers[damage] + 8)
        stream[place] = np.array([-1 if damage == "negative" else 1 << 40]).view(np.uint8)
    with pytest.raises(ValueError):
        unpack(stream)
    for length in range(0, 8 * packing.STREAM_HEAD, 7):
        with pytest.raises(ValueError):
            unpack(stream[:length])


@pytest.mark.parametrize("place", range(packing.STREAM_HEAD))
def test_another_number_in_the_head_is_refused(place):
    """A group of eight numbers more or less, too."""
    stream = pack(np.zeros((3, NUMBERS)), GUIDE)
    here = stream[8 * place : 8 * place + 8].view(np.int64)
    for number in (here[0] - 8, here[0] + 8):
        here[0] = number
        with pytest.raises(ValueError):
            unpack(stream)
    for number in (-1, -8, np.iinfo(np.int64).min):  # at once: indices from the end would lead out of the arrays
        here[0] = number
        with pytest.raises(ValueError, match="no head"):
            unpack(stream)


@pytest.mark.parametrize("what", [np.zeros(200), np.zeros((40, 8), np.uint8), np.array(3, np.uint8), np.zeros(0, np.uint8)])
def test_what_is_no_stream_is_refused(what):
    with pytest.raises(ValueError):
        unpack(what)


def test_a_line_is_not_read_beyond_its_bytes():
    """The loops as Python has them, which notices what the compiled ones cannot: a width that the bytes do not have, and one that
    no number has."""
    def read(*packed, kind=np.int64, count=9):
        return packing._read_line.py_func(np.array(packed, np.uint8), np.zeros(count, kind))

    assert read(2, 1, 9, 9, 1) and read(0, 0)
    assert not read(2, 1, 9, 9) and not read(9, 0, *range(8)) and not read(2, 1, 9, 9, 1, 1) and not read(2)
    for kind, most in ((np.int32, 32), (np.int64, 64)):
        assert read(most, 0, *[7] * most, kind=kind) and not read(most + 1, 0, *[7] * (most + 1), kind=kind)


@pytest.mark.parametrize("kind", KINDS)
def test_no_guess_is_taken_that_is_no_number(kind):
    """Nor an infinite one, because what a processor makes of these is its own business: zero is foretold in its place."""
    def left(*before):
        array = np.array([[*before, 1.5]], kind)
        found = np.zeros((1, 3), packing._WHOLE[np.dtype(kind).itemsize])
        packing._leave(array, array.view(found.dtype), guide, found)
        return found[0, 2]

    guide = Guide.through(np.arange(3), np.ones(3, np.int64), np.ones(3), np.arange(3.0))
    of_zero, most = left(0.0, 0.0), np.finfo(kind).max
    for before in ((np.nan, 1.0), (1.0, np.nan), (np.inf, 1.0), (1.0, -np.inf), (-most, most), (np.nan, np.nan)):
        if kind is np.float64 or not np.isfinite(before).all():  # in double precision twice the largest float is a guess
            assert left(*before) == of_zero
    assert left(1.0, 1.25) == 0 != of_zero


def test_random_bytes_are_refused_or_read_without_harm():
    """Any byte of a stream changed: an error or an array, never more than the stream can hold."""
    rng = np.random.default_rng(7)
    sound = pack(rng.normal(size=(3, NUMBERS)).astype(np.float32), GUIDE)
    refused = 0
    for place in range(len(sound)):
        stream = sound.copy()
        stream[place] ^= rng.integers(1, 256, dtype=np.uint8)
        try:
            assert unpack(stream).size <= 8 * len(stream)
        except ValueError:
            refused += 1
    assert refused > 0.1 * len(sound)
