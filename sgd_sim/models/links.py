"""Teachers that are any function of a few directions: y = g(u_1, ..., u_k), compiled; and one-pass SGD on them.

A link is a C function g(u, k) of a pointer to the k fields. SGD here takes mini-batches, uses a sample several times in
a row, decays its weights and its learning rate; it is written plainly, on vectors of full length, as the independent
baseline of onepass.networks.multi_index.
"""

from __future__ import annotations

from collections.abc import Callable
from math import erf, sqrt, tanh
from typing import Any, NamedTuple

import numpy as np
from numba import cfunc, njit, types
from numba.core.errors import NumbaError

from dmft.core.errors import RunError

_SIGNATURE = types.float64(types.CPointer(types.float64), types.int64)


class Link(NamedTuple):
    """A name and a C function of (pointer to the fields, their number)."""

    name: str
    g: Any


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


BUILT_IN_LINKS = {
    "product": Link("product", _product),
    "staircase": Link("staircase", _staircase),
    "hermite3": Link("hermite3", _hermite3),
    "parity": Link("parity", _parity),
    "erf": Link("erf", _erf),
    "tanh": Link("tanh", _tanh),
    "relu": Link("relu", _relu),
    "quadratic": Link("quadratic", _quadratic),
}


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


@njit(cache=True, nogil=True, error_model="numpy")
def rate_at(t, decay, steps, half):
    """Factor of the learning rate at time t: (1 + t/decay[0])^-decay[1], times steps[i, 1] of the last line with steps[i, 0] <=
    t + half (1 before the first). half: half an SGD step, so that a change falls on the nearest one and rounding of a clock that
    was summed up cannot delay it; 0 in continuous time."""
    factor = 1.0
    for i in range(len(steps)):
        if t + half >= steps[i, 0]:
            factor = steps[i, 1]
    return factor * (1.0 + t / decay[0]) ** -decay[1]


class StepRule(NamedTuple):
    """How a step is made, in vectors and in the chain of their overlaps."""

    clip: float
    gamma: float
    noise: float               # variance of the labels' noise
    weight_decay: float
    rate_decay: tuple[float, float]    # and rate_steps (.., 2): see `rate_at`
    rate_steps: np.ndarray
    sphere: bool
    uses: int                  # of a sample in a row
    batch: int


@njit(cache=True, nogil=True, error_model="numpy")
def advance(w, clock, steps, s, ds, g, pull, w_star, a, rule, rng):
    """Take SGD steps in w (p, d), norms of order sqrt(d); clock (1,) counts the time gamma/(p d) a step. With the error E =
    pull(y, f), cut to [-clip, clip], and c_j = (gamma/p) rate a_j E s'(l_j), a use of a sample moves its own fields by
    c_j |x|^2; the sum of the kicks over its uses, over the batch, moves the weights; `rate_at` gives the rate."""
    p, d = w.shape
    k, clip, gamma, batch = len(w_star), rule.clip, rule.gamma, rule.batch
    x = np.empty((batch, d))
    fields, targets, kick, total = np.empty(p), np.empty(k), np.empty(p), np.empty((batch, p))
    tau = gamma / (p * d)
    for _ in range(steps):
        rate = rate_at(clock[0], rule.rate_decay, rule.rate_steps, 0.5 * tau)
        for n in range(batch):
            square = 0.0
            for i in range(d):
                x[n, i] = rng.standard_normal() / np.sqrt(d)
                square += x[n, i] ** 2
            for j in range(p):
                fields[j] = np.dot(w[j], x[n])
            for r in range(k):
                targets[r] = np.dot(w_star[r], x[n])
            y = g(targets.ctypes, k) + np.sqrt(rule.noise) * rng.standard_normal()
            total[n, :] = 0.0
            for _ in range(rule.uses):
                output = 0.0
                for j in range(p):
                    output += a[j] * s(fields[j]) / p
                error = min(max(pull(y, output), -clip), clip)
                for j in range(p):
                    kick[j] = gamma / p * rate * a[j] * error * ds(fields[j])
                for j in range(p):
                    total[n, j] += kick[j]
                    fields[j] += kick[j] * square
        keep = 1.0 - gamma * rate * rule.weight_decay / (p * d)
        for j in range(p):
            for i in range(d):
                w[j, i] *= keep
            for n in range(batch):
                for i in range(d):
                    w[j, i] += total[n, j] / batch * x[n, i]
            if rule.sphere:
                w[j] *= np.sqrt(d) / np.sqrt(np.dot(w[j], w[j]))
        clock[0] += tau
