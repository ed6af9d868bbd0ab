"""The loss of every sample at the present step, compiled once for a loss; with a loss of the package, kept on disk."""

from __future__ import annotations

from functools import lru_cache

from numba import njit

from dmft.core.compiled import UNCOUNTED
from dmft.model.loss import Loss
from dmft.model.losses import built_in
from dmft.samples.formulas import batch_of, curvature_of, field_of, gradient_of, label_slope_of, next_step_of, step_of
from dmft.samples.lost import GONE, leaves


@lru_cache
def make_fields(loss: Loss):
    """A function that fills state.Fields, elementwise, and marks samples that are lost. Eqs. [dmft-h], [lost]."""
    v, dv, d2v, dv_dy, is_wrong = loss.v, loss.dv, loss.d2v, loss.dv_dy, loss.is_wrong
    # Numba tells code on disk apart by the variables of a closure, not by globals.
    escapes, at, batch_for, moves, moves_next = leaves, field_of, batch_of, step_of, next_step_of
    gradient, curvature, label_slope = gradient_of, curvature_of, label_slope_of

    @njit(**{**UNCOUNTED, "cache": built_in(loss.name)})
    def fields(state, learning, m, b, eta, scale, classes, lost_step, out):
        h, k, s, sd, y, Y = state.h, state.k, state.s, state.sd, state.y, state.Y
        out_v, g, gp, g_y, slope, wrong = out.v, out.g, out.gp, out.g_y, learning.slope, learning.wrong
        for i in range(len(h)):
            field, batch = at(sd[i], h[i], m, k[i], b), batch_for(scale, s[i], sd[i])
            out_v[i] = v(field, y[i])  # [loss]
            g[i] = gradient(batch, dv(field, y[i]))
            gp[i] = curvature(batch, sd[i], d2v(field, y[i]))
            g_y[i] = label_slope(batch, dv_dy(field, y[i]), slope[i])
            step = moves(eta, sd[i], g[i])
            if s[i] < 0.0 or (escapes(step, field, y[i], lost_step)  # [lost]
                              and escapes(moves_next(eta, sd[i], scale, dv(field - step, y[i])), field - step, y[i], lost_step)):
                s[i], Y[i] = GONE, 0.0
                out_v[i], g[i], gp[i], g_y[i] = 0.0, 0.0, 0.0, 0.0  # [lost]
        if classes:
            for i in range(len(h)):
                wrong[i] = is_wrong(at(sd[i], h[i], m, k[i], b), y[i])

    return fields
