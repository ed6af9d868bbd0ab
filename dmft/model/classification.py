"""Losses of classification, v(f, y) with labels y = +-1: logistic, smooth hinge, and the door of three clusters.

All have a continuous v' and a bounded v''. A loss whose v' jumps (the perceptron, the hinge) would be solved wrongly and silently:
derivatives along a path miss the delta function in v''.
"""

from __future__ import annotations

from functools import lru_cache
from typing import ClassVar

import numpy as np
from numba.extending import register_jitable

from dmft.core.schema import number, option
from dmft.model.loss import Loss
from dmft.model.loss_family import LossFamily
from dmft.model.registry import References


@register_jitable
def _softplus(u):
    """log(1 + exp(u)), for large |u| too."""
    return np.maximum(u, 0.0) + np.log1p(np.exp(-np.abs(u)))


@register_jitable
def _sigmoid(u):
    """1/(1 + exp(-u))."""
    return 0.5 * (1.0 + np.tanh(0.5 * u))


@register_jitable
def _logistic_v(f, y):
    return _softplus(-y * f)


@register_jitable
def _logistic_dv(f, y):
    return -y * _sigmoid(-y * f)


@register_jitable
def _logistic_d2v(f, y):
    p = _sigmoid(-y * f)
    return y * y * p * (1.0 - p)


@register_jitable
def _logistic_dv_dy(f, y):
    p = _sigmoid(-y * f)
    return -p + y * f * p * (1.0 - p)


@register_jitable
def _hinge_v(f, y):
    u = np.maximum(1.0 - y * f, 0.0)
    square = np.minimum(u, 1.0)
    return square * (u - 0.5 * square)


@register_jitable
def _hinge_dv(f, y):
    return -y * np.minimum(np.maximum(1.0 - y * f, 0.0), 1.0)


@register_jitable
def _hinge_d2v(f, y):
    u = 1.0 - y * f
    return y * y * ((u > 0.0) & (u < 1.0))


@register_jitable
def _hinge_dv_dy(f, y):
    u = 1.0 - y * f
    return y * f * ((u > 0.0) & (u < 1.0)) - np.minimum(np.maximum(u, 0.0), 1.0)


@lru_cache
def door(L: float) -> Loss:
    """log(1 + exp(-y (f^2 - L^2))): labels +1 outside of |f| < L, -1 inside."""
    width = L * L

    @register_jitable
    def v(f, y):
        return _softplus(-y * (f * f - width))

    @register_jitable
    def dv(f, y):
        return -2.0 * y * f * _sigmoid(-y * (f * f - width))

    @register_jitable
    def d2v(f, y):
        p = _sigmoid(-y * (f * f - width))
        return -2.0 * y * p + 4.0 * y * y * f * f * p * (1.0 - p)

    @register_jitable
    def dv_dy(f, y):
        p = _sigmoid(-y * (f * f - width))
        return -2.0 * f * p + 2.0 * y * f * (f * f - width) * p * (1.0 - p)

    return Loss("door", v, dv, d2v, dv_dy, labels="sign", accepts=("sign",), threshold=L)


LOGISTIC = Loss("logistic", _logistic_v, _logistic_dv, _logistic_d2v, _logistic_dv_dy, labels="sign", accepts=("sign",),
                convex=True)
SMOOTH_HINGE = Loss("smooth_hinge", _hinge_v, _hinge_dv, _hinge_d2v, _hinge_dv_dy, labels="sign", accepts=("sign",),
                    convex=True, kinks=(0.0, 1.0))


class Door(LossFamily, name="door"):
    """The door of a width L."""

    door: float = option(number(0.0, above=True), default=0.7, doc="width L of the door loss")

    def make(self, labels: str = "") -> Loss:
        return door(self.door)


class Logistic(LossFamily, name="logistic"):
    """log(1 + exp(-y f))."""

    references: ClassVar[References] = (("mignacco2020dynamical", "classification with the logistic loss"),)

    def make(self, labels: str = "") -> Loss:
        return LOGISTIC


class SmoothHinge(LossFamily, name="smooth_hinge"):
    """max(0, 1 - y f), rounded off over a width of 1."""

    def make(self, labels: str = "") -> Loss:
        return SMOOTH_HINGE
