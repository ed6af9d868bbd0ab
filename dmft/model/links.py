"""Teachers that are any function of a few directions: y = g(u_1, ..., u_k), compiled; labels of networks and of one-pass models.

A link is a C function g(u, k) of a pointer to the k fields.
"""

from __future__ import annotations

from collections.abc import Callable
from math import erf, sqrt, tanh
from typing import Any, NamedTuple

import numpy as np
from numba import cfunc, njit, types
from numba.core.errors import NumbaError

from dmft.core.errors import RunError, UserError

_SIGNATURE = types.float64(types.CPointer(types.float64), types.int64)


class Link(NamedTuple):
    """A name, a C function of (pointer to the fields, their number), and the least number of fields it reads."""

    name: str
    g: Any
    least: int = 1


@cfunc(_SIGNATURE, cache=True)
def _product(u, k):
    total = 1.0
    for i in range(k):
        total *= u[i]
    return total


@cfunc(_SIGNATURE, cache=True)
def _staircase(u, k):
    total = 0.0
    step = 1.0
    for i in range(k):
        step *= u[i]
        total += step
    return total


@cfunc(_SIGNATURE, cache=True)
def _hermite3(u, k):
    total = 0.0
    for i in range(k):
        total += (u[i] * u[i] * u[i] - 3.0 * u[i]) / 2.449489742783178
    return total / k


@cfunc(_SIGNATURE, cache=True)
def _erf(u, k):
    total = 0.0
    for i in range(k):
        total += erf(u[i] / sqrt(2.0))
    return total / k


@cfunc(_SIGNATURE, cache=True)
def _tanh(u, k):
    total = 0.0
    for i in range(k):
        total += tanh(u[i])
    return total / k


@cfunc(_SIGNATURE, cache=True)
def _relu(u, k):
    total = 0.0
    for i in range(k):
        total += max(u[i], 0.0)
    return total / k


@cfunc(_SIGNATURE, cache=True)
def _quadratic(u, k):
    total = 0.0
    for i in range(k):
        total += u[i] * u[i]
    return total / k


@cfunc(_SIGNATURE, cache=True)
def _parity(u, k):
    total = 1.0
    for i in range(k):
        total = total if u[i] > 0.0 else -total
    return total


@cfunc(_SIGNATURE, cache=True)
def _tanh_hermite3(u, k):
    """tanh(u_1 + He_3(u_2)): averages of y u show one direction of the two."""
    return tanh(u[0] + u[1] * (u[1] * u[1] - 3.0))


BUILT_IN_LINKS = {
    "product": Link("product", _product),
    "staircase": Link("staircase", _staircase),
    "hermite3": Link("hermite3", _hermite3),
    "parity": Link("parity", _parity),
    "erf": Link("erf", _erf),
    "tanh": Link("tanh", _tanh),
    "relu": Link("relu", _relu),
    "quadratic": Link("quadratic", _quadratic),
    "tanh_hermite3": Link("tanh_hermite3", _tanh_hermite3, 2),
}


def register_link(name: str, g: Callable) -> None:
    """Make a user's label known by name: a function g(u, k) of the fields u[0], ..., u[k-1] that Numba compiles."""
    if not name.isidentifier():
        raise UserError(f"register_link: {name!r} is not a name (letters, digits and underscores)")
    BUILT_IN_LINKS[name] = link(g)._replace(name=name)


def link(what: str | Callable | Link) -> Link:
    """A built-in by name, or a function g(u, k) of the fields u[0], ..., u[k-1] that Numba compiles."""
    if isinstance(what, Link):
        return what
    if isinstance(what, str):
        if what not in BUILT_IN_LINKS:
            raise RunError(f"link = {what!r}; allowed: {', '.join(BUILT_IN_LINKS)}, or a function g(u, k)")
        return BUILT_IN_LINKS[what]
    try:
        return Link(getattr(what, "__name__", "user"), cfunc(_SIGNATURE)(what))
    except NumbaError as problem:
        reason = str(problem).splitlines()[0]
        raise RunError(f"link {getattr(what, '__name__', what)}: Numba cannot compile it as g(u, k) ({reason})") from None


@njit(cache=True)
def evaluate(g, fields):
    """g of each row of fields (n, k)."""
    out = np.empty(len(fields))
    row = np.empty(fields.shape[1])
    for i in range(len(fields)):
        row[:] = fields[i]
        out[i] = g(row.ctypes, len(row))
    return out
