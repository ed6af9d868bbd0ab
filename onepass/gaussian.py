"""Small tools for Gaussian averages: normal law, sigmoid, roots and covariances of matrices, and Sobol points."""

from __future__ import annotations

from functools import lru_cache
from math import erfc

import numpy as np
import scipy  # loads its parts when they are first used
from numba import njit
from scipy.special import ndtri


@lru_cache(maxsize=8)
def sobol_uniforms(dimensions: int, log2_points: int) -> np.ndarray:
    """Scrambled Sobol points (2^log2_points, dimensions) inside the open unit cube, the same ones at every call."""
    return _open_cube(scipy.stats.qmc.Sobol(dimensions, scramble=True, seed=20), log2_points)  # rng=20 would be other points


def sobol_normals(dimensions: int, log2_points: int, key: list[int]) -> np.ndarray:
    """Quasi-random standard normals (2^log2_points, dimensions), in an independent scrambling for each key."""
    return ndtri(_open_cube(scipy.stats.qmc.Sobol(dimensions, scramble=True, rng=np.random.default_rng(key)), log2_points))


def _open_cube(sobol: scipy.stats.qmc.Sobol, log2_points: int) -> np.ndarray:
    """The first points, clipped away from 0 and 1, where normal quantiles are infinite."""
    return np.clip(sobol.random_base2(log2_points), 2.0**-53, 1.0 - 2.0**-53)


def symmetric_root(c: np.ndarray) -> np.ndarray:
    """Symmetric square root of positive semi-definite matrices (..., n, n). Eigenvalues that rounding, or a step
    that left the set of valid overlaps, made negative count as zero. A matrix that is not finite gives NaN."""
    good = np.isfinite(c).all(axis=(-1, -2), keepdims=True)
    if not good.all():
        return np.where(good, symmetric_root(np.where(good, c, 0.0)), np.nan)
    values, vectors = np.linalg.eigh(c)
    return (vectors * np.sqrt(np.clip(values, 0.0, None))[..., None, :]) @ np.swapaxes(vectors, -1, -2)


@njit(cache=True, nogil=True)
def sigmoid(x):
    """1/(1 + exp(-x)) without overflow."""
    if x >= 0.0:
        return 1.0 / (1.0 + np.exp(-x))
    e = np.exp(x)
    return e / (1.0 + e)


@njit(cache=True, nogil=True, error_model="numpy")
def lower_root(C, L, first=0, lost=1e-14):
    """Rows first, ... of the lower-triangular L (n, n) with L L^T = C, positive semi-definite; a pivot that is lost in rounding, a
    variable that depends on those before it, becomes a column of zeros."""
    for a in range(first, C.shape[0]):
        for b in range(a + 1):
            rest = C[a, b]
            for c in range(b):
                rest -= L[a, c] * L[b, c]
            if a == b:
                L[a, a] = np.sqrt(rest) if rest > lost * C[a, a] else 0.0
            else:
                L[a, b] = rest / L[b, b] if L[b, b] > 0.0 else 0.0


@njit(cache=True, nogil=True)
def add_moments(row, weight, mean, second):
    """Add weight * row to mean (n,), and weight * row row^T to the lower triangle of second (n, n)."""
    for i in range(len(row)):
        mean[i] += weight * row[i]
        for j in range(i + 1):
            second[i, j] += weight * row[i] * row[j]


@njit(cache=True, nogil=True)
def central_moments(mean, second):
    """The covariance (n, n) that follows from what `add_moments` has gathered with weights of sum one; overwrites `second`."""
    for i in range(len(mean)):
        for j in range(i + 1):
            second[i, j] -= mean[i] * mean[j]
            second[j, i] = second[i, j]
    return second


@njit(cache=True)
def normal_cdf(x):
    """P(Z < x), accurate in both tails."""
    return 0.5 * erfc(-x / np.sqrt(2.0))


@njit(cache=True)
def normal_quantile(p):
    """z with P(Z < z) = p, 0 < p < 1 (Wichura, algorithm AS 241, relative error 1e-16)."""
    q = p - 0.5
    if abs(q) <= 0.425:
        r = 0.180625 - q * q
        up = (((((((2509.0809287301226727 * r + 33430.575583588128105) * r + 67265.770927008700853) * r
                 + 45921.953931549871457) * r + 13731.693765509461125) * r + 1971.5909503065514427) * r
               + 133.14166789178437745) * r + 3.387132872796366608)
        down = (((((((5226.495278852545925 * r + 28729.085735721942674) * r + 39307.89580009271061) * r
                   + 21213.794301586595867) * r + 5394.1960214247511077) * r + 687.1870074920579083) * r
                 + 42.313330701600911252) * r + 1.0)
        return q * up / down
    r = np.sqrt(-np.log(min(p, 1.0 - p)))
    if r <= 5.0:
        r -= 1.6
        up = (((((((7.7454501427834140764e-4 * r + 0.0227238449892691845833) * r + 0.24178072517745061177) * r
                 + 1.27045825245236838258) * r + 3.64784832476320460504) * r + 5.7694972214606914055) * r
               + 4.6303378461565452959) * r + 1.42343711074968357734)
        down = (((((((1.05075007164441684324e-9 * r + 5.475938084995344946e-4) * r + 0.0151986665636164571966) * r
                   + 0.14810397642748007459) * r + 0.68976733498510000455) * r + 1.6763848301838038494) * r
                 + 2.05319162663775882187) * r + 1.0)
    else:
        r -= 5.0
        up = (((((((2.01033439929228813265e-7 * r + 2.71155556874348757815e-5) * r + 0.0012426609473880784386) * r
                 + 0.026532189526576123093) * r + 0.29656057182850489123) * r + 1.7848265399172913358) * r
               + 5.4637849111641143699) * r + 6.6579046435011037772)
        down = (((((((2.04426310338993978564e-15 * r + 1.4215117583164458887e-7) * r + 1.8463183175100546818e-5) * r
                   + 7.868691311456132591e-4) * r + 0.0148753612908506148525) * r + 0.13692988092273580531) * r
                 + 0.59983220655588793769) * r + 1.0)
    return -up / down if q < 0.0 else up / down
