"""The paper's algorithm (appendix A.1) written the straightforward way, as a yardstick for speed and for the answer.

Damped iteration over whole paths, noise from the Cholesky factor of M_C, one full matrix of tangents per sample filled
by the triple loop of eq. A.22: K n^3 / 6 multiply-adds a sweep. Persistent SGD on spherical phase retrieval only. The
random numbers are drawn as the solver draws them, so that both reach the same solution.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from dmft.core.streams import normal2, uniform2
from dmft.equations.noise import JITTER


@njit(cache=True)
def sweep(eta, alpha, fraction, p_on, p_off, a, keep, m, chi_factor, M_R, h0, h_start, s_start, weight, noise_key, batch_key):
    """One sweep: new delta_nu, mu, loss (n+1,), M_C, eta M_R (n+1, n+1) from paths under the old kernels."""
    rows = len(m)
    delta_nu, mu, loss = np.zeros(rows), np.zeros(rows), np.zeros(rows)
    M_C, response = np.zeros((rows, rows)), np.zeros((rows, rows))
    h, g, gp, z = np.zeros(rows), np.zeros(rows), np.zeros(rows), np.zeros(rows)
    T = np.zeros((rows, rows))
    for i in range(len(h0)):
        h[0], s, w = h_start[i], s_start[i], weight[i]
        for n in range(rows):
            field = h[n] + m[n] * h0[i]
            g[n] = s / fraction * field * (field * field - h0[i] * h0[i])
            gp[n] = s / fraction * (3 * field * field - h0[i] * h0[i])
            delta_nu[n] += w * alpha * gp[n]
            mu[n] += w * alpha * g[n] * h0[i]
            loss[n] += w * 0.25 * (field * field - h0[i] * h0[i]) ** 2
            for k in range(n):
                M_C[n, k] += w * alpha * g[n] * g[k]
                response[n, k] -= w * alpha * gp[n] * T[n, k]
            M_C[n, n] += w * alpha * g[n] * g[n]
            if n + 1 == rows:
                break
            z[n], _ = normal2(noise_key, i, n)
            chi, past = 0.0, 0.0
            for k in range(n + 1):
                chi += chi_factor[n, k] * z[k]
            for k in range(n):
                past += M_R[n, k] * h[k]
            h[n + 1] = a[n] * (keep[n] * h[n] + eta * (past + chi - g[n]))
            for k in range(n):
                memory = 0.0
                for j in range(k + 1, n):
                    memory += M_R[n, j] * T[j, k]
                T[n + 1, k] = a[n] * ((keep[n] - eta * gp[n]) * T[n, k] + eta * memory)
            T[n + 1, n] = -a[n] * eta * gp[n]
            u, _ = uniform2(batch_key, i, n + 1)
            s = (1.0 if u < 1.0 - p_off else 0.0) if s > 0.5 else (1.0 if u < p_on else 0.0)
    return delta_nu, mu, loss, M_C, response


@njit(cache=True)
def close(eta, m0, delta_nu, mu, M_C, M_R):
    """m, a, keep from the kernels: the recursion for Q and R, written with plain loops. O(n^3)."""
    rows = len(mu)
    Q, R = np.zeros((rows, rows)), np.zeros((rows, rows))
    m, a, keep = np.zeros(rows), np.ones(rows), 1 - eta * delta_nu
    m[0], Q[0, 0] = m0, 1 - m0 * m0
    for n in range(rows - 1):
        b, x = np.zeros(n + 1), np.zeros(n + 1)
        for j in range(n + 1):
            for k in range(j):
                b[j] += eta * R[j, k] * M_C[n, k]
        for j in range(n + 1):
            x[j] = keep[n] * Q[n, j] + eta * b[j]
            for k in range(n):
                x[j] += eta * M_R[n, k] * Q[max(k, j), min(k, j)]
        b_z, q_u = keep[n] * b[n] + eta * M_C[n, n], keep[n] * x[n]
        for k in range(n):
            b_z += eta * M_R[n, k] * b[k]
            q_u += eta * M_R[n, k] * x[k]
        q_u += eta * b_z
        m_u = m[n] - eta * mu[n]
        a[n] = 1 / np.sqrt(q_u + m_u * m_u)
        m[n + 1], Q[n + 1, n + 1], R[n + 1, n] = a[n] * m_u, a[n] ** 2 * q_u, a[n]
        for j in range(n + 1):
            Q[n + 1, j] = a[n] * x[j]
        for k in range(n):
            R[n + 1, k] = a[n] * keep[n] * R[n, k]
            for j in range(k + 1, n):
                R[n + 1, k] += a[n] * eta * M_R[n, j] * R[j, k]
    return m, a, keep


def solve(problem, sampling, draws, mixing: float, tolerance: float, max_sweeps: int):
    """The damped fixed point from the paper's starting guess. Returns m, the number of sweeps, and whether it converged.

    problem: dmft.problem.Problem; draws: dmft.sampling.Draws (plain, unweighted)."""
    rows, eta = problem.steps + 1, problem.eta
    keys = sampling.keys
    weight = np.full(len(draws.h), 1 / len(draws.h))
    args = (eta, problem.alpha, problem.batch_fraction, problem.p_on, problem.p_off)
    # row 0 needs no kernels
    zero = np.zeros((rows, rows))
    one = np.ones(rows)
    first = sweep(*args, one, one, problem.m0 * one, zero, zero, draws.h0, draws.h, draws.s, weight, *keys)
    c = first[3][0, 0]
    kernels = [np.full(rows, first[0][0]), np.full(rows, first[1][0]), np.full((rows, rows), 0.1 * c), zero.copy()]
    np.fill_diagonal(kernels[2], c)
    m, a, keep = close(eta, problem.m0, *kernels)
    m[:] = problem.m0
    for count in range(1, max_sweeps + 1):
        factor = np.linalg.cholesky(kernels[2] + JITTER * np.diag(np.diag(kernels[2])))
        delta_nu, mu, _, M_C, M_R = sweep(*args, a, keep, m, factor, kernels[3], draws.h0, draws.h, draws.s, weight, *keys)
        new = [delta_nu, mu, M_C + np.tril(M_C, -1).T, M_R]
        change = max(np.linalg.norm(n - o) / np.linalg.norm(n) for n, o in zip(new, kernels, strict=True))
        kernels = [(1 - mixing) * o + mixing * n for n, o in zip(new, kernels, strict=True)]
        m, a, keep = close(eta, problem.m0, *kernels)
        if change < tolerance:
            return m, count, True
    return m, max_sweeps, False
