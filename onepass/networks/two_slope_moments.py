"""Gaussian averages of two-slope activations (ReLU, leaky ReLU, |x|): s(u) = lo u for u < 0 and hi u for u > 0.

With theta the step function s = lo u + (hi - lo) u theta(u) and s' = lo + (hi - lo) theta(u), so every average of
field_moments.py is a sum of moments with a set S of at most four positive fields,
    E[u_a u_b 1_S] = C_ab P_S + sum_{k != l in S} C_ak (C_bl - C_kl C_bk/C_kk) phi_kl P(S - {k, l} > 0 | u_k = u_l = 0),
phi_kl the joint density of u_k, u_l at the origin (integration by parts, twice). P_S of up to three fields is closed,
P_2 = 1/4 + asin(rho)/(2 pi), P_3 = 1/8 + sum asin(rho)/(4 pi); of four it is one smooth integral,
dP_4/dC_kl = phi_kl P_2(the other two | u_k = u_l = 0) (Plackett), along a path that switches the correlations between
two pairs on as t = sin(angle), which takes away the root singularity of nearly parallel fields.
"""

from __future__ import annotations

import numpy as np
from numba import njit

# Gauss-Legendre in the cube root of the distance from the end of the path, where fields of one plane change fastest.
_LEGENDRE_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(32)
_ANGLES = 0.5 * np.pi * (1.0 - (0.5 * (1.0 - _LEGENDRE_NODES)) ** 3)
_WEIGHTS = 0.75 * np.pi * (0.5 * (1.0 - _LEGENDRE_NODES)) ** 2 * _NODE_WEIGHTS
_PARALLEL = 1e-12  # fields with |rho| closer to 1 than this are one field
# Conditioned on two fields, a third in their span is zero, and its sign is decided by an infinitesimal independent
# noise on every field; this is the relative variance of that noise, well above rounding.
_NUDGE = 1e-9


@njit(cache=True, error_model="numpy")
def _pair_probability(variance_1, variance_2, covariance):
    """P(u_1 > 0, u_2 > 0)."""
    ratio = covariance / np.sqrt(variance_1 * variance_2)
    return 0.25 + np.arcsin(min(1.0, max(-1.0, ratio))) / (2.0 * np.pi)


@njit(cache=True, error_model="numpy")
def _probability_given(om, k, l, covariance, rest, count):
    """P(fields rest[:count] > 0 | u_k = u_l = 0), count <= 2. `covariance` is that of k and l (which the path of four
    fields scales); `om` the covariance of everything else."""
    if count == 0:
        return 1.0
    if count == 1:
        return 0.5
    a, b, det = om[k, k], om[l, l], om[k, k] * om[l, l] - covariance * covariance
    i, j = rest[0], rest[1]
    ik, il = (om[i, k] * b - om[i, l] * covariance) / det, (om[i, l] * a - om[i, k] * covariance) / det
    jk, jl = (om[j, k] * b - om[j, l] * covariance) / det, (om[j, l] * a - om[j, k] * covariance) / det
    ii = om[i, i] - ik * om[i, k] - il * om[i, l] + _NUDGE * (om[i, i] + ik * ik * a + il * il * b)
    jj = om[j, j] - jk * om[j, k] - jl * om[j, l] + _NUDGE * (om[j, j] + jk * jk * a + jl * jl * b)
    ij = om[i, j] - ik * om[j, k] - il * om[j, l] + _NUDGE * (ik * jk * a + il * jl * b)
    return _pair_probability(max(ii, 1e-300), max(jj, 1e-300), ij)


@njit(cache=True, error_model="numpy")
def _four(om, s):
    """P(all four fields of s > 0): its value for independent pairs (s0, s1), (s2, s3), plus the integral along the path that
    switches the correlations between the pairs on."""
    total = _pair_probability(om[s[0], s[0]], om[s[1], s[1]], om[s[0], s[1]])
    total *= _pair_probability(om[s[2], s[2]], om[s[3], s[3]], om[s[2], s[3]])
    path = np.empty((4, 4))
    rest = np.empty(2, np.int64)
    for step in range(len(_ANGLES)):
        t = np.sin(_ANGLES[step])
        for i in range(4):
            for j in range(4):
                path[i, j] = om[s[i], s[j]] * (t if (i < 2) != (j < 2) else 1.0)
        slope = 0.0
        for k in range(2):
            for l in range(2, 4):
                rest[0], rest[1] = 1 - k, 5 - l
                density = 1.0 / (2.0 * np.pi * np.sqrt(path[k, k] * path[l, l] - path[k, l] ** 2))
                slope += om[s[k], s[l]] * density * _probability_given(path, k, l, path[k, l], rest, 2)
        total += _WEIGHTS[step] * np.cos(_ANGLES[step]) * slope
    return total


@njit(cache=True, error_model="numpy")
def _distinct(om, fields, kept):
    """Put the distinct fields into `kept` and return their number: parallel ones count once, -1 if two are opposite."""
    count = 0
    for field in fields:
        new = field >= 0
        for i in range(count):
            if not new:
                break
            other = kept[i]
            rho = om[field, other] / np.sqrt(om[field, field] * om[other, other])
            if field == other or rho > 1.0 - _PARALLEL:
                new = False
            elif rho < -1.0 + _PARALLEL:
                return -1
        if new:
            kept[count] = field
            count += 1
    return count


@njit(cache=True, error_model="numpy")
def _probability(om, s, count):
    """P(fields s[:count] > 0) for fields no two of which are parallel."""
    if count == 4:
        return _four(om, s)
    total = 1.0 if count == 0 else 0.5**count
    for i in range(count):
        for j in range(i):
            rho = om[s[i], s[j]] / np.sqrt(om[s[i], s[i]] * om[s[j], s[j]])
            total += np.arcsin(min(1.0, max(-1.0, rho))) / (2.0 * np.pi if count == 2 else 4.0 * np.pi)
    return total


@njit(cache=True, error_model="numpy")
def positive_moment(om, a, b, fields):
    """E[u_a u_b 1(u_i > 0 for all i in fields)]; negative entries of `fields` are ignored, and with a < 0 the factor u_a u_b."""
    kept = np.empty(4, np.int64)
    count = _distinct(om, fields, kept)
    if count < 0:
        return 0.0
    probability = _probability(om, kept, count)
    if a < 0:
        return probability
    total = om[a, b] * probability
    rest = np.empty(2, np.int64)
    for i in range(count):
        for j in range(count):
            if i == j:
                continue
            k, l = kept[i], kept[j]
            places = 0
            for n in range(count):
                if n != i and n != j:
                    rest[places] = kept[n]
                    places += 1
            lead = om[a, k] * (om[b, l] - om[k, l] * om[b, k] / om[k, k])
            if lead != 0.0:
                density = 1.0 / (2.0 * np.pi * np.sqrt(om[k, k] * om[l, l] - om[k, l] ** 2))
                total += lead * density * _probability_given(om, k, l, om[k, l], rest, places)
    return total


@njit(cache=True, error_model="numpy")
def two_slope_moments(om, c, p, student, teacher, diagonal):
    """es, f, g, j2 and square of field_moments.py for slopes student = (lo, hi) of the first p fields and `teacher` of
    the others. With `diagonal` only i = j of g and j2."""
    n = om.shape[0]
    low, jump = np.empty(n), np.empty(n)
    for i in range(n):
        low[i] = student[0] if i < p else teacher[0]
        jump[i] = (student[1] if i < p else teacher[1]) - low[i]
    es, f, g, j2 = np.zeros(p), np.zeros((p, n)), np.zeros((p, p)), np.zeros((p, p))
    square = 0.0
    fields = np.empty(4, np.int64)
    for i in range(n):
        for q in range(n):
            for case in range(4):
                factor = (jump[i] if case & 1 else low[i]) * (jump[q] if case & 2 else low[q])
                if factor == 0.0:
                    continue
                fields[:] = -1
                if case & 1:
                    fields[0] = i
                if case & 2:
                    fields[1] = q
                moment = factor * positive_moment(om, i, q, fields)
                square += c[i] * c[q] * moment
                if i < p:
                    es[i] += c[q] * moment
                    for l in range(n):
                        f[i, l] += c[q] * factor * positive_moment(om, l, q, fields)
    for i in range(p):
        for j in range(i, i + 1 if diagonal else p):
            for case in range(16):
                outer = (jump[i] if case & 1 else low[i]) * (jump[j] if case & 2 else low[j])
                if outer == 0.0:
                    continue
                fields[0], fields[1] = i if case & 1 else -1, j if case & 2 else -1
                fields[2] = fields[3] = -1
                if case < 4:
                    j2[i, j] += outer * positive_moment(om, -1, -1, fields)
                for q in range(n):
                    for r in range(q + 1):
                        factor = outer * (jump[q] if case & 4 else low[q]) * (jump[r] if case & 8 else low[r])
                        if factor == 0.0:
                            continue
                        fields[2], fields[3] = q if case & 4 else -1, r if case & 8 else -1
                        weight = (1.0 if q == r else 2.0) * c[q] * c[r]
                        g[i, j] += weight * factor * positive_moment(om, q, r, fields)
            g[j, i], j2[j, i] = g[i, j], j2[i, j]
    return es, f, g, j2, square


@njit(cache=True, error_model="numpy")
def two_slope_square(om, c, p, student, teacher):
    """E[E^2] alone: it needs pairs of fields only."""
    n = om.shape[0]
    square = 0.0
    fields = np.full(4, -1, np.int64)
    for i in range(n):
        for q in range(n):
            one, other = student if i < p else teacher, student if q < p else teacher
            fields[0], fields[1] = i, q
            square += c[i] * c[q] * (one[1] - one[0]) * (other[1] - other[0]) * positive_moment(om, i, q, fields)
            # E[u_i u_q theta_i] = E[u_i u_q]/2: all but the term of two steps
            square += c[i] * c[q] * om[i, q] * (one[0] * other[0] + 0.5 * one[0] * (other[1] - other[0])
                                                + 0.5 * other[0] * (one[1] - one[0]))  # fmt: skip
    return square
