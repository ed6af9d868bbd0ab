"""The response without its tail: a row of the kernels corrected by integration by parts. Eq. [ibp].

The row rho = (-eta M_R(n,k), delta_nu_n) obeys, exactly and at finite eta,

    sum_k rho_k Q(k,j) = alpha <g_n h_j> + b_j     for every j <= n,

because both sides are w_{n+1}.w_j, once by the response and once by the gradient step. <g h> has no tail where samples sit on
the barrier, and it sees all samples. What an estimated row fails by, e_j, therefore corrects it, by one ridge solve whose
coefficients are fixed beforehand; fitted ones would be biased, since solutions that miss the tail also look quiet.

In blocks (equations/history.py), with D their sizes and the present step as one more block of size 1:

    (D^-1/2 Q D^-1/2 + eps) u = D^-1/2 e ,     rho -= D^1/2 u ,     eps = (K_T/K) <g_n^2> (n+1)/s2

K_T of K samples have tangents, and s2 is the variance of g'_n sum_k T_nk of a sample that the coefficients are made for: PRIOR,
unless all samples respond alike (a linear loss), where tangents have no noise and are left as they are. A mode of Q with
eigenvalue lambda is corrected by the share lambda/(lambda + eps).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from dmft.equations.noise import dot
from dmft.equations.weights import Row, WeightDynamics

PRIOR = 2.0
ALIKE = 0.2  # variance of g'_n sum_k T_nk below which samples respond alike


class FieldOverlaps(NamedTuple):
    """alpha <g_n h_j>, from all samples."""

    past: np.ndarray  # (slots,) sums over the steps of each block
    now: float


class Gap(NamedTuple):
    """e_j, what a row fails the identity by."""

    past: np.ndarray  # (slots,) block sums
    now: float
    largest: float  # of |e_j| over all steps j, e taken as constant across a block


def gap(weights: WeightDynamics, row: Row, overlaps: FieldOverlaps) -> Gap:
    """What the row as estimated fails [ibp] by."""
    state, eta, free, recoil = weights.state, weights.eta, weights.free, weights.recoil
    unscaled = weights.unscaled(row)
    last = weights.history.order[-1] if recoil else 0
    past = (free * state.Q_row - recoil * state.Q[last] - unscaled.x) / eta - overlaps.past
    now = (free * state.Q_now - recoil * state.Q_row[last] - unscaled.x_now) / eta - overlaps.now
    each = np.abs(past) / np.maximum(weights.history.size, 1)
    return Gap(past, now, float(max(each.max(initial=0.0), abs(now))))


@njit(cache=True)
def _ridge_solve(A, eps, e):
    """u with (A + eps) u = e, by Cholesky in a written order: the same bits on every rank. A (n, n) is overwritten."""
    n = len(e)
    for i in range(n):
        for j in range(i):
            A[i, j] = (A[i, j] - dot(A[i], A[j], j)) / A[j, j]
        A[i, i] = np.sqrt(A[i, i] + eps - dot(A[i], A[i], i))
    u = np.empty(n)
    for i in range(n):
        u[i] = (e[i] - dot(A[i], u, i)) / A[i, i]
    for i in range(n - 1, -1, -1):
        u[i] /= A[i, i]
        for k in range(i):
            u[k] -= u[i] * A[i, k]
    return u


def corrected(weights: WeightDynamics, row: Row, failed: Gap, g_squared: float, share: float, spread: float) -> Row:
    """The row with its response corrected. g_squared: <g_n^2>; share: K_T/K; spread: variance of g'_n sum_k T_nk over samples."""
    state, history = weights.state, weights.history
    order = np.array(history.order, np.int64)
    root = np.sqrt(np.append(history.size[order], 1.0))
    count = len(order)
    A = np.empty((count + 1, count + 1))
    A[:count, :count] = state.Q[np.ix_(order, order)]
    A[count, :count] = A[:count, count] = state.Q_row[order]
    A[count, count] = state.Q_now
    A /= np.outer(root, root)
    s2 = PRIOR * spread / (spread + ALIKE)
    if s2 == 0.0:
        return row
    # Where nothing is left to learn (g = 0) Q alone would be singular.
    eps = max(share * g_squared * (state.n + 1) / s2, 1e-13 * np.trace(A))
    u = root * _ridge_solve(A, eps, np.append(failed.past[order], failed.now) / root)
    M_R = row.M_R.copy()
    M_R[order] += u[:count]
    return row._replace(M_R=M_R, delta_nu=row.delta_nu - u[count])
