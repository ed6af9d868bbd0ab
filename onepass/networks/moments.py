"""Gaussian moments of a quadratic error times products of the fields (the master formula of quadratic networks).

Fields L ~ N(0, Om), error E = L^T A L + sqrt(Delta) z with A diagonal (given as the vector `c`). The tilted law
    E[e^{sE} g(L)] = Z(s) E_{N(0, Om(s))}[g],   Om(s) = sum_n (2s)^n Om (A Om)^n,
    log Z(s) = sum_{n>=1} (2s)^n tr((A Om)^n) / (2n) + s^2 Delta / 2,
gives every moment E[E^n g(L)] as n! times the coefficient of s^n. All functions take leading axes.
"""

from __future__ import annotations

from math import factorial

import numpy as np


def error_moments(om: np.ndarray, c: np.ndarray, noise: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """E[E L L^T], E[E^2 L L^T] (..., m, m) and E[E^2] (...). `om` (..., m, m), `c` (..., m)."""
    om_a = om * c[..., None, :]
    g1 = om_a @ om
    g2 = om_a @ g1
    t1 = np.trace(om_a, axis1=-2, axis2=-1)[..., None, None]
    t2 = np.einsum("...ij,...ji->...", om_a, om_a)[..., None, None]
    s2 = t1**2 + 2.0 * t2 + noise
    return t1 * om + 2.0 * g1, s2 * om + 4.0 * t1 * g1 + 8.0 * g2, s2[..., 0, 0]


def quadratic_moments(om: np.ndarray, c: np.ndarray, p: int) -> tuple[np.ndarray, ...]:
    """es, f, g, j2, square of field_moments.py for s(u) = u^2."""
    e1, e2, square = error_moments(om, c, 0.0)
    return np.diagonal(e1, axis1=-2, axis2=-1)[..., :p], 2.0 * e1[..., :p, :], 4.0 * e2[..., :p, :p], 4.0 * om[..., :p, :p], square


def series(om: np.ndarray, c: np.ndarray, noise: float, order: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Coefficients of Z(s) and Om(s) up to s^order: lists of (...) and (..., m, m)."""
    om_a = om * c[..., None, :]
    tilted = [om]
    log_z = [np.zeros(om.shape[:-2])]
    power = om_a
    for n in range(1, order + 1):
        log_z.append(2.0**n * np.trace(power, axis1=-2, axis2=-1) / (2 * n) + (noise / 2 if n == 2 else 0.0))
        tilted.append(2.0 * (om_a @ tilted[-1]))
        power = power @ om_a
    z = [np.ones(om.shape[:-2])]
    for n in range(1, order + 1):  # Z' = (log Z)' Z
        z.append(sum((k * log_z[k] * z[n - k] for k in range(1, n + 1)), np.zeros(om.shape[:-2])) / n)
    return z, tilted


def pair_moments(
    om: np.ndarray, c: np.ndarray, noise: float, first: np.ndarray, second: np.ndarray, order: int
) -> np.ndarray:
    """F[s, t] = E[E^order L_{u_s} L_{v_s} L_{u_t} L_{v_t}] for pairs of fields u = `first`, v = `second` (n,):
    an array (..., n, n). order = 4 gives moments of order 12."""
    z, tilted = series(om, c, noise, order)
    n = len(first)
    out = np.zeros(om.shape[:-2] + (n, n))
    for k in range(order + 1):
        left = sum((z[i][..., None, None] * tilted[order - k - i] for i in range(order - k + 1)), np.zeros_like(om))
        right = tilted[k]
        out += left[..., first, second][..., :, None] * right[..., first, second][..., None, :]
        out += left[..., first[:, None], first] * right[..., second[:, None], second]
        out += left[..., first[:, None], second] * right[..., second[:, None], first]
    return factorial(order) * out
