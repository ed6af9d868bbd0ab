"""Generalization from the overlaps q and m. Eqs. [mse] (B.8) and B.6."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

NODES = 96  # of Gauss-Legendre quadrature, in each direction


def field_error(m: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Mean squared error of h as an estimate of h0 on a new sample. Eq. [mse]."""
    return q + 1 - 2 * m  # [mse]


def magnitude_error(m: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Mean squared error of |h| as an estimate of |h0| on a new sample: (B.8) with q0 = 1. Eq. [mse]."""
    gap = np.sqrt(np.maximum(q - m**2, 0))
    return q + 1 - 4 / np.pi * (gap + m * np.arctan2(m, gap))  # [mse]


def generalization(f: Callable[[np.ndarray, np.ndarray], np.ndarray], m: np.ndarray, q: np.ndarray, signed: bool = False
                   ) -> np.ndarray:
    """Eq. B.6: average of f(y, y_hat) over a new sample, y = |x|, y_hat = |z| (signed: x and z themselves), (x, z)
    Gaussian with variances 1, q and covariance m. f is called with arrays and must work elementwise.

    By symmetry (x, z) -> (-x, -z) half the plane is enough (signed: f is averaged over both halves); in polar
    coordinates of the whitened plane the kinks of |x| and |z| lie on two rays, so each sector is smooth and
    Gauss-Legendre in the angle is exact to rounding for smooth f."""
    m, q = np.broadcast_arrays(np.asarray(m, float), np.asarray(q, float))
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    radius = 6.5 * (nodes + 1)  # to 13 standard deviations
    radial = 6.5 * weights * radius * np.exp(-0.5 * radius**2) / np.pi
    out = np.empty(m.shape)
    for i in np.ndindex(m.shape):
        gap = np.sqrt(max(q[i] - m[i] ** 2, 0.0))
        # x = r cos(phi), z = m x + gap r sin(phi); z changes sign at tan(phi) = -m/gap
        kink = np.arctan2(-m[i], gap)
        total = 0.0
        for low, high in ((-np.pi / 2, kink), (kink, np.pi / 2)):
            phi = low + 0.5 * (high - low) * (nodes + 1)
            x = np.outer(radius, np.cos(phi))
            z = m[i] * x + gap * np.outer(radius, np.sin(phi))
            values = 0.5 * (f(x, z) + f(-x, -z)) if signed else f(np.abs(x), np.abs(z))
            total += 0.5 * (high - low) * radial @ values @ weights  # [mse]
        out[i] = total
    return out


def square_error(m: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Mean squared error of h^2 as an estimate of h0^2 on a new sample."""
    return 3 * q**2 + 3 - 2 * q - 4 * m**2


def sign_error(m: np.ndarray, q: np.ndarray, flip: float = 0.0) -> np.ndarray:
    """Probability that sign(h) is not the label of a new sample, sign(h0) flipped with probability `flip`."""
    wrong = np.arccos(np.clip(m / np.sqrt(q), -1.0, 1.0)) / np.pi
    return flip + (1 - 2 * flip) * wrong


def field_average(f: Callable[[np.ndarray], np.ndarray], centre: np.ndarray, variance: np.ndarray, kink: float) -> np.ndarray:
    """Average of f over z ~ N(centre, variance), elementwise; f may have kinks at 0 and at `kink`, where panels end."""
    centre, spread = np.broadcast_arrays(np.asarray(centre, float), np.sqrt(variance))
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    cuts = np.clip((np.array((0.0, kink)) - centre[..., None]) / spread[..., None], -10.0, 10.0)
    ends = np.sort(np.concatenate([np.broadcast_to((-10.0, -5.0, 0.0, 5.0, 10.0), (*centre.shape, 5)), cuts], -1), -1)
    half = 0.5 * np.diff(ends)[..., None]
    x = ends[..., :-1, None] + half * (nodes + 1)
    density = half * weights * np.exp(-0.5 * x**2) / np.sqrt(2 * np.pi)
    return (density * f(centre[..., None, None] + spread[..., None, None] * x)).sum((-2, -1))
