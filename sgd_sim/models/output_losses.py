"""Losses l(y, f) of a label and an output, compiled, with the pull -dl/df that SGD applies.

Like activations they are C function pointers, so that kernels are compiled once for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from math import cosh, exp, log, log1p, tanh
from typing import Any, NamedTuple

import numpy as np
from numba import cfunc, njit

from dmft.core.errors import RunError
from dmft.core.user_functions import c_function, known_function

_OUTPUT_LOSS_SIGNATURE = "float64(float64, float64)"


class OutputLoss(NamedTuple):
    """l and -dl/df as C functions of (y, f); `smooth`: the pull has no kink or jump in f."""

    name: str
    value: Any
    pull: Any
    smooth: bool


@cfunc(_OUTPUT_LOSS_SIGNATURE, cache=True)
def _square(y, f):
    return 0.5 * (y - f) ** 2


@cfunc(_OUTPUT_LOSS_SIGNATURE, cache=True)
def _difference(y, f):
    return y - f


@cfunc(_OUTPUT_LOSS_SIGNATURE, cache=True)
def _absolute(y, f):
    return abs(y - f)


@cfunc(_OUTPUT_LOSS_SIGNATURE, cache=True)
def _sign(y, f):
    return 1.0 if y > f else (-1.0 if y < f else 0.0)


@cfunc(_OUTPUT_LOSS_SIGNATURE, cache=True)
def _logcosh(y, f):
    x = abs(y - f)
    return log(cosh(x)) if x < 20.0 else x - log(2.0)


@cfunc(_OUTPUT_LOSS_SIGNATURE, cache=True)
def _tanh(y, f):
    return tanh(y - f)


@cfunc(_OUTPUT_LOSS_SIGNATURE, cache=True)
def _logistic(y, f):
    x = -y * f
    return log1p(exp(-abs(x))) + max(x, 0.0)


@cfunc(_OUTPUT_LOSS_SIGNATURE, cache=True)
def _logistic_pull(y, f):
    x = y * f
    return y / (1.0 + exp(x)) if x < 0.0 else y * exp(-x) / (1.0 + exp(-x))


SQUARE_LOSS = OutputLoss("square", _square, _difference, True)  # what is special about it is asked by identity, never by the name
BUILT_IN_LOSSES = {
    "square": SQUARE_LOSS,
    "absolute": OutputLoss("absolute", _absolute, _sign, False),
    "logcosh": OutputLoss("logcosh", _logcosh, _tanh, True),
    "logistic": OutputLoss("logistic", _logistic, _logistic_pull, True),
}


@njit(cache=True)
def _along_f(function, y, f, out):
    for i in range(len(f)):
        out[i] = function(y, f[i])


@njit(cache=True)
def _at_zero(function, y, out):
    for i in range(len(y)):
        out[i] = function(y[i], 0.0)


def pulls_at_zero(loss: OutputLoss, y: np.ndarray) -> np.ndarray:
    """The pull on an output f = 0 for labels y (n,)."""
    out = np.empty(len(y))
    _at_zero(loss.pull, y, out)
    return out


def _values(function, y: float, f: np.ndarray) -> np.ndarray:
    out = np.empty(len(f))
    _along_f(function, y, f, out)
    return out


def _is_smooth(pull) -> bool:
    """True if the pull has no kink or jump in f: on a grid four times finer the second differences of a smooth function are
    smaller by 16, at a kink by 4, and at a jump they stay."""
    for y in (-1.0, 0.3, 1.0):
        grids = (np.linspace(-6.0, 6.0, points) + 1e-4 / 3.0 for points in (3001, 12001))
        coarse, fine = (np.abs(np.diff(_values(pull, y, f), 2)).max() for f in grids)
        if fine > 1e-12 and fine > coarse / 8.0:
            return False
    return True


def output_loss(what: str | tuple[Callable, Callable] | OutputLoss) -> OutputLoss:
    """A built-in by name, or a pair (l(y, f), -dl/df(y, f)) of functions that Numba compiles."""
    known = known_function("loss", what, OutputLoss, BUILT_IN_LOSSES, "a pair (l(y, f), -dl/df)")
    if known is not None:
        return known
    if not (isinstance(what, (tuple, list)) and len(what) == 2 and all(map(callable, what))):
        raise RunError("loss must be a name or a pair (l(y, f), -dl/df)")
    name = getattr(what[0], "__name__", "user")
    value, pull = (c_function("loss", f, _OUTPUT_LOSS_SIGNATURE, "as l(y, f)") for f in what)
    f, step = np.array([-1.3, 0.2, 0.9]), 1e-6
    for y in (-1.0, 0.7):
        slope = (_values(value, y, f + step) - _values(value, y, f - step)) / (2 * step)
        if not np.allclose(-slope, _values(pull, y, f), rtol=1e-4, atol=1e-5):
            raise RunError(f"loss {name}: the second function is not -dl/df of the first (at y = {y:g}, f = -1.3, 0.2, 0.9)")
    return OutputLoss(name, value, pull, _is_smooth(pull))
