"""What a loss is: v(f, y) of one sample with its derivatives, and which labels it is made for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from numba.extending import register_jitable

Scalar = Callable[[Any, Any], Any]  # of two numbers, or arrays
# What a sample tells of the teacher's field, and what is then the prediction: |h0| and |f|, h0 and f, h0^2 and f^2, signs.
LABELS = ("abs", "field", "square", "sign")


@lru_cache
def decision(L: float) -> Scalar:
    """Whether the label that is predicted from a field f, sign(f) or with L > 0 sign(f^2 - L^2), is not y = +-1."""
    width = L * L

    @register_jitable
    def beyond_the_width(f, y):
        return y * (f * f - width) < 0.0

    return beyond_the_width if L > 0.0 else _by_sign


@register_jitable
def _by_sign(f, y):
    return y * f < 0.0


@dataclass(frozen=True)
class Loss:
    """A loss and its derivatives: functions of two numbers (or arrays) that compiled functions can call."""

    name: str
    v: Scalar
    dv: Scalar        # dv/df
    d2v: Scalar       # d2v/df2
    dv_dy: Scalar     # d2v/df dy, used by the Stein control variate alone
    stein: bool | None = True    # whether v' has no jump in y, on which that control variate rests; None: see `jumps_in_label`
    cuda: str = ""        # the same four functions in CUDA C++, where a user gave them; else they are translated (cuda_loss.py)
    labels: str = ""      # what a sample tells of h0: one of LABELS, or "" where the loss does not say
    accepts: tuple[str, ...] = LABELS    # labels that make sense with this loss
    convex: bool = False  # convex in f: gradient descent then has a single limit
    kinks: tuple[float, ...] | None = ()    # values of y f at which the second derivative jumps, for y = +-1; None: not known
    smooth: bool | None = True    # v' has no jump in f: the theory would miss its delta function in v''; None: see `jumps_in_field`
    threshold: float = 0.0    # L > 0: the predicted label is sign(f^2 - L^2), not sign(f)

    @property
    def is_wrong(self) -> Scalar:
        """Whether the predicted label is not y: what theory, simulator and the averages of limits count, on CPU and GPU."""
        return decision(self.threshold)
