"""From sums over samples to one row of the kernels of a committee, completed by the identity. Eqs. [c-nu], [c-mu], [c-MC], [c-MR],
[c-ibp], [c-stein], [c-exchange]."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from dmft.committee.weights import UnitOverlaps, UnitRow, UnitWeights
from dmft.core.compiled import INNER, UNCOUNTED
from dmft.equations.noise import dot
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

    @property
    def starts(self) -> tuple[int, ...]:
        """Where each of them begins, for compiled code."""
        return tuple(place.start if isinstance(place, slice) else place for place in self)


def sums_in_use(numbers: np.ndarray, groups: np.ndarray, used: int) -> np.ndarray:
    """Sums of blocks of samples in one line each, (blocks, numbers + 3 p used), of the entries ever in use; groups (blocks, 3 p,
    slots p)."""
    (blocks, width), lines = numbers.shape, groups.shape[1]
    found = np.empty((blocks, width + lines * used))
    found[:, :width], found[:, width:].reshape(blocks, lines, used)[...] = numbers, groups[:, :, :used]
    return found


class Estimated(NamedTuple):
    """Row n, its overlaps with the noise of the past (p, slots p), and the largest residual of the identity for the row as
    sampled."""

    row: UnitRow
    noise: np.ndarray | None
    gap: float


@njit(**INNER)
def _make_alike(kernel, used):
    """A kernel (p, slots p), or (p, p), averaged over the permutations of the units, in place: X 1 + Y 1 1^T for every slot. Eq.
    [c-exchange]."""
    p = len(kernel)
    for first in range(0, used, p):
        same = every = 0.0
        for r in range(p):
            same += kernel[r, first + r] / p
            for q in range(p):
                every += kernel[r, first + q]
        other = (every - p * same) / (p * (p - 1))
        for r in range(p):
            for q in range(p):
                kernel[r, first + q] = same if r == q else other


@njit(**INNER)
def _make_rows_alike(X):
    """Every row of X (p, k) is their mean, in place."""
    p, k = X.shape
    for t in range(k):
        mean = 0.0
        for r in range(p):
            mean += X[r, t] / p
        for r in range(p):
            X[r, t] = mean


@njit(**UNCOUNTED, error_model="numpy")
def lines_of_row(sums, first, used, alpha, carried, exchangeable, row, overlaps):
    """Row n against the past from the sums from `first` on, and alpha <g_n h_j^T>; all 0 from `used` on. Eqs. [c-MC], [c-MR]."""
    units, size = row.M_C.shape
    for r in range(units):
        for j in range(used):
            at = first + r * used + j
            row.M_C[r, j] = alpha * sums[at]  # [c-MC]
            row.K_R[r, j] = -alpha * sums[at + units * used] / carried  # [c-MR]
            overlaps.past[r, j] = alpha * sums[at + 2 * units * used]  # [c-ibp]
        for j in range(used, size):
            row.M_C[r, j] = row.K_R[r, j] = overlaps.past[r, j] = 0.0
    if exchangeable:
        for line in (row.M_C, row.K_R, overlaps.past):
            _make_alike(line, used)


@njit(**UNCOUNTED)
def numbers_of_row(sums, places, alpha, exchangeable, row, overlaps, label):
    """The rest of row n. label (p, k): alpha <g' Y + (s/l) d2v/dh dy (dphi/dkappa)^T>. Eqs. [c-nu], [c-mu], [c-MC], [c-stein]."""
    p, k = row.mu.shape
    for r in range(p):
        for q in range(p):
            at = r * p + q
            row.delta_nu[r, q] = alpha * sums[places[0] + at]  # [c-nu]
            row.M_C_now[r, q] = alpha * sums[places[3] + at]  # [c-MC]
            overlaps.now[r, q] = alpha * sums[places[2] + at]
        for t in range(k):
            row.mu[r, t] = alpha * sums[places[1] + r * k + t]  # [c-mu]
            label[r, t] = alpha * sums[places[10] + r * k + t]
    if exchangeable:
        for pairs in (row.delta_nu, row.M_C_now, overlaps.now):
            _make_alike(pairs, p)
        _make_rows_alike(row.mu)
        _make_rows_alike(label)


@njit(**UNCOUNTED, error_model="numpy")
def sizes_of_row(sums, places, carried, units):
    """<g.g>/p, and the variance of g'_n sum_k T_nk over samples."""
    g_squared = mean_squared = 0.0
    for r in range(units):
        g_squared += sums[places[3] + r * (units + 1)]
    for k in range(units * units):
        mean = sums[places[6] + k] / carried
        mean_squared += mean * mean
    spread = sums[places[8]] / carried - mean_squared
    return g_squared / units, (0.0 if spread < 0.0 else spread) / units


@njit(**UNCOUNTED)
def control_mu(share, memory, label, now, used, row):
    """mu from <g kappa^T> and from integration by parts in kappa, combined as `controlled` in equations/rows.py does. memory
    (p, slots p): weights of the blocks of K_R. Eq. [c-stein]."""
    mu, m = row.mu, now.m
    for r in range(len(m)):
        for t in range(m.shape[1]):
            through_fields = -dot(memory[r], now.m_past[t], used)
            for q in range(len(m)):
                through_fields += row.delta_nu[r, q] * m[q, t]
            mu[r, t] -= share * (mu[r, t] - through_fields - label[r, t])  # [c-stein]


class RowEstimates:
    """Row n of the kernels from sums over samples. Rows are estimated in place: one is gone with the next."""

    def __init__(self, weights: UnitWeights, places: SumPlaces, use: InUse, exchangeable: bool):
        p, k, size = weights.units, weights.network.directions, weights.history.slots * weights.units
        self.weights, self.places, self.starts, self.use, self.exchangeable = weights, places, places.starts, use, exchangeable
        self.row = UnitRow(np.zeros((p, p)), np.zeros((p, k)), np.zeros((p, p)), np.zeros((p, size)), np.zeros((p, size)))
        self.overlaps, self.label = UnitOverlaps(np.zeros((p, size)), np.zeros((p, p))), np.zeros((p, k))

    def estimate(self, sums: np.ndarray) -> Estimated:
        """The row from the sums of `CommitteeSamples.row_sums` over all samples (weights add up to one). What a card is asked for
        comes first."""
        weights, places, use, row, overlaps = self.weights, self.places, self.use, self.row, self.overlaps
        alpha, used, alike = weights.experiment.alpha, weights.known.by.used, self.exchangeable
        carried = float(sums[places.carried]) if use.identity and sums[places.carried] > 0 else 1.0
        g_squared, spread = sizes_of_row(sums, self.starts, carried, weights.units)
        lines_of_row(sums, places.numbers, used, alpha, carried, alike, row, overlaps)
        eps = strength(weights, g_squared, use.trusted, spread) if use.identity else None
        if eps is not None:
            _keep_factor(weights, eps)
        if use.identity:
            weights.begin(row)
        numbers_of_row(sums, self.starts, alpha, alike, row, overlaps, self.label)
        noise, largest = weights.identity_residual(row, overlaps) if use.identity else (None, 0.0)
        if eps is not None:
            weights.complete(row)
        if use.stein:
            faint = use.faint * spread / use.share if use.identity else 0.0
            self._control(float(sums[places.wild]), g_squared / (g_squared + faint) if faint else 1.0)
        return Estimated(row, noise, largest)

    def _control(self, wild: float, share: float) -> None:
        """mu by parts. Eq. [c-stein]."""
        weights, memory = self.weights, self.weights.room.completed
        t, by = weights.experiment.t_n[weights.n], weights.estimator
        weights.history.unit_weights(self.row.K_R, memory)
        share /= (1 + (wild / by.control_fade_weight) ** 4) * (1 + (t / self.use.late) ** 4)
        control_mu(float(share), memory, self.label, weights.present, weights.known.by.used, self.row)


def strength(weights: UnitWeights, g_squared: float, share: float, spread: float) -> float | None:
    """eps of the ridge; None where tangents have no noise. g_squared: <g.g>/p; share: K_T/K as far as it is trusted, 0 without
    tangents; spread: variance of g'_n sum_k T_nk over samples. Eq. [c-ibp]."""
    by = weights.estimator
    floor = by.ridge_floor * weights.known.trace
    if share == 0.0:
        return floor
    s2 = by.ridge_prior * spread / (spread + by.ridge_alike)
    return max(share * g_squared * (weights.n + 1) / s2, floor) if s2 > 0.0 else None


def _keep_factor(weights: UnitWeights, eps: float) -> None:
    """As of equations/ibp.py: the Cholesky factor of Q + eps D over the past, with eps raised until it is positive."""
    state, by = weights.state, weights.estimator
    state.ridge_least *= by.ridge_decay
    eps = max(eps, state.ridge_least)
    if not eps / by.ridge_stale < state.ridge_eps < eps * by.ridge_stale:
        state.ridge_eps, state.ridge_from = eps, 0
    while not weights.factor_ridge(anyhow=state.ridge_eps >= by.ridge_max):
        state.ridge_eps, state.ridge_from = by.ridge_stale * state.ridge_eps, 0
        state.ridge_least = state.ridge_eps
