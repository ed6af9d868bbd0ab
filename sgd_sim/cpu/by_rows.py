"""The pass over the data of one instance, row by row: a row gives its field and its part of the gradient while it is in the caches.

Rows are processed in fixed blocks whose gradients are added in a fixed order: the same numbers whether the blocks are done one
after the other or in threads.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import get_num_threads, njit, prange

from dmft.core.compiled import UNCOUNTED
from sgd_sim.cpu.lanes import Lanes
from sgd_sim.kernels import minibatch
from sgd_sim.kernels.formulas import coefficient, pushed
from sgd_sim.kernels.rows import Visit, aligned, call_scalar, padded, pass_over_rows
from sgd_sim.landscape import Landscape

_MOST_BLOCKS = 32
_SMALLEST_BLOCK = 192


class ByRows(NamedTuple):
    """Scratch arrays of one worker, so that stepping allocates nothing; threads: whether the blocks are spread over threads."""

    threads: bool
    rows: np.ndarray          # (M,) samples to visit, block by block
    fields: np.ndarray        # (M,)
    partial: np.ndarray       # (blocks, padded N) float32, gradient of each block
    test_fields: np.ndarray
    test_rows: np.ndarray
    test_weight: np.ndarray   # zeros: new samples have no part in a gradient
    unused: np.ndarray        # (padded N,) float32, the gradient that they have no part in
    e: np.ndarray             # (padded N,) float32 and (N,): those of the lane
    total: np.ndarray


class Draw(NamedTuple):
    """How the mini-batch of a step is drawn."""

    kind: int
    stream: Any
    step: int
    enter: int
    switch_on: int
    switch_off: int


def make_rows(landscape: Landscape, threads: bool = False) -> ByRows:
    """Scratch for instances on landscapes of this shape."""
    get_num_threads()    # starts Numba's threads; code from its cache relies on that, whether it uses them or not
    samples, n, tests = landscape.h0.size, landscape.w0.size, landscape.test_h0.size
    unused, e = aligned((padded(n),)), aligned((padded(n),))
    unused[:], e[:] = 0.0, 0.0
    return ByRows(threads, np.empty(samples, np.int64), np.empty(samples),
                  aligned((-(-samples // block_rows(samples)), padded(n))), np.empty(tests), np.arange(tests),
                  np.zeros(tests, np.uint8), unused, e, np.empty(n))


def row_lanes(landscape: Landscape, rows: ByRows, remembers: bool) -> Lanes:
    """A lane for one instance."""
    return Lanes.empty(landscape, rows.e.reshape(-1, 1), rows.total.reshape(-1, 1), remembers)


@njit(**UNCOUNTED, nogil=True)
def block_rows(samples):
    """Rows of a block: a multiple of the rows that share a random draw, by the number of samples alone."""
    return max(_SMALLEST_BLOCK, -(-samples // (_MOST_BLOCKS * 4)) * 4)


@njit(**UNCOUNTED, nogil=True)
def list_rows(weight, first, last, everything, backward, rows):
    """List the rows in first..last with weight > 0 (or all) in rows[first:], forward or backward; returns where the list ends."""
    end = first
    for k in range(last - first):
        mu = last - 1 - k if backward else first + k
        rows[end] = mu   # without a branch, which could not be predicted: rows are in the mini-batch at random
        end += everything or weight[mu] > 0
    return end


@njit(**UNCOUNTED, nogil=True)
def _do_block(b, visit, draw, s, words, passes):
    """Block b of the rows: its part of the mini-batch where rows are independent, its fields, and its gradient (partial[b])."""
    height = block_rows(s.size)
    first, last = b * height, min((b + 1) * height, s.size)
    if draw.kind == minibatch.BERNOULLI or draw.kind == minibatch.PERSISTENT:
        minibatch.draw_rows(draw.kind, s, first, last, draw.stream, draw.step, draw.enter, draw.switch_on, draw.switch_off, words)
    end = list_rows(s, first, last, visit.everything, draw.step % 2 == 1, passes.rows)
    passes.partial[b, :] = np.float32(0.0)
    pass_over_rows(visit, passes.rows[first:end], s, passes.partial[b], passes.fields)


@njit(**UNCOUNTED, nogil=True)
def _blocks(visit, draw, s, words, passes):
    """All blocks, one after the other."""
    # Every other step goes backward, since the last rows of a step are still in the second-level cache.
    blocks = passes.partial.shape[0]
    for k in range(blocks):
        _do_block(k if draw.step % 2 == 0 else blocks - 1 - k, visit, draw, s, words, passes)


@njit(cache=True, parallel=True)
def _blocks_in_threads(visit, draw, s, words, passes):
    """All blocks, in threads."""
    for b in prange(passes.partial.shape[0]):
        _do_block(b, visit, draw, s, words, passes)


@njit(**UNCOUNTED, nogil=True)
def add_blocks(partial, total):
    """total = sum of the rows of partial, first to last, in float64."""
    for i in range(total.size):
        total[i] = partial[0, i]
    for b in range(1, partial.shape[0]):
        for i in range(total.size):
            total[i] += partial[b, i]


def weighted_rows(data: np.ndarray, weights: np.ndarray, times: int, passes: ByRows) -> None:
    """total = sum_mu weights[mu] x_mu (x_mu.e)/sqrt(N); times: address of (field, weight) -> product."""
    visit = Visit(data, weights, passes.e, 0.0, 1.0 / np.sqrt(passes.total.size), 0.0, 1.0, times, True)
    draw = Draw(minibatch.FULL, np.uint64(0), 0, 0, 0, 0)
    blocks = _blocks_in_threads if passes.threads else _blocks
    blocks(visit, draw, np.ones(weights.size, np.uint8), np.empty((2, 0), np.uint64), passes)
    add_blocks(passes.partial, passes.total)


# --- for `dynamics.advance` -----------------------------------------------------------------------------------------------


def visit(passes, landscape, flags, settings, lanes, step, everything, draws):
    kind, s = flags.batch if draws else minibatch.FULL, lanes.s[0]
    if kind == minibatch.WITHOUT_REPLACEMENT or kind == minibatch.WITH_REPLACEMENT or kind == minibatch.EPOCHS:
        minibatch.draw_fixed_size(kind, s, settings.first_place, settings.last_place, lanes.batch[0], settings.order,
                                  lanes.order[0])
    look = Visit(landscape.data, landscape.h0, passes.e, lanes.sign[0], 1.0 / np.sqrt(lanes.w.size), lanes.b[0],
                 settings.scale, settings.dv, everything)
    draw = Draw(kind, lanes.batch[0], step, settings.enter, settings.switch_on, settings.switch_off)
    if passes.threads:
        _blocks_in_threads(look, draw, s, lanes.words, passes)
    else:
        _blocks(look, draw, s, lanes.words, passes)


def gradient(passes, landscape, flags, settings, lanes, step):
    add_blocks(passes.partial, passes.total)


def push_intercepts(passes, landscape, flags, settings, lanes):
    total, everything, s = 0.0, flags.batch == minibatch.FULL, lanes.s[0]
    for mu in range(s.size):
        if everything or s[mu] > 0:
            total += (1 if everything else s[mu]) * call_scalar(settings.dv, (passes.fields[mu], landscape.h0[mu]))
    lanes.b[0] = pushed(lanes.b[0], settings.eta * settings.scale, total, lanes.w.size)


def slope(passes, landscape, flags, settings, lanes, lane, mu):
    if flags.batch != minibatch.FULL and lanes.s[0, mu] == 0:
        return 0.0
    weight = 1 if flags.batch == minibatch.FULL else lanes.s[0, mu]
    return coefficient(settings.scale, weight, call_scalar(settings.dv, (passes.fields[mu], landscape.h0[mu])))


def visit_fresh(passes, landscape, settings, lanes):
    look = Visit(landscape.test, landscape.test_h0, passes.e, lanes.sign[0], 1.0 / np.sqrt(lanes.w.size), lanes.b[0], 0.0,
                 settings.dv, True)
    pass_over_rows(look, passes.test_rows, passes.test_weight, passes.unused, passes.test_fields)


def field(passes, landscape, lanes, lane, mu):
    return passes.fields[mu]


def fresh_field(passes, landscape, lanes, lane, mu):
    return passes.test_fields[mu]
