"""Covariance of the brackets of a committee, the random increments of a, M and Q per unit time in one step of SGD.

Brackets contain up to the second power of the error and of s', so their covariance needs averages over all p + k fields
at once. Up to MOST_FIELDS fields they are taken by a product trapezoid rule over the fields and three Gauss-Hermite nodes for
the label noise (exact: no power above four occurs). More fields, or activations with a kink, take quasi-random points in
independent scramblings, whose scatter measures the error. Where it is too large (fast growing activations have heavy tails),
the covariance is refused.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numba import njit

from dmft.core.averages import standard_error
from dmft.core.errors import RunError
from dmft.model.activations import Activation
from onepass.gaussian import add_moments, central_moments, sobol_normals, symmetric_root
from onepass.networks.field_moments import trapezoid_grid

BRACKET_NODES = {1: 57, 2: 41, 3: 33, 4: 25}  # by number of fields
MOST_FIELDS = max(BRACKET_NODES)
BRACKET_SCRAMBLINGS = 8
BRACKET_LOG2_POINTS, BRACKET_LOG2_POINTS_WITH_KINKS = 11, 13  # points of a scrambling
LARGEST_ERROR = 0.02  # of an entry, relative to the standard deviations of its two variables


@lru_cache(maxsize=4)
def _scramblings(dimensions: int, log2_points: int) -> np.ndarray:
    """Quasi-random standard normals (SCRAMBLINGS, 2^log2_points, dimensions), the same at every call."""
    return np.stack([sobol_normals(dimensions, log2_points, [20221, i]) for i in range(BRACKET_SCRAMBLINGS)])


@njit(cache=True, error_model="numpy", nogil=True)
def _covariance(functions, root, points, label_noise, weights, a, a_star, rate, gamma):
    """Covariance (size, size) in the flat order a, M, upper triangle of Q; functions: s, s', s*; label_noise (N,) is sqrt(Delta)
    z."""
    s, ds, s_star = functions
    p, k = len(a), len(a_star)
    n = p + k
    size = p + p * k + p * (p + 1) // 2
    mean, second = np.zeros(size), np.zeros((size, size))
    u, value, kick, b = np.empty(n), np.empty(p), np.empty(p), np.empty(size)
    for index in range(len(weights)):
        error = label_noise[index]
        for i in range(n):
            total = 0.0
            for l in range(n):
                total += root[i, l] * points[index, l]
            u[i] = total
            if i < p:
                value[i] = s(total)
                error -= a[i] * value[i] / p
            else:
                error += a_star[i - p] * s_star(total) / k
        place = p + p * k
        for i in range(p):
            kick[i] = a[i] * error * ds(u[i])
            b[i] = rate * error * value[i]
            for r in range(k):
                b[p + i * k + r] = kick[i] * u[p + r]
        for i in range(p):
            for j in range(i, p):
                b[place] = kick[i] * u[j] + kick[j] * u[i] + gamma / p * kick[i] * kick[j]
                place += 1
        add_moments(b, weights[index], mean, second)
    return central_moments(mean, second)


def bracket_covariance(
    pair: tuple[Activation, Activation], om: np.ndarray, a: np.ndarray, a_star: np.ndarray, noise: float, rate: float,
    gamma: float, smooth: bool,
) -> np.ndarray:  # fmt: skip
    """Covariance (size, size) of the brackets before any projection, in the flat order a, M, upper triangle of Q, for fields
    N(0, om), student first. `smooth`: the activations have no kinks."""
    student, teacher = pair
    root = np.ascontiguousarray(symmetric_root(om))
    n = len(om)

    def average(points: np.ndarray, label_noise: np.ndarray, weights: np.ndarray) -> np.ndarray:
        return _covariance((student.s, student.ds, teacher.s), root, points, label_noise, weights, a, a_star, rate, gamma)

    if smooth and n <= MOST_FIELDS:
        points, weights = trapezoid_grid(n, BRACKET_NODES[n])
        if noise == 0.0:
            return average(points, np.zeros(len(points)), weights)
        z = np.array([-np.sqrt(3.0), 0.0, np.sqrt(3.0)])
        label_noise = np.repeat(np.sqrt(noise) * z, len(points))
        return average(np.tile(points, (3, 1)), label_noise, np.repeat([1 / 6, 2 / 3, 1 / 6], len(points)) * np.tile(weights, 3))
    normals = _scramblings(n + 1, BRACKET_LOG2_POINTS if smooth else BRACKET_LOG2_POINTS_WITH_KINKS)
    equal = np.full(normals.shape[1], 1.0 / normals.shape[1])
    parts = np.stack([average(part[:, :n].copy(), np.sqrt(noise) * part[:, n], equal) for part in normals])
    found = parts.mean(0)
    scale = np.sqrt(np.maximum(np.outer(np.diagonal(found), np.diagonal(found)), 1e-300))
    error = float((standard_error(parts) / scale).max())
    if error > LARGEST_ERROR:
        raise RunError(
            f"the noise of {n} fields is known to {100 * error:.0f} % only: the activation grows too fast for quasi-random points; "
            f"the SDE takes up to {MOST_FIELDS} fields of such a kind if it is smooth, chain(...) any number"
        )
    return found
