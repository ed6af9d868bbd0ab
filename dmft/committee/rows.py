"""From sums over samples to one row of the kernels of a committee, completed by the identity. Eqs. [c-nu], [c-mu], [c-MC], [c-MR],
[c-ibp], [c-stein], [c-exchange]."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dmft.committee.algebra import factor_lines, keep_solved
from dmft.committee.lines import kernel_lines
from dmft.committee.weights import UnitCoefficients, UnitOverlaps, UnitRow, UnitWeights
from dmft.equations.rows import InUse
from dmft.model.network import TwoLayer


class SumPlaces(NamedTuple):
    """Where the sums over samples stand in a line: first those of numbers of a sample, then three groups (p, slots p), as far as
    they are in use."""

    gp: slice  # g', (p, p)
    gk: slice  # g kappa^T, (p, k)
    gh: slice  # g h^T, (p, p)
    gg: slice  # g g^T, (p, p)
    push: slice  # (s/l) dv/da, (p,)
    g: slice  # g, (p,)
    response: slice  # g'_n sum_j T_nj, (p, p), of samples with tangents
    v: int
    response2: int  # the square of these
    carried: int  # weight of samples with tangents
    label: slice  # what mu has besides what comes through the fields, (p, k). Eq. [c-stein]
    wild: int  # weight of samples whose response to the label is large
    numbers: int  # how many there are

    @classmethod
    def of(cls, network: TwoLayer) -> SumPlaces:
        p, k = network.units, network.directions
        ends = np.cumsum([0, p * p, p * k, p * p, p * p, p, p, p * p]).tolist()
        gp, gk, gh, gg, push, g, response = (slice(first, last) for first, last in zip(ends, ends[1:]))
        v = ends[-1]
        return cls(gp, gk, gh, gg, push, g, response, v, v + 1, v + 2, slice(v + 3, v + 3 + p * k), v + 3 + p * k, v + 4 + p * k)


def sums_in_use(numbers: np.ndarray, groups: np.ndarray, used: int) -> np.ndarray:
    """Sums of blocks of samples in one line each, (blocks, numbers + 3 p used), of the entries ever in use; groups (blocks, 3 p,
    slots p)."""
    (blocks, width), lines = numbers.shape, groups.shape[1]
    found = np.empty((blocks, width + lines * used))
    found[:, :width], found[:, width:].reshape(blocks, lines, used)[...] = numbers, groups[:, :, :used]
    return found


class Estimated(NamedTuple):
    """Row n, its overlaps with the noise, and the largest residual of the identity for the row as sampled."""

    row: UnitRow
    noise: UnitOverlaps | None
    gap: float


def alike(kernel: np.ndarray) -> np.ndarray:
    """A kernel (p, slots p), or (p, p), averaged over the permutations of the units: X 1 + Y 1 1^T for every slot. Eq.
    [c-exchange]."""
    p = len(kernel)
    blocks = kernel.reshape(p, -1, p)
    same = np.einsum("rjr->j", blocks) / p
    other = (blocks.sum(axis=(0, 2)) - p * same) / (p * (p - 1))
    eye = np.eye(p)[:, None, :]
    return (same[None, :, None] * eye + other[None, :, None] * (1.0 - eye)).reshape(kernel.shape)


def estimate(weights: UnitWeights, places: SumPlaces, sums: np.ndarray, use: InUse, exchangeable: bool) -> Estimated:
    """Row n of the kernels from the sums of `CommitteeSamples.row_sums` over all samples (weights add up to one)."""
    p, k, alpha = weights.units, weights.network.directions, weights.experiment.alpha
    gk = sums[places.gk].reshape(p, k)
    carried = sums[places.carried] if use.identity and sums[places.carried] > 0 else 1.0
    M_C, K_R, gH = kernel_lines(sums[places.numbers :].reshape(3, p, -1), alpha, carried, weights.history.slots * p)
    row = UnitRow(
        delta_nu=alpha * sums[places.gp].reshape(p, p),  # [c-nu]
        mu=alpha * gk,  # [c-mu]
        M_C_now=alpha * sums[places.gg].reshape(p, p),  # [c-MC]
        M_C=M_C,
        K_R=K_R,
    )
    overlaps, label = UnitOverlaps(gH, alpha * sums[places.gh].reshape(p, p)), sums[places.label].reshape(p, k)
    if exchangeable:
        row = UnitRow(alike(row.delta_nu), np.tile(row.mu.mean(axis=0), (p, 1)), *map(alike, row[2:]))
        overlaps, label = UnitOverlaps(*map(alike, overlaps)), np.tile(label.mean(axis=0), (p, 1))
    g_squared, noise, largest, spread = float(np.trace(sums[places.gg].reshape(p, p))) / p, None, 0.0, 0.0
    if use.identity:
        mean = sums[places.response] / carried
        spread = max(float(sums[places.response2] / carried - mean @ mean), 0.0) / p
        eps = strength(weights, g_squared, use.trusted, spread)
        if eps is not None:
            _keep_factor(weights, eps)
        correlation, step = weights.begin(row)
        noise = weights.noise_overlaps(correlation)
        residual, largest = identity_residual(weights, step, overlaps, noise)
        row = row if eps is None else solved(weights, row, residual)
    if use.stein:
        faint = use.faint * spread / use.share
        row = controlled(weights, row, alpha * label, float(sums[places.wild]), g_squared / (g_squared + faint) if faint else 1.0,
                         use.late)
    return Estimated(row, noise, largest)


def controlled(weights: UnitWeights, row: UnitRow, label: np.ndarray, wild: float, share: float, late: float) -> UnitRow:
    """mu from <g kappa^T> and from integration by parts in kappa, combined as `_controlled` in equations/rows.py does. label
    (p, k): alpha <g' Y + (s/l) d2v/dh dy (dphi/dkappa)^T>. Eq. [c-stein]."""
    state, t, by = weights.state, weights.experiment.t_n[weights.n], weights.estimator
    through_fields = row.delta_nu @ state.m - weights.history.unit_weights(row.K_R) @ state.m_past.T
    share /= (1 + (wild / by.control_fade_weight) ** 4) * (1 + (t / late) ** 4)
    return row._replace(mu=row.mu - share * (row.mu - through_fields - label))  # [c-stein]


def identity_residual(weights: UnitWeights, step: UnitCoefficients, overlaps: UnitOverlaps, noise: UnitOverlaps
                      ) -> tuple[UnitOverlaps, float]:
    """e_j, the residual of the identity for the row of a step, and its largest entry. overlaps: alpha <g_n h_j^T>. Eq. [c-ibp]."""
    state, now, x = weights.state, weights.settings, weights.overlaps_of_step(step, noise)
    past, present = weights.free * state.Q_row - x.past, weights.free * state.Q_now - x.now
    if now.recoil:
        past -= now.recoil * state.Q[weights.last]
        present -= now.recoil * state.Q_row[:, weights.last].T
    if now.drift:
        past, present = past + now.drift * state.Qw_row, present + now.drift * state.Qw_now
    residual = UnitOverlaps(past / now.eta - overlaps.past, present / now.eta - overlaps.now)
    each = np.abs(residual.past)
    if not weights.history.full:
        each = each.reshape(weights.units, -1, weights.units) / weights.history.divisor[:, None]
    return residual, float(max(each.max(), np.abs(residual.now).max()))


def strength(weights: UnitWeights, g_squared: float, share: float, spread: float) -> float | None:
    """eps of the ridge; None where tangents have no noise. g_squared: <g.g>/p; share: K_T/K as far as it is trusted, 0 without
    tangents; spread: variance of g'_n sum_k T_nk over samples. Eq. [c-ibp]."""
    by, state, order = weights.estimator, weights.state, weights.history.order
    diagonal = state.Q.diagonal()[: weights.history.upto * weights.units]
    if not weights.history.full:
        diagonal = diagonal.reshape(-1, weights.units)[order] / weights.history.divisor[order, None]
    floor = by.ridge_floor * float(diagonal.sum() + np.trace(state.Q_now))
    if share == 0.0:
        return floor
    s2 = by.ridge_prior * spread / (spread + by.ridge_alike)
    return max(share * g_squared * (state.n + 1) / s2, floor) if s2 > 0.0 else None


def solved(weights: UnitWeights, row: UnitRow, residual: UnitOverlaps) -> UnitRow:
    """The row corrected by Y with Y (Q + eps D) = e: M_R += D Y of the past, delta_nu -= Y of the present. Eq. [c-ibp]."""
    state, p, order = weights.state, weights.units, weights.order
    (pulled, half), of_residual = weights.matrices.given_weights(residual.past, order)  # Q(n, .) times the inverse over the past
    state.ridge_known = keep_solved(state.ridge, half)
    # The present step is the last unknown: it is solved for first, then the past given its value.
    values, vectors = np.linalg.eigh(_symmetric(state.Q_now + state.ridge_eps * np.eye(p) - weights.inner(half, half)))
    left = (vectors / np.maximum(values, state.ridge_eps)) @ vectors.T
    alone, half_alone = of_residual()
    now = (residual.now - weights.inner(half_alone, half)) @ left
    K_R, change = row.K_R.copy(), alone - now @ pulled
    K_R[:, weights.past] += change if weights.history.full else np.repeat(weights.history.divisor, p)[order] * change
    return row._replace(K_R=K_R, delta_nu=_symmetric(row.delta_nu - now))


def _symmetric(X: np.ndarray) -> np.ndarray:
    return 0.5 * (X + X.T)


def _keep_factor(weights: UnitWeights, eps: float) -> None:
    """As of equations/ibp.py: the Cholesky factor of Q + eps D over the past, with eps raised until it is positive."""
    state, by = weights.state, weights.estimator
    state.ridge_least *= by.ridge_decay
    eps = max(eps, state.ridge_least)
    if not eps / by.ridge_stale < state.ridge_eps < eps * by.ridge_stale:
        state.ridge_eps, state.ridge_from = eps, 0
    size, order, start = np.repeat(weights.history.size, weights.units), weights.order, state.ridge_from
    while factor_lines(state.Q, state.ridge_eps * size, order, state.ridge, min(state.ridge_from, len(order)),
                       state.ridge_known) and state.ridge_eps < by.ridge_max:
        state.ridge_eps, state.ridge_from = by.ridge_stale * state.ridge_eps, 0
        state.ridge_least, start = state.ridge_eps, 0
    weights.matrices.factored("ridge", start, len(order))
    state.ridge_from = len(order)
