"""The loss at the present fields of the samples, and what the averages need besides."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numba import njit

from dmft.model.losses import Loss


class Learning(NamedTuple):
    """What the averages need besides, each (count,)."""

    slope: np.ndarray  # derivative of the label in h0
    direct: np.ndarray  # weight of g in what mu has besides E_n, where that needs no Y
    wrong: np.ndarray  # 1 where the predicted label is not y, at the present step


class Fields(NamedTuple):
    """The loss at the present step, each (count,): v, g = (s/l) sd v', g' = (s/l) sd^2 v'', and (s/l) sd dv'/dy dy/dh0."""

    v: np.ndarray
    g: np.ndarray
    gp: np.ndarray
    g_y: np.ndarray


@lru_cache
def make_fields(loss: Loss):
    """Elementwise evaluation of Fields, compiled once for a loss."""
    v, dv, d2v, dv_dy, L = loss.v, loss.dv, loss.d2v, loss.dv_dh0, loss.threshold

    @njit
    def fields(state, learning, m, b, scale, classes, h_w, m_w, out):
        for i in range(len(state.h)):
            sd, y = state.sd[i], state.y[i]
            field, batch = sd * (state.h[i] + m * state.k[i]) + b, scale * state.s[i] * sd
            out.v[i] = v(sd * (h_w[i] + m_w * state.k[i]) + b, y)
            out.g[i] = batch * dv(field, y)
            out.gp[i] = batch * sd * d2v(field, y)
            out.g_y[i] = batch * dv_dy(field, y) * learning.slope[i]
        if classes:
            for i in range(len(state.h)):
                field = state.sd[i] * (h_w[i] + m_w * state.k[i]) + b
                learning.wrong[i] = state.y[i] * (field * field - L * L if L > 0.0 else field) < 0.0

    return fields
