"""Gaussian averages that drive a committee with activation s: of its error E = sum_q c_q s_q(u_q), u ~ N(0, Omega).

The first p fields are the student's (c = -a/p), the others the teacher's (c = a*/k). Every way to take the averages gives
    es[i]    = E[E s(u_i)]            (p,)
    f[i, q]  = E[E s'(u_i) u_q]       (p, p + k)
    g[i, j]  = E[E^2 s'(u_i) s'(u_j)] (p, p)
    j2[i, j] = E[s'(u_i) s'(u_j)]     (p, p)
    square   = E[E^2]
of the noise-free error. Here: `erf_moments` in closed form (Saad and Solla), and `tensor_moments` by a product rule. Others are
two_slope_moments.py, smooth_moments.py and kinked_moments.py.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numba import njit

from dmft.core.errors import RunError
from onepass.gaussian import symmetric_root

MAX_NODES = 4_000_000   # points of a product rule


@njit(cache=True, error_model="numpy")
def erf_moments(om, c, p, diagonal):
    """For s = erf(x/sqrt 2) in student and teacher. With `diagonal` only i = j of g and j2 are computed
    (cost p (p+k)^2 instead of p^2 (p+k)^2).

    I2 = (2/pi) asin(C12/sqrt((1+C11)(1+C22))),  J2 = (2/pi)/sqrt(L4),  L4 = (1+C11)(1+C22) - C12^2,
    I3 = E[s'(1) u2 s(3)] = (2/pi) [C23 (1+C11) - C12 C13]/((1+C11) sqrt L3),  L3 = (1+C11)(1+C33) - C13^2,
    I4 = E[s'(1) s'(2) s(3) s(4)] = (4/pi^2) asin(L0/sqrt(L1 L2))/sqrt(L4),
    L0 = L4 C34 - C23 C24 (1+C11) - C13 C14 (1+C22) + C12 C13 C24 + C12 C14 C23,
    L1 = L4 (1+C33) - C23^2 (1+C11) - C13^2 (1+C22) + 2 C12 C13 C23, and L2 with 4 for 3.
    """
    n = om.shape[0]
    es, f = np.zeros(p), np.zeros((p, n))
    g, j2 = np.zeros((p, p)), np.zeros((p, p))
    square = 0.0
    for i in range(n):
        for q in range(n):
            i2 = 2.0 / np.pi * np.arcsin(om[i, q] / np.sqrt((1.0 + om[i, i]) * (1.0 + om[q, q])))
            square += c[i] * c[q] * i2
            if i < p:
                es[i] += c[q] * i2
    for i in range(p):
        one = 1.0 + om[i, i]
        for q in range(n):
            weight = c[q] * 2.0 / np.pi / (one * np.sqrt(one * (1.0 + om[q, q]) - om[i, q] ** 2))
            for l in range(n):
                f[i, l] += weight * (om[l, q] * one - om[i, l] * om[i, q])
    l1 = np.empty(n)
    for i in range(p):
        for j in range(i, i + 1 if diagonal else p):
            a, b, r = 1.0 + om[i, i], 1.0 + om[j, j], om[i, j]
            l4 = a * b - r * r
            for q in range(n):
                l1[q] = np.sqrt(
                    l4 * (1.0 + om[q, q]) - om[j, q] ** 2 * a - om[i, q] ** 2 * b + 2.0 * r * om[i, q] * om[j, q]
                )
            total = 0.0
            for q in range(n):
                x, y = om[i, q], om[j, q]
                row = 0.0
                for s in range(q + 1):
                    u, v = om[i, s], om[j, s]
                    l0 = l4 * om[q, s] - y * v * a - x * u * b + r * (x * v + u * y)
                    ratio = min(1.0, max(-1.0, l0 / (l1[q] * l1[s])))
                    row += (1.0 if s < q else 0.5) * c[s] * np.arcsin(ratio)
                total += 2.0 * c[q] * row
            g[i, j] = g[j, i] = 4.0 / np.pi**2 * total / np.sqrt(l4)
            j2[i, j] = j2[j, i] = 2.0 / np.pi / np.sqrt(l4)
    return es, f, g, j2, square


def erf_covariance(om: np.ndarray) -> np.ndarray:
    """I2[q, r] = E[s(u_q) s(u_r)] for s = erf(x/sqrt 2)."""
    one = np.sqrt(1.0 + np.diagonal(om))
    return 2.0 / np.pi * np.arcsin(om / np.outer(one, one))


@lru_cache(maxsize=4)
def trapezoid_grid(fields: int, nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Product trapezoid rule for standard normals: points (N, fields) and weights (N,) on [-8, 8]^fields. For
    smooth functions its error falls exponentially in `nodes`, and it beats Gauss-Hermite of equal size because the
    activations' poles lie close to the real axis. Points of weight below 1e-18 of the largest are left out."""
    x = np.linspace(-8.0, 8.0, nodes)
    total = nodes**fields
    if total > 5 * MAX_NODES:
        raise RunError(_too_many_points(fields, nodes))
    radius2 = np.zeros(())
    for _ in range(fields):
        radius2 = radius2[..., None] + x**2
    kept = np.nonzero(radius2 < 2.0 * 18.0 * np.log(10.0))
    if len(kept[0]) > MAX_NODES:
        raise RunError(_too_many_points(fields, nodes))
    points = np.stack([x[index] for index in kept], axis=1) if fields else np.zeros((1, 0))
    weights = np.exp(-0.5 * radius2[kept])
    return points, weights / weights.sum()


def _too_many_points(fields: int, nodes: int) -> str:
    return (
        f"width + teacher_width = {fields}: the tensor rule would need about {nodes}^{fields} = {nodes**fields:.1e} "
        f"points at every evaluation (limit {MAX_NODES:.0e}); use the erf activation (closed form), fewer units or "
        "fewer nodes"
    )


@njit(cache=True, error_model="numpy", nogil=True)
def _accumulate(s, ds, s_star, root, points, weights, c, p):
    """es, f, g, j2, square over points (N, n) of standard normals z with weights (N,), for fields u = root z."""
    n = root.shape[0]
    es, f = np.zeros(p), np.zeros((p, n))
    g, j2 = np.zeros((p, p)), np.zeros((p, p))
    square = 0.0
    u, value, slope = np.empty(n), np.empty(n), np.empty(p)
    for index in range(len(weights)):
        error = 0.0
        for i in range(n):
            total = 0.0
            for l in range(n):
                total += root[i, l] * points[index, l]
            u[i] = total
            value[i] = s(total) if i < p else s_star(total)
            if i < p:
                slope[i] = ds(total)
            error += c[i] * value[i]
        w = weights[index]
        square += w * error * error
        for i in range(p):
            es[i] += w * error * value[i]
            for q in range(n):
                f[i, q] += w * error * slope[i] * u[q]
            for j in range(i + 1):
                both = w * slope[i] * slope[j]
                j2[i, j] += both
                g[i, j] += both * error * error
    for i in range(p):
        for j in range(i):
            g[j, i], j2[j, i] = g[i, j], j2[i, j]
    return es, f, g, j2, square


def tensor_moments(student, teacher, om: np.ndarray, c: np.ndarray, p: int, nodes: int):
    """For any activations: one product rule over all p + k fields, u = Omega^{1/2} z. Cost nodes^(p+k)."""
    points, weights = trapezoid_grid(len(om), nodes)
    root = np.ascontiguousarray(symmetric_root(om))
    return _accumulate(student.s, student.ds, teacher.s, root, points, weights, c, p)


@njit(cache=True, error_model="numpy", nogil=True)
def _pair_square(s, s_star, points, weights, om, c, p):
    """E[E^2] over points (N, 2): the sum over pairs of fields of c_i c_j E[s_i(u_i) s_j(u_j)]."""
    total = 0.0
    n = om.shape[0]
    for i in range(n):
        root = np.sqrt(om[i, i])
        for j in range(i + 1):
            slope = om[i, j] / root if root > 0.0 else 0.0
            rest = np.sqrt(max(om[j, j] - slope * slope, 0.0)) if i != j else 0.0
            mean = 0.0
            for index in range(len(weights)):
                u = root * points[index, 0]
                v = slope * points[index, 0] + rest * points[index, 1]
                mean += weights[index] * (s(u) if i < p else s_star(u)) * (s(v) if j < p else s_star(v))
            total += (1.0 if i == j else 2.0) * c[i] * c[j] * mean
    return total


def mean_square_error(student, teacher, om: np.ndarray, c: np.ndarray, p: int, nodes: int) -> float:
    """E[E^2] alone for any activations and any width: it needs pairs of fields only."""
    points, weights = trapezoid_grid(2, nodes)
    return _pair_square(student.s, teacher.s, points, weights, om, c, p)
