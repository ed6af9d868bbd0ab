"""Gaussian integrals of mixtures with ReLU neurons by quasi-Monte-Carlo, one coordinate per neuron (Ben Arous et al. 2022,
proposition F.2, for any number p of neurons and r of directions).

X ~ N(s e_q, I/lambda), s = +-1, with labels and probabilities of classes (r, 2, 2), s = +1 first (XOR: r = 2, y = 1 along the first
direction and 0 along the second, each of the four with probability 1/4).
Fields h_i = W_i.X, m (p, r) the components of W_i along the e_q, R (p, p) the overlaps of the rest.
With e = sigma(v.relu(h)) - y,

    A_iq  = E[X_q        1(h_i > 0) e]      A   (p, r)
    Ap_ij = E[X.W_j^perp 1(h_i > 0) e]      Ap  (p, p)
    B_ij  = E[1(h_i > 0) 1(h_j > 0) e^2]    B   (p, p)

For each i the fields are factored with h_i first, h = mean + L z, C = (m m^T + R)/lambda = L L^T. Two things make a few
thousand scrambled Sobol points enough: z_1 is drawn from its law given h_i > 0, so that no jump is left, and X_q and
X.W_j^perp are replaced by their means given h, which are linear in z. For B_ij with i != j the first two are drawn given
h_i, h_j > 0. Without jumps the sums are continuous functions of the statistics, which the ODE solver needs. A zero pivot
(parallel neurons) leaves out the coordinate that h does not depend on.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numba import njit
from scipy.special import ndtri

from onepass.gaussian import lower_root, normal_cdf, normal_quantile, sigmoid, sobol_uniforms


@lru_cache(maxsize=4)
def sobol_nodes(neurons: int, log2_points: int) -> np.ndarray:
    """Fixed scrambled Sobol points (2^log2_points, p + 1): two uniforms and p - 1 normals; the first normal is the quantile of the
    second uniform. (2^log2_points, 1) for a single neuron, which needs one uniform."""
    u = sobol_uniforms(neurons, log2_points)
    return np.hstack([u[:, :2], ndtri(u[:, 1:])])


@njit(cache=True)
def _regress(L, column, order, snr, out):
    """Coefficients `out` in E[P | z] = out.z for a variable P whose covariances with the fields are column/snr: they solve
    L out = column/snr."""
    for a in range(order.size):
        rest = column[order[a]] / snr
        for b in range(a):
            rest -= L[a, b] * out[b]
        out[a] = rest / L[a, a] if L[a, a] > 0.0 else 0.0


@njit(cache=True)
def _root_in_order(m, R, snr, order, C, L):
    """Factor the covariance (m m^T + R)/snr of the fields with its rows and columns in the given order; C is work space."""
    for a in range(order.size):
        for b in range(order.size):
            i, j = order[a], order[b]
            along = 0.0
            for q in range(m.shape[1]):
                along += m[i, q] * m[j, q]
            C[a, b] = (along + R[i, j]) / snr
    lower_root(C, L)


@njit(cache=True)
def _mean_of(m, component, order, mean):
    """Put the mean of the fields given component 2q (s = +1) or 2q + 1 (s = -1) into `mean`, in the given order; returns direction
    and sign of the component."""
    q, s = component // 2, 1.0 - 2.0 * (component % 2)
    for a in range(order.size):
        mean[a] = s * m[order[a], q]
    return q, s


@njit(cache=True)
def _put_first(order, i, j):
    """0..n-1 with i first and, if j >= 0, j second."""
    order[0] = i
    place = 1
    if j >= 0:
        order[1] = j
        place = 2
    for a in range(order.size):
        if a != i and a != j:
            order[place] = a
            place += 1


@njit(cache=True)
def _output(v, order, mean, L, z, forced):
    """v.relu(h) at h = mean + L z; the first `forced` fields are positive by construction."""
    field = 0.0
    for a in range(order.size):
        h = mean[a]
        for b in range(a + 1):
            h += L[a, b] * z[b]
        if h > 0.0 or a < forced:
            field += v[order[a]] * h
    return field


@njit(cache=True)
def relu_integrals(v, m, R, snr, nodes, classes):
    """A (p, r), Ap (p, p), B (p, p) at statistics v (p,), m (p, r), R (p, p), finite snr = lambda; nodes of `sobol_nodes`."""
    (n, r), points = m.shape, nodes.shape[0]
    A, Ap, B = np.zeros((n, r)), np.zeros((n, n)), np.zeros((n, n))
    C, L, order = np.empty((n, n)), np.zeros((n, n)), np.empty(n, np.int64)
    slope, slope_perp = np.empty((r, n)), np.empty((n, n))
    z, mean, sum_ez = np.empty(n), np.empty(n), np.empty(n)
    for i in range(n):
        _put_first(order, i, -1)
        _root_in_order(m, R, snr, order, C, L)
        for q in range(r):
            _regress(L, m[:, q], order, snr, slope[q])
        for j in range(n):
            _regress(L, R[:, j], order, snr, slope_perp[j])
        for component in range(2 * r):
            q, s = _mean_of(m, component, order, mean)
            y, share = classes[q, component % 2]
            tail = normal_cdf(mean[0] / L[0, 0])  # P(h_i > 0)
            if tail < 1e-17:
                continue
            sum_e, sum_e2, sum_ez[:] = 0.0, 0.0, 0.0
            for t in range(points):
                z[0] = -normal_quantile(tail * nodes[t, 0])
                z[1:] = nodes[t, 2:]
                e = sigmoid(_output(v, order, mean, L, z, 1)) - y
                sum_e += e
                sum_e2 += e * e
                for a in range(n):
                    sum_ez[a] += e * z[a]
            weight = share * tail / points
            A[i, q] += weight * s * sum_e
            B[i, i] += weight * sum_e2
            for q2 in range(r):
                A[i, q2] += weight * np.sum(slope[q2] * sum_ez)
            for j in range(n):
                Ap[i, j] += weight * np.sum(slope_perp[j] * sum_ez)
    pair_points = points // 4  # B enters the drift divided by snr
    for i in range(n):
        for j in range(i + 1, n):
            _put_first(order, i, j)
            _root_in_order(m, R, snr, order, C, L)
            for component in range(2 * r):
                q, s = _mean_of(m, component, order, mean)
                y, share = classes[q, component % 2]
                tail = normal_cdf(mean[0] / L[0, 0])
                if tail < 1e-17:
                    continue
                total = 0.0
                for t in range(pair_points):
                    z[0] = -normal_quantile(tail * nodes[t, 0])
                    centre = mean[1] + L[1, 0] * z[0]
                    second = 1.0 if centre > 0.0 else 0.0  # P(h_j > 0 | z_1)
                    z[1] = 0.0
                    if L[1, 1] > 0.0:
                        second = normal_cdf(centre / L[1, 1])
                        if second > 1e-17:
                            z[1] = -normal_quantile(second * nodes[t, 1])
                    z[2:] = nodes[t, 3:]
                    if second > 1e-17:
                        e = sigmoid(_output(v, order, mean, L, z, 2)) - y
                        total += second * e * e
                B[i, j] += share * tail * total / pair_points
            B[j, i] = B[i, j]
    return A, Ap, B
