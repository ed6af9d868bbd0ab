"""Activations of two-layer networks, compiled, with their derivatives.

They are C function pointers: kernels that take them as arguments are compiled once for all activations, and their
machine code can be kept on disk.
"""

from __future__ import annotations

from collections.abc import Callable
from math import erf, exp, pi, sqrt, tanh
from typing import Any, NamedTuple

import numpy as np
from numba import cfunc, njit
from numba.core.errors import NumbaError

from dmft.core.errors import RunError

_ACTIVATION_SIGNATURE = "float64(float64)"


class Activation(NamedTuple):
    """s and s' as C functions of one float."""

    name: str
    s: Any
    ds: Any


@cfunc(_ACTIVATION_SIGNATURE, cache=True)
def _square(x):
    return x * x


@cfunc(_ACTIVATION_SIGNATURE, cache=True)
def _twice(x):
    return 2.0 * x


@cfunc(_ACTIVATION_SIGNATURE, cache=True)
def _erf(x):
    return erf(x / sqrt(2.0))


@cfunc(_ACTIVATION_SIGNATURE, cache=True)
def _gauss(x):
    return sqrt(2.0 / pi) * exp(-0.5 * x * x)


@cfunc(_ACTIVATION_SIGNATURE, cache=True)
def _tanh(x):
    return tanh(x)


@cfunc(_ACTIVATION_SIGNATURE, cache=True)
def _sech2(x):
    return 1.0 - tanh(x) ** 2


@cfunc(_ACTIVATION_SIGNATURE, cache=True)
def _relu(x):
    return max(x, 0.0)


@cfunc(_ACTIVATION_SIGNATURE, cache=True)
def _step(x):
    return 1.0 if x > 0.0 else 0.0


# Closed forms ask whether an activation *is* one of these: a user's function may have the same name.
QUADRATIC = Activation("quadratic", _square, _twice)
ERF = Activation("erf", _erf, _gauss)
BUILT_IN = {
    "quadratic": QUADRATIC,
    "erf": ERF,
    "tanh": Activation("tanh", _tanh, _sech2),
    "relu": Activation("relu", _relu, _step),
}
_compiled: dict[Callable, Any] = {}


def _called(f: Callable) -> Callable:
    return lambda x: f(x)


def _compile(f: Callable) -> Any:
    if f not in _compiled:
        source = getattr(f, "py_func", f)
        if not hasattr(source, "__code__"):  # a NumPy function
            source = _called(f)
        try:
            _compiled[f] = cfunc(_ACTIVATION_SIGNATURE)(source)
        except NumbaError as problem:
            reason = str(problem).splitlines()[0]
            raise RunError(f"activation {f.__name__}: Numba cannot compile it for a float ({reason})") from None
    return _compiled[f]


@njit(cache=True)
def _apply(f, x, out):
    for i in range(x.size):
        out[i] = f(x[i])


def apply(f, x: np.ndarray) -> np.ndarray:
    """A C function of one float, applied to every entry of x."""
    x = np.ascontiguousarray(x, float)
    out = np.empty(x.size)
    _apply(f, x.ravel(), out)
    return out.reshape(x.shape)


def register_activation(name: str, s: Callable, ds: Callable) -> None:
    """Make a user's activation known by name, e.g. to run files (from a --plugin file)."""
    BUILT_IN[name] = activation((s, ds))._replace(name=name)


def activation(what) -> Activation:
    """A built-in by name, or a pair (s, s') of scalar functions that Numba can compile."""
    if isinstance(what, Activation):
        return what
    if isinstance(what, str):
        if what not in BUILT_IN:
            raise RunError(f"activation = {what!r}; allowed: {', '.join(BUILT_IN)}, or a pair (function, derivative)")
        return BUILT_IN[what]
    if isinstance(what, (tuple, list)) and len(what) == 2 and all(map(callable, what)):
        s, ds = (_compile(f) for f in what)
        x, step = np.array([-1.3, 0.3, 0.9]), 1e-6
        slope = (apply(s, x + step) - apply(s, x - step)) / (2 * step)
        if not np.allclose(slope, apply(ds, x), rtol=1e-4, atol=1e-5):
            raise RunError("activation: the second function is not the derivative of the first (at -1.3, 0.3, 0.9)")
        return Activation(getattr(what[0], "__name__", "user"), s, ds)
    raise RunError("activation must be a name or a pair (function, derivative)")
