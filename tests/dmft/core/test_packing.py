"""Arrays packed without loss: the same bits for any numbers, small where rows foretell each other, refused where damaged."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from dmft.core import packing
from dmft.core.packing import NUMBERS_OF_LINE, Guide, pack, pack_course, unpack, unpack_course

KINDS = [np.float32, np.float64]
LENGTH = np.array([4, 4, 8, 8, 12, 12, 12, 3])
BEGIN = np.cumsum(LENGTH) - LENGTH
SIZE, CENTRE = np.array([1.0, 2, 2, 1, 4, 4, 8, 8]), np.array([0.0, 1.5, 3.5, 5, 7.5, 11.5, 17, 25])
GUIDE = Guide.through(BEGIN[::-1], LENGTH[::-1], SIZE, CENTRE)
NUMBERS = int(LENGTH.sum())


def back(stream: np.ndarray, array: np.ndarray) -> np.ndarray:
    """What comes back of an array."""
    return unpack(stream, array.shape)


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
    found = back(pack(array, GUIDE), array)
    assert found.dtype == kind and found.shape == array.shape
    assert_array_equal(bits(found), bits(array))


@pytest.mark.parametrize("shape", [(0, NUMBERS), (3, 0)])
def test_nothing_is_packed_too(shape):
    guide = GUIDE if shape[1] else Guide.through(*np.zeros((4, 0)))
    assert unpack(pack(np.zeros(shape), guide), shape).shape == shape


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_in_no_row_comes_back_as_zero(kind):
    array = np.random.default_rng(2).normal(size=(5, NUMBERS + 9)).astype(kind)
    other = array.copy()
    other[:, NUMBERS:] = np.nan
    assert_array_equal(pack(array, GUIDE), pack(other, GUIDE))
    found = back(pack(other, GUIDE), other)
    assert_array_equal(found[:, :NUMBERS], array[:, :NUMBERS])
    assert not bits(found[:, NUMBERS:]).any()


@pytest.mark.parametrize(("kind", "most"), [(np.float32, 0.5), (np.float64, 0.7)])
def test_rows_on_a_straight_line_are_small(kind, most):
    """Sums over blocks of a nearly straight course; and noise is larger than it is by MOST_ONES and six bits a number at most."""
    size, rows = np.repeat([1, 2, 4, 8], 12), 48
    centre = np.cumsum(size) - size / 2
    course = 3.0 + 0.01 * centre + 1e-3 * np.sin(centre / 50)
    array = (np.outer(np.random.default_rng(3).normal(size=200), course) * size).astype(kind)
    guide = Guide.through(np.arange(rows), np.ones(rows, np.int64), size, centre)
    assert_array_equal(back(pack(array, guide), array), array)
    assert len(pack(array, guide)) < most * array.nbytes
    noise = np.random.default_rng(4).integers(0, 256, array.nbytes, np.uint8).view(kind).reshape(array.shape)
    head = 8 * (packing.STREAM_HEAD + 5 * rows + len(noise))
    most = (packing.MOST_ONES + packing.BITS_OF_LENGTH) * noise.size // 8 + len(noise)
    assert noise.nbytes < len(pack(noise, guide)) <= noise.nbytes + most + head
    alone = guide._replace(one=guide.alone, two=0.0 * guide.two)  # twin: foretold by one row
    assert len(pack(array, alone)) > 1.05 * len(pack(array, guide))


def test_a_twin_read_with_another_guide_is_another_array():
    """The guide is in the stream, because the numbers do not come back without it."""
    array = np.random.default_rng(5).normal(size=(5, NUMBERS))
    stream = pack(array, GUIDE)
    place = 8 * (packing.STREAM_HEAD + 3 * len(BEGIN)) + 8 * 4
    stream[place : place + 8] = np.array([0.7]).view(np.uint8)
    assert not np.array_equal(back(stream, array), array)


@pytest.mark.parametrize("damage", ["cut", "longer", "size", "lines", "numbers", "rows", "begin", "length", "bytes", "negative"])
def test_a_damaged_stream_is_refused(damage):
    array = np.random.default_rng(6).normal(size=(5, NUMBERS))
    stream, rows = pack(array, GUIDE), len(BEGIN)
    numbers = {"size": 0, "lines": 1, "numbers": 2, "rows": 3, "begin": packing.STREAM_HEAD, "length": packing.STREAM_HEAD + rows,
               "negative": packing.STREAM_HEAD + 5 * rows}
    if damage == "cut":
        stream = stream[:-1]
    elif damage == "longer":
        stream = np.append(stream, np.uint8(0))
    elif damage == "bytes":
        stream[8 * (packing.STREAM_HEAD + 5 * rows)] ^= 1
    else:
        place = slice(8 * numbers[damage], 8 * numbers[damage] + 8)
        stream[place] = np.array([-1 if damage == "negative" else 1 << 40]).view(np.uint8)
    with pytest.raises(ValueError):
        back(stream, array)
    for length in range(0, 8 * packing.STREAM_HEAD, 7):
        with pytest.raises(ValueError):
            back(stream[:length], array)


@pytest.mark.parametrize("place", range(packing.STREAM_HEAD))
def test_another_number_in_the_head_is_refused(place):
    array = np.zeros((3, NUMBERS))
    stream = pack(array, GUIDE)
    here = stream[8 * place : 8 * place + 8].view(np.int64)
    for number in (here[0] - 8, here[0] + 8):
        here[0] = number
        with pytest.raises(ValueError):
            back(stream, array)
    for number in (-1, -8, np.iinfo(np.int64).min):  # at once: indices from the end would lead out of the arrays
        here[0] = number
        with pytest.raises(ValueError, match="no head"):
            back(stream, array)


@pytest.mark.parametrize("what", [np.zeros(200), np.zeros((40, 8), np.uint8), np.array(3, np.uint8), np.zeros(0, np.uint8)])
def test_what_is_no_stream_is_refused(what):
    with pytest.raises(ValueError):
        unpack(what, (40, 8))


@pytest.fixture
def line(monkeypatch):
    """What is read of the bytes of these bits, written lowest first; None where they are refused. By the loops as Python has them,
    which notices an index that the compiled ones do not."""
    for name in ("_length", "_whole", "_low", "_fill", "_read_line"):
        monkeypatch.setattr(packing, name, getattr(packing, name).py_func)

    def read(*bits, kind=np.int64, count=1):
        numbers = np.zeros(count, kind)
        packed = np.packbits(np.array([int(bit) for bit in "".join(bits)], np.uint8), bitorder="little")
        return numbers.tolist() if packing._read_line(packed, numbers) else None

    return read


def test_a_line_by_hand(line):
    """The code as the head of packing.py has it, bit by bit: 5 in ones; 5 has three bits, so that the two lowest ones of the next
    numbers follow their ones and the zero; after 2 and 0 the lowest one alone. And a number whose length is written."""
    assert line("111110", "0" "01", "0" "00", "10" "1", count=4) == [5, 2, 0, 3]
    longest = packing.MOST_ONES * "1"
    assert line(longest, "110001", "1" + 34 * "0", "10", "1" + 34 * "0", count=2) == [(1 << 35) + 1, (1 << 35) + 1]
    for kind, most in ((np.int32, 31), (np.int64, 64)):  # beyond 31 Python has no room in an int32
        length = f"{most - 1:06b}"[::-1]
        assert line(longest, length, "0" * (most - 1), kind=kind) == [int(np.int64(1) << (most - 1))]
        assert line(longest, length, "0" * (most - 9), kind=kind) is None  # cut
    assert line(longest, f"{32:06b}"[::-1], "0" * 32, kind=np.int32) is None  # longer than any such number


def test_a_line_is_not_read_beyond_its_bytes(line):
    assert line("0" * 8, count=8) == [0] * 8
    assert line("0" * 8, count=9) is None and line("0" * 16, count=8) is None and line("00000001", count=7) is None
    assert line("0000000", count=7) == [0] * 7
    assert line(count=1) is None and line(count=0) == [] and line("1" * 8, count=1) is None


@pytest.mark.parametrize("kind", KINDS)
def test_lines_are_written_and_read_alike(kind):
    """Numbers of every length after numbers of every other."""
    whole, most = packing._WHOLE[np.dtype(kind).itemsize], 8 * np.dtype(kind).itemsize
    lengths = np.random.default_rng(8).permutation(np.repeat(np.arange(most), most)).tolist()
    numbers = np.array([(1 << length) - 1 - (1 << length) // 5 for length in lengths] + [-1]).astype(whole)
    ends, sound, found = np.zeros(1, np.int64), np.zeros(1, bool), np.zeros_like(numbers)
    packing._measure(numbers[None], ends)
    out = np.zeros(ends[0], np.uint8)
    packing._write(numbers[None], ends, out)
    packing._read(out, ends, found[None], sound)
    assert sound.all()
    assert_array_equal(found, numbers)


@pytest.mark.parametrize("count", [0, 1, NUMBERS_OF_LINE - 1, NUMBERS_OF_LINE, 80 * NUMBERS_OF_LINE + 7])
def test_a_long_course_comes_back(count):
    course = np.exp(-np.arange(count) / 50_000)
    stream = pack_course(course)
    assert_array_equal(unpack_course(stream, count), course)
    with pytest.raises(ValueError, match="another length"):
        unpack_course(stream, count - 1)
    under_way = np.append(course, np.full(3 * NUMBERS_OF_LINE, np.nan))
    assert_array_equal(bits(unpack_course(pack_course(under_way), len(under_way))), bits(under_way))
    assert len(pack_course(under_way)) == len(stream)
    for damaged in (stream[:15], stream[8:], stream[:-1]):
        with pytest.raises(ValueError):
            unpack_course(damaged, count)
    single = np.concatenate([stream[:16], pack(course[:0].reshape(0, NUMBERS_OF_LINE).astype(np.float32), packing._course_guide())])
    if not count:
        with pytest.raises(ValueError, match="another type"):
            unpack_course(single, count)
    if count > NUMBERS_OF_LINE:
        assert len(stream) < 0.5 * course.nbytes
        assert len(pack_course(np.random.default_rng(9).normal(size=count))) > 0.95 * course.nbytes  # twin: no course


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
    """Any byte of a stream changed: an error or an array of the same shape."""
    rng = np.random.default_rng(7)
    array = rng.normal(size=(3, NUMBERS)).astype(np.float32)
    sound = pack(array, GUIDE)
    refused = 0
    for place in range(len(sound)):
        stream = sound.copy()
        stream[place] ^= rng.integers(1, 256, dtype=np.uint8)
        try:
            assert back(stream, array).shape == array.shape
        except ValueError:
            refused += 1
    assert refused > 0.1 * len(sound)
