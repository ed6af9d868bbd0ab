"""Many starts on one landscape, stepped together: the dynamics of dynamics.py, with one lane (column) per start.

Fields are H = X E and gradients X^T G; E (N, lanes) holds the deviations from the nearer solution, as in dynamics.py. Batches are
16, 32 or 64 lanes wide; empty lanes stay at zero.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numba
import numpy as np
from numba import cfunc, njit, types

from dmft.model.experiment import Experiment
from dmft.model.losses import Loss, built_in
from dmft.model.runfile import Run
from sgd_sim.cpu.dynamics import add_noise, make_noise, make_work, record_averages
from sgd_sim.cpu.starts import start_weights
from sgd_sim.kernels import minibatch
from sgd_sim.kernels.course import make_course, make_rule, pace_of
from sgd_sim.kernels.fast_normals import BLOCK, buffers
from sgd_sim.kernels.formulas import (
    NESTEROV,
    NO_MOMENTUM,
    coefficient,
    decay_of,
    field_of,
    miss,
    moved,
    onto_sphere,
    point_ahead,
    pushed,
    rate_of,
)
from sgd_sim.kernels.rows import aligned, call_many, call_scalar
from sgd_sim.kernels.tiles import TILE, WIDTHS, add_transposed, times
from sgd_sim.landscape import Landscape
from sgd_sim.recording import ERROR_FRESH, LOSS, MSE_FRESH, TRAINING_ERROR, B, M, Q
from sgd_sim.states import NOT_STARTED, States

SUM_ROWS = 32 * TILE      # rows whose gradients are added in float32 before they are added to the float64 sum


class Lanes(NamedTuple):
    """State and scratch of a batch of starts."""

    w: np.ndarray            # (N, lanes)
    before: np.ndarray       # (N, lanes) weights of the step before, with momentum, else (0, lanes)
    s: np.ndarray            # (lanes, M) uint8
    live: np.ndarray         # (lanes,) bool: not empty, not diverged
    m: np.ndarray            # (lanes,)
    q: np.ndarray            # (lanes,)
    sign: np.ndarray         # (lanes,)
    b: np.ndarray            # (lanes,) intercepts
    weight: np.ndarray       # (M, lanes) uint8, s transposed
    e: np.ndarray            # (N, lanes) float32
    h: np.ndarray            # (rows of data, lanes) float32: x.e, then coefficients
    test_h: np.ndarray
    d: np.ndarray            # (N, lanes) float32
    total: np.ndarray        # (N, lanes)
    order: np.ndarray        # (lanes, M + 1) see `minibatch.draw_fixed_size`
    words: np.ndarray        # random bits of a mini-batch
    normals: np.ndarray      # scratch of thermal noise
    buffers: np.ndarray


def make_lanes(landscape: Landscape, width: int, remembers: bool) -> Lanes:
    """Empty lanes."""
    samples, n = landscape.h0.size, landscape.w0.size
    return Lanes(np.zeros((n, width)), np.zeros((n if remembers else 0, width)), np.ones((width, samples), np.uint8),
                 np.zeros(width, np.bool_), np.zeros(width), np.zeros(width), np.ones(width), np.zeros(width),
                 np.ones((samples, width), np.uint8), aligned((n, width)), aligned((landscape.data.shape[0], width)),
                 aligned((landscape.test.shape[0], width)), aligned((n, width)), np.empty((n, width)),
                 np.array([minibatch.make_order(samples)] * width), minibatch.make_words(samples), np.empty(BLOCK), buffers())


@cache
def _coefficients(loss: Loss):
    """C function that turns products x.e, in place, into coefficients scale s dv(f, y); it loops over all samples itself, so
    that the loss is compiled into the loop."""
    dv = loss.dv
    numbers = types.CPointer(types.float64)
    pointers = (types.CPointer(types.float32), numbers, numbers, numbers, types.CPointer(types.uint8))

    @cfunc(types.void(*pointers, types.intp, types.intp, types.float64, types.float64), cache=built_in(loss.name))
    def coefficients(products, h0, sign, shift, weight, samples, lanes, root, scale):
        h, teacher, side = numba.carray(products, (samples, lanes)), numba.carray(h0, samples), numba.carray(sign, lanes)
        s, b = numba.carray(weight, (samples, lanes)), numba.carray(shift, lanes)
        for mu in range(samples):
            for lane in range(lanes):
                field = field_of(h[mu, lane], teacher[mu], side[lane], root, b[lane])
                h[mu, lane] = coefficient(scale, s[mu, lane], dv(field, teacher[mu]))

    return coefficients


@njit(cache=True, nogil=True)
def _overlaps(a, b, out):
    """out[lane] = a[:, lane].b[:, lane]/N."""
    out[:] = 0.0
    for i in range(a.shape[0]):
        for lane in range(a.shape[1]):
            out[lane] += a[i, lane] * b[i, lane]
    for lane in range(a.shape[1]):
        out[lane] /= a.shape[0]


@njit(cache=True, nogil=True)
def _overlaps_with(a, w0, out):
    """out[lane] = a[:, lane].w0/N."""
    out[:] = 0.0
    for i in range(a.shape[0]):
        for lane in range(a.shape[1]):
            out[lane] += a[i, lane] * w0[i]
    for lane in range(a.shape[1]):
        out[lane] /= a.shape[0]


@njit(cache=True, nogil=True)
def _draw(rule, pace, lanes, streams, step):
    """Draw the mini-batch of every live lane into lanes.s and lanes.weight."""
    width, samples = lanes.s.shape
    for lane in range(width):
        if not lanes.live[lane]:
            continue
        if rule.batch == minibatch.BERNOULLI or rule.batch == minibatch.PERSISTENT:
            minibatch.draw_rows(rule.batch, lanes.s[lane], 0, samples, streams[lane], step, pace.enter, pace.switch_on,
                                pace.switch_off, lanes.words)
        else:
            minibatch.draw_fixed_size(rule.batch, lanes.s[lane], pace.first_place, pace.last_place, streams[lane], pace.order,
                                      lanes.order[lane])
    for mu in range(samples):
        for lane in range(width):
            lanes.weight[mu, lane] = lanes.s[lane, mu]


@njit(cache=True, nogil=True)
def _update(rule, pace, lanes, streams, step):
    """One step of the weights from the gradients in lanes.total, as `dynamics.update`."""
    n, width = lanes.w.shape
    decay, rate = decay_of(pace.eta, pace.ridge), rate_of(pace.eta, n)
    if rule.momentum == NO_MOMENTUM:
        for i in range(n):
            for lane in range(width):
                lanes.w[i, lane] = moved(NO_MOMENTUM, decay, 0.0, rate, lanes.w[i, lane], 0.0, lanes.total[i, lane])
    else:
        for i in range(n):
            for lane in range(width):
                old = lanes.w[i, lane]
                lanes.w[i, lane] = moved(rule.momentum, decay, pace.beta, rate, old, lanes.before[i, lane], lanes.total[i, lane])
                lanes.before[i, lane] = old
    if pace.noise > 0.0:
        for lane in range(width):
            if lanes.live[lane]:
                add_noise(lanes.w[:, lane], pace.noise, streams[lane], step, lanes.normals, lanes.buffers)
    if rule.sphere:
        _overlaps(lanes.w, lanes.w, lanes.q)
        for lane in range(width):
            lanes.q[lane] = onto_sphere(lanes.q[lane]) if lanes.live[lane] else 0.0
        for i in range(n):
            for lane in range(width):
                lanes.w[i, lane] *= lanes.q[lane]


@njit(cache=True, nogil=True)
def _push_intercepts(pace, lanes, samples):
    """One step of the intercepts from the coefficients in lanes.h, as `dynamics.push_intercept`."""
    for lane in range(lanes.live.size):
        total = 0.0
        for mu in range(samples):
            total += lanes.h[mu, lane]
        lanes.b[lane] = pushed(lanes.b[lane], pace.eta, total, lanes.w.shape[0])


@njit(cache=True, nogil=True)
def _record(landscape, rule, pace, averages, lanes, column, curves):
    """Put m, loss, q, the error on fresh samples and observables of every live lane into curves[:, :, column]."""
    root = 1.0 / np.sqrt(lanes.w.shape[0])
    times(landscape.test, lanes.e, lanes.test_h)
    _overlaps(lanes.w, lanes.w, lanes.q)
    for lane in range(lanes.live.size):
        if not lanes.live[lane]:
            continue
        loss, error, wrong, wrong_fresh = 0.0, 0.0, 0.0, 0.0
        for mu in range(landscape.h0.size):
            h0 = landscape.h0[mu]
            h = field_of(lanes.h[mu, lane], h0, lanes.sign[lane], root, lanes.b[lane])
            loss += call_scalar(pace.v, h, h0)
            if not rule.anchored:
                wrong += call_scalar(pace.is_wrong, h, h0)
        for mu in range(landscape.test_h0.size):
            h0 = landscape.test_h0[mu]
            h = field_of(lanes.test_h[mu, lane], h0, lanes.sign[lane], root, lanes.b[lane])
            error += miss(rule, h, h0)**2
            if not rule.anchored:
                wrong_fresh += call_scalar(pace.is_wrong, h, h0)
        curves[lane, M, column] = lanes.m[lane]
        curves[lane, LOSS, column] = loss / landscape.h0.size
        curves[lane, Q, column] = lanes.q[lane]
        curves[lane, MSE_FRESH, column] = error / landscape.test_h0.size
        if not rule.anchored:
            curves[lane, TRAINING_ERROR, column] = wrong / landscape.h0.size
            curves[lane, ERROR_FRESH, column] = wrong_fresh / landscape.test_h0.size
            curves[lane, B, column] = lanes.b[lane]
        if averages.size:
            fields = np.empty(landscape.h0.size)
            for mu in range(fields.size):
                fields[mu] = field_of(lanes.h[mu, lane], landscape.h0[mu], lanes.sign[lane], root, lanes.b[lane])
            record_averages(averages, fields, landscape.h0, landscape.teacher, curves[lane, :, column])


@njit(cache=True, nogil=True)
def _drop(lanes, lane, column, curves):
    """Take a diverged lane out."""
    lanes.live[lane] = False
    lanes.w[:, lane] = 0.0
    lanes.before[:, lane] = 0.0
    lanes.e[:, lane] = np.float32(0.0)
    curves[lane, :, column:] = np.nan


@njit(cache=True, nogil=True)
def advance_lanes(landscape, rule, course, coefficients, streams, lanes, first, last, record, curves, diverged_at):
    """Take all lanes from step first to step last; like `dynamics.advance`.

    coefficients: addresses for the losses; streams: (2, lanes) of mini-batches and thermal noise; curves: (lanes, recorded, R);
    diverged_at: (lanes,).
    """
    w0, h0, data = landscape.w0, landscape.h0, landscape.data
    n, width = lanes.w.shape
    root, column = 1.0 / np.sqrt(n), np.searchsorted(record, first)
    for step in range(first, last + 1):
        wanted = column < record.size and record[column] == step
        if step == last and not wanted:
            break
        _overlaps_with(lanes.w, w0, lanes.m)
        for lane in range(width):
            lanes.sign[lane] = (1.0 if lanes.m[lane] >= 0.0 else -1.0) if rule.anchored else 0.0
            if lanes.live[lane] and not np.isfinite(lanes.m[lane]):
                diverged_at[lane] = step
                _drop(lanes, lane, column, curves)
        pace = pace_of(course, step)
        if wanted or rule.momentum != NESTEROV:
            for i in range(n):
                for lane in range(width):
                    lanes.e[i, lane] = (lanes.w[i, lane] - lanes.sign[lane] * w0[i]) * lanes.live[lane]
            times(data, lanes.e, lanes.h)
        if wanted:
            _record(landscape, rule, pace, course.averages, lanes, column, curves)
            for lane in range(width):
                if lanes.live[lane] and not np.isfinite(curves[lane, LOSS, column] + curves[lane, MSE_FRESH, column]):
                    diverged_at[lane] = step
                    _drop(lanes, lane, column, curves)
            column += 1
        if step == last:
            break
        if rule.momentum == NESTEROV:    # records are made at w, the gradient is taken at the point ahead
            for i in range(n):
                for lane in range(width):
                    y = point_ahead(pace.beta, lanes.w[i, lane], lanes.before[i, lane])
                    lanes.e[i, lane] = (y - lanes.sign[lane] * w0[i]) * lanes.live[lane]
            times(data, lanes.e, lanes.h)
        if rule.batch != minibatch.FULL:
            _draw(rule, pace, lanes, streams[0], step)
        call_many(coefficients[course.loss[min(step, course.loss.size - 1)]], lanes.h.ctypes.data, h0.ctypes.data,
                  lanes.sign.ctypes.data, lanes.b.ctypes.data, lanes.weight.ctypes.data, h0.size, width, root, pace.scale)
        if rule.bias:
            _push_intercepts(pace, lanes, h0.size)
        lanes.total[:] = 0.0
        for top in range(0, data.shape[0], SUM_ROWS):
            lanes.d[:] = np.float32(0.0)
            add_transposed(data, lanes.h, top, min(top + SUM_ROWS, data.shape[0]), lanes.d)
            for i in range(n):
                for lane in range(width):
                    lanes.total[i, lane] += lanes.d[i, lane]
        _update(rule, pace, lanes, streams[1], step)


def batches(instances: np.ndarray, steps: np.ndarray, threads: int) -> list[np.ndarray]:
    """The instances grouped by step and cut into batches, as wide as possible while every thread has work."""
    found = []
    for step in np.unique(steps[instances]):
        here = instances[steps[instances] == step]
        each = -(-here.size // threads)
        width = next((width for width in WIDTHS if width >= each), WIDTHS[-1])
        found += [here[first:first + width] for first in range(0, here.size, width)]
    return found


class SharedTrajectories:
    """A batch of instances on one landscape, all at the same step."""

    def __init__(self, run: Run, instances: np.ndarray, states: States, landscape: Landscape):
        problem, seed = run.problem, run.simulation.seed
        width = min(width for width in WIDTHS if width >= instances.size)
        self.instances, self.landscape = instances, landscape
        self.lanes = make_lanes(landscape, width, states.before.shape[1] > 0)
        self.rule, self.course, self.record = make_rule(run), make_course(run, landscape.h0.size), states.record
        self.coefficients = np.array([_coefficients(loss).address for loss in Experiment.from_run(run).losses])
        self.streams = np.zeros((2, width), np.uint64)
        self.curves, self.diverged_at = np.full((width, *states.curves.shape[1:]), np.nan), np.full(width, -1)
        self.step = max(0, int(states.step[instances[0]]))
        work = make_work(landscape)
        for lane, i in enumerate(instances):
            self.streams[:, lane] = make_noise(seed, i)
            self.curves[lane] = states.curves[i]
            self.lanes.live[lane] = True
            if states.step[i] == NOT_STARTED:
                self.lanes.w[:, lane] = start_weights(problem, landscape, work, seed, i)
                self.lanes.before[:, lane] = self.lanes.w[:states.before.shape[1], lane]
            else:
                self.lanes.w[:, lane], self.lanes.b[lane] = states.w[i], states.b[i]
                self.lanes.before[:, lane] = states.before[i]
                if states.s.shape[1]:
                    self.lanes.s[lane] = states.s[i]

    @property
    def finished(self) -> bool:
        """True if all lanes have diverged."""
        return not self.lanes.live.any()

    def advance(self, last: int) -> None:
        """Take all lanes to step `last`."""
        advance_lanes(self.landscape, self.rule, self.course, self.coefficients, self.streams, self.lanes,
                      self.step, last, self.record, self.curves, self.diverged_at)
        self.step = last

    def post(self, states: States) -> None:
        """Copy steps, weights and curves of the instances into the states."""
        for lane, i in enumerate(self.instances):
            diverged = self.diverged_at[lane]
            states.step[i], states.diverged_at[i] = self.step if diverged < 0 else diverged, diverged
            states.w[i], states.curves[i], states.b[i] = self.lanes.w[:, lane], self.curves[lane], self.lanes.b[lane]
            states.before[i] = self.lanes.before[:, lane]
            if states.s.shape[1]:
                states.s[i] = self.lanes.s[lane]
