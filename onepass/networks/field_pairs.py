"""Two fields of a Gaussian vector u ~ N(0, Omega) in terms of two independent normals, and the law of the others given them.

    u_i = root z1,   u_q = slope z1 + rest z2,   and for every field   u_l = along_l z1 + across_l z2 + spread_l z_l,
where z_l is independent of z1 and z2. smooth_moments.py and kinked_moments.py integrate over (z1, z2) with different rules;
what they do with the integrals is the same, and stands here.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, error_model="numpy")
def pair_roots(om, i, q):
    """(root, slope, rest) of the fields i and q; rest is exactly 0 where u_q follows from u_i, up to round-off."""
    root = np.sqrt(om[i, i])
    slope = om[i, q] / root if root > 0.0 else 0.0
    rest2 = om[q, q] - slope * slope
    rest = np.sqrt(rest2) if q != i and rest2 > 1e-15 * om[q, q] else 0.0
    return root, slope, rest


@njit(cache=True, error_model="numpy")
def conditional_law(om, i, j):
    """(root, slope, rest) of the fields i and j, then along, across, spread (n,) of every field, and the correlations (n, n) of
    the parts that i and j leave open: lower triangle, zero where a spread is zero."""
    n = om.shape[0]
    root, slope, rest = pair_roots(om, i, j)
    along, across, spread = np.empty(n), np.empty(n), np.empty(n)
    for q in range(n):
        along[q] = om[i, q] / root if root > 0.0 else 0.0
        across[q] = (om[j, q] - slope * along[q]) / rest if rest > 0.0 else 0.0
        left = om[q, q] - along[q] ** 2 - across[q] ** 2
        spread[q] = np.sqrt(left) if q != i and q != j and left > 1e-14 * om[q, q] else 0.0
    correlation = np.zeros((n, n))
    for q in range(n):
        for r in range(q):
            if spread[q] > 0.0 and spread[r] > 0.0:
                value = (om[q, r] - along[q] * along[r] - across[q] * across[r]) / (spread[q] * spread[r])
                correlation[q, r] = min(1.0, max(-1.0, value))
    return root, slope, rest, along, across, spread, correlation


@njit(cache=True, error_model="numpy")
def add_pair(moments, om, c, p, i, q, averages):
    """Add the pair (i, q) to moments = (es, f, j2) of field_moments.py, and return what it adds to the mean square of the error.

    averages: both = E[s(u_i) s(u_q)], first = E[s'(u_i) s(u_q) z1], second = E[s'(u_i) s(u_q) z2], slopes = E[s'(u_i) s'(u_q)].
    Pairs of teacher and student (i >= p > q) are left to the caller to skip: their mirror image counts twice in the square."""
    (es, f, j2), (both, first, second, slopes) = moments, averages
    if i < p:
        root, slope, rest = pair_roots(om, i, q)
        es[i] += c[q] * both
        if q < p:
            j2[i, q] = slopes
        for l in range(om.shape[0]):
            along = om[i, l] / root if root > 0.0 else 0.0
            across = (om[q, l] - slope * along) / rest if rest > 0.0 else 0.0
            f[i, l] += c[q] * (along * first + across * second)
    return c[i] * c[q] * both * (2.0 if i < p <= q else 1.0)
