"""Splitting: a sample that carries much of the response goes on as two, each with half its weight. Eq. [splitting].

Near the barrier h = 0 between its two wells a sample has g' < 0, and its tangents grow as exp(|g'| t) for as long as
it stays; few stay long, and these few carry a share of the response that does not shrink. Left alone, tangents have a
tail so heavy that a solution nearly always misses some of the response, and at times has far too much of it. Two copies
with half the weight and noise of their own leave all averages unchanged, and the barrier is left by many light samples
instead of a few heavy ones.

Weights only ever halve, and a copy shares its past: M_C stays the Gram matrix of one set of samples. (Removing samples
again would break that, and with it chi.)
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numba import njit

from dmft.core.streams import philox
from dmft.model.experiment import Experiment
from dmft.samples.sampling import SOBOL_STEPS

SPARE = 0.5  # empty places for copies, as a share of the samples
SUMS = 4  # parts of a pool that are summed side by side on a CPU
LINES = 256  # samples copied at a time: their tangents may be large
THRESHOLD = 2.0  # a sample splits where its weight times sum_k |T_nk| exceeds this times the mean weight; typical is 0.6
INTERVAL = 0.05  # time between two rounds of splitting: tangents grow by less than a factor of 2 meanwhile
_INDEX = np.int64(0xFFFFFFFF)


def helps(experiment: Experiment, parts: frozenset[str]) -> bool:
    """Whether copies of a sample go different ways at all: gradient descent without noise has nothing to tell them apart.
    Mirrored pairs must stay pairs."""
    return "splitting" in parts and experiment.noisy and not experiment.mirrored


def due(experiment: Experiment, n: int) -> bool:
    """True every INTERVAL, after SOBOL_STEPS: the first normals are stored per array slot, which copies would share."""
    return n >= SOBOL_STEPS and n % max(1, round(INTERVAL / experiment.eta)) == 0


@njit(cache=True)
def pairs(share, weight, places, spare, threshold):
    """(count, 2): which sample is copied to which empty place, most important samples first in every pool of `places` lines.

    share (lines,): weight times response; an empty place has weight 0. As a pool fills, its threshold rises, so that the most
    important samples find a place to the end."""
    out = np.empty((len(share), 2), np.int64)
    count = 0
    for low in range(0, len(share), places):
        high = low + places
        empty = np.count_nonzero(weight[low:high] == 0.0)
        limit = threshold * max(1.0, spare / max(empty, 1)) ** 2
        heavy = low + np.flatnonzero(share[low:high] > limit)
        free = low
        for k in heavy[np.argsort(-share[heavy], kind="mergesort")]:
            while free < high and weight[free] > 0.0:
                free += 1
            if free == high:
                break
            out[count] = k, free
            count, free = count + 1, free + 1
    return out[:count]


def copy(arrays: Iterable, old: np.ndarray, new: np.ndarray) -> None:
    """Lines `old` to lines `new` in every array, on either device."""
    for array in arrays:
        for k in range(0, len(old), LINES):
            array[new[k : k + LINES]] = array[old[k : k + LINES]]


@njit(cache=True)
def new_names(old, key, n):
    """Names of copies: the index of the first sample of the line in 32 bits, then 31 bits that make the copy's own numbers."""
    out = np.empty_like(old)
    for i in range(len(old)):
        word, _ = philox(key, old[i], n)
        out[i] = (old[i] & _INDEX) | (np.int64(word >> np.uint64(33)) << 32)
    return out
