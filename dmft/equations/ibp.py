"""A row of the response corrected by an exact identity, from integration by parts. Eq. [ibp].

The row rho = (-K_R(n,k), delta_nu_n) obeys, exactly and at finite eta,

    sum_k rho_k Q(k,j) = alpha <g_n h_j> + b_j     for every j <= n,

because both sides follow from w_{n+1}.w_j, written once by the response and once by the gradient step. The average of tangents has
a heavy tail from samples near the barrier, which a finite number of samples misses; <g h> has none, and uses all samples. The
residual e_j of an estimated row therefore corrects it, by one ridge solve whose coefficients are fixed beforehand; fitted ones
would be biased, since solutions that miss the tail also seem to have little noise.

In blocks (equations/history.py), with D their sizes, the present step as one more block of size 1, and S the sum of k + 1 over the
steps k of a block:

    (Q + eps S) u = e ,     rho -= D u ,     eps = (K_T/K) <g_n^2>/s2

K_T of K samples have tangents. Entry k of a row is taken to err by the variance s2/(k+1), and s2 is what the coefficients assume
for that of g'_n sum_k T_nk over samples while all steps are as late as the present one: ridge_prior, unless all samples respond
alike (a linear loss): tangents then have no noise, and the row is left as it is. So every entry is corrected as much as when its
step was new. With s2/(n+1) for all, early steps are corrected less and less as time goes on, and kernels forget the start too
fast; with s2/((k+1) log(n)), which adds up to s2, late ones are, and m of persistent SGD is too high (tuning.md). A mode of Q
with eigenvalue lambda is corrected by the share lambda/(lambda + eps), with S^-1/2 Q S^-1/2 for Q. Large tangents are bounded,
and what they miss by that does not become less with their number. So on a loss with barriers K_T counts as at most trusted_share
K, or least_trusted, and never as more than most_trusted (tuning.py): what they miss then vanishes as K grows.

The Cholesky factor of Q + eps S over the past is kept: a step changes its newest rows only, as long as eps stays. So eps is
renewed when it is off by a factor of ridge_stale, which changes no coefficient by more than that.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numba.extending import register_jitable

from dmft.core.compiled import IN_PLACE, INNER, UNCOUNTED, each
from dmft.equations.blocks import IN_ORDER, SIZE, blocks_of, used_slots
from dmft.equations.noise import backward, dot, forward, largest, total
from dmft.equations.recursion import Correlations, against_past
from dmft.equations.state import B_PAST, E_PAST, OF_Q, Q_ROW, ROOM, ROW_K_R, solution_of
from dmft.equations.steps import factor_ridge, last_slot, noise_overlaps, row_memory, step_coefficients
from dmft.equations.tuning import ESTIMATOR, Estimator


class FieldOverlaps(NamedTuple):
    """alpha <g_n h_j>, from all samples."""

    past: np.ndarray  # (slots,) sums over the steps of each block
    now: float


class IdentityResidual(NamedTuple):
    """e_j, the residual of the identity for a row."""

    past: np.ndarray  # (slots,) block sums
    now: float
    largest: float  # largest |e_j| over all steps j, with e constant across a block


def trusted_share(carriers: int, samples: int, estimator: Estimator = ESTIMATOR) -> float:
    """K_T/K as the ridge takes it on a loss with barriers. carriers: samples with tangents."""
    trusted = max(estimator.trusted_share * samples, estimator.least_trusted)
    return min(carriers, trusted, estimator.most_trusted) / samples


@njit(**INNER, error_model="numpy")
def find_residual(given, rule, blocks, one, overlaps):
    """The residual of the identity for the row as it was estimated, where its overlaps with the noise are known. Eq. [ibp].
    overlaps: FieldOverlaps."""
    now, e, Q, Q_row, size = one.now, one.work[E_PAST], one.matrices[OF_Q], one.vectors[Q_ROW], blocks.slots[SIZE]
    row_memory(rule, blocks, one)
    step = step_coefficients(given, blocks, one)
    x_now = against_past(step, one.work[B_PAST], now.b_now, Correlations(Q, Q_row, now.Q_now), used_slots(blocks), e)
    eta, recoil, free = given.eta, given.recoil, given.inertia - given.eta * given.ridge
    last = last_slot(blocks) if recoil != 0.0 else 0
    Q_last, e_size = Q[last], one.work[ROOM + 1]
    for j in each(len(e)):
        e[j] = (free * Q_row[j] - recoil * Q_last[j] - e[j]) / eta - overlaps.past[j]
        e_size[j] = abs(e[j]) / max(size[j], 1)
    now.residual = (free * now.Q_now - recoil * Q_row[last] - x_now) / eta - overlaps.now
    now.largest = largest(e_size, len(e))
    if abs(now.residual) > now.largest:
        now.largest = abs(now.residual)


# The scalars of the ridge, of networks too (committee/rows.py). by: an Estimator, or its numbers; kept: what is known of the factor
# of Q + eps S, ridge_eps, ridge_from and ridge_least of a state.
@register_jitable
def assumed_variance(by, spread):
    """s2; 0 where tangents have no noise. spread: variance of g'_n sum_k T_nk over samples. Eq. [ibp]."""
    return by.ridge_prior * spread / (spread + by.ridge_alike)


@register_jitable
def least_strength(by, n, trace):
    """The least eps: ridge_floor of the mean of Q's diagonal over times (of networks, summed over units)."""
    return by.ridge_floor * trace / (n + 1)


@register_jitable
def strength_of(by, share, g_squared, n, s2, trace):
    """eps. Where nothing is left to learn (g = 0) Q alone would be singular. Eq. [ibp]."""
    sampled, least = share * g_squared / s2, least_strength(by, n, trace)  # [ibp]
    return least if least > sampled else sampled


@register_jitable
def renew(by, kept, eps):
    """Begin the factor again where its eps is too far from this one, or from what a raised one has come down to."""
    kept.ridge_least *= by.ridge_decay
    eps = kept.ridge_least if kept.ridge_least > eps else eps
    if not eps / by.ridge_stale < kept.ridge_eps < eps * by.ridge_stale:
        kept.ridge_eps, kept.ridge_from = eps, 0


@register_jitable
def raise_ridge(by, kept):
    """Begin the factor again with a larger eps, below which it had pivots that are not positive."""
    kept.ridge_eps, kept.ridge_from = by.ridge_stale * kept.ridge_eps, 0
    kept.ridge_least = kept.ridge_eps


@njit(**INNER, error_model="numpy")
def ridge_strength(by, blocks, one, g_squared, share, spread):
    """eps; 0 where tangents have no noise. g_squared: <g_n^2>; share: K_T/K as far as it is trusted; spread: as of
    `assumed_variance`."""
    s2, Q, terms = assumed_variance(by, spread), one.matrices[OF_Q], one.work[ROOM + 1]
    if not s2 > 0.0:
        return 0.0
    for i in each(blocks.counts.blocks):
        slot = blocks.slots[IN_ORDER, i]
        terms[i] = Q[slot, slot] / blocks.slots[SIZE, slot]
    trace = total(terms, blocks.counts.blocks) + one.now.Q_now
    return strength_of(by, share, g_squared, one.now.n, s2, trace)


@njit(**IN_PLACE)
def keep_factor(by, blocks, one, eps):
    """Bring the Cholesky factor of Q + eps S over the past up to date. Once m is close to 1, little is left of Q, and noise may
    give it negative eigenvalues: eps is then raised until Q + eps S has none, and comes down slowly."""
    now = one.now
    renew(by, now, eps)
    while factor_ridge(by, blocks, one) > 0 and now.ridge_eps < by.ridge_max:
        raise_ridge(by, now)
    now.ridge_from = blocks.counts.blocks


@njit(**INNER, error_model="numpy")
def correct_row(by, blocks, one, eps):
    """Correct the row by rho -= D u with (Q + eps S) u = e. Eq. [ibp]."""
    keep_factor(by, blocks, one, eps)
    now, order, size, K_R = one.now, blocks.slots[IN_ORDER], blocks.slots[SIZE], one.work[ROW_K_R]
    count, cross, alone, e = blocks.counts.blocks, one.work[ROOM], one.work[ROOM + 1], one.work[ROOM + 2]
    for i in each(count):
        cross[i] = one.vectors[Q_ROW, order[i]]
        alone[i] = e[i] = one.work[E_PAST, order[i]]
    # The present step is the last unknown: it is solved for first, then the past given its value.
    forward(one.ridge, one.work[ROOM : ROOM + 2], count)
    present = now.ridge_eps * (now.n + 1)
    left = now.Q_now + present - dot(cross, cross, count)
    backward(one.ridge, one.work[ROOM : ROOM + 2], count)
    u = (now.residual - dot(cross, e, count)) / (present if left < present else left)
    for i in each(count):
        K_R[order[i]] += size[order[i]] * (alone[i] - u * cross[i])
    now.delta_nu -= u


# Of one of several solutions, for rows beside that of the step.
@njit(**UNCOUNTED)
def residual_at(at, overlaps, given, rule, tables, solutions):
    """`find_residual`, and the overlaps with the noise before."""
    blocks, one = blocks_of(tables, at), solution_of(solutions, at)
    noise_overlaps(given[0], rule, blocks, one)
    find_residual(given[0], rule, blocks, one, overlaps)


@njit(**UNCOUNTED)
def ridge_at(at, g_squared, share, spread, by, tables, solutions):
    """`ridge_strength`."""
    return ridge_strength(by[0], blocks_of(tables, at), solution_of(solutions, at), g_squared, share, spread)


@njit(**UNCOUNTED)
def correct_at(at, eps, by, tables, solutions):
    """`correct_row`."""
    correct_row(by[0], blocks_of(tables, at), solution_of(solutions, at), eps)
