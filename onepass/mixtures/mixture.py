"""What all mixtures share: p hidden neurons with activation s, r mean directions, statistics v (p,), m (p, r), R (p, p).

X ~ N(s e_q, I/lambda) with label y = classes[q, s, 0] and probability classes[q, s, 1]; e = sigma(v.s(h)) - y,
h_i = sum_q m_iq X_q + zeta_i, zeta ~ N(0, R/lambda).
With alpha the ridge, delta = c/N and the Gaussian integrals (Ben Arous et al. 2022, 4.1 and F.2)
    es_i = E[s(h_i) e],   A_iq = E[X_q s'(h_i) e],   Ap_ij = E[zeta_j s'(h_i) e],   B_ij = E[s'(h_i) s'(h_j) e^2]
(for ReLU es_i = sum_q m_iq A_iq + Ap_ii):

    v_i'  = -es_i - alpha v_i
    m_iq' = -v_i A_iq - alpha m_iq
    R_ij' = -v_i Ap_ij - v_j Ap_ji - 2 alpha R_ij + (c/lambda) v_i v_j B_ij
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numba import cfunc, njit
from scipy.special import ndtri

from onepass.gaussian import add_moments, central_moments, lower_root, sigmoid, sobol_uniforms


@njit(cache=True)
def assemble_drift(v, m, R, es, A, Ap, B, ridge, gain):
    """Population drift f and corrector g in the flat order v, m, upper triangle of R; gain = c/lambda."""
    p, r = m.shape
    size = p + p * r + p * (p + 1) // 2
    f, g = np.empty(size), np.zeros(size)
    place = p + p * r
    for i in range(p):
        f[i] = es[i] + ridge * v[i]
        for q in range(r):
            f[p + i * r + q] = v[i] * A[i, q] + ridge * m[i, q]
        for j in range(i, p):
            f[place] = v[i] * Ap[i, j] + v[j] * Ap[j, i] + 2.0 * ridge * R[i, j]
            g[place] = gain * v[i] * v[j] * B[i, j]
            place += 1
    return f, g


@cfunc("float64(float64)", cache=True)
def right_step(x):
    """The derivative of ReLU as SGD takes it here: 1 at 0."""
    return 1.0 if x >= 0.0 else 0.0


@njit(cache=True)
def limit_integrals(s_, ds, kinked, v, m, classes, width):
    """es (p,) and A (p, r) at infinite snr, where X = s e_q: A_iq = sum_s p_qs s s'(s m_iq) [sigma(sum_j v_j s(s m_jq)) - y_qs].

    kinked: of ReLU, whose derivative is 1/2 at 0, the limit of P(h > 0); a width > 0 makes it a ramp of that half-width, which
    turns sliding along m_iq = 0 (drift towards it from both sides) into a stable, stiff fixed point."""
    p, r = m.shape
    A, es = np.zeros((p, r)), np.zeros(p)
    for q in range(r):
        for minus in range(2):
            s = 1.0 - 2.0 * minus
            field = 0.0
            for j in range(p):
                field += v[j] * s_(s * m[j, q])
            e = sigmoid(field) - classes[q, minus, 0]
            for i in range(p):
                if not kinked:
                    theta = ds(s * m[i, q])
                elif width > 0.0:
                    theta = min(max(0.5 + 0.5 * s * m[i, q] / width, 0.0), 1.0)
                else:
                    theta = 0.5 * (1.0 + np.sign(s * m[i, q]))
                A[i, q] += s * theta * e * classes[q, minus, 1]
                es[i] += (theta * s * m[i, q] if kinked else s_(s * m[i, q])) * e * classes[q, minus, 1]
    return es, A


@njit(cache=True, nogil=True)
def _at_node(s, ds, v, m, L, spread, node, q, minus, sample):
    """The output's field v.s(h) of the sample of a class that the normals `node` (r + p,) make; fills x (r,), its components along
    the means, and h, zeta = W^perp X and s'(h), (p,) each, of `sample`. spread: 1/sqrt(snr)."""
    x, h, zeta, slope = sample
    p, r = m.shape
    for a in range(r):
        x[a] = spread * node[a]
    x[q] += 1.0 - 2.0 * minus
    field = 0.0
    for i in range(p):
        zeta[i] = 0.0
        for b in range(i + 1):
            zeta[i] += spread * L[i, b] * node[r + b]
        h[i] = zeta[i]
        for a in range(r):
            h[i] += m[i, a] * x[a]
        slope[i] = ds(h[i])
        field += v[i] * s(h[i])
    return field


@njit(cache=True, nogil=True)
def point_integrals(s, ds, v, m, R, snr, classes, nodes):
    """es (p,), A (p, r), Ap (p, p), B (p, p) and the share of points that are classified wrongly, for any activation and width, by
    quasi-Monte-Carlo with nodes (points, r + p) of `normal_nodes`."""
    p, r = m.shape
    es, A, Ap, B, wrong = np.zeros(p), np.zeros((p, r)), np.zeros((p, p)), np.zeros((p, p)), 0.0
    L, x, h, zeta, slope = np.zeros((p, p)), np.zeros(r), np.zeros(p), np.zeros(p), np.zeros(p)
    lower_root(R, L)
    spread = 1.0 / np.sqrt(snr)
    points = nodes.shape[0] if spread > 0.0 else 1
    for t in range(points):
        for component in range(2 * r):
            q, minus = component // 2, component % 2
            y, weight = classes[q, minus, 0], classes[q, minus, 1] / points
            field = _at_node(s, ds, v, m, L, spread, nodes[t], q, minus, (x, h, zeta, slope))
            e = sigmoid(field) - y
            if field == 0.0:
                wrong += 0.5 * weight
            elif (field > 0.0) != (y > 0.5):
                wrong += weight
            for i in range(p):
                es[i] += weight * e * s(h[i])
                for a in range(r):
                    A[i, a] += weight * e * slope[i] * x[a]
                for j in range(p):
                    Ap[i, j] += weight * e * slope[i] * zeta[j]
                    B[i, j] += weight * e * e * slope[i] * slope[j]
    return es, A, Ap, B, wrong


@njit(cache=True, nogil=True)
def chain_advance(v, m, R, steps, numbers, classes, s, ds, dimension, rng):
    """Exact law of the statistics under SGD in the given dimension N, in place: X enters through its components along the
    means, zeta = W^perp X = L g/sqrt(lambda), and |X^perp|^2 = (|g|^2 + chi2_{N-r-p})/lambda. numbers: delta, ridge, snr."""
    delta, ridge, snr = numbers
    p, r = m.shape
    keep = 1.0 - delta * ridge
    L, g, x, h = np.zeros((p, p)), np.zeros(p), np.zeros(r), np.zeros(p)
    zeta, kick = np.zeros(p), np.zeros(p)
    noisy = not np.isinf(snr)
    spread = 1.0 / np.sqrt(snr)
    freedom = dimension - r - p
    for _ in range(steps):
        u, q = rng.random(), 0
        while q < r - 1 and u >= classes[q, 0, 1] + classes[q, 1, 1]:
            u -= classes[q, 0, 1] + classes[q, 1, 1]
            q += 1
        minus = 1 if rng.random() * (classes[q, 0, 1] + classes[q, 1, 1]) < classes[q, 1, 1] else 0
        square = 0.0
        x[:] = 0.0
        if noisy:
            lower_root(R, L)
            for a in range(r):
                x[a] = spread * rng.standard_normal()
            for a in range(p):
                g[a] = rng.standard_normal()
                square += g[a] * g[a]
            for a in range(p):
                zeta[a] = 0.0
                for b in range(a + 1):
                    zeta[a] += spread * L[a, b] * g[b]
            if freedom > 0:
                square += rng.chisquare(freedom)
            square /= snr
        x[q] += 1.0 - 2.0 * minus
        field = 0.0
        for i in range(p):
            h[i] = zeta[i]
            for a in range(r):
                h[i] += m[i, a] * x[a]
            field += v[i] * s(h[i])
        e = sigmoid(field) - classes[q, minus, 0]
        for i in range(p):
            kick[i] = delta * v[i] * e * ds(h[i])
            v[i] = keep * v[i] - delta * e * s(h[i])
            for a in range(r):
                m[i, a] = keep * m[i, a] - kick[i] * x[a]
        for i in range(p):
            for j in range(p):
                R[i, j] = keep * keep * R[i, j] - keep * (kick[i] * zeta[j] + kick[j] * zeta[i]) + kick[i] * kick[j] * square


@lru_cache(maxsize=4)
def normal_nodes(dimensions: int, log2_points: int) -> np.ndarray:
    """Fixed scrambled Sobol normals (2^log2_points, dimensions)."""
    return ndtri(sobol_uniforms(dimensions, log2_points))


@njit(cache=True)
def gradient_covariance(s, ds, v, m, R, snr, classes, nodes):
    """J V J^T (size, size): covariance over data of <grad L, grad u> for u = (v, m, upper triangle of R).

    The gradient acts on v_i by e s(h_i), on m_iq by v_i s'_i e X_q, on R_ij by e (v_i s'_i zeta_j + v_j s'_j zeta_i); the
    average over (X_q, zeta) is quasi-Monte-Carlo with nodes (points, r + p) of `normal_nodes`; snr = inf needs one node."""
    p, r = m.shape
    size = p + p * r + p * (p + 1) // 2
    mean, second, row = np.zeros(size), np.zeros((size, size)), np.empty(size)
    L, x, h, zeta, on = np.zeros((p, p)), np.zeros(r), np.zeros(p), np.zeros(p), np.zeros(p)
    lower_root(R, L)
    spread = 1.0 / np.sqrt(snr)
    points = nodes.shape[0] if spread > 0.0 else 1
    for t in range(points):
        for component in range(2 * r):
            q, minus = component // 2, component % 2
            weight = classes[q, minus, 1] / points
            e = sigmoid(_at_node(s, ds, v, m, L, spread, nodes[t], q, minus, (x, h, zeta, on))) - classes[q, minus, 0]
            place = p + p * r
            for i in range(p):
                row[i] = e * s(h[i])
                for a in range(r):
                    row[p + i * r + a] = v[i] * on[i] * e * x[a]
                for j in range(i, p):
                    row[place] = e * (v[i] * on[i] * zeta[j] + v[j] * on[j] * zeta[i])
                    place += 1
            add_moments(row, weight, mean, second)
    return central_moments(mean, second)
