"""Activations of two-layer networks, compiled, with their derivatives: of the theory, the simulator and the one-pass models.

They are C function pointers: kernels that take them as arguments are compiled once for all activations, and their
machine code can be kept on disk.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from math import erf, exp, pi, sqrt, tanh
from typing import Any

import numpy as np
from numba import cfunc, njit

from dmft.core.errors import RunError
from dmft.core.user_functions import c_function, check_own_name, known_function, pointer

_ACTIVATION_SIGNATURE = "float64(float64)"


@dataclass(frozen=True)
class Activation:
    """s, s' and s'' of one float; curvature: None where s' jumps, or where a user gave none."""

    name: str
    value: Any
    slope: Any
    curvature: Any = None

    @property
    def s(self) -> Any:
        return pointer(self.value, _ACTIVATION_SIGNATURE)

    @property
    def ds(self) -> Any:
        return pointer(self.slope, _ACTIVATION_SIGNATURE)

    @property
    def d2s(self) -> Any:
        return self.curvature and pointer(self.curvature, _ACTIVATION_SIGNATURE)


def _square(x):
    return x * x


def _twice(x):
    return 2.0 * x


def _two(x):
    return 2.0


def _identity(x):
    return x


def _one(x):
    return 1.0


def _zero(x):
    return 0.0


def _he2(x):
    return x * x - 1.0


def _he3(x):
    return x * (x * x - 3.0)


def _thrice_he2(x):
    return 3.0 * (x * x - 1.0)


def _six(x):
    return 6.0 * x


def _erf(x):
    return erf(x / sqrt(2.0))


def _gauss(x):
    return sqrt(2.0 / pi) * exp(-0.5 * x * x)


def _gauss_slope(x):
    return -x * sqrt(2.0 / pi) * exp(-0.5 * x * x)


def _tanh(x):
    return tanh(x)


def _sech2(x):
    return 1.0 - tanh(x) ** 2


def _sech2_slope(x):
    return -2.0 * tanh(x) * (1.0 - tanh(x) ** 2)


def _relu(x):
    return max(x, 0.0)


def _step(x):
    return 1.0 if x > 0.0 else 0.0


# Closed forms ask whether an activation *is* one of these: a user's function may have the same name.
QUADRATIC = Activation("quadratic", _square, _twice, _two)
ERF = Activation("erf", _erf, _gauss, _gauss_slope)
RELU = Activation("relu", _relu, _step)
BUILT_IN = {
    "quadratic": QUADRATIC,
    "erf": ERF,
    "tanh": Activation("tanh", _tanh, _sech2, _sech2_slope),
    "relu": RELU,
    "square": QUADRATIC,
    "linear": Activation("linear", _identity, _one, _zero),
    "he2": Activation("he2", _he2, _twice, _two),
    "he3": Activation("he3", _he3, _thrice_he2, _six),
}
SMOOTH_RELU = "smooth_relu"
_ACTIVATION_NAMES = frozenset({*BUILT_IN, SMOOTH_RELU})
_compiled: dict[Callable, Any] = {}


def _called(f: Callable) -> Callable:
    return lambda x: f(x)


def _compile(f: Callable) -> Any:
    if f not in _compiled:
        source = getattr(f, "py_func", f)
        if not hasattr(source, "__code__"):  # a NumPy function
            source = _called(f)
        _compiled[f] = c_function("activation", source, _ACTIVATION_SIGNATURE, "for a float")
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


@cache
def smooth_relu(width: float) -> Activation:
    """relu averaged over a normal of standard deviation `width` that is added to its argument."""
    density, scale = 1.0 / sqrt(2.0 * pi), 1.0 / width
    compiled = cfunc(_ACTIVATION_SIGNATURE)

    def s(x):
        u = x * scale
        return 0.5 * x * (1.0 + erf(u / sqrt(2.0))) + width * density * exp(-0.5 * u * u)

    return Activation(SMOOTH_RELU, compiled(s), compiled(lambda x: 0.5 * (1.0 + erf(x * scale / sqrt(2.0)))),
                      compiled(lambda x: scale * density * exp(-0.5 * (x * scale) ** 2)))


def register_activation(name: str, s: Callable, ds: Callable, d2s: Callable | None = None) -> None:
    """Make a user's activation known by name, e.g. to run files (from a --plugin file). d2s: its second derivative, which the
    theory of networks needs, unless s' jumps."""
    check_own_name("register_activation", name, _ACTIVATION_NAMES)
    BUILT_IN[name] = replace(activation((s, ds) if d2s is None else (s, ds, d2s)), name=name)


def activation(what) -> Activation:
    """A built-in by name, or scalar functions (s, s'), perhaps with s'', that Numba can compile."""
    known = known_function("activation", what, Activation, BUILT_IN, "a pair (function, derivative)")
    if known is not None:
        return known
    if isinstance(what, (tuple, list)) and len(what) in (2, 3) and all(map(callable, what)):
        functions = [_compile(f) for f in what]
        x, step = np.array([-1.3, 0.3, 0.9]), 1e-6
        for f, df, order in zip(functions, functions[1:], (("second", "first"), ("third", "second"))):
            slope = (apply(f, x + step) - apply(f, x - step)) / (2 * step)
            if not np.allclose(slope, apply(df, x), rtol=1e-4, atol=1e-5):
                raise RunError("activation: the {} function is not the derivative of the {} (at -1.3, 0.3, 0.9)".format(*order))
        return Activation(getattr(what[0], "__name__", "user"), *functions)
    raise RunError("activation must be a name or a pair (function, derivative)")
