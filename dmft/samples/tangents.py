"""Tangents of a sample, T_nk = dh_n/dP_k, where P_k shifts the argument of g at step k alone. Eq. [dmft-T].

Against every slot of the history as source, and every slot as the time at which they are felt: `packed` numbers a sample,
row after row (equations/history.py). Reading them once a step is nearly all the work of a march.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit, prange

from dmft.core.compiled import INNER, UNCOUNTED
from dmft.core.streaming import add_rows
from dmft.equations.blocks import NONE
from dmft.equations.recursion import merge_vector
from dmft.equations.tuning import Estimator
from dmft.samples.formulas import share_of

MEMORY_TILE = 128  # columns of the tangents worked on at a time where several steps are known


class Tangents(NamedTuple):
    """The tangents of some samples."""

    T: np.ndarray  # (count, packed) T_IJ of past slots
    row: np.ndarray  # (count, slots) T_nJ of the present step


class Bounds(NamedTuple):
    """What tangents and the response Y are held to, by these names in equations/tuning.py."""

    tangent_flush: float
    tangent_max: float
    tangent_sum_max: float
    y_outlier: float
    y_max: float

    @classmethod
    def of(cls, estimator: Estimator) -> Bounds:
        return cls(*(float(getattr(estimator, name)) for name in cls._fields))


class MovingTangents(NamedTuple):
    """Tangents on their way to the next step, and memory sums that were computed ahead over the rows before `first`, for the steps
    from there on (iteration)."""

    T: np.ndarray  # as of Tangents
    row: np.ndarray
    sums: np.ndarray  # (count, steps, slots)
    step: int  # which of the steps this one is; -1 where nothing was computed ahead
    first: int
    room: np.ndarray  # (blocks, 2, slots) of each block, for the next row and for the memory in their precision


@njit(**INNER)
def bounded(row, used, most):
    """sum_J T_nJ of a sample, and what its response is multiplied by where sum_J |T_nJ| is beyond `most`. Eq. [ibp]."""
    size = total = 0.0
    for j in range(used):
        size += abs(np.float64(row[j]))
        total += np.float64(row[j])
    return total, share_of(size, most)


@njit(**UNCOUNTED, fastmath={"contract"})
def gather(T, memory, offset, stop, first, last, out):
    """out_J += sum_I memory_I T_{IJ} over rows first <= I < last (multiples of four), four packed rows at a time.

    The order is written out; "contract" only lets each product and sum be one rounding, as in `add_rows`."""
    for i in range(first, last, 4):
        c0, c1, c2, c3 = memory[i], memory[i + 1], memory[i + 2], memory[i + 3]
        if c0 == 0.0 and c1 == 0.0 and c2 == 0.0 and c3 == 0.0:
            continue
        begin, length = offset[i], stop[i]
        for j in range(add_rows(T, begin, length, (c0, c1, c2, c3), out), length):
            k = begin + j
            out[j] = c3 * T[k + 3 * length] + (c2 * T[k + 2 * length] + (c1 * T[k + length] + (c0 * T[k] + out[j])))  # [dmft-T]


@njit(**UNCOUNTED)
def merge_packed(T, older, newer, into, offset, stop):
    """Merge two blocks in the packed tangents of one sample, or move one alone: columns, then rows."""
    last = max(older, newer)
    for i in range(len(offset) - 1, -1, -1):
        if stop[i] <= last:
            break
        merge_vector(T[offset[i] : offset[i] + stop[i]], older, newer, into)
    one, both = T[offset[older] : offset[older] + stop[older]], T[offset[into] : offset[into] + stop[into]]
    for j in range(len(both)):
        both[j] = one[j]
    for j in range(len(one)):
        one[j] = 0.0
    if newer != NONE:
        other = T[offset[newer] : offset[newer] + stop[newer]]
        for j in range(len(both)):
            both[j] += other[j]
        for j in range(len(other)):
            other[j] = 0.0


@njit(cache=True, fastmath={"contract"})
def _precompute_sample(T, memories, offset, stop, first, buffer, out):
    """out (steps, slots): sum_I memories_{step,I} T_{IJ} over rows I < first of one sample; first and the number of steps are
    multiples of four. Four rows meet four steps at a time, in a tile of columns whose sums (buffer, steps x TILE) stay in the
    nearest cache; each sum runs over the rows in the order of `gather`. The fixed distances in the buffer show the compiler
    that nothing overlaps."""
    steps = memories.shape[0]
    out[:] = 0.0
    for left in range(0, first, MEMORY_TILE):
        buffer[:] = 0.0
        for row in range(left, first, 4):
            start, length = offset[row] + left, stop[row]
            width = min(MEMORY_TILE, length - left)
            r0 = T[start : start + width]
            r1 = T[start + length : start + length + width]
            r2 = T[start + 2 * length : start + 2 * length + width]
            r3 = T[start + 3 * length : start + 3 * length + width]
            for step in range(0, steps, 4):
                m0, m1, m2, m3 = memories[step], memories[step + 1], memories[step + 2], memories[step + 3]
                a0, a1, a2, a3 = m0[row], m0[row + 1], m0[row + 2], m0[row + 3]
                b0, b1, b2, b3 = m1[row], m1[row + 1], m1[row + 2], m1[row + 3]
                c0, c1, c2, c3 = m2[row], m2[row + 1], m2[row + 2], m2[row + 3]
                d0, d1, d2, d3 = m3[row], m3[row + 1], m3[row + 2], m3[row + 3]
                if (a0 == 0.0 and a1 == 0.0 and a2 == 0.0 and a3 == 0.0 and b0 == 0.0 and b1 == 0.0 and b2 == 0.0 and b3 == 0.0
                        and c0 == 0.0 and c1 == 0.0 and c2 == 0.0 and c3 == 0.0 and d0 == 0.0 and d1 == 0.0 and d2 == 0.0
                        and d3 == 0.0):
                    continue
                b = buffer[step * MEMORY_TILE : (step + 4) * MEMORY_TILE]
                for j in range(width):
                    t0, t1, t2, t3 = r0[j], r1[j], r2[j], r3[j]
                    b[j] = a3 * t3 + (a2 * t2 + (a1 * t1 + (a0 * t0 + b[j])))
                    b[MEMORY_TILE + j] = b3 * t3 + (b2 * t2 + (b1 * t1 + (b0 * t0 + b[MEMORY_TILE + j])))
                    b[2 * MEMORY_TILE + j] = c3 * t3 + (c2 * t2 + (c1 * t1 + (c0 * t0 + b[2 * MEMORY_TILE + j])))
                    b[3 * MEMORY_TILE + j] = d3 * t3 + (d2 * t2 + (d1 * t1 + (d0 * t0 + b[3 * MEMORY_TILE + j])))
        for step in range(steps):
            for j in range(min(MEMORY_TILE, first - left)):
                out[step, left + j] = buffer[step * MEMORY_TILE + j]


@njit(cache=True, parallel=True)
def precompute(memories, T, offset, stop, first, out):
    """The memory sums of the next steps, whose memories (steps, slots) are known, over the rows before `first`; out (lines,
    steps, slots)."""
    for i in prange(len(T)):
        _precompute_sample(T[i], memories, offset, stop, first, np.empty(memories.shape[0] * MEMORY_TILE, T.dtype), out[i])
