"""A row of the response corrected by an exact identity, from integration by parts. Eq. [ibp].

The row rho = (-K_R(n,k), delta_nu_n) obeys, exactly and at finite eta,

    sum_k rho_k Q(k,j) = alpha <g_n h_j> + b_j     for every j <= n,

because both sides follow from w_{n+1}.w_j, written once by the response and once by the gradient step. The average of tangents has
a heavy tail from samples near the barrier, which a finite number of samples misses; <g h> has none, and uses all samples. The
residual e_j of an estimated row therefore corrects it, by one ridge solve whose coefficients are fixed beforehand; fitted ones
would be biased, since solutions that miss the tail also seem to have little noise.

In blocks (equations/history.py), with D their sizes and the present step as one more block of size 1:

    (Q + eps D) u = e ,     rho -= D u ,     eps = (K_T/K) <g_n^2> (n+1)/s2

K_T of K samples have tangents, and s2 is the variance of g'_n sum_k T_nk over samples that the coefficients assume: ridge_prior,
unless all samples respond alike (a linear loss): tangents then have no noise, and the row is left as it is. A mode of Q with
eigenvalue lambda is corrected by the share lambda/(lambda + eps), with D^-1/2 Q D^-1/2 for Q. Large tangents are bounded, and what
they miss by that does not become less with their number. So on a loss with barriers K_T counts as at most trusted_share K, or
least_trusted, and never as more than most_trusted (tuning.py): what they miss then vanishes as K grows.

The Cholesky factor of Q + eps D over the past is kept: a step changes its newest rows only, as long as eps stays. So eps is
renewed when it is off by a factor of ridge_stale, which changes no coefficient by more than that.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from dmft.core.compiled import UNCOUNTED
from dmft.equations.noise import backward, dot, factor_rows, forward
from dmft.equations.recursion import against_past
from dmft.equations.tuning import ESTIMATOR, Estimator
from dmft.equations.weights import NoiseOverlaps, Row, WeightDynamics


class FieldOverlaps(NamedTuple):
    """alpha <g_n h_j>, from all samples."""

    past: np.ndarray  # (slots,) sums over the steps of each block
    now: float


class IdentityResidual(NamedTuple):
    """e_j, the residual of the identity for a row."""

    past: np.ndarray  # (slots,) block sums
    now: float
    largest: float  # largest |e_j| over all steps j, with e constant across a block


@njit(**UNCOUNTED, error_model="numpy")
def _residual(step, free, recoil, last, noise, correlations, overlaps, divisor, used, e):
    """e_j of the past, into e (slots,), and of the present, and the largest |e_j|. overlaps: alpha <g_n h_j>; last: slot of step
    n - 1."""
    x_now = against_past(step, noise, correlations, used, e)
    eta, (Q, Q_row, Q_now), (past, now) = step.eta, correlations, overlaps
    Q_last, largest = Q[last], 0.0
    for j in range(len(e)):
        e[j] = (free * Q_row[j] - recoil * Q_last[j] - e[j]) / eta - past[j]
        each = abs(e[j]) / divisor[j]
        if each > largest or each != each:  # NaN counts
            largest = each
    return (free * Q_now - recoil * Q_row[last] - x_now) / eta - now, largest


def trusted_share(carriers: int, samples: int, estimator: Estimator = ESTIMATOR) -> float:
    """K_T/K as the ridge takes it on a loss with barriers. carriers: samples with tangents."""
    trusted = max(estimator.trusted_share * samples, estimator.least_trusted)
    return min(carriers, trusted, estimator.most_trusted) / samples


def identity_residual(weights: WeightDynamics, row: Row, overlaps: FieldOverlaps, noise: NoiseOverlaps | None = None
                      ) -> IdentityResidual:
    """The residual of the identity for a row as it was estimated. Eq. [ibp]. overlaps: alpha <g_n h_j>; noise: those of the row,
    where known."""
    history, recoil, past = weights.history, weights.settings.recoil, np.empty(weights.history.slots)
    last = history.order[-1] if recoil else 0
    now, largest = _residual(weights.step_coefficients(row), weights.free, recoil, last, noise or weights.noise_overlaps(row),
                             weights.state.correlations, overlaps, history.divisor, weights.used, past)
    return IdentityResidual(past, now, max(largest, abs(now)))


def corrected(weights: WeightDynamics, row: Row, residual: IdentityResidual, g_squared: float, share: float, spread: float) -> Row:
    """The row with its response corrected. g_squared: <g_n^2>; share: K_T/K as far as it is trusted; spread: variance
    of g'_n sum_k T_nk over samples."""
    eps = ridge_strength(weights, g_squared, share, spread)
    return row if eps is None else solved(weights, row, residual, eps)


def ridge_strength(weights: WeightDynamics, g_squared: float, share: float, spread: float) -> float | None:
    """eps; None where tangents have no noise."""
    estimator = weights.estimator
    s2 = estimator.ridge_prior * spread / (spread + estimator.ridge_alike)
    if s2 == 0.0:
        return None
    state, order = weights.state, weights.history.order
    # Where nothing is left to learn (g = 0) Q alone would be singular.
    trace = float((state.Q.diagonal()[order] / weights.history.divisor[order]).sum()) + state.Q_now
    return max(share * g_squared * (state.n + 1) / s2, estimator.ridge_floor * trace)  # [ibp]


@njit(**UNCOUNTED, error_model="numpy")
def _solve(L, order, size, Q_row, variance, least, past, now, x, K_R):
    """Correct M_R in place; returns u of the present step. L: factor of Q + eps D over the past, in order of time; Q_row, variance:
    what the present step adds to Q + eps D; least: of its pivot; past, now: e_j; x (3, steps of the past): room to work in."""
    count, cross, alone, e = len(order), x[0], x[1], x[2]
    for i in range(count):
        cross[i] = Q_row[order[i]]
        alone[i] = e[i] = past[order[i]]
    # The present step is the last unknown: it is solved for first, then the past given its value.
    forward(L, x[:2], count)
    left = variance - dot(cross, cross, count)
    backward(L, x[:2], count)
    u = (now - dot(cross, e, count)) / (least if left < least else left)
    for i in range(count):
        K_R[order[i]] += size[order[i]] * (alone[i] - u * cross[i])
    return u


def solved(weights: WeightDynamics, row: Row, residual: IdentityResidual, eps: float) -> Row:
    """The row corrected by rho -= D u with (Q + eps D) u = e. Eq. [ibp]."""
    state, history, K_R = weights.state, weights.history, row.K_R.copy()
    _keep_factor(weights, history.order, eps)
    now = _solve(state.ridge, history.order, history.divisor, state.Q_row, state.Q_now + state.ridge_eps, state.ridge_eps,
                 residual.past, residual.now, np.empty((3, len(history.order))), K_R)
    return row._replace(K_R=K_R, delta_nu=row.delta_nu - now)


def _keep_factor(weights: WeightDynamics, order: np.ndarray, eps: float) -> None:
    """Bring the Cholesky factor of Q + eps D over the past up to date; order: slots in order of time. Once m is close to 1, little
    is left of Q, and noise may give it negative eigenvalues: eps is then raised until Q + eps D has none, and comes down slowly."""
    state, stale = weights.state, weights.estimator.ridge_stale
    state.ridge_least *= weights.estimator.ridge_decay
    eps = max(eps, state.ridge_least)
    if not eps / stale < state.ridge_eps < eps * stale:
        state.ridge_eps, state.ridge_from = eps, 0
    while factor_rows(state.Q, state.ridge_eps * weights.history.size, order, state.ridge, min(state.ridge_from, len(order))) \
            and state.ridge_eps < weights.estimator.ridge_max:
        state.ridge_eps, state.ridge_from = stale * state.ridge_eps, 0
        state.ridge_least = state.ridge_eps
    state.ridge_from = len(order)
