"""Gaussian integrals of the XOR mixture (paper 001, proposition F.2) by quasi-Monte-Carlo in four dimensions.

X ~ N(s mu, I/lambda) with y = 1 or N(s nu, I/lambda) with y = 0, s = +-1, each of the four with probability 1/4.
Fields h_i = W_i.X, i = 1..4, m (4, 2) the components of W_i along mu and nu, R (4, 4) the overlaps of the rest.
With e = sigma(v.relu(h)) - y,

    A_iq  = E[X.(mu, nu)_q 1(h_i > 0) e]    A   (4, 2)
    Ap_ij = E[X.W_j^perp   1(h_i > 0) e]    Ap  (4, 4)
    B_ij  = E[1(h_i > 0) 1(h_j > 0) e^2]    B   (4, 4)

For each i the fields are factored with h_i first, h = mean + L z, C = (m m^T + R)/lambda = L L^T. Two things make a few
thousand scrambled Sobol points enough: z_1 is drawn from its law given h_i > 0 (no jump is left in A and Ap), and
X.mu, X.nu, X.W_j^perp are replaced by their means given h, which are linear in z. A zero pivot (parallel neurons)
leaves out the coordinate that h does not depend on.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numba import njit
from scipy.special import ndtri
from scipy.stats import qmc

from onepass.binary_integrals import sigmoid
from onepass.normal_law import normal_cdf, normal_quantile

NEURONS = 4


@lru_cache(maxsize=4)
def sobol_nodes(log2_points: int) -> np.ndarray:
    """Fixed scrambled Sobol points (2^log2_points, 4): a uniform, then three normals."""
    u = qmc.Sobol(NEURONS, scramble=True, seed=20).random_base2(log2_points)
    u = np.clip(u, 2.0**-53, 1.0 - 2.0**-53)
    u[:, 1:] = ndtri(u[:, 1:])
    return u


@njit(cache=True)
def _factor(C, order, L):
    """Lower-triangular L (n, n) with C[order][:, order] = L L^T; a pivot at round-off level becomes a zero column."""
    n = order.size
    for a in range(n):
        for b in range(a + 1):
            rest = C[order[a], order[b]]
            for c in range(b):
                rest -= L[a, c] * L[b, c]
            if a == b:
                L[a, a] = np.sqrt(rest) if rest > 1e-13 * C[order[a], order[a]] else 0.0
            else:
                L[a, b] = rest / L[b, b] if L[b, b] > 0.0 else 0.0


@njit(cache=True)
def _regress(L, covariance, out):
    """Coefficients out of E[P | z] = out.z for a variable P with the given covariances with h: L out = covariance."""
    for a in range(covariance.size):
        rest = covariance[a]
        for b in range(a):
            rest -= L[a, b] * out[b]
        out[a] = rest / L[a, a] if L[a, a] > 0.0 else 0.0


@njit(cache=True)
def xor_integrals(v, m, R, snr, nodes):
    """A (4, 2), Ap (4, 4), B (4, 4) at statistics v (4,), m (4, 2), R (4, 4), finite snr = lambda; nodes of `sobol_nodes`."""
    n, points = 4, nodes.shape[0]
    A, Ap, B = np.zeros((n, 2)), np.zeros((n, n)), np.zeros((n, n))
    C = (m @ m.T + R) / snr
    L, order = np.zeros((n, n)), np.empty(n, np.int64)
    slope, slope_perp = np.empty((2, n)), np.empty((n, n))
    z, mean, on = np.empty(n), np.empty(n), np.empty(n)
    first, first_z, both = 0.0, np.empty(n), np.empty(n)
    for i in range(n):
        order[0] = i
        for a in range(1, n):
            order[a] = a - 1 if a <= i else a
        _factor(C, order, L)
        for q in range(2):
            _regress(L, m[order, q] / snr, slope[q])
        for j in range(n):
            _regress(L, R[order, j] / snr, slope_perp[j])
        for component in range(4):
            q, s = component // 2, 1.0 - 2.0 * (component % 2)  # +mu, -mu, +nu, -nu
            y = 1.0 - q
            for a in range(n):
                mean[a] = s * m[order[a], q]
            tail = normal_cdf(mean[0] / L[0, 0])  # P(h_i > 0)
            if tail < 1e-17:
                continue
            first, first_z[:], both[:] = 0.0, 0.0, 0.0  # sums of e, e z and 1_j e^2
            for t in range(points):
                z[0] = -normal_quantile(tail * nodes[t, 0])
                for a in range(1, n):
                    z[a] = nodes[t, a]
                field = 0.0
                for a in range(n):
                    h = mean[a]
                    for b in range(a + 1):
                        h += L[a, b] * z[b]
                    on[a] = 1.0 if h > 0.0 or a == 0 else 0.0
                    field += v[order[a]] * h * on[a]
                e = sigmoid(field) - y
                first += e
                for a in range(n):
                    first_z[a] += e * z[a]
                    both[a] += on[a] * e * e
            weight = 0.25 * tail / points
            for q2 in range(2):
                A[i, q2] += weight * np.sum(slope[q2] * first_z)
            A[i, q] += weight * s * first
            for j in range(n):
                Ap[i, j] += weight * np.sum(slope_perp[j] * first_z)
            for a in range(n):
                B[i, order[a]] += weight * both[a]
    return A, Ap, 0.5 * (B + B.T)
