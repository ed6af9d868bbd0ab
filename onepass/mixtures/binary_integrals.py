"""Gaussian integrals of the binary mixture (Ben Arous et al. 2022, eq. 4.3), to round-off and at every degeneracy.

X ~ N(s mu, I/lambda), s = +-1, with label and probability of classes (1, 2, 2), s = +1 first; fields h_i = W_i.X, m_i = W_i.mu and
R_ij = W_i^perp.W_j^perp. With e = sigma(v.relu(h)) - y the integrals are

    A_i   = E[X.mu      1(h_i > 0) e]            A   (2,)
    Ap_ij = E[X.W_j^perp 1(h_i > 0) e]           Ap  (2, 2)
    B_ij  = E[1(h_i > 0) 1(h_j > 0) e^2]         B   (2, 2)

Given s, h ~ N(s m, C) with C = (m m^T + R)/lambda. For each i the outer variable is z, h_i = s m_i + sqrt(C_ii) z > 0,
and the inner one w, h_j = s m_j + C_ij z/sqrt(C_ii) + tau w; X.mu and X.W_k^perp have conditional means that are linear in
(z, w). Where h_j < 0 the w integral is elementary; where h_j > 0 it is Gauss-Legendre, so no rule crosses a kink.
When tau is small (the two neurons nearly parallel, as on the rings) the step in z has width tau sqrt(C_ii)/|C_ij|:
the z range is cut there. tau and the coefficients of w are written without the cancellation in C_jj - C_ij^2/C_ii.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numba import njit

from onepass.gaussian import normal_cdf, sigmoid

GAUSSIAN_END = 8.7  # beyond this many standard deviations a Gaussian is below 1e-16
_PHI0 = 1.0 / np.sqrt(2.0 * np.pi)


@lru_cache(maxsize=8)
def legendre_rule(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of the Gauss-Legendre rule on (-1, 1)."""
    return np.polynomial.legendre.leggauss(count)


@njit(cache=True)
def _breaks(low, z_star, width, out):
    """End points of the panels of z on (low, CUT), fine around z_star when the step there is narrow. Returns the count."""
    out[0] = low
    count = 1
    if width < 0.5:
        for offset in (-GAUSSIAN_END * width, 0.0, GAUSSIAN_END * width):
            z = z_star + offset
            if out[count - 1] < z < GAUSSIAN_END:
                out[count] = z
                count += 1
    out[count] = GAUSSIAN_END
    return count + 1


@njit(cache=True)
def binary_integrals(v, m, R, snr, rule, classes):
    """A (2,), Ap (2, 2), B (2, 2) at statistics v (2,), m (2,), R (2, 2) and finite snr = lambda; rule of `legendre_rule`."""
    nodes, weights = rule
    A = np.zeros(2)
    Ap = np.zeros((2, 2))
    B = np.zeros((2, 2))
    edges = np.empty(5)
    det = max(R[0, 0] * R[1, 1] - R[0, 1] ** 2, 0.0)
    det += max(m[0] ** 2 * R[1, 1] + m[1] ** 2 * R[0, 0] - 2.0 * m[0] * m[1] * R[0, 1], 0.0)  # lambda^2 det C
    for i in range(2):
        j = 1 - i
        cii, cij = m[i] ** 2 + R[i, i], m[0] * m[1] + R[0, 1]  # lambda C
        spread = np.sqrt(cii / snr)
        slope = cij / np.sqrt(cii * snr)  # dh_j/dz
        tau = np.sqrt(det / (cii * snr))
        flat = tau <= 1e-9 * (abs(slope) + spread)  # h_j is a function of z
        b = m[i] / np.sqrt(cii * snr)
        bi, bj = R[i, i] / np.sqrt(cii * snr), R[i, j] / np.sqrt(cii * snr)
        e = ei = ej = 0.0
        if not flat:
            scale = 1.0 / (cii * snr * tau)
            e = (m[j] * R[i, i] - m[i] * R[i, j]) * scale
            ei = -m[i] * (m[j] * R[i, i] - m[i] * R[i, j]) * scale
            ej = (R[i, i] * R[j, j] - R[i, j] ** 2 + m[i] * (m[i] * R[j, j] - m[j] * R[i, j])) * scale
        for s in (-1.0, 1.0):
            y, share = classes[0, 0 if s > 0.0 else 1]
            low = max(-s * m[i] / spread, -GAUSSIAN_END)
            if low >= GAUSSIAN_END:
                continue
            z_star, width = 0.0, 1.0
            if slope != 0.0:
                z_star, width = -s * m[j] / slope, tau / abs(slope)
            count = _breaks(low, z_star, width, edges)
            for panel in range(count - 1):
                half, mid = 0.5 * (edges[panel + 1] - edges[panel]), 0.5 * (edges[panel + 1] + edges[panel])
                for a in range(nodes.size):
                    z = mid + half * nodes[a]
                    pz = share * half * weights[a] * _PHI0 * np.exp(-0.5 * z * z)
                    hi = s * m[i] + spread * z
                    hj = s * m[j] + slope * z
                    off = sigmoid(v[i] * hi) - y
                    if flat:
                        err = sigmoid(v[i] * hi + v[j] * max(hj, 0.0)) - y
                        e0, e1, q0, both = err, 0.0, err * err, 0.0
                        if hj > 0.0:
                            both = err * err
                    else:
                        w0 = -hj / tau  # h_j < 0 for w < w0
                        below = normal_cdf(w0)
                        e0 = off * below
                        e1 = -off * _PHI0 * np.exp(-0.5 * w0 * w0)
                        both = 0.0
                        start = max(w0, -GAUSSIAN_END)
                        if start < GAUSSIAN_END:
                            half_w, mid_w = 0.5 * (GAUSSIAN_END - start), 0.5 * (GAUSSIAN_END + start)
                            for c in range(nodes.size):
                                w = mid_w + half_w * nodes[c]
                                pw = half_w * weights[c] * _PHI0 * np.exp(-0.5 * w * w)
                                err = sigmoid(v[i] * hi + v[j] * (hj + tau * w)) - y
                                e0 += pw * err
                                e1 += pw * err * w
                                both += pw * err * err
                        q0 = off * off * below + both
                    A[i] += pz * ((s + b * z) * e0 + e * e1)
                    Ap[i, i] += pz * (bi * z * e0 + ei * e1)
                    Ap[i, j] += pz * (bj * z * e0 + ej * e1)
                    B[i, i] += pz * q0
                    if i == 0:
                        B[0, 1] += pz * both
    B[1, 0] = B[0, 1]
    return A, Ap, B
