"""Gaussian integrals of the XOR mixture (Ben Arous et al. 2022, proposition F.2) by quasi-Monte-Carlo in four dimensions.

X ~ N(s mu, I/lambda) or N(s nu, I/lambda), s = +-1, with labels and probabilities of classes (2, 2, 2): along mu first, s = +1
first (XOR: y = 1 and 0, each of the four with probability 1/4).
Fields h_i = W_i.X, i = 1..4, m (4, 2) the components of W_i along mu and nu, R (4, 4) the overlaps of the rest.
With e = sigma(v.relu(h)) - y,

    A_iq  = E[X.(mu, nu)_q 1(h_i > 0) e]    A   (4, 2)
    Ap_ij = E[X.W_j^perp   1(h_i > 0) e]    Ap  (4, 4)
    B_ij  = E[1(h_i > 0) 1(h_j > 0) e^2]    B   (4, 4)

For each i the fields are factored with h_i first, h = mean + L z, C = (m m^T + R)/lambda = L L^T. Two things make a few
thousand scrambled Sobol points enough: z_1 is drawn from its law given h_i > 0, so that no jump is left, and X.mu, X.nu,
X.W_j^perp are replaced by their means given h, which are linear in z. For B_ij with i != j the first two are drawn given
h_i, h_j > 0. Without jumps the sums are continuous functions of the statistics, which the ODE solver needs. A zero pivot
(parallel neurons) leaves out the coordinate that h does not depend on.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numba import njit
from scipy.special import ndtri

from onepass.gaussian import (
    lower_root,
    normal_cdf,
    normal_quantile,
    sigmoid,
    sobol_uniforms,
)

NEURONS = 4


@lru_cache(maxsize=4)
def sobol_nodes(log2_points: int) -> np.ndarray:
    """Fixed scrambled Sobol points (2^log2_points, 5): two uniforms and three normals; the first normal is the quantile of the
    second uniform."""
    u = sobol_uniforms(NEURONS, log2_points)
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
            C[a, b] = (m[i, 0] * m[j, 0] + m[i, 1] * m[j, 1] + R[i, j]) / snr
    lower_root(C, L)


@njit(cache=True)
def _mean_of(m, component, order, mean):
    """Put the mean of the fields given component 0..3 = +mu, -mu, +nu, -nu into `mean`, in the given order; returns direction and
    sign of the component."""
    q, s = component // 2, 1.0 - 2.0 * (component % 2)
    for a in range(order.size):
        mean[a] = s * m[order[a], q]
    return q, s


@njit(cache=True)
def _put_first(order, i, j):
    """0..n-1 with i first and, if j >= 0, j second."""
    order[0], order[1] = i, j
    place = 1 if j < 0 else 2
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
def xor_integrals(v, m, R, snr, nodes, classes):
    """A (4, 2), Ap (4, 4), B (4, 4) at statistics v (4,), m (4, 2), R (4, 4), finite snr = lambda; nodes of `sobol_nodes`."""
    n, points = 4, nodes.shape[0]
    A, Ap, B = np.zeros((n, 2)), np.zeros((n, n)), np.zeros((n, n))
    C, L, order = np.empty((n, n)), np.zeros((n, n)), np.empty(n, np.int64)
    slope, slope_perp = np.empty((2, n)), np.empty((n, n))
    z, mean, sum_ez = np.empty(n), np.empty(n), np.empty(n)
    for i in range(n):
        _put_first(order, i, -1)
        _root_in_order(m, R, snr, order, C, L)
        for q in range(2):
            _regress(L, m[:, q], order, snr, slope[q])
        for j in range(n):
            _regress(L, R[:, j], order, snr, slope_perp[j])
        for component in range(4):
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
            for q2 in range(2):
                A[i, q2] += weight * np.sum(slope[q2] * sum_ez)
            for j in range(n):
                Ap[i, j] += weight * np.sum(slope_perp[j] * sum_ez)
    pair_points = points // 4  # B enters the drift divided by snr
    for i in range(n):
        for j in range(i + 1, n):
            _put_first(order, i, j)
            _root_in_order(m, R, snr, order, C, L)
            for component in range(4):
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
