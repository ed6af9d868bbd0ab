"""A row of the response corrected by an exact identity, from integration by parts. Eq. [ibp].

The row rho = (-eta M_R(n,k), delta_nu_n) obeys, exactly and at finite eta,

    sum_k rho_k Q(k,j) = alpha <g_n h_j> + b_j     for every j <= n,

because both sides follow from w_{n+1}.w_j, written once by the response and once by the gradient step. The average of tangents has
a heavy tail from samples near the barrier, which a finite number of samples misses; <g h> has none, and uses all samples. The
residual e_j of an estimated row therefore corrects it, by one ridge solve whose coefficients are fixed beforehand; fitted ones
would be biased, since solutions that miss the tail also seem to have little noise.

In blocks (equations/history.py), with D their sizes and the present step as one more block of size 1:

    (Q + eps D) u = e ,     rho -= D u ,     eps = (K_T/K) <g_n^2> (n+1)/s2

K_T of K samples have tangents, and s2 is the variance of g'_n sum_k T_nk over samples that the coefficients assume: PRIOR, unless
all samples respond alike (a linear loss): tangents then have no noise, and the row is left as it is. A mode of Q with
eigenvalue lambda is corrected by the share lambda/(lambda + eps), with D^-1/2 Q D^-1/2 for Q.

The Cholesky factor of Q + eps D over the past is kept: a step changes its newest rows only, as long as eps stays. So eps is
renewed when it is off by a factor of STALE, which changes no coefficient by more than that.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dmft.equations.noise import conditional, dot, factor_rows
from dmft.equations.weights import Row, WeightDynamics

PRIOR = 2.0  # assumed variance of g'_n sum_k T_nk over samples
STALE = 2.0  # factor by which eps may be off before the factor is made again
COMES_DOWN = 0.99  # factor a step by which an eps that had to be raised comes down again
ENOUGH = 1e6  # an eps that makes any Q positive; beyond it Q is not finite, and the solution is about to be called diverged
ALIKE = 0.2  # variance of g'_n sum_k T_nk below which samples respond alike


class FieldOverlaps(NamedTuple):
    """alpha <g_n h_j>, from all samples."""

    past: np.ndarray  # (slots,) sums over the steps of each block
    now: float


class Gap(NamedTuple):
    """e_j, the residual of the identity for a row."""

    past: np.ndarray  # (slots,) block sums
    now: float
    largest: float  # largest |e_j| over all steps j, with e constant across a block


def gap(weights: WeightDynamics, row: Row, overlaps: FieldOverlaps) -> Gap:
    """The residual of [ibp] for a row as it was estimated. overlaps: alpha <g_n h_j>."""
    state, eta, free, recoil = weights.state, weights.eta, weights.free, weights.recoil
    unscaled = weights.unscaled(row)
    last = weights.history.order[-1] if recoil else 0
    past = (free * state.Q_row - recoil * state.Q[last] - unscaled.x) / eta - overlaps.past
    now = (free * state.Q_now - recoil * state.Q_row[last] - unscaled.x_now) / eta - overlaps.now
    each = np.abs(past) / np.maximum(weights.history.size, 1)
    return Gap(past, now, float(max(each.max(initial=0.0), abs(now))))


def corrected(weights: WeightDynamics, row: Row, failed: Gap, g_squared: float, share: float, spread: float) -> Row:
    """The row with its response corrected. g_squared: <g_n^2>; share: K_T/K; spread: variance of g'_n sum_k T_nk over samples."""
    eps = ridge_strength(weights, g_squared, share, spread)
    return row if eps is None else solved(weights, row, failed, eps)


def ridge_strength(weights: WeightDynamics, g_squared: float, share: float, spread: float) -> float | None:
    """eps; None where tangents have no noise."""
    s2 = PRIOR * spread / (spread + ALIKE)
    if s2 == 0.0:
        return None
    state, order = weights.state, weights.history.order
    # Where nothing is left to learn (g = 0) Q alone would be singular.
    trace = float(np.sum(state.Q[order, order] / weights.history.size[order])) + state.Q_now
    return max(share * g_squared * (state.n + 1) / s2, 1e-13 * trace)


def solved(weights: WeightDynamics, row: Row, failed: Gap, eps: float) -> Row:
    """The row corrected by rho -= D u with (Q + eps D) u = e."""
    state, history = weights.state, weights.history
    order = history.order
    size, count = history.size[order], len(order)
    _keep_factor(weights, order, eps)
    # The present step is the last unknown: it is solved for first, then the past given its value.
    pull, left = conditional(state.ridge, state.Q_row[order], state.Q_now + state.ridge_eps, count)
    alone, _ = conditional(state.ridge, failed.past[order], 0.0, count)
    now = (failed.now - dot(pull, failed.past[order], count)) / max(left, state.ridge_eps)
    M_R = row.M_R.copy()
    M_R[order] += size * (alone - now * pull)
    return row._replace(M_R=M_R, delta_nu=row.delta_nu - now)


def _keep_factor(weights: WeightDynamics, order: np.ndarray, eps: float) -> None:
    """Bring the Cholesky factor of Q + eps D over the past up to date; order: slots in order of time. Once m is close to 1, little
    is left of Q, and noise may give it negative eigenvalues: eps is then raised until Q + eps D has none, and comes down slowly."""
    state = weights.state
    state.ridge_least *= COMES_DOWN
    eps = max(eps, state.ridge_least)
    if not eps / STALE < state.ridge_eps < eps * STALE:
        state.ridge_eps, state.ridge_from = eps, 0
    while factor_rows(state.Q, state.ridge_eps * weights.history.size, order, state.ridge, min(state.ridge_from, len(order))) \
            and state.ridge_eps < ENOUGH:
        state.ridge_eps, state.ridge_from = STALE * state.ridge_eps, 0
        state.ridge_least = state.ridge_eps
    state.ridge_from = len(order)
