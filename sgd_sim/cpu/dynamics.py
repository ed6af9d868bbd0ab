"""The dynamics of instances: w_{n+1} = a_n [A y_n - B w_{n-1} - eta sum_mu g_mu x_mu/sqrt(N) - eta lambda y_n + noise], with the
gradient at y_n = w_n + l (w_n - w_{n-1}). Eqs. [sgd-step], [momentum].

w is kept in float64. The pass over the data uses the deviation e = w -+ w0 from the nearer of the two solutions,
rounded to float32, and h_mu = +-h0_mu + x_mu.e/sqrt(N): the rounding of float32 is relative to e, so that the
overlap and the loss stay accurate (to about 1e-6 of 1 - m and of the loss) however near to the solution w is. Where labels are
not h0 itself (noise, signs, clusters) w0 is no solution, e = w, and the array h0 holds the labels.

How data are passed over is the business of by_rows.py (one instance on its own data) or by_products.py (many starts on the same
data). Files, ranks and run files are unknown here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numba.extending import overload

from dmft.core.compiled import UNCOUNTED
from sgd_sim.cpu import by_products, by_rows
from sgd_sim.cpu.two_times import pair_gradients, pair_weights, push
from sgd_sim.kernels.fast_normals import BLOCK, fill_block
from sgd_sim.kernels.formulas import keep_of, miss, moved, point_ahead, rate_of
from sgd_sim.kernels.rows import call_scalar
from sgd_sim.kernels.step_table import settings_of
from sgd_sim.recording import ERROR_FRESH, LOSS, MSE_FRESH, TRAINING_ERROR, B, M, Q

_MODULES = {by_rows.ByRows: by_rows, by_products.ByProducts: by_products}
_OPTIONS: Any = {"_nrt": UNCOUNTED["_nrt"]}


def _of_the_pass(name: str, doc: str):
    """The function of that name in the module of the pass: of the class of its first argument, as compiled code sees it."""
    def of_the_pass(*arguments):
        return getattr(_MODULES[type(arguments[0])], name)(*arguments)

    of_the_pass.__name__, of_the_pass.__doc__ = name, doc
    choose = overload(of_the_pass, strict=False, jit_options=_OPTIONS)
    choose(lambda passes, *rest: getattr(_MODULES[passes.instance_class], name))
    return of_the_pass


visit = _of_the_pass("visit", "The fields at lanes.e, of the mini-batch or of everything. draws: a gradient is wanted afterwards.")
gradient = _of_the_pass("gradient", "lanes.total = the gradients at the point that was visited last.")
push_intercepts = _of_the_pass("push_intercepts", "One step of the intercepts, after `gradient`.")
slope = _of_the_pass("slope", "g_mu of a sample in the mini-batch, after `gradient`; 0 outside it.")
visit_fresh = _of_the_pass("visit_fresh", "The fields of new samples at lanes.e.")
field = _of_the_pass("field", "The field of a sample, after `visit`.")
fresh_field = _of_the_pass("fresh_field", "The field of a new sample, after `visit_fresh`.")


@njit(**UNCOUNTED, nogil=True)
def overlaps(a, b, out):
    """out[lane] = a[:, lane].b[:, lane]/N; b may have one column for all lanes."""
    n, width = a.shape
    if width == 1:    # kept in a register
        total = 0.0
        for i in range(n):
            total += a[i, 0] * b[i, 0]
        out[0] = total / n
        return
    out[:] = 0.0
    for i in range(n):
        if b.shape[1] == 1:
            for lane in range(width):
                out[lane] += a[i, lane] * b[i, 0]
        else:
            for lane in range(width):
                out[lane] += a[i, lane] * b[i, lane]
    for lane in range(width):
        out[lane] /= n


@njit(**UNCOUNTED, nogil=True)
def _deviate(w, before, lookahead, w0, sign, live, e):
    """e = y -+ w0 where y is the point ahead, w itself for lookahead = 0."""
    n, width = w0.size, sign.size
    if width == 1:
        side = sign[0]
        if lookahead == 0.0:
            for i in range(n):
                e[i, 0] = w[i, 0] - side * w0[i]
        else:
            for i in range(n):
                e[i, 0] = point_ahead(lookahead, w[i, 0], before[i, 0]) - side * w0[i]
        return
    for i in range(n):
        if lookahead == 0.0:
            for lane in range(width):
                e[i, lane] = (w[i, lane] - sign[lane] * w0[i]) * live[lane]
        else:
            for lane in range(width):
                y = point_ahead(lookahead, w[i, lane], before[i, lane])
                e[i, lane] = (y - sign[lane] * w0[i]) * live[lane]


@njit(**UNCOUNTED, nogil=True)
def update(flags, settings, lanes, step):
    """One step of the weights from the gradients sum_mu g_mu x_mu in lanes.total; then `before` are the old weights, where the rule
    remembers them."""
    n, width = lanes.w.shape
    w, before, total = lanes.w.reshape(-1), lanes.before.reshape(-1), lanes.total.reshape(-1)
    keep, recoil, lookahead = keep_of(settings.inertia, settings.eta, settings.ridge), settings.recoil, settings.lookahead
    rate = rate_of(settings.eta, n)
    if flags.remembers:
        for i in range(w.size):
            old = w[i]
            w[i] = moved(keep, recoil, lookahead, rate, old, before[i], total[i])
            before[i] = old
    else:
        for i in range(w.size):
            w[i] = moved(keep, 0.0, 0.0, rate, w[i], 0.0, total[i])
    if settings.noise > 0.0:
        for lane in range(width):
            if lanes.live[lane]:
                add_noise(lanes.w[:, lane], settings.noise, lanes.thermal[lane], step, lanes.normals, lanes.buffers)
    if flags.rescaling:
        overlaps(lanes.w, lanes.w, lanes.q)
        for lane in range(width):
            lanes.q[lane] = call_scalar(flags.rescaling, (lanes.q[lane],))
        if width == 1:
            a_n = lanes.q[0]
            for i in range(n):
                w[i] *= a_n  # [sgd-step]
            return
        for i in range(n):
            for lane in range(width):
                lanes.w[i, lane] *= lanes.q[lane]  # [sgd-step]


@njit(**UNCOUNTED, nogil=True)
def add_noise(w, size, stream, step, normals, work):
    """Add size times the standard normals of a step to w; normals, work: scratch."""
    for first in range(0, w.size, BLOCK):
        fill_block(stream, step, first, normals, work)
        for i in range(first, min(first + BLOCK, w.size)):
            w[i] += size * normals[i - first]  # [sgd-step]


@njit(**UNCOUNTED, nogil=True)
def _record(landscape, flags, settings, averages, passes, lanes, records, column, begun):
    """Put m, loss, q, the errors and observables (their addresses in `averages`, the last rows) of every live lane into
    curves[:, :, column]; where they are asked for, the fields of fresh samples into fresh[:, column - begun]."""
    visit_fresh(passes, landscape, settings, lanes)
    overlaps(lanes.w, lanes.w, lanes.q)
    samples, tests = landscape.h0.size, landscape.test_h0.size
    for lane in range(lanes.live.size):
        if not lanes.live[lane]:
            continue
        loss, error, wrong, wrong_fresh = 0.0, 0.0, 0.0, 0.0
        for mu in range(samples):
            h, label = field(passes, landscape, lanes, lane, mu), landscape.h0[mu]
            loss += call_scalar(settings.v, (h, label))
            if not flags.anchored:
                wrong += call_scalar(settings.is_wrong, (h, label))
        for mu in range(tests):
            h, label = fresh_field(passes, landscape, lanes, lane, mu), landscape.test_h0[mu]
            error += miss(flags, h, label)**2    # eq. (B.7) of the paper
            if records.fresh.size:
                records.fresh[lane, column - begun, mu] = h
            if not flags.anchored:
                wrong_fresh += call_scalar(settings.is_wrong, (h, label))
        row = records.curves[lane, :, column]
        row[M], row[LOSS], row[Q], row[MSE_FRESH] = lanes.m[lane], loss / samples, lanes.q[lane], error / tests
        if not flags.anchored:
            row[TRAINING_ERROR], row[ERROR_FRESH], row[B] = wrong / samples, wrong_fresh / tests, lanes.b[lane]
        for k in range(averages.size):
            total = 0.0
            for mu in range(samples):
                h = field(passes, landscape, lanes, lane, mu)
                total += call_scalar(averages[k], (h, landscape.h0[mu], landscape.teacher[mu]))
            row[row.size - averages.size + k] = total / samples


@njit(**UNCOUNTED, nogil=True)
def _pair(landscape, flags, settings, passes, lanes, pairs, step, column):
    """Enter M_C of every live lane, and push the second copies; after `gradient`."""
    n, now = lanes.w.shape[0], pairs.now
    for lane in range(lanes.live.size):
        if lanes.live[lane]:
            for mu in range(now.size):
                now[mu] = landscape.spread[mu] * slope(passes, landscape, flags, settings, lanes, lane, mu)
            pair_gradients(pairs, lane, n, step, column)
    push(pairs, lanes, rate_of(settings.eta, n), step)


@njit(**UNCOUNTED, nogil=True)
def _drop(live, lane, step, column, records):
    """Take a lane out that has diverged; returns 1."""
    live[lane] = False
    records.diverged_at[lane] = step
    records.curves[lane, :, column:] = np.nan
    return 1


@njit(**UNCOUNTED, nogil=True)
def advance(landscape, flags, table, passes, lanes, records, first, last):
    """Take all lanes from step first to step last, or until none is left.

    Steps of `records` in [first, last] fill their columns. A record at `last` is made before the mini-batch of that step is drawn
    (so that it has no M_C), and is made again, with the same numbers, when the run continues.
    """
    w0, curves, live, sign = landscape.w0, records.curves, lanes.live, lanes.sign
    w, before, e, w0_column = lanes.w, lanes.before, lanes.e, w0.reshape(-1, 1)
    begun, left = np.searchsorted(records.steps, first), live.sum()
    column = begun
    for step in range(first, last + 1):
        wanted = column < records.steps.size and records.steps[column] == step
        if step == last and not wanted:
            break
        overlaps(w, w0_column, lanes.m)
        for lane in range(sign.size):
            sign[lane] = (1.0 if lanes.m[lane] >= 0.0 else -1.0) if flags.anchored else 0.0
            if live[lane] and not np.isfinite(lanes.m[lane]):
                left -= _drop(live, lane, step, column, records)
        if not left:
            break
        settings = settings_of(table, step)
        if wanted or not flags.looks_ahead:
            _deviate(w, before, 0.0, w0, sign, live, e)
            visit(passes, landscape, flags, settings, lanes, step, wanted, step < last and not flags.looks_ahead)
        if wanted:
            _record(landscape, flags, settings, table.averages, passes, lanes, records, column, begun)
            for lane in range(sign.size):    # fields of new samples overflow too
                if live[lane] and not np.isfinite(curves[lane, LOSS, column] + curves[lane, MSE_FRESH, column]):
                    left -= _drop(live, lane, step, column, records)
            if records.pairs.steps.size:
                pair_weights(records.pairs, lanes, step, column)
            column += 1
        if step == last or not left:
            break
        if flags.looks_ahead:    # records are made at w, the gradient is taken at the point ahead
            _deviate(w, before, settings.lookahead, w0, sign, live, e)
            visit(passes, landscape, flags, settings, lanes, step, False, True)
        gradient(passes, landscape, flags, settings, lanes, step)
        if wanted and records.pairs.steps.size:
            _pair(landscape, flags, settings, passes, lanes, records.pairs, step, column - 1)
        if flags.bias:
            push_intercepts(passes, landscape, flags, settings, lanes)
        update(flags, settings, lanes, step)
