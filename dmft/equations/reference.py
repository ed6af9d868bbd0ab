"""The theory written the straightforward way: the paper's algorithm (appendix A.1), one equation after the other.

Read this beside docs/equations.md: every line that computes something carries the label of its equation. Kernels are full
matrices over all steps, samples are walked one by one, and the kernels are found by damped iteration over whole paths:
K n^3/6 multiply-adds a sweep. Nothing here is fast; the solvers (solvers/march.py, solvers/iterate.py) are, and are tested
against it. Random numbers are those of the solvers, so both reach the same solution.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numba import njit

from dmft.core.streams import normal2
from dmft.equations.noise import JITTER
from dmft.model.experiment import Experiment
from dmft.model.losses import Loss
from dmft.model.minibatches import next_weight


@dataclass(frozen=True)
class FullKernels:
    """Kernels of all steps: delta_nu, mu (rows,); M_C symmetric and eta M_R strictly lower, (rows, rows); the training loss."""

    delta_nu: np.ndarray
    mu: np.ndarray
    M_C: np.ndarray
    M_R: np.ndarray
    loss: np.ndarray

    def mixed(self, new: FullKernels, weight: float) -> FullKernels:
        return FullKernels(*((1 - weight) * old + weight * found for old, found in zip(vars(self).values(), vars(new).values())))


@dataclass(frozen=True)
class FullWeights:
    """What the weights do: m, a, keep (rows,); Q and R (rows, rows), lower triangles."""

    m: np.ndarray
    a: np.ndarray
    keep: np.ndarray
    Q: np.ndarray
    R: np.ndarray


def close_kernels(e: Experiment, kernels: FullKernels) -> FullWeights:
    """m, a, Q and R from all rows of the kernels."""
    rows, eta, decay = e.steps + 1, e.eta, e.constraint.decay
    Q, R = np.zeros((rows, rows)), np.zeros((rows, rows))
    m, a, keep = np.zeros(rows), np.ones(rows), np.zeros(rows)
    m[0], Q[0, 0] = e.m0, e.h_start_variance
    for n in range(rows):
        A, T = e.update.inertia(n), e.temperature[min(n, e.steps - 1)]
        memory = eta * kernels.M_R[n, :n]  # eta times eta M_R(n,k)
        keep[n] = A - eta * (kernels.delta_nu[n] + decay)
        past = np.tril(Q) + np.tril(Q, -1).T  # Q is symmetric
        b = eta * R[: n + 1, :n] @ kernels.M_C[n, :n]  # [dmft-Q] <chi_n zeta_j>
        x = keep[n] * past[n, : n + 1] + memory @ past[:n, : n + 1] + eta * b  # [dmft-Q] x_j
        b_z = keep[n] * b[n] + memory @ b[:n] + eta * kernels.M_C[n, n]  # [dmft-Q] b_z
        q_u = keep[n] * x[n] + memory @ x[:n] + eta * b_z + 2 * T * eta  # [dmft-Q] q_u
        m_u = (A - eta * decay) * m[n] - eta * kernels.mu[n]  # [dmft-m]
        a[n] = e.constraint.scale(q_u + m_u**2)  # [dmft-a]
        if n + 1 < rows:
            m[n + 1], Q[n + 1, : n + 1], Q[n + 1, n + 1] = a[n] * m_u, a[n] * x, a[n] ** 2 * q_u
            R[n + 1, n] = a[n]  # [dmft-R]
            R[n + 1, :n] = a[n] * (keep[n] * R[n, :n] + memory @ R[:n, :n])  # [dmft-R]
    return FullWeights(m, a, keep, Q, R)


@lru_cache
def make_sweep(loss: Loss):
    """Whole paths of all samples under given kernels, and the sums over them ([loss] among them), compiled for a loss."""
    v, dv, d2v = loss.v, loss.dv, loss.d2v

    @njit
    def sweep(eta, scale, temperature, chain, keys, m, a, keep, chi_factor, M_R, name, sign, k0, y, sd, h_start, s_start, weight,
              z_first):
        """<v>, <g'>, <g k> (rows,), <g_n g_k> and <g'_n T_nk> (rows, rows)."""
        rows = len(m)
        mean_v, mean_gp, mean_gk = np.zeros(rows), np.zeros(rows), np.zeros(rows)
        mean_gg, mean_gT = np.zeros((rows, rows)), np.zeros((rows, rows))
        for i in range(len(h_start)):
            h, g, gp, z, T = np.zeros(rows), np.zeros(rows), np.zeros(rows), np.zeros(rows), np.zeros((rows, rows))
            h[0], s, w = h_start[i], s_start[i], weight[i]
            for n in range(rows):
                field = sd[i] * (h[n] + m[n] * k0[i])
                g[n] = scale * s * sd[i] * dv(field, y[i])
                gp[n] = scale * s * sd[i] * sd[i] * d2v(field, y[i])
                mean_v[n] += w * v(field, y[i])  # [loss]
                mean_gp[n] += w * gp[n]  # [dmft-nu]
                mean_gk[n] += w * g[n] * k0[i]  # [dmft-mu]
                for k in range(n + 1):
                    mean_gg[n, k] += w * g[n] * g[k]  # [dmft-MC]
                    mean_gT[n, k] += w * gp[n] * T[n, k]  # [dmft-MR]
                if n + 1 == rows:
                    break
                z[n], xi = normal2(keys[0], name[i], n)
                z[n] = z_first[i, n] if n < z_first.shape[1] else sign[i] * z[n]
                chi = np.sum(chi_factor[n, : n + 1] * z[: n + 1])  # [dmft-chi]
                memory = np.sum(M_R[n, :n] * h[:n])
                heat = np.sqrt(2 * temperature[n] * eta) * sign[i] * xi
                h[n + 1] = a[n] * (keep[n] * h[n] + eta * (memory + chi - g[n]) + heat)  # [dmft-h]
                for k in range(n):
                    memory = np.sum(M_R[n, k + 1 : n] * T[k + 1 : n, k])
                    T[n + 1, k] = a[n] * ((keep[n] - eta * gp[n]) * T[n, k] + eta * memory)  # [dmft-T]
                T[n + 1, n] = -a[n] * eta * gp[n]  # [dmft-T], the source
                s = next_weight(chain, s, keys[1], name[i], n)  # [persistent-chain]
        return mean_v, mean_gp, mean_gk, mean_gg, mean_gT

    return sweep


def sweep_once(e: Experiment, draws, weight: np.ndarray, keys, kernels: FullKernels | None, m: np.ndarray | None = None
               ) -> FullKernels:
    """New kernels from the paths under old ones; without old ones only row 0 has a meaning. m: held at these values."""
    rows = e.steps + 1
    zero: np.ndarray = np.zeros((rows, rows))
    factor = M_R = zero
    if kernels is None:
        weights = FullWeights(np.full(rows, e.m0), np.ones(rows), np.ones(rows), zero, zero)
    else:
        weights, M_R = close_kernels(e, kernels), kernels.M_R
        factor = np.linalg.cholesky(kernels.M_C + JITTER * np.diag(np.diag(kernels.M_C)))  # [dmft-chi]
    sums = make_sweep(e.data.loss)(
        e.eta, e.gradient_scale, e.temperature, e.batch.chain(), keys, weights.m if m is None else m, weights.a, weights.keep,
        factor, M_R, draws.name, draws.sign, draws.k, draws.y, draws.sd, draws.h, draws.s, weight, draws.z)
    loss, gp, gk, gg, gT = sums
    mu = np.zeros(rows) if e.mirrored else e.alpha * gk
    return FullKernels(e.alpha * gp, mu, e.alpha * (gg + np.tril(gg, -1).T), -e.alpha * gT, loss)


def solve(e: Experiment, draws, weight: np.ndarray, keys, mixing: float = 1.0, tolerance: float = 1e-12, max_sweeps: int = 200
          ) -> tuple[FullKernels, FullWeights, int]:
    """The damped fixed point from the paper's starting guess: kernels, weights, and the sweeps it took (max_sweeps at most).

    draws: samples.sampling.Draws; weight: importance weights that add up to one; keys: streams of noise and mini-batches."""
    rows = e.steps + 1
    first = sweep_once(e, draws, weight, keys, None)
    c = first.M_C[0, 0]
    kernels = FullKernels(np.full(rows, first.delta_nu[0]), np.full(rows, first.mu[0]),
                          np.full((rows, rows), 0.1 * c) + 0.9 * c * np.eye(rows), np.zeros((rows, rows)), first.loss)
    held: np.ndarray | None = np.full(rows, e.m0)
    sweeps, change = 0, float("inf")
    while sweeps < max_sweeps and change >= tolerance:
        new = sweep_once(e, draws, weight, keys, kernels, held)
        change = max(float(np.linalg.norm(getattr(new, name) - getattr(kernels, name))) /
                     (float(np.linalg.norm(getattr(new, name))) or 1.0) for name in ("delta_nu", "mu", "M_C", "M_R"))
        kernels, held, sweeps = kernels.mixed(new, mixing), None, sweeps + 1
    return kernels, close_kernels(e, kernels), sweeps
