"""The formulas of a step for one sample and one weight: written here once, compiled into the loops of rows.py and of
sgd_sim/cpu, and translated for those of a GPU (sgd_sim/gpu/layout.py). Eqs. [sgd-step], [momentum]."""

from __future__ import annotations

import numpy as np
from numba import njit
from numba.extending import register_jitable


@register_jitable
def keep_of(inertia, eta, ridge):
    """A - eta lambda, the coefficient of the point where the gradient is taken."""
    return inertia - eta * ridge  # [momentum]


@register_jitable
def rate_of(eta, n):
    """What the sum of g_mu x_mu is multiplied by."""
    return eta / np.sqrt(n)


@njit(cache=True, nogil=True, inline="always")
def field_at(product, label, sign, root, shift):
    """The field of a sample from x.e, where e is the deviation from sign w0 and the label h0 (sign = 0 where it is not)."""
    return sign * label + root * product + shift


@njit(cache=True, nogil=True, inline="always")
def coefficient(scale, weight, slope):
    """g_mu, of a sample's mini-batch weight and the slope of its loss."""
    return scale * weight * slope  # [sgd-step]


@njit(cache=True, nogil=True, inline="always")
def point_ahead(lookahead, w, before):
    """y, where the gradient is taken."""
    return w + lookahead * (w - before)  # [momentum]


@njit(cache=True, nogil=True, inline="always")
def moved(keep, recoil, lookahead, rate, w, before, total):
    """A weight after a step with the gradient `total`, without noise: (A - eta lambda) y - B w_before - eta g."""
    return keep * point_ahead(lookahead, w, before) - recoil * before - rate * total  # [sgd-step], [momentum]


@njit(cache=True, nogil=True, inline="always")
def pushed(b, eta, total, n):
    """The intercept after a step: b - (eta/N) sum_mu (s/l) v' over the mini-batch."""
    return b - eta * total / n


@njit(cache=True, nogil=True)
def miss(flags, field, label):
    """Error of the prediction for a label: |h|^power - y, where y is |h0| for labels that are h0 itself; or h - y."""
    if flags.power == 0.0:
        return field - label
    return abs(field) - abs(label) if flags.anchored else abs(field)**flags.power - label
