"""The formulas of a step for one sample and one weight: written here once, compiled into the loops of dynamics.py, rows.py and
shared.py, and translated for those of a GPU (sgd_sim/gpu/layout.py). Eqs. [sgd-step], [momentum]."""

from __future__ import annotations

import numpy as np
from numba import njit
from numba.extending import register_jitable

NO_MOMENTUM, HEAVY_BALL, NESTEROV = range(3)


@register_jitable
def decay_of(eta, ridge):
    """What is left of a weight after a step without gradient."""
    return 1.0 - eta * ridge


@register_jitable
def rate_of(eta, n):
    """What the sum of g_mu x_mu is multiplied by."""
    return eta / np.sqrt(n)


@njit(cache=True, nogil=True, inline="always")
def field_of(product, label, sign, root, shift):
    """The field of a sample from x.e, where e is the deviation from sign w0 and the label h0 (sign = 0 where it is not)."""
    return sign * label + root * product + shift


@njit(cache=True, nogil=True, inline="always")
def coefficient(scale, weight, slope):
    """g_mu, of a sample's mini-batch weight and the slope of its loss."""
    return scale * weight * slope


@njit(cache=True, nogil=True, inline="always")
def point_ahead(beta, w, before):
    """Where Nesterov's momentum takes the gradient."""
    return w + beta * (w - before)


@njit(cache=True, nogil=True, inline="always")
def moved(momentum, decay, beta, rate, w, before, total):
    """A weight after a step with the gradient `total`, without noise: (A - eta lambda) w - B w_before - eta g, or with the point y
    ahead (1 - eta lambda) y - eta g."""
    if momentum == NO_MOMENTUM:
        return decay * w - rate * total
    if momentum == NESTEROV:
        return decay * point_ahead(beta, w, before) - rate * total
    return (decay + beta) * w - beta * before - rate * total


@njit(cache=True, nogil=True, inline="always")
def onto_sphere(q):
    """What weights with |w|^2/N = q are multiplied by to lie on the sphere."""
    return 1.0 / np.sqrt(q)


@njit(cache=True, nogil=True, inline="always")
def pushed(b, eta, total, n):
    """The intercept after a step: b - (eta/N) sum_mu (s/l) v' over the mini-batch."""
    return b - eta * total / n


@njit(cache=True, nogil=True)
def miss(rule, field, label):
    """Error of the prediction for a label: |h| - |h0|, h - h0, or |h|^power - y."""
    if not rule.anchored and rule.power > 0.0:
        return abs(field)**rule.power - label
    return abs(field) - abs(label) if rule.absolute and rule.anchored else field - label
