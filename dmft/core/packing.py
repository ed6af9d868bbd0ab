"""Arrays of samples made small without loss, for checkpoints: entries are foretold from others of their line, and of what is left
the leading zeros are not written.

A line consists of rows, which a Guide puts in an order in which each is much like those before it: the past of a sample at one time
after the other, say. An entry is foretold on the straight line through the same entries of the two rows before. What it differs by,
counted in floating-point numbers, is a whole number with many leading zeros. Whatever is foretold, the entry comes back to the bit,
on any machine of the same order of bytes: products and sums are those of the IEEE rules, and no guess is taken that is no number.
Entries outside of all rows are left out, and come back as zero.

A stream is self-contained: STREAM_HEAD numbers, the guide, the bytes of every line, the lines. A line has a whole number for each
entry, in the order of the rows (a Rice code that adapts itself): the longer one of the last two tells how many of its lowest bits
are written as they are, one less than that had; before them, what is left of the number is counted in ones, with a zero at their
end. Where that would take MOST_ONES ones or more, there are so many, then the length of the number less one, and the number without
its leading bit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit, prange

from dmft.core.compiled import INNER, UNCOUNTED

STREAM_HEAD = 4  # bytes of a number, lines, numbers of a line, rows
MOST_ONES, BITS_OF_LENGTH = 12, 6
NUMBERS_OF_LINE = 1024  # of a long array
PACKED_AT_ONCE = 1 << 20  # numbers that are worked on at a time
LARGEST_GUESS = 1e300  # of what is foretold
WORD, LOWEST_WORD = 32, 0xFFFFFFFF  # bits that are written at once, and the lowest ones of a number
_WHOLE = {4: np.int32, 8: np.int64}
_REAL = {4: np.float32, 8: np.float64}


class Guide(NamedTuple):
    """Where the rows of a line are, and how they are foretold: as `alone` times the row before; or, where the second row before it
    is not zero, as `one` times the row before plus `two` times the second. All (rows,); rows may end at different lengths."""

    begin: np.ndarray  # int64
    length: np.ndarray  # int64
    alone: np.ndarray
    one: np.ndarray
    two: np.ndarray

    @classmethod
    def through(cls, begin: np.ndarray, length: np.ndarray, size: np.ndarray, centre: np.ndarray) -> Guide:
        """Of rows that are sums over `size` steps around `centre`, in order of time."""
        rows = len(begin)
        alone, one, two = np.zeros(rows), np.zeros(rows), np.zeros(rows)
        alone[1:] = size[1:] / size[:-1]
        further = (centre[2:] - centre[1:-1]) / (centre[1:-1] - centre[:-2])
        one[2:], two[2:] = (1.0 + further) * alone[2:], -further * (size[2:] / size[:-2])
        return cls(np.ascontiguousarray(begin, np.int64), np.ascontiguousarray(length, np.int64), alone, one, two)


@njit(**INNER)
def _row(r, guide):
    """Where row r begins and how long it is; where the two rows before it begin, and how much of this one has entries in the first
    and in both of them; and the factors of the guide."""
    begin, length = guide.begin, guide.length
    known = min(length[r], length[r - 1]) if r > 0 else 0
    both = min(known, length[r - 2]) if r > 1 else 0
    return begin[r], length[r], begin[max(r - 1, 0)], begin[max(r - 2, 0)], known, both, guide.alone[r], guide.one[r], guide.two[r]


@njit(**INNER)
def _foretold(j, line, before, second, known, both, alone, one, two):
    """Entry j of a row of a line, from the rows before it."""
    guess = 0.0
    if j < both and line[second + j] != 0.0:
        guess = one * line[before + j] + two * line[second + j]
    elif j < known:
        guess = alone * line[before + j]
    return guess if abs(guess) < LARGEST_GUESS else 0.0


@njit(**INNER)
def _bits(number, size):
    """The bits of a real number of so many bytes as a whole number."""
    return np.int64(np.float32(number).view(np.int32)) if size == 4 else np.float64(number).view(np.int64)


@njit(**INNER)
def _place(bits, most):
    """Where a number stands among all of its kind, the smallest ones around 0, from its bits; and its bits from that. most: the
    largest whole number of as many bits."""
    return bits ^ ((bits >> 63) & most)


@njit(**INNER)
def _apart(bits, guess, most, shift):
    """How far apart a number and its guess are, small differences of either sign as small whole numbers. shift: how many bits the
    numbers are shorter than 64."""
    apart = ((_place(bits, most) - _place(guess, most)) << shift) >> shift
    return (apart << 1) ^ (apart >> 63)


@njit(**UNCOUNTED, parallel=True)
def _leave(lines, bits, guide, left):
    """left (lines, entries of all rows): what is left to say. bits: the memory of the lines as whole numbers."""
    most = np.int64((1 << (8 * bits.itemsize - 1)) - 1)
    shift = 64 - 8 * bits.itemsize
    for i in prange(len(lines)):
        line, k = lines[i], 0
        for r in range(len(guide.begin)):
            at, count, before, second, known, both, alone, one, two = _row(r, guide)
            if count == 1:  # without the loop, whose beginning takes longer than one turn
                guess = _bits(_foretold(0, line, before, second, known, both, alone, one, two), bits.itemsize)
                left[i, k] = _apart(np.int64(bits[i, at]), guess, most, shift)
                k += 1
                continue
            for j in range(count):
                guess = _bits(_foretold(j, line, before, second, known, both, alone, one, two), bits.itemsize)
                left[i, k + j] = _apart(np.int64(bits[i, at + j]), guess, most, shift)
            k += count


@njit(**UNCOUNTED, parallel=True)
def _come_back(left, guide, lines, bits):
    """Undo `_leave`; lines are zero before."""
    most = np.int64((1 << (8 * bits.itemsize - 1)) - 1)
    whole = np.int64(-1) if bits.itemsize == 8 else 2 * most + 1
    shift = 64 - 8 * bits.itemsize
    for i in prange(len(lines)):
        line, k = lines[i], 0
        for r in range(len(guide.begin)):
            at, count, before, second, known, both, alone, one, two = _row(r, guide)
            for j in range(count):
                guess = _bits(_foretold(j, line, before, second, known, both, alone, one, two), bits.itemsize)
                said = np.int64(left[i, k + j]) & whole
                place = _place(guess, most) + (((said >> 1) & np.int64(0x7FFFFFFFFFFFFFFF)) ^ -(said & 1))
                bits[i, at + j] = _place((place << shift) >> shift, most)
            k += count


@njit(**INNER)
def _length(number):
    """How many bits a whole number has, which is none below zero but in its 64."""
    if number < 0:
        return 64
    length = 0
    for step in (32, 16, 8, 4, 2, 1):
        if number >> step:
            number >>= step
            length += step
    return length + (number > 0)


@njit(**INNER)
def _whole(numbers):
    """The bits of a number that count, where it was made longer."""
    return np.int64(-1) if numbers.itemsize == 8 else np.int64(LOWEST_WORD)


@njit(**INNER)
def _low(last, before):
    """How many of the lowest bits are written as they are, after two numbers of so many bits."""
    return max(last, before, 1) - 1


@njit(**INNER)
def _high(number, low):
    """What is left of a number without these, at most MOST_ONES: counted, not written in bits."""
    return min(number >> low, MOST_ONES) if number >= 0 else MOST_ONES


@njit(**UNCOUNTED, parallel=True)
def _measure(left, lengths):
    """Bytes of every line."""
    for i in prange(len(left)):
        total, last, before, whole = 0, 0, 0, _whole(left)
        for k in range(left.shape[1]):
            number = np.int64(left[i, k]) & whole
            low = _low(last, before)
            high, last, before = _high(number, low), _length(number), last
            total += high + 1 + low if high < MOST_ONES else MOST_ONES + BITS_OF_LENGTH + last - 1
        lengths[i] = (total + 7) // 8


@njit(**INNER)
def _append(out, held, fill, at, number, bits):
    """Append at most WORD bits to the bytes. held: `fill` bits that wait for their place in them, below WORD; at: the next byte."""
    held |= number << fill
    fill += bits
    if fill >= WORD:
        for byte in range(4):
            out[at + byte] = (held >> (8 * byte)) & 255
        held, fill, at = held >> WORD, fill - WORD, at + 4
    return held, fill, at


@njit(**INNER)
def _write_line(numbers, out):
    """A line of what is left, into its bytes."""
    held, fill, at, one = np.int64(0), 0, 0, np.int64(1)
    last, before, whole = 0, 0, _whole(numbers)
    for k in range(len(numbers)):
        number = np.int64(numbers[k]) & whole
        low = _low(last, before)
        high, last, before = _high(number, low), _length(number), last
        if high < MOST_ONES:
            held, fill, at = _append(out, held, fill, at, (one << high) - 1, high + 1)
        else:
            low = last - 1
            held, fill, at = _append(out, held, fill, at, ((one << MOST_ONES) - 1) | (low << MOST_ONES), MOST_ONES + BITS_OF_LENGTH)
        held, fill, at = _append(out, held, fill, at, number & ((one << min(low, WORD)) - 1), min(low, WORD))
        if low > WORD:
            held, fill, at = _append(out, held, fill, at, (number >> WORD) & ((one << (low - WORD)) - 1), low - WORD)
    while fill > 0:
        out[at] = held & 255
        held, fill, at = held >> 8, fill - 8, at + 1


@njit(**UNCOUNTED, parallel=True)
def _write(left, ends, out):
    """All lines; ends (lines,): where their bytes end."""
    for i in prange(len(left)):
        _write_line(left[i], out[0 if i == 0 else ends[i - 1] : ends[i]])


@njit(**INNER)
def _fill(packed, held, fill, at):
    """Take bytes until WORD bits are held, or none are left."""
    while fill < WORD and at < len(packed):
        held |= np.int64(packed[at]) << fill
        fill, at = fill + 8, at + 1
    return held, fill, at


@njit(**INNER)
def _read_line(packed, numbers):
    """Undo `_write_line`; False where the bytes are not those of such a line."""
    held, fill, at, one = np.int64(0), 0, 0, np.int64(1)
    last, before, whole = 0, 0, _whole(numbers)
    for k in range(len(numbers)):
        low, high, number = _low(last, before), 0, np.int64(0)
        held, fill, at = _fill(packed, held, fill, at)
        while high < MOST_ONES and (held >> high) & 1:
            high += 1
        if high < MOST_ONES:
            number = np.int64(high) << low
            held, fill = held >> (high + 1), fill - (high + 1)
        else:
            low = (held >> MOST_ONES) & ((one << BITS_OF_LENGTH) - 1)
            if low >= 8 * numbers.itemsize:
                return False
            number = one << low
            held, fill = held >> (MOST_ONES + BITS_OF_LENGTH), fill - (MOST_ONES + BITS_OF_LENGTH)
        for part in range(0, low, WORD):
            wanted = min(low - part, WORD)
            held, fill, at = _fill(packed, held, fill, at)
            number |= (held & ((one << wanted) - 1)) << part
            held, fill = held >> wanted, fill - wanted
        if fill < 0:
            return False
        last, before = _length(number & whole), last
        numbers[k] = number
    return at == len(packed) and fill < 8 and held == 0


@njit(**UNCOUNTED, parallel=True)
def _read(packed, ends, left, sound):
    """Undo `_write`; sound (lines,): of which lines the bytes are those of a line."""
    for i in prange(len(left)):
        left[i, :] = 0
        sound[i] = _read_line(packed[0 if i == 0 else ends[i - 1] : ends[i]], left[i])


def _lines_at_once(numbers: int) -> int:
    return max(1, PACKED_AT_ONCE // max(numbers, 1))


def _fits(guide: Guide, numbers: int) -> bool:
    """Whether all rows lie within a line."""
    begin, length = guide.begin, guide.length
    return bool(((begin >= 0) & (length >= 0) & (begin <= numbers) & (length <= numbers - begin)).all())


def pack(array: np.ndarray, guide: Guide) -> np.ndarray:
    """The stream (uint8) of an array (lines, numbers) of real numbers."""
    (lines, numbers), size, some = array.shape, array.itemsize, _lines_at_once(array.shape[1])
    assert _fits(guide, numbers)
    lengths, streams = np.zeros(lines, np.int64), []
    room = np.empty((min(some, lines), guide.length.sum()), _WHOLE[size])
    for first in range(0, lines, some):
        block, here = np.ascontiguousarray(array[first : first + some]), lengths[first : first + some]
        left = room[: len(block)]
        _leave(block, block.view(_WHOLE[size]), guide, left)
        _measure(left, here)
        ends = np.cumsum(here)
        streams.append(np.empty(ends[-1], np.uint8))
        _write(left, ends, streams[-1])
    head = np.array([size, lines, numbers, len(guide.begin)], np.int64)
    return np.concatenate([*(each.view(np.uint8) for each in (head, *guide, lengths)), *streams])


def _head(stream: np.ndarray) -> tuple[int, int, int, int]:
    """The first numbers of a stream; ValueError for what is none."""
    if stream.dtype != np.uint8 or stream.ndim != 1:
        raise ValueError("no bytes")
    if len(stream) < 8 * STREAM_HEAD:
        raise ValueError("cut short")
    size, lines, numbers, rows = stream[: 8 * STREAM_HEAD].view(np.int64).tolist()
    if size not in _REAL or min(lines, numbers, rows) < 0 or 8 * (STREAM_HEAD + 5 * rows + lines) > len(stream):
        raise ValueError("no head")
    return size, lines, numbers, rows


def declared(stream: np.ndarray) -> tuple[tuple[int, int], np.dtype]:
    """Shape and type of the array of a stream, before memory is asked for."""
    size, lines, numbers, _ = _head(stream)
    return (lines, numbers), np.dtype(_REAL[size])


def unpack(stream: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The array of a stream; ValueError for one that `pack` does not write of an array of this shape, for which there is room."""
    size, lines, numbers, rows = _head(stream)
    if (lines, numbers) != shape:
        raise ValueError("another shape")
    numbers_at = 8 * STREAM_HEAD
    tables = stream[numbers_at : 8 * (STREAM_HEAD + 5 * rows + lines)].copy().view(np.int64)
    parts = [tables[k * rows : (k + 1) * rows] for k in range(5)]
    guide, lengths = Guide(parts[0], parts[1], *(each.view(np.float64) for each in parts[2:])), tables[5 * rows :]
    rest = stream[8 * (STREAM_HEAD + 5 * rows + lines) :]
    ends = np.cumsum(lengths)
    if not _fits(guide, numbers) or ((lengths < 0) | (lengths > len(rest))).any() or lengths.sum() != len(rest):
        raise ValueError("no lines")
    entries = guide.length.sum()
    if (8 * lengths < entries).any():  # so that a small stream cannot declare many rows
        raise ValueError("no lines")
    found, some = np.zeros((lines, numbers), _REAL[size]), _lines_at_once(numbers)
    for first in range(0, lines, some):
        block, here = found[first : first + some], ends[first : first + some]
        begin = ends[first - 1] if first else 0
        left, sound = np.empty((len(block), entries), _WHOLE[size]), np.zeros(len(block), bool)
        _read(np.ascontiguousarray(rest[begin : here[-1]]), here - begin, left, sound)
        if not sound.all():
            raise ValueError("a line of another length")
        _come_back(left, guide, block, block.view(_WHOLE[size]))
    return found


def pack_course(course: np.ndarray) -> np.ndarray:
    """The stream of a long array (numbers,) in double precision whose neighbours are alike, a curve say. Before it, how many
    numbers there are, and how many without those at the end that are NaN (as NumPy writes it), as in a curve of a run under way."""
    said = np.flatnonzero(course.view(np.int64) != np.array(np.nan).view(np.int64))
    count = int(said[-1]) + 1 if len(said) else 0
    lines = np.zeros((-(-count // NUMBERS_OF_LINE), NUMBERS_OF_LINE))
    lines.reshape(-1)[:count] = course[:count]
    return np.concatenate([np.array([len(course), count], np.int64).view(np.uint8), pack(lines, _course_guide())])


def _course_guide(count: int = NUMBERS_OF_LINE) -> Guide:
    return Guide.through(np.arange(count), np.ones(count, np.int64), np.ones(count), np.arange(count))


def unpack_course(stream: np.ndarray, most: int) -> np.ndarray:
    """Undo `pack_course`; ValueError for what it does not write of an array of at most so many numbers."""
    if stream.dtype != np.uint8 or stream.ndim != 1 or len(stream) < 16:
        raise ValueError("cut short")
    (numbers, count), stream = stream[:16].view(np.int64).tolist(), stream[16:]
    if not 0 <= count <= numbers <= most:
        raise ValueError("another length")
    found = unpack(stream, (-(-count // NUMBERS_OF_LINE), NUMBERS_OF_LINE)).reshape(-1)[:count]
    if found.dtype != np.float64:
        raise ValueError("another type")
    return np.concatenate([found, np.full(numbers - count, np.nan)])
