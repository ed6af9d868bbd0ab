"""The theory written the straightforward way: the paper's algorithm (appendix A.1), one equation after the other.

Read this beside docs/equations.md: every line that computes something carries the label of its equation. Kernels are full
matrices over all steps, samples are walked one by one, and the kernels are found by damped iteration over whole paths:
K n^3/6 multiply-adds a sweep. Nothing here is fast. The solvers (solvers/march.py, solvers/iterate.py) are, and they are tested
against this; they use the same random numbers, so that both reach the same solution.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numba import njit, typed

from dmft.core.streams import normal2
from dmft.equations.tuning import ESTIMATOR
from dmft.model.experiment import Experiment
from dmft.model.loss import Loss
from dmft.model.losses import built_in
from dmft.model.minibatches import own_weight


@dataclass(frozen=True)
class FullKernels:
    """Kernels of all steps: delta_nu, mu (rows,); M_C symmetric and K_R(n,k) = eta_k M_R(n,k) strictly lower, (rows, rows);
    the training loss."""

    delta_nu: np.ndarray
    mu: np.ndarray
    M_C: np.ndarray
    K_R: np.ndarray
    loss: np.ndarray

    def mixed(self, new: FullKernels, weight: float) -> FullKernels:
        """`weight` times the new kernels plus the rest of these."""
        return FullKernels(*((1 - weight) * old + weight * found for old, found in zip(vars(self).values(), vars(new).values())))


class FullWeights(NamedTuple):
    """The weights: m, a, keep (rows,); Q, Gam(n,k) = eta_k R(n,k), and `memory`, K_R with the part of momentum in it, (rows, rows),
    lower triangles. All belong to y_n, where gradients are taken; m_w (rows,) to the weights, and drift (rows,) is a times the
    coefficient of these in a step. The two differ where the rule looks ahead (Nesterov's)."""

    m: np.ndarray
    m_w: np.ndarray
    a: np.ndarray
    keep: np.ndarray
    Q: np.ndarray
    Gam: np.ndarray
    memory: np.ndarray
    drift: np.ndarray


class StepsOfSweep(NamedTuple):
    """What the run prescribes, row by row; each (rows,)."""

    eta: np.ndarray
    scale: np.ndarray  # 1/l
    heat: np.ndarray
    beta: np.ndarray  # look-ahead
    later: np.ndarray  # whether a row has the second loss
    chains: Any  # how mini-batches move on

    @classmethod
    def of(cls, e: Experiment) -> StepsOfSweep:
        """Those of an experiment; the last row has the settings of the last step."""
        rows = e.steps + 1
        steps = np.minimum(np.arange(rows), e.steps - 1)
        return cls(e.eta_n[steps], e.scale_n[steps], np.array([e.heat(n) for n in range(rows)]),
                   np.array([e.update.lookahead(n) for n in range(rows)]), e.loss_n > 0,
                   typed.List([e.batches.chain(n) for n in range(rows)]))


def close_kernels(e: Experiment, kernels: FullKernels) -> FullWeights:
    """m, a, Q and Gam from all rows of the kernels. Every eta that is written is that of step n: those of the sources are in K_R
    and Gam. Eq. [schedule]."""
    rows = e.steps + 1
    Q, Gam, memories = (np.zeros((rows, rows)) for _ in range(3))
    m, a, keep, drift = np.zeros(rows), np.ones(rows), np.zeros(rows), np.zeros(rows)
    m[0], Q[0, 0] = e.m0, e.h_start_variance
    m_w, Q_w, Gam_w, Q_ww = m.copy(), Q[0].copy(), np.zeros(rows), Q[0, 0]  # of w_n: overlap, <w_n y_j>, response, <w_n w_n>
    for n in range(rows):
        step = min(n, e.steps - 1)  # the last row has the settings of the last step
        eta, decay = e.eta_n[step], e.ridge_n[step]
        A, B, D = e.update.shares(step)  # [momentum] of y_n, y_{n-1} and w_n
        memories[n, :n] = kernels.K_R[n, :n]
        if B:
            memories[n, n - 1] -= B / eta  # [momentum]
        memory = eta * memories[n, :n]
        keep[n] = A - eta * (kernels.delta_nu[n] + decay)  # [schedule], [ridge]
        past = np.tril(Q) + np.tril(Q, -1).T  # Q is symmetric
        b = Gam[: n + 1, :n] @ kernels.M_C[n, :n]  # [dmft-Q] <chi_n zeta_j>
        x = keep[n] * past[n, : n + 1] + memory @ past[:n, : n + 1] + eta * b  # [dmft-Q] x_j
        b_z = keep[n] * b[n] + memory @ b[:n] + eta * kernels.M_C[n, n]  # [dmft-Q] b_z
        q_u = keep[n] * x[n] + memory @ x[:n] + eta * b_z + e.heat(step)  # [dmft-Q] q_u
        cross = keep[n] * Q_w[n] + memory @ Q_w[:n] + eta * Gam_w[:n] @ kernels.M_C[n, :n]  # [momentum] <u w_n> but for D
        x, q_u, cross = x + D * Q_w[: n + 1], q_u + 2 * D * cross + D**2 * Q_ww, cross + D * Q_ww  # [momentum]
        m_u = (A - eta * decay) * m[n] - B * m[n - 1] + D * m_w[n] - eta * kernels.mu[n]  # [dmft-m], [momentum], [ridge]
        a[n] = e.constraint_at(step).scale(q_u + m_u**2)  # [dmft-a]
        drift[n] = a[n] * D
        if n + 1 == rows:
            break
        row, response, norm = a[n] * x, np.zeros(rows), a[n] ** 2 * q_u  # [dmft-Q] of w_{n+1}
        response[n] = a[n] * eta  # [dmft-R], [schedule]
        response[:n] = a[n] * (keep[n] * Gam[n, :n] + memory @ Gam[:n, :n] + D * Gam_w[:n])  # [dmft-R], [momentum]
        m_w[n + 1] = a[n] * m_u
        cross *= a[n]  # [momentum] <w_{n+1} w_n>
        beta = e.update.lookahead(n + 1)  # [momentum] y_{n+1} = (1 + beta) w_{n+1} - beta w_n
        m[n + 1] = (1 + beta) * m_w[n + 1] - beta * m_w[n]
        Q[n + 1, : n + 1] = (1 + beta) * row - beta * Q_w[: n + 1]
        Q[n + 1, n + 1] = (1 + beta) ** 2 * norm + beta**2 * Q_ww - 2 * beta * (1 + beta) * cross
        Gam[n + 1] = (1 + beta) * response - beta * Gam_w
        Q_w[: n + 1], Q_w[n + 1], Q_ww, Gam_w = row, (1 + beta) * norm - beta * cross, norm, response
    return FullWeights(m, m_w, a, keep, Q, Gam, memories, drift)


@lru_cache
def make_sweep(first: Loss, second: Loss):
    """Whole paths of all samples under given kernels, and the sums over them ([loss] among them), compiled for the losses of
    two phases at most."""
    v_1, dv_1, d2v_1 = first.v, first.dv, first.d2v
    v_2, dv_2, d2v_2 = second.v, second.dv, second.d2v

    @njit(cache=built_in(first.name) and built_in(second.name))
    def sweep(steps, weights, chi_factor, draws, weight, keys):
        """<v>, <g'>, <g k> (rows,), <g_n g_k> and <g'_n T_nk> (rows, rows). steps: StepsOfSweep; weights: FullWeights; draws and
        weight as of `solve`; chi_factor (rows, rows): a root of M_C."""
        eta, heat, beta, later = steps.eta, steps.heat, steps.beta, steps.later
        m, m_w, a, keep, K_R, drift = weights.m, weights.m_w, weights.a, weights.keep, weights.memory, weights.drift
        sign, k0, y, sd = draws.sign, draws.k, draws.y, draws.sd
        rows = len(m)
        mean_v, mean_gp, mean_gk = np.zeros(rows), np.zeros(rows), np.zeros(rows)
        mean_gg, mean_gT = np.zeros((rows, rows)), np.zeros((rows, rows))
        for i in range(len(weight)):
            h, g, gp, z, T = np.zeros(rows), np.zeros(rows), np.zeros(rows), np.zeros(rows), np.zeros((rows, rows))
            h[0], s, w = draws.h[i], draws.s[i], weight[i]
            h_w, T_w = h[0], np.zeros(rows)  # of the weights
            for n in range(rows):
                field = sd[i] * (h[n] + m[n] * k0[i])
                batch = steps.scale[n] * s * sd[i]
                g[n] = batch * (dv_2(field, y[i]) if later[n] else dv_1(field, y[i]))  # [phases]
                gp[n] = batch * sd[i] * (d2v_2(field, y[i]) if later[n] else d2v_1(field, y[i]))
                field_w = sd[i] * (h_w + m_w[n] * k0[i])
                mean_v[n] += w * (v_2(field_w, y[i]) if later[n] else v_1(field_w, y[i]))  # [loss]
                mean_gp[n] += w * gp[n]  # [dmft-nu]
                mean_gk[n] += w * g[n] * k0[i]  # [dmft-mu]
                for k in range(n + 1):
                    mean_gg[n, k] += w * g[n] * g[k]  # [dmft-MC]
                    mean_gT[n, k] += w * gp[n] * T[n, k]  # [dmft-MR]
                if n + 1 == rows:
                    break
                z[n], xi = normal2(keys[0], draws.noise_index[i], n)
                z[n] = draws.z[i, n] if n < draws.z.shape[1] else sign[i] * z[n]
                chi = np.sum(chi_factor[n, : n + 1] * z[: n + 1])  # [dmft-chi]
                memory = np.sum(K_R[n, :n] * h[:n])
                h_new = a[n] * (keep[n] * h[n] + eta[n] * (memory + chi - g[n]) + np.sqrt(heat[n]) * sign[i] * xi)  # [dmft-h]
                h_new += drift[n] * h_w  # [momentum]
                h[n + 1], h_w = h_new + beta[n + 1] * (h_new - h_w), h_new  # [momentum]
                for k in range(n + 1):
                    T_new = -a[n] * eta[n] * gp[n]  # [dmft-T], the source
                    if k < n:
                        memory = np.sum(K_R[n, k + 1 : n] * T[k + 1 : n, k])
                        T_new = a[n] * ((keep[n] - eta[n] * gp[n]) * T[n, k] + eta[n] * memory)  # [dmft-T]
                    T_new += drift[n] * T_w[k]  # [momentum]
                    T[n + 1, k], T_w[k] = T_new + beta[n + 1] * (T_new - T_w[k]), T_new  # [momentum]
                chain, known = steps.chains[n], draws.changes.shape[1]
                s = own_weight(chain, s, keys[1], draws.batch_index[i], n, known, draws.changes[i])  # [persistent-chain], [epochs]
        return mean_v, mean_gp, mean_gk, mean_gg, mean_gT

    return sweep


def sweep_once(e: Experiment, draws, weight: np.ndarray, keys, kernels: FullKernels | None, m: np.ndarray | None = None
               ) -> FullKernels:
    """New kernels from paths that the old kernels drive; without old ones only row 0 has a meaning. m (rows,): overlaps to be used
    instead of those that follow from the kernels."""
    rows = e.steps + 1
    zero: np.ndarray = np.zeros((rows, rows))
    factor = zero
    if kernels is None:
        weights = FullWeights(np.full(rows, e.m0), np.full(rows, e.m0), np.ones(rows), np.ones(rows), zero, zero, zero, zero[0])
    else:
        weights = close_kernels(e, kernels)
        factor = np.linalg.cholesky(kernels.M_C + ESTIMATOR.jitter * np.diag(np.diag(kernels.M_C)))  # [dmft-chi]
    if m is not None:
        weights = weights._replace(m=m, m_w=m)
    loss, gp, gk, gg, gT = make_sweep(e.losses[0], e.losses[-1])(StepsOfSweep.of(e), weights, factor, draws, weight, keys)
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
                     (float(np.linalg.norm(getattr(new, name))) or 1.0) for name in ("delta_nu", "mu", "M_C", "K_R"))
        kernels, held, sweeps = kernels.mixed(new, mixing), None, sweeps + 1
    return kernels, close_kernels(e, kernels), sweeps
