"""Sums that do not depend on their order: the same bits however the terms are spread over ranks.

A term is cut into its digits to the base 2**32, whose places are fixed once and for all, and digits are added as whole numbers. Of
each sum the three highest places that any of its terms reaches are kept, which leaves an error below 2**-63 of the largest term for
each term; places below are dropped, and which ones that are depends on the largest term alone. So digits of parts can be added in
any order, without knowing beforehand how large the terms elsewhere are: one reduction is enough.
"""

from __future__ import annotations

import math

import numpy as np
from numba import get_num_threads, njit, prange

from dmft.core.compiled import FREE, INNER, UNCOUNTED

SUM_NUMBERS = 4  # numbers of a sum: place of its highest digit, and three digits from there downwards
ZERO = -64  # place of a sum without terms, below that of any number
BAD = 64  # place of a sum with a term that is not finite
BASE = 2.0**32
SUMS_TOGETHER = 512  # sums worked on at a time
SUMS_SHARED_FROM = 8 * SUMS_TOGETHER  # sums from which on threads share them
LOWEST = -32  # place of the smallest numbers
HALVES = 2.0 ** (-16.0 * np.arange(LOWEST, 32))  # 2**(-16 place) of every place
FIRST_NORMAL = -29  # place from which on the last of three digits counts in units of a normal number
PLACE_UNITS = 2.0 ** (32.0 * np.arange(FIRST_NORMAL - 2, 32))  # 2**(32 (place - 2)) of every place from there on

DIGIT_ROOM = np.empty((5, SUMS_TOGETHER))  # room for `digits`
DIGIT_BITS = DIGIT_ROOM[0].view(np.int64)


@njit(**INNER)
def _larger(term, largest):
    """The size of a term if it is larger; a term that is no number is not."""
    size = abs(term)
    return size if size > largest else largest


@njit(**INNER)
def _cut(term, half):
    """The digits of a term, the highest one at the place whose 2**(-16 place) is `half`."""
    rest = term * half * half  # in two factors: their product may overflow
    high = np.trunc(rest)
    rest = (rest - high) * BASE
    middle = np.trunc(rest)
    return high, middle, np.trunc((rest - middle) * BASE)


@njit(**FREE)
def _digits(terms, begin, end, out, work, bits):
    """`digits` of the sums begin .. end-1 of terms (count, sums), with room to work in: (5, SUMS_TOGETHER) numbers, of which `bits`
    shows the first as they are written. Four lines of terms are taken at a time: sums are loaded and stored a quarter as often."""
    largest, half, high, middle, low = work[0], work[1], work[2], work[3], work[4]
    fours = len(terms) - len(terms) % 4
    for first in range(begin, end, SUMS_TOGETHER):
        width = min(SUMS_TOGETHER, end - first)
        for i in range(width):
            largest[i] = high[i] = middle[i] = low[i] = 0.0
        last = first + width
        for b in range(0, fours, 4):
            t0, t1, t2, t3 = terms[b, first:last], terms[b + 1, first:last], terms[b + 2, first:last], terms[b + 3, first:last]
            for i in range(width):
                largest[i] = _larger(t3[i], _larger(t2[i], _larger(t1[i], _larger(t0[i], largest[i]))))
        for b in range(fours, len(terms)):
            line = terms[b, first:last]
            for i in range(width):
                largest[i] = _larger(line[i], largest[i])
        for i in range(width):
            out[first + i, 0], half[i] = ZERO, 0.0  # 2**(-16 place), 0 where there is nothing to add
            if 0.0 < largest[i] < np.inf:
                # The exponent as it is written in the number, for those below 2**-1022 that of 2**-1023: nothing of them is lost.
                place = ((bits[i] >> 52) - 1023) >> 5
                out[first + i, 0], half[i] = place, HALVES[place - LOWEST]
        for b in range(0, fours, 4):
            t0, t1, t2, t3 = terms[b, first:last], terms[b + 1, first:last], terms[b + 2, first:last], terms[b + 3, first:last]
            for i in range(width):
                h0, m0, l0 = _cut(t0[i], half[i])
                h1, m1, l1 = _cut(t1[i], half[i])
                h2, m2, l2 = _cut(t2[i], half[i])
                h3, m3, l3 = _cut(t3[i], half[i])
                high[i] += (h0 + h1) + (h2 + h3)
                middle[i] += (m0 + m1) + (m2 + m3)
                low[i] += (l0 + l1) + (l2 + l3)
        for b in range(fours, len(terms)):
            line = terms[b, first:last]
            for i in range(width):
                h0, m0, l0 = _cut(line[i], half[i])
                high[i] += h0
                middle[i] += m0
                low[i] += l0
        for i in range(width):
            if middle[i] != middle[i]:  # a term that is not finite leaves NaN
                out[first + i, 0] = BAD
            out[first + i, 1], out[first + i, 2], out[first + i, 3] = np.int64(high[i]), np.int64(middle[i]), np.int64(low[i])


@njit(**UNCOUNTED, parallel=True)
def _digits_shared(terms, parts, out, work, bits):
    """`_digits` of several arrays, of each in so many parts, a thread for every part; compiled when first called."""
    sums = terms.shape[2]
    for piece in prange(len(terms) * parts):
        k, part = piece // parts, piece % parts
        _digits(terms[k], part * sums // parts, (part + 1) * sums // parts, out[k * sums : (k + 1) * sums], work[piece],
                bits[piece, 0])


def digits(terms: np.ndarray, out: np.ndarray) -> None:
    """Sums of terms (several, count, sums) over the axis in the middle, as digits, into out (several x sums, SUM_NUMBERS): `add`
    joins them, `value` reads them.
    The inner loops run over sums and have no branches, so that the compiler can vectorise them; where a term is not finite the
    digits mean nothing. Digits are added as floating point numbers, because few processors turn several of these into integers at
    a time: they are whole and below BASE, so that sums of up to 2**21 terms are exact."""
    (several, _, sums), threads = terms.shape, get_num_threads()
    parts = threads if several == 1 and sums >= SUMS_SHARED_FROM else 1
    if threads > 1 and several * parts > 1:
        work = np.empty((several * parts, *DIGIT_ROOM.shape))
        return _digits_shared(terms, parts, out, work, work.view(np.int64))
    for k, each in enumerate(terms):
        _digits(each, 0, sums, out[k * sums : (k + 1) * sums], DIGIT_ROOM, DIGIT_BITS)


@njit(**UNCOUNTED)
def add(more, total):
    """total += more, both (sums, WIDTH)."""
    for i in range(len(total)):
        place = max(total[i, 0], more[i, 0])
        down = place - total[i, 0]
        if down:
            for k in range(SUM_NUMBERS - 1, 0, -1):
                total[i, k] = total[i, k - down] if k - down >= 1 else 0
            total[i, 0] = place
        down = place - more[i, 0]
        for k in range(1 + down, SUM_NUMBERS):
            total[i, k] += more[i, k - down]


@njit(**INNER)
def _carried(high, middle, low):
    """The same number with the two lower digits in [0, BASE); the highest digit then carries the sign."""
    middle += low >> 32
    return high + (middle >> 32), middle & 0xFFFFFFFF, low & 0xFFFFFFFF


@njit(**UNCOUNTED)
def _value(total, out):
    """`value` into out (sums,)."""
    for i in range(len(total)):
        place, high, middle, low = total[i, 0], total[i, 1], total[i, 2], total[i, 3]
        sign = 1.0 if _carried(high, middle, low)[0] >= 0 else -1.0
        if sign < 0.0:
            high, middle, low = -high, -middle, -low
        high, middle, low = _carried(high, middle, low)
        size = np.float64(high) * BASE * BASE + (np.float64(middle) * BASE + np.float64(low))
        if FIRST_NORMAL <= place < FIRST_NORMAL + len(PLACE_UNITS):
            out[i] = sign * (size * PLACE_UNITS[place - FIRST_NORMAL])  # as ldexp has it, in a fraction of the time
        else:
            out[i] = np.nan if place == BAD else sign * math.ldexp(size, 32 * (place - 2))


def value(total: np.ndarray) -> np.ndarray:
    """(sums, WIDTH) -> (sums,); NaN for sums with a term that was not finite."""
    out = np.empty(len(total))
    _value(total, out)
    return out
