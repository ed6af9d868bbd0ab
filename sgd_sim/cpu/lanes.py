"""The state of instances that are stepped together: one lane (column) each, a single one where each has its own data."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dmft.core.streams import key
from sgd_sim.cpu.two_times import Pairs
from sgd_sim.kernels import minibatch
from sgd_sim.kernels.fast_normals import BLOCK, buffers
from sgd_sim.landscape import Landscape


class Noise(NamedTuple):
    """Streams of one instance."""

    batch: np.uint64
    thermal: np.uint64


def make_noise(seed: int, instance: int, clone: int = 0) -> Noise:
    """The streams of mini-batches and of thermal noise of an instance; clone: 1 for those of its clone."""
    more = (clone,) if clone else ()
    return Noise(key(seed, "simulation/minibatch", instance, *more), key(seed, "simulation/thermal", instance, *more))


class Lanes(NamedTuple):
    """State and scratch of a batch of instances; stepping allocates nothing."""

    w: np.ndarray            # (N, lanes)
    before: np.ndarray       # (N, lanes) weights of the step before, where the rule remembers them, else (0, lanes)
    s: np.ndarray            # (lanes, M) uint8, the last mini-batch
    b: np.ndarray            # (lanes,) intercepts
    live: np.ndarray         # (lanes,) bool: not empty, not diverged
    batch: np.ndarray        # (lanes,) streams of mini-batches and of thermal noise
    thermal: np.ndarray
    m: np.ndarray            # (lanes,)
    q: np.ndarray            # (lanes,)
    sign: np.ndarray         # (lanes,) of the nearer solution; 0 where labels are not h0
    e: np.ndarray            # (>= N, lanes) float32, deviations from it
    total: np.ndarray        # (N, lanes) gradients
    order: np.ndarray        # (lanes, M + 1) see `minibatch.draw_fixed_size`
    words: np.ndarray        # random bits of a mini-batch
    normals: np.ndarray      # scratch of thermal noise
    buffers: np.ndarray

    @classmethod
    def empty(cls, landscape: Landscape, e: np.ndarray, total: np.ndarray, remembers: bool) -> Lanes:
        """Empty lanes, as many as these arrays have."""
        samples, n, width = landscape.h0.size, landscape.w0.size, total.shape[1]
        return cls(np.zeros((n, width)), np.zeros((n if remembers else 0, width)), np.ones((width, samples), np.uint8),
                   np.zeros(width), np.zeros(width, np.bool_), np.zeros(width, np.uint64), np.zeros(width, np.uint64),
                   np.zeros(width), np.zeros(width), np.ones(width), e, total,
                   np.array([minibatch.make_order(samples)] * width), minibatch.make_words(samples), np.empty(BLOCK), buffers())


class Records(NamedTuple):
    """Where records go."""

    steps: np.ndarray         # increasing
    curves: np.ndarray        # (lanes, rows, steps), whose rows have names in sgd_sim/recording.py
    diverged_at: np.ndarray   # (lanes,) step, or -1
    fresh: np.ndarray         # (lanes, records of one `advance`, TEST_ROWS) fields of fresh samples, where they are asked for
    pairs: Pairs
