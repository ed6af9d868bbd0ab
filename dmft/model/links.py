"""Teachers that are any function of a few directions: y = g(u_1, ..., u_k), compiled; labels of networks and of one-pass models.

A link is a C function g(u, k) of a pointer to the k fields. A noisy one, which only users have, is g(u, k, zeta): the noise of a
label is then not added to it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import erf, sqrt, tanh
from typing import Any

import numpy as np
from numba import njit, types

from dmft.core.user_functions import c_function, check_own_name, known_function, pointer

NETWORK_LABEL = "network"  # the label that is a second network, and no link
_SIGNATURE = types.float64(types.CPointer(types.float64), types.int64)
_NOISY_SIGNATURE = types.float64(types.CPointer(types.float64), types.int64, types.float64)


@dataclass(frozen=True)
class Link:
    """A name, a function of (pointer to the fields, their number), the least number of fields it reads, whether it is known to be
    smooth, and whether the noise of a label is its third argument."""

    name: str
    function: Any
    least: int = 1
    smooth: bool = False
    noisy: bool = False

    @property
    def g(self) -> Any:
        """As a C function."""
        return pointer(self.function, _SIGNATURE)

    def __call__(self, fields: np.ndarray, zeta: np.ndarray | float) -> np.ndarray:
        """Labels (n,) of fields (n, k) with noise zeta, (n,) or a number."""
        if self.noisy:
            return evaluate_noisy(self.g, fields, np.array(np.broadcast_to(zeta, len(fields)), float))
        return evaluate(self.g, fields) + zeta


def _product(u, k):
    total = 1.0
    for i in range(k):
        total *= u[i]
    return total


def _staircase(u, k):
    total = 0.0
    step = 1.0
    for i in range(k):
        step *= u[i]
        total += step
    return total


def _hermite3(u, k):
    total = 0.0
    for i in range(k):
        total += (u[i] * u[i] * u[i] - 3.0 * u[i]) / 2.449489742783178
    return total / k


def _erf(u, k):
    total = 0.0
    for i in range(k):
        total += erf(u[i] / sqrt(2.0))
    return total / k


def _tanh(u, k):
    total = 0.0
    for i in range(k):
        total += tanh(u[i])
    return total / k


def _relu(u, k):
    total = 0.0
    for i in range(k):
        total += max(u[i], 0.0)
    return total / k


def _quadratic(u, k):
    total = 0.0
    for i in range(k):
        total += u[i] * u[i]
    return total / k


def _parity(u, k):
    total = 1.0
    for i in range(k):
        total = total if u[i] > 0.0 else -total
    return total


def _tanh_hermite3(u, k):
    """tanh(u_1 + He_3(u_2)): averages of y u show one direction of the two."""
    return tanh(u[0] + u[1] * (u[1] * u[1] - 3.0))


BUILT_IN_LINKS = {
    "product": Link("product", _product, smooth=True),
    "staircase": Link("staircase", _staircase, smooth=True),
    "hermite3": Link("hermite3", _hermite3, smooth=True),
    "parity": Link("parity", _parity),
    "erf": Link("erf", _erf, smooth=True),
    "tanh": Link("tanh", _tanh, smooth=True),
    "relu": Link("relu", _relu),
    "quadratic": Link("quadratic", _quadratic, smooth=True),
    "tanh_hermite3": Link("tanh_hermite3", _tanh_hermite3, 2, smooth=True),
}
_LINK_NAMES = frozenset({*BUILT_IN_LINKS, NETWORK_LABEL})


def register_link(name: str, g: Callable) -> None:
    """Make a user's label known by name: a function g(u, k) of the fields u[0], ..., u[k-1] that Numba compiles. Noise is added to
    it, unless it is a function g(u, k, zeta) of the noise too."""
    check_own_name("register_link", name, _LINK_NAMES)
    BUILT_IN_LINKS[name] = replace(link(g), name=name)


def link(what: str | Callable | Link) -> Link:
    """A built-in by name, or a function as `register_link` takes it."""
    known = known_function("link", what, Link, BUILT_IN_LINKS, "a function g(u, k)")
    if known is not None:
        return known
    code = getattr(getattr(what, "py_func", what), "__code__", None)
    noisy = code is not None and code.co_argcount == 3
    signature, form = (_NOISY_SIGNATURE, "as g(u, k, zeta)") if noisy else (_SIGNATURE, "as g(u, k)")
    return Link(getattr(what, "__name__", "user"), c_function("link", what, signature, form), noisy=noisy)


@njit(cache=True)
def evaluate(g, fields):
    """g of each row of fields (n, k)."""
    out = np.empty(len(fields))
    row = np.empty(fields.shape[1])
    for i in range(len(fields)):
        row[:] = fields[i]
        out[i] = g(row.ctypes, len(row))
    return out


@njit(cache=True)
def evaluate_noisy(g, fields, zeta):
    """g of each row of fields (n, k) and its noise, of zeta (n,)."""
    out = np.empty(len(fields))
    row = np.empty(fields.shape[1])
    for i in range(len(fields)):
        row[:] = fields[i]
        out[i] = g(row.ctypes, len(row), zeta[i])
    return out
