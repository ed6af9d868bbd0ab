"""The losses v(f, y) of one sample, with their derivatives, as functions that Numba can inline.

f is the student's field, y the label (the teacher's field h0, or what the data model makes of it); primes are derivatives
in f. Run files name a loss; `register_loss` adds a user's own. The losses of classification are in classification.py.

Those of the package stay plain functions, which Numba compiles where compiled code calls them: the caller is then known by their
names and can be kept on disk. A caller of a function that is compiled by itself is compiled again by every process.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numba import njit
from numba.core.errors import NumbaError
from numba.extending import register_jitable

from dmft.core.errors import UserError
from dmft.model.classification import DOOR, LOGISTIC, SMOOTH_HINGE
from dmft.model.loss import LABELS, Loss, Scalar


@register_jitable
def _phase_v(f, y):
    d = f * f - y * y
    return 0.25 * d * d


@register_jitable
def _phase_dv(f, y):
    return f * (f * f - y * y)


@register_jitable
def _phase_d2v(f, y):
    return 3.0 * f * f - y * y


@register_jitable
def _phase_dv_dy(f, y):
    return -2.0 * f * y


@register_jitable
def _linear_v(f, y):
    return 0.5 * (f - y) ** 2


@register_jitable
def _linear_dv(f, y):
    return f - y


@register_jitable
def _linear_d2v(f, y):
    return 1.0 + 0.0 * f


@register_jitable
def _linear_dv_dy(f, y):
    return -1.0 + 0.0 * f


# Phase retrieval with labels y = h0^2: v = (f^2 - y)^2/4.
@register_jitable
def _square_v(f, y):
    return 0.25 * (f * f - y) ** 2


@register_jitable
def _square_dv(f, y):
    return f * (f * f - y)


@register_jitable
def _square_d2v(f, y):
    return 3.0 * f * f - y


@register_jitable
def _square_dv_dy(f, y):
    return -f + 0.0 * y


PHASE = Loss("phase_retrieval", _phase_v, _phase_dv, _phase_d2v, _phase_dv_dy, labels="abs", accepts=("abs", "square"))
PHASE_OF_SQUARES = Loss("phase_retrieval", _square_v, _square_dv, _square_d2v, _square_dv_dy, labels="square",
                        accepts=("square",))
LINEAR = Loss("linear", _linear_v, _linear_dv, _linear_d2v, _linear_dv_dy, labels="field", convex=True)
_BUILT_IN = {loss.name: loss for loss in (PHASE, LINEAR, LOGISTIC, SMOOTH_HINGE, DOOR)}
_losses = dict(_BUILT_IN)


def loss_names() -> list[str]:
    """Names that a run file may give for problem.loss."""
    return list(_losses)


def built_in(name: str) -> bool:
    """Whether a loss comes with the package."""
    return name in _BUILT_IN


def get_loss(name: str) -> Loss:
    """The loss of that name; UserError when there is none."""
    if name in _losses:
        return _losses[name]
    near = difflib.get_close_matches(name, _losses, 1)
    hint = f"; did you mean '{near[0]}'?" if near else ""
    raise UserError(f"unknown loss {name!r} (known: {', '.join(_losses)}; a plugin may register more){hint}")


def register_loss(name: str, v: Scalar, dv: Scalar, d2v: Scalar, dv_dy: Scalar | None = None, cuda: str = "",
                  labels: str = "", convex: bool = False) -> Loss:
    """Make a user's loss known under `name`: elementwise v, dv/df and d2v/df2 of (f, y).

    `labels` says what the label of a sample is, and what the prediction: "field" (h0 and f), "abs" (|h0| and |f|; v must be even in
    y, which may carry the sign of h0), "square" (h0^2 and f^2) or "sign" (the signs of both). It is the default of run files with
    this loss, and decides what errors on new samples mean; without it y = h0, and results have no error on new samples.

    The functions are compiled here, and the derivatives compared with finite differences, so that a mistake is found at once
    and not in a wrong result. Without dv_dy a central difference of dv in y is used. A loss that jumps in y (as sign(y) does), at
    labels that a run reaches, is solved without the Stein control variate, which would miss the jump; one whose dv jumps in f is
    refused by the theory, whose result would be wrong without a warning: smooth it. For device = "gpu" the functions are
    translated to CUDA (dmft/core/to_cuda.py). What cannot be translated is told when a GPU is asked for; `cuda` is for such
    losses: CUDA C++ that defines loss_v, loss_dv, loss_d2v and loss_dv_dy of (f, y) as templates over the floating-point type.
    Either source is compared with the Python functions on the GPU.
    `convex` says that v is convex in f for every label: dmft.fixed_point then tells where gradient descent ends.
    """
    if not isinstance(name, str) or not name.isidentifier():
        raise UserError(f"register_loss: {name!r} is not a name (letters, digits and underscores)")
    if built_in(name):
        raise UserError(f"register_loss: {name!r} is built in; choose another name")
    if labels and labels not in LABELS:
        raise UserError(f"register_loss: {name!r}: labels = {labels!r}; one of {', '.join(LABELS)}, or nothing")
    functions = [_jit(name, function) for function in (v, dv, d2v)]
    mixed = _jit(name, dv_dy) if dv_dy is not None else _difference_in_y(functions[1])
    v, dv, d2v = functions
    _check_derivative(name, "dv", dv, "v in f", lambda f, y, step: v(f + step, y))
    _check_derivative(name, "d2v", d2v, "dv in f", lambda f, y, step: dv(f + step, y))
    if dv_dy is not None:
        _check_derivative(name, "dv_dy", mixed, "dv in y", lambda f, y, step: dv(f, y + step))
    if labels == "abs" and not even_in_label(v):
        raise UserError(f'register_loss: {name!r}: labels="abs", but v is not even in y, which may carry the sign of h0: take '
                        'abs(y) for y, or labels="field"')
    if convex and any(d2v(f, label) < 0 for f, y in POINTS for label in ((1.0, -1.0) if labels == "sign" else (y,))):
        raise UserError(f"register_loss: {name!r}: convex=True, but d2v is negative somewhere")
    loss = Loss(name, v, dv, d2v, mixed, None, cuda, labels, convex=convex, kinks=None, smooth=None)
    _losses[name] = loss
    return loss


def _jit(name: str, function: Scalar) -> Scalar:
    """The function compiled by Numba; UserError where it does not compile, or gives no number."""
    compiled: Any = function if hasattr(function, "py_func") else njit(function)
    try:
        float(compiled(0.3, 0.7))
    except (NumbaError, TypeError, ValueError, ZeroDivisionError) as error:
        label = getattr(function, "__name__", repr(function))
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UserError(f"register_loss: {name!r}: {label}(f, y) does not compile to a number: {reason}") from None
    return compiled


def _difference_in_y(dv: Scalar) -> Scalar:
    """The derivative of dv in y as a central difference."""
    @njit
    def dv_dy(f, y):
        step = 1e-5
        return (dv(f, y + step) - dv(f, y - step)) / (2.0 * step)

    return dv_dy


# 40 points that fill |f|, |y| < 2.5 evenly (additive recurrence of the plastic number) and lie on no likely kink.
POINTS = [tuple(5.0 * ((0.5 + n * np.array([0.7548776662466927, 0.5698402909980532])) % 1.0) - 2.5) for n in range(1, 41)]
_MOST_KINKS = 2  # points at which a slope may differ because a kink is near
_MOST_INTERVALS = 20_000  # in which a slope may not add up yet


def _check_derivative(name: str, slope_name: str, slope: Scalar, of: str, moved: Callable[[float, float, float], float]) -> None:
    """Refuse a slope that differs from (moved(f, y, step) - moved(f, y, -step)) / 2 step; a few points may be kinks."""
    step, wrong = 1e-5, 0
    for f, y in POINTS:
        difference = (moved(f, y, step) - moved(f, y, -step)) / (2.0 * step)
        wrong += not abs(slope(f, y) - difference) <= 1e-4 * (1.0 + abs(difference))
    if wrong > _MOST_KINKS:
        raise UserError(f"register_loss: {name!r}: {slope_name} is not the derivative of {of}")


def even_in_label(v: Scalar) -> bool:
    """Whether v(f, y) = v(f, -y), to rounding."""
    return all(_alike(v(f, 2 * y), v(f, -2 * y)) for f, y in POINTS)


@lru_cache
def even_in_field(loss: Loss) -> bool:
    """Whether v(f, y) = v(-f, y), to rounding."""
    return all(_alike(loss.v(2 * f, y), loss.v(-2 * f, y)) for f, y in POINTS)


def _alike(a: float, b: float) -> bool:
    return abs(a - b) <= 1e-12 * (1.0 + abs(a))


def jumps(value: Callable[[float], float], slope: Callable[[float], float], low: float, high: float, steepest: float) -> bool:
    """Whether a function with this slope jumps between two points: intervals of a grid in which it does not rise by the integral of
    its slope are halved again and again. What is smooth agrees soon, a kink late, a jump never. NaN counts as a jump, as do slopes
    above `steepest` times 1 + |value|."""
    at, rate = (np.vectorize(function, otypes=[float]) for function in (value, slope))
    edges = np.linspace(low, high, 2002)[:-1] + (high - low) * 1e-5 * np.pi    # on no likely kink, and not on the ends
    left, right = edges[:-1], edges[1:]
    for _ in range(30):
        before, after, first, last = at(left), at(right), rate(left), rate(right)
        missed = np.abs(after - before - 0.5 * (right - left) * (first + last))
        torn = ~(missed <= 1e-6 * (1.0 + np.abs(before) + np.abs(after)))
        if np.any(np.abs(first) > steepest * (1.0 + np.abs(before))) or torn.sum() > _MOST_INTERVALS:
            return True    # too steep, or the slope is that of another function
        if not torn.any():
            return False
        left, right = left[torn], right[torn]
        middle = 0.5 * (left + right)
        left, right = np.concatenate((left, middle)), np.concatenate((middle, right))
    return True


@lru_cache
def jumps_in_field(loss: Loss, labels: tuple[float, ...]) -> bool:
    """Whether v' jumps as f goes from -4 to 4, at one of these labels."""
    def at(function: Scalar, y: float) -> Callable[[float], float]:
        return lambda f: function(f, y)

    return any(jumps(at(loss.dv, y), at(loss.d2v, y), -4.0, 4.0, np.inf) for y in labels)


@lru_cache
def jumps_in_label(loss: Loss, low: float, high: float) -> bool:
    """Whether v' jumps as y goes from `low` to `high`, at one of 16 fields |f| < 4. The derivatives of a user's loss do not hold
    the delta function of a jump, and the control variate of mu, by integration by parts in h0, would miss it; of a rise within less
    than a hundredth, too few samples see the slope."""
    return any(jumps(partial(loss.dv, f), partial(loss.dv_dy, f), low, high, 100.0) for f in 1.6 * np.array(POINTS[:16])[:, 0])
