"""Which samples a step uses: weights s_mu(n), a function of (stream, step) and, for the persistent chain, s(n-1).

Four rows share one Philox call of 4 x 32 bits, so probabilities are resolved to 2^-32. Draws whose rows are
independent (`bernoulli`, `persistent`) can be made for any range of rows alone; draws of a fixed number of rows
(`without_replacement`, `with_replacement`) are made for all rows at once.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from dmft.core.streams import uniform2
from dmft.model.minibatches import Bernoulli, FullBatch, MiniBatch, Persistent, Poisson
from sgd_sim.cpu.fast_normals import philox_words

FULL, BERNOULLI, PERSISTENT, WITHOUT_REPLACEMENT, WITH_REPLACEMENT = range(5)

ROWS_PER_CALL = 4
_LOW = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)


def kind_of(law: MiniBatch, drawn: str) -> int:
    """How whole mini-batches of a law are drawn. Bernoulli stands for two: independent rows, or a fixed number of them
    (drawn = "without_replacement"), which have the same limit."""
    if isinstance(law, Bernoulli) and drawn == "without_replacement":
        return WITHOUT_REPLACEMENT
    return {FullBatch: FULL, Bernoulli: BERNOULLI, Poisson: WITH_REPLACEMENT, Persistent: PERSISTENT}[type(law)]


def threshold(probability: float) -> int:
    """A 32-bit random word is below this with the given probability."""
    return round(min(max(probability, 0.0), 1.0) * 2.0**32)


def make_words(samples: int) -> np.ndarray:
    """Scratch of `draw_rows`."""
    return np.empty((2, -(-samples // ROWS_PER_CALL)), np.uint64)


@njit(cache=True, nogil=True, inline="always")
def _next(fresh, s, word, enter, switch_on, switch_off):
    """s_mu(n) from s_mu(n-1) and a random word, without branches; eq. 7 of the paper for the persistent chain."""
    if fresh:
        return np.uint8(word < enter)
    return np.uint8(word >= switch_off) if s else np.uint8(word < switch_on)


@njit(cache=True, nogil=True)
def draw_rows(kind, s, first, last, stream, step, enter, switch_on, switch_off, words):
    """Draw s[first:last] for independent rows; first must be a multiple of ROWS_PER_CALL.

    enter, switch_on, switch_off: thresholds of P(s = 1), P(0 -> 1), P(1 -> 0); words: from `make_words`.
    """
    fresh, begin, end = kind == BERNOULLI or step == 0, first // ROWS_PER_CALL, -(-last // ROWS_PER_CALL)
    philox_words(stream, step, begin, words[0, begin:end], words[1, begin:end])
    for row in range(first, last):
        pair = words[row // 2 % 2, row // ROWS_PER_CALL]
        s[row] = _next(fresh, s[row], pair >> _SHIFT if row % 2 else pair & _LOW, enter, switch_on, switch_off)


@njit(cache=True, nogil=True)
def draw_fixed_size(kind, s, count, stream, step, order):
    """Draw `count` rows, all alike, with or without replacement; order: scratch of len(s) integers."""
    rows = s.size
    s[:] = 0
    if kind == WITHOUT_REPLACEMENT:
        for i in range(rows):
            order[i] = i
    for k in range(0, count, 2):
        u, v = uniform2(stream, k // 2, step)
        _draw_one(kind, s, k, u, order)
        if k + 1 < count:
            _draw_one(kind, s, k + 1, v, order)


@njit(cache=True, nogil=True, inline="always")
def _draw_one(kind, s, k, u, order):
    if kind == WITH_REPLACEMENT:
        s[int(u * s.size)] += 1
    else:  # Fisher-Yates: the k-th place gets one of the rows not yet taken
        j = k + int(u * (s.size - k))
        order[k], order[j] = order[j], order[k]
        s[order[k]] = 1
