"""The data samples of a mini-batch: weights s_mu(n), a function of (stream, step) and, for the persistent chain, s(n-1).

Four rows share one Philox call of 4 x 32 bits, so probabilities are resolved to 2^-32. Draws whose rows are
independent (`bernoulli`, `persistent`) can be made for any range of rows; draws of a fixed number of rows
(`without_replacement`, `with_replacement`, and epochs, which divide the rows among their steps) are made for all rows at once.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from dmft.core.streams import LOW_WORD, WORD_BITS, uniform2
from dmft.model.minibatches import (
    CHAIN_BERNOULLI,
    CHAIN_CYCLIC,
    CHAIN_FULL,
    CHAIN_PERSISTENT,
    CHAIN_POISSON,
    CHAIN_RESHUFFLED,
    MiniBatch,
)
from sgd_sim.kernels.fast_normals import philox_words

FULL, BERNOULLI, PERSISTENT, WITHOUT_REPLACEMENT, WITH_REPLACEMENT, EPOCHS = range(6)
FIXED_SIZE = (WITHOUT_REPLACEMENT, WITH_REPLACEMENT, EPOCHS)
_DRAWN = {CHAIN_FULL: FULL, CHAIN_BERNOULLI: BERNOULLI, CHAIN_POISSON: WITH_REPLACEMENT, CHAIN_PERSISTENT: PERSISTENT,
          CHAIN_RESHUFFLED: EPOCHS, CHAIN_CYCLIC: EPOCHS}

ROWS_PER_CALL = 4


def drawn_as(law: MiniBatch) -> int:
    """How the mini-batches of a law are drawn. The Bernoulli law is drawn in two ways, with the same limit of large N: independent
    rows, or a fixed number of them."""
    return WITHOUT_REPLACEMENT if law.fixed_size else _DRAWN[law.chain().kind]


def threshold(probability: float) -> int:
    """A 32-bit random word is below this with the given probability."""
    return round(min(max(probability, 0.0), 1.0) * 2.0**32)


def make_order(samples: int) -> np.ndarray:
    """Scratch for `draw_fixed_size`, which does not hold an order yet."""
    return np.full(samples + 1, -1, np.int64)


def make_words(samples: int) -> np.ndarray:
    """Scratch for `draw_rows`."""
    return np.empty((2, -(-samples // ROWS_PER_CALL)), np.uint64)


@njit(cache=True, nogil=True, inline="always")
def next_in(fresh, s, word, enter, switch_on, switch_off):
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
        s[row] = next_in(fresh, s[row], pair >> WORD_BITS if row % 2 else pair & LOW_WORD, enter, switch_on, switch_off)


@njit(cache=True, nogil=True)
def draw_fixed_size(kind, s, first, last, stream, key, order):
    """Draw a mini-batch of last - first rows: with replacement, or those at the places first..last of a random order of all rows
    with the given key. order: (rows + 1,) integers; the last is the key of the complete order that the others hold, or -1."""
    rows = s.size
    s[:] = 0
    if kind == WITH_REPLACEMENT:
        for k in range(0, last, 2):
            u, v = uniform2(stream, k // 2, key)
            s[int(u * s.size)] += 1
            if k + 1 < last:
                s[int(v * s.size)] += 1
        return
    if kind != EPOCHS or order[rows] != key:
        _shuffle(stream, key, rows if kind == EPOCHS else last, order)
        order[rows] = key if kind == EPOCHS else -1
    for k in range(first, last):
        s[order[k]] = 1


@njit(cache=True, nogil=True)
def _shuffle(stream, key, count, order):
    """Fill the first `count` places of the order, each with one of the rows not yet taken (Fisher and Yates)."""
    rows = order.size - 1
    for i in range(rows):
        order[i] = i
    for k in range(count):
        if k % 2 == 0:
            u, v = uniform2(stream, k // 2, key)
        j = k + int((v if k % 2 else u) * (rows - k))
        order[k], order[j] = order[j], order[k]
