"""The dynamics of one instance: w_{n+1} = a_n [w_n - eta sum_mu g_mu x_mu/sqrt(N) - eta lambda w_n + noise].
Eq. [sgd-step]; with momentum eq. [momentum], where the displacement w_n - w_{n-1} is remembered.

w is kept in float64. The pass over the data uses the deviation e = w -+ w0 from the nearer of the two solutions,
rounded to float32, and h_mu = +-h0_mu + x_mu.e/sqrt(N): the rounding of float32 is relative to e, so that the
overlap and the loss stay accurate (to about 1e-6 of 1 - m and of the loss) however near to the solution w is. Where labels are
not h0 itself (noise, signs, clusters) w0 is no solution, e = w, and the array h0 holds the labels.

Rows are processed in fixed blocks whose gradients are added in a fixed order: the same numbers whether the
blocks are done one after the other or in threads. Files, ranks and run files are unknown here.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit, prange

from dmft.core.streams import key
from sgd_sim.kernels import minibatch
from sgd_sim.kernels.course import Pace, pace_of
from sgd_sim.kernels.fast_normals import BLOCK, buffers, fill_block
from sgd_sim.kernels.formulas import (
    NESTEROV,
    NO_MOMENTUM,
    decay_of,
    miss,
    moved,
    onto_sphere,
    point_ahead,
    pushed,
    rate_of,
)
from sgd_sim.kernels.rows import aligned, call_scalar, call_value, padded, pass_over_rows
from sgd_sim.landscape import Landscape
from sgd_sim.recording import ERROR_FRESH, LOSS, MSE_FRESH, TRAINING_ERROR, B, M, Q

_MOST_BLOCKS = 32
_SMALLEST_BLOCK = 192


class Noise(NamedTuple):
    """Streams of one instance."""

    batch: np.uint64
    thermal: np.uint64


class State(NamedTuple):
    """The state of an instance: weights (N,), the last mini-batch (M,), the intercept (1,), and the weights of the step before,
    (N,) with momentum and (0,) without."""

    w: np.ndarray
    s: np.ndarray
    b: np.ndarray
    before: np.ndarray


class Work(NamedTuple):
    """Scratch arrays of one worker, so that stepping allocates nothing."""

    rows: np.ndarray        # (M,) samples to visit, block by block
    fields: np.ndarray      # (M,)
    test_fields: np.ndarray
    test_rows: np.ndarray
    test_weight: np.ndarray
    order: np.ndarray       # (M + 1,) see `minibatch.draw_fixed_size`
    words: np.ndarray       # random bits of the mini-batch
    e: np.ndarray           # (padded N,) float32
    partial: np.ndarray     # (blocks, padded N) float32, gradient of each block
    total: np.ndarray       # (N,) gradient
    normals: np.ndarray     # scratch of thermal noise
    buffers: np.ndarray


def make_work(landscape: Landscape) -> Work:
    """Scratch for instances on landscapes of this shape."""
    samples, n, tests = landscape.h0.size, landscape.w0.size, landscape.test_h0.size
    e, partial = aligned((padded(n),)), aligned((-(-samples // block_rows(samples)), padded(n)))
    e[:] = 0.0
    return Work(np.empty(samples, np.int64), np.empty(samples), np.empty(tests), np.arange(tests),
                np.zeros(tests, np.uint8), minibatch.make_order(samples), minibatch.make_words(samples), e, partial,
                np.empty(n), np.empty(BLOCK), buffers())


@njit(cache=True, nogil=True)
def block_rows(samples):
    """Rows of a block: a multiple of the rows that share a random draw, by the number of samples alone."""
    return max(_SMALLEST_BLOCK, -(-samples // (_MOST_BLOCKS * 4)) * 4)


def make_noise(seed: int, instance: int) -> Noise:
    """The streams of mini-batches and of thermal noise of an instance."""
    return Noise(key(seed, "simulation/minibatch", instance), key(seed, "simulation/thermal", instance))


@njit(cache=True, nogil=True)
def list_rows(weight, first, last, everything, backward, rows):
    """List the rows in first..last with weight > 0 (or all) in rows[first:], forward or backward; returns where the list ends."""
    end = first
    for k in range(last - first):
        mu = last - 1 - k if backward else first + k
        rows[end] = mu   # without a branch, which could not be predicted: rows are in the mini-batch at random
        end += everything or weight[mu] > 0
    return end


@njit(cache=True, nogil=True)
def _do_block(b, height, data, h0, sign, shift, everything, draw, step, pace, stream, s, work):
    """Block b of the rows: its part of the mini-batch where rows are independent, its fields, and its gradient (partial[b])."""
    first, last = b * height, min((b + 1) * height, h0.size)
    if draw == minibatch.BERNOULLI or draw == minibatch.PERSISTENT:
        minibatch.draw_rows(draw, s, first, last, stream, step, pace.enter, pace.switch_on, pace.switch_off,
                            work.words)
    end = list_rows(s, first, last, everything, step % 2 == 1, work.rows)
    work.partial[b, :] = np.float32(0.0)
    pass_over_rows(data, work.rows[first:end], work.e, sign, 1.0 / np.sqrt(work.total.size), shift, h0, s, pace.scale,
                   pace.dv, work.partial[b], work.fields)


@njit(cache=True, nogil=True)
def _blocks(height, data, h0, sign, shift, everything, draw, step, pace, stream, s, work):
    """All blocks, one after the other."""
    # Every other step goes backward, since the last rows of a step are still in the second-level cache.
    blocks = work.partial.shape[0]
    for k in range(blocks):
        b = k if step % 2 == 0 else blocks - 1 - k
        _do_block(b, height, data, h0, sign, shift, everything, draw, step, pace, stream, s, work)


@njit(cache=True, parallel=True)
def _blocks_in_threads(height, data, h0, sign, shift, everything, draw, step, pace, stream, s, work):
    """All blocks, in threads."""
    for b in prange(work.partial.shape[0]):
        _do_block(b, height, data, h0, sign, shift, everything, draw, step, pace, stream, s, work)


@njit(cache=True, nogil=True)
def _pass(threads, height, data, h0, sign, shift, everything, draw, step, pace, stream, s, work):
    """One pass over the data of an instance."""
    if threads:
        _blocks_in_threads(height, data, h0, sign, shift, everything, draw, step, pace, stream, s, work)
    else:
        _blocks(height, data, h0, sign, shift, everything, draw, step, pace, stream, s, work)


@njit(cache=True, nogil=True)
def add_blocks(partial, total):
    """total = sum of the rows of partial, first to last, in float64."""
    for i in range(total.size):
        total[i] = partial[0, i]
    for b in range(1, partial.shape[0]):
        for i in range(total.size):
            total[i] += partial[b, i]


def weighted_rows(data: np.ndarray, weights: np.ndarray, times: int, work: Work, threads: bool) -> None:
    """work.total = sum_mu weights[mu] x_mu (x_mu.e)/sqrt(N) for work.e; times: address of (field, weight) -> product."""
    pace = Pace(0.0, 0.0, 1.0, 0.0, 0.0, 0, 0, 0, 0, times, 0, 0, 0, 0)
    blocks = _blocks_in_threads if threads else _blocks
    blocks(block_rows(weights.size), data, weights, 0.0, 0.0, True, minibatch.FULL, 0, pace, np.uint64(0),
           np.ones(weights.size, np.uint8), work)
    add_blocks(work.partial, work.total)


@njit(cache=True, nogil=True)
def overlap(a, b):
    """a.b/N."""
    total = 0.0
    for i in range(a.size):
        total += a[i] * b[i]
    return total / a.size


@njit(cache=True, nogil=True)
def update(w, before, rule, pace, stream, step, work):
    """One step of the weights from the gradient sum_mu g_mu x_mu in work.total; with momentum `before` is then the old w."""
    n = w.size
    decay, rate = decay_of(pace.eta, pace.ridge), rate_of(pace.eta, n)
    if rule.momentum == NO_MOMENTUM:
        for i in range(n):
            w[i] = moved(NO_MOMENTUM, decay, 0.0, rate, w[i], 0.0, work.total[i])
    else:
        for i in range(n):
            old = w[i]
            w[i] = moved(rule.momentum, decay, pace.beta, rate, old, before[i], work.total[i])
            before[i] = old
    if pace.noise > 0.0:
        add_noise(w, pace.noise, stream, step, work.normals, work.buffers)
    if rule.sphere:
        a_n = onto_sphere(overlap(w, w))
        for i in range(n):
            w[i] *= a_n


@njit(cache=True, nogil=True)
def add_noise(w, size, stream, step, normals, work):
    """Add size times the standard normals of a step to w; normals, work: scratch."""
    for first in range(0, w.size, BLOCK):
        fill_block(stream, step, first, normals, work)
        for i in range(first, min(first + BLOCK, w.size)):
            w[i] += size * normals[i - first]


@njit(cache=True, nogil=True)
def mean_square_error(rule, fields, h0):
    """Mean square of `miss` over samples, eq. (B.7) of the paper."""
    total = 0.0
    for mu in range(h0.size):
        error = miss(rule, fields[mu], h0[mu])
        total += error * error
    return total / h0.size


@njit(cache=True, nogil=True)
def mean_of(function, fields, labels):
    """Average of a function of the loss, at an address, over samples."""
    total = 0.0
    for mu in range(labels.size):
        total += call_scalar(function, fields[mu], labels[mu])
    return total / labels.size


@njit(cache=True, nogil=True)
def record_averages(averages, fields, labels, teacher, row):
    """Put the averages of observables, at addresses, over samples into the last entries of a row of curves."""
    for k in range(averages.size):
        total = 0.0
        for mu in range(labels.size):
            total += call_value(averages[k], fields[mu], labels[mu], teacher[mu])
        row[row.size - averages.size + k] = total / labels.size


@njit(cache=True, nogil=True)
def push_intercept(b, pace, fields, labels, s, everything, n):
    """One step of the intercept, in place."""
    total = 0.0
    for mu in range(labels.size):
        if everything or s[mu] > 0:
            total += (1 if everything else s[mu]) * call_scalar(pace.dv, fields[mu], labels[mu])
    b[0] = pushed(b[0], pace.eta * pace.scale, total, n)


@njit(cache=True, nogil=True)
def advance(landscape, rule, course, noise, state, work, first, last, record, curves, threads):
    """Take an instance from step first to step last; returns the step at which it diverged, or -1.

    record: increasing steps to record; those in [first, last] fill their columns of curves (rows, len(record)), whose rows have
    names in sgd_sim/recording.py. A record at `last` is made before the mini-batch of that step is drawn, and is made again, with
    the same numbers, when the run continues.
    """
    w, s, w0, h0 = state.w, state.s, landscape.w0, landscape.h0
    height = block_rows(h0.size)
    column = np.searchsorted(record, first)
    for step in range(first, last + 1):
        wanted = column < record.size and record[column] == step
        draw = rule.batch
        if step == last:
            if not wanted:
                break
            draw = minibatch.FULL
        m = overlap(w, w0)
        if not np.isfinite(m):
            curves[:, column:] = np.nan
            return step
        sign = (1.0 if m >= 0.0 else -1.0) if rule.anchored else 0.0
        pace, again = pace_of(course, step), wanted and rule.momentum == NESTEROV
        for i in range(w.size):
            work.e[i] = w[i] - sign * w0[i]
        if rule.momentum == NESTEROV and not wanted:
            _look_ahead(w, state.before, pace.beta, sign, w0, work.e)
        if draw == minibatch.WITHOUT_REPLACEMENT or draw == minibatch.WITH_REPLACEMENT or draw == minibatch.EPOCHS:
            minibatch.draw_fixed_size(draw, s, pace.first_place, pace.last_place, noise.batch, pace.order, work.order)
        if again:
            draw = minibatch.FULL
        _pass(threads, height, landscape.data, h0, sign, state.b[0], wanted, draw, step, pace, noise.batch, s, work)
        if not again:
            add_blocks(work.partial, work.total)
        if wanted:
            _record(landscape, rule, pace, w, m, sign, state.b[0], work, curves[:, column])
            record_averages(course.averages, work.fields, h0, landscape.teacher, curves[:, column])
            if not np.isfinite(curves[LOSS, column] + curves[MSE_FRESH, column]):     # fields of new samples overflow too
                curves[:, column:] = np.nan
                return step
            column += 1
        if step < last:
            if again:    # records are made at w, the gradient is taken at the point ahead
                _look_ahead(w, state.before, pace.beta, sign, w0, work.e)
                _pass(threads, height, landscape.data, h0, sign, state.b[0], False, rule.batch, step, pace, noise.batch, s, work)
                add_blocks(work.partial, work.total)
            if rule.bias:
                push_intercept(state.b, pace, work.fields, h0, s, rule.batch == minibatch.FULL, w.size)
            update(w, state.before, rule, pace, noise.thermal, step, work)
    return -1


@njit(cache=True, nogil=True)
def _look_ahead(w, before, beta, sign, w0, e):
    """e = y -+ w0 where y = w + beta (w - w_before)."""
    for i in range(w.size):
        e[i] = point_ahead(beta, w[i], before[i]) - sign * w0[i]


@njit(cache=True, nogil=True)
def _record(landscape, rule, pace, w, m, sign, b, work, row):
    """Put m, loss, q and the errors into a row of curves; overwrites work.partial."""
    pass_over_rows(landscape.test, work.test_rows, work.e, sign, 1.0 / np.sqrt(w.size), b, landscape.test_h0,
                   work.test_weight, 0.0, pace.dv, work.partial[0], work.test_fields)
    row[M] = m
    row[LOSS] = mean_of(pace.v, work.fields, landscape.h0)
    row[Q] = overlap(w, w)
    row[MSE_FRESH] = mean_square_error(rule, work.test_fields, landscape.test_h0)
    if not rule.anchored:
        row[TRAINING_ERROR] = mean_of(pace.is_wrong, work.fields, landscape.h0)
        row[ERROR_FRESH] = mean_of(pace.is_wrong, work.test_fields, landscape.test_h0)
        row[B] = b
