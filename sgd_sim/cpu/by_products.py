"""The pass over the data of many starts on one landscape: fields are H = X E and gradients X^T G, with one lane (column) per start.

Batches are 16, 32 or 64 lanes wide; what empty lanes hold is not used.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numba
import numpy as np
from numba import cfunc, types

from dmft.model.losses import Loss, built_in
from sgd_sim.cpu.lanes import Lanes
from sgd_sim.kernels import minibatch
from sgd_sim.kernels.formulas import coefficient, field_at, pushed
from sgd_sim.kernels.rows import aligned, call_many
from sgd_sim.kernels.tiles import TILE, WIDTHS, add_transposed, times
from sgd_sim.landscape import Landscape

SUM_ROWS = 32 * TILE      # rows whose gradients are added in float32 before they are added to the float64 sum


class ByProducts(NamedTuple):
    """Scratch arrays of a batch of starts, and the coefficients of the losses of a run."""

    coefficients: np.ndarray   # addresses, see `_coefficients`
    weight: np.ndarray         # (M, lanes) uint8, mini-batches
    h: np.ndarray              # (rows of data, lanes) float32: x.e, then coefficients
    test_h: np.ndarray
    d: np.ndarray              # (N, lanes) float32


def make_products(landscape: Landscape, width: int, losses: tuple[Loss, ...]) -> ByProducts:
    """Scratch for so many lanes."""
    return ByProducts(np.array([_coefficients(loss).address for loss in losses]), np.ones((landscape.h0.size, width), np.uint8),
                      aligned((landscape.data.shape[0], width)), aligned((landscape.test.shape[0], width)),
                      aligned((landscape.w0.size, width)))


def product_lanes(landscape: Landscape, starts: int, remembers: bool) -> Lanes:
    """Lanes for so many starts."""
    shape = landscape.w0.size, min(width for width in WIDTHS if width >= starts)
    return Lanes.empty(landscape, aligned(shape), np.empty(shape), remembers)


def batches(instances: np.ndarray, steps: np.ndarray, threads: int) -> list[np.ndarray]:
    """The instances grouped by step and cut into batches, as wide as possible while every thread has work."""
    found = []
    for step in np.unique(steps[instances]):
        here = instances[steps[instances] == step]
        each = -(-here.size // threads)
        width = next((width for width in WIDTHS if width >= each), WIDTHS[-1])
        found += [here[first:first + width] for first in range(0, here.size, width)]
    return found


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
                field = field_at(h[mu, lane], teacher[mu], side[lane], root, b[lane])
                h[mu, lane] = coefficient(scale, s[mu, lane], dv(field, teacher[mu]))

    return coefficients


@numba.njit(cache=True, nogil=True)
def _draw(flags, settings, lanes, weight, step):
    """Draw the mini-batch of every live lane into lanes.s and weight."""
    width, samples = lanes.s.shape
    for lane in range(width):
        if not lanes.live[lane]:
            continue
        if flags.batch == minibatch.BERNOULLI or flags.batch == minibatch.PERSISTENT:
            minibatch.draw_rows(flags.batch, lanes.s[lane], 0, samples, lanes.batch[lane], step, settings.enter, settings.switch_on,
                                settings.switch_off, lanes.words)
        else:
            minibatch.draw_fixed_size(flags.batch, lanes.s[lane], settings.first_place, settings.last_place, lanes.batch[lane],
                                      settings.order, lanes.order[lane])
    for mu in range(samples):
        for lane in range(width):
            weight[mu, lane] = lanes.s[lane, mu]


# --- for `dynamics.advance` -----------------------------------------------------------------------------------------------


def visit(passes, landscape, flags, settings, lanes, step, everything, draws):
    times(landscape.data, lanes.e, passes.h)


def gradient(passes, landscape, flags, settings, lanes, step):
    data, h0, (n, width) = landscape.data, landscape.h0, lanes.w.shape
    if flags.batch != minibatch.FULL:
        _draw(flags, settings, lanes, passes.weight, step)
    call_many(passes.coefficients[settings.loss], passes.h.ctypes.data, h0.ctypes.data, lanes.sign.ctypes.data,
              lanes.b.ctypes.data, passes.weight.ctypes.data, h0.size, width, 1.0 / np.sqrt(n), settings.scale)
    lanes.total[:] = 0.0
    for top in range(0, data.shape[0], SUM_ROWS):
        passes.d[:] = np.float32(0.0)
        add_transposed(data, passes.h, top, min(top + SUM_ROWS, data.shape[0]), passes.d)
        for i in range(n):
            for lane in range(width):
                lanes.total[i, lane] += passes.d[i, lane]


def push_intercepts(passes, landscape, flags, settings, lanes):
    for lane in range(lanes.live.size):
        total = 0.0
        for mu in range(landscape.h0.size):
            total += passes.h[mu, lane]
        lanes.b[lane] = pushed(lanes.b[lane], settings.eta, total, lanes.w.shape[0])


def slope(passes, landscape, flags, settings, lanes, lane, mu):
    return passes.h[mu, lane]


def visit_fresh(passes, landscape, settings, lanes):
    times(landscape.test, lanes.e, passes.test_h)


@numba.njit(cache=True, nogil=True)
def _field(product, label, lanes, lane):
    return field_at(product, label, lanes.sign[lane], 1.0 / np.sqrt(lanes.w.shape[0]), lanes.b[lane])


def field(passes, landscape, lanes, lane, mu):
    return _field(passes.h[mu, lane], landscape.h0[mu], lanes, lane)


def fresh_field(passes, landscape, lanes, lane, mu):
    return _field(passes.test_h[mu, lane], landscape.test_h0[mu], lanes, lane)
