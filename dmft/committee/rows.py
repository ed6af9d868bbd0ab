"""From sums over samples to one row of the kernels of a committee, completed by the identity. Eqs. [c-nu], [c-mu], [c-MC], [c-MR],
[c-ibp], [c-stein], [c-exchange]."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from dmft.committee.arrays import Block, Line, Mean
from dmft.committee.weights import UnitRow, UnitWeights
from dmft.core.compiled import INNER, UNCOUNTED
from dmft.equations.ibp import assumed_variance, least_strength, raise_ridge, renew, strength_of
from dmft.equations.noise import dot
from dmft.equations.rows import InUse, share_of_control
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
    residual: float


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
                kernel[r, first + q] = same if r == q else other  # [c-exchange]


@njit(**INNER)
def _make_rows_alike(X):
    """Every row of X (p, k) is their mean, in place."""
    p, k = X.shape
    for t in range(k):
        mean = 0.0
        for r in range(p):
            mean += X[r, t] / p
        for r in range(p):
            X[r, t] = mean  # [c-exchange]


@njit(**UNCOUNTED)
def make_alike(lines, pairs, means, used):
    """Averages of row n over the permutations of the units, in place. Eq. [c-exchange]."""
    for which in range(Line.M_C, Line.OVERLAPS + 1):
        _make_alike(lines[which], used)
    for which in range(Block.DELTA_NU, Block.OVERLAPS_NOW + 1):
        _make_alike(pairs[which], len(pairs[which]))
    for which in range(Mean.MU, Mean.LABEL + 1):
        _make_rows_alike(means[which])


@njit(**UNCOUNTED, error_model="numpy")
def row_of_sums(lines, pairs, means, sums, places, alpha, carried, used):
    """Row n from the sums over samples, and what the identity and [c-stein] need besides; 0 from `used` on. Eqs. [c-nu], [c-mu],
    [c-MC], [c-MR]."""
    M_C, K_R, overlaps, mu, label = lines[Line.M_C], lines[Line.K_R], lines[Line.OVERLAPS], means[Mean.MU], means[Mean.LABEL]
    (units, size), k, group, back = M_C.shape, mu.shape[1], len(M_C) * used, -alpha / carried
    for r in range(units):
        at = places[12] + r * used
        for j in range(used):
            M_C[r, j] = alpha * sums[at + j]  # [c-MC]
            K_R[r, j] = back * sums[at + group + j]  # [c-MR]
            overlaps[r, j] = alpha * sums[at + 2 * group + j]  # [c-ibp]
        for j in range(used, size):
            M_C[r, j] = K_R[r, j] = overlaps[r, j] = 0.0
        for q in range(units):
            at = r * units + q
            pairs[Block.DELTA_NU, r, q] = alpha * sums[places[0] + at]  # [c-nu]
            pairs[Block.M_C_NOW, r, q] = alpha * sums[places[3] + at]  # [c-MC]
            pairs[Block.OVERLAPS_NOW, r, q] = alpha * sums[places[2] + at]
        for t in range(k):
            mu[r, t] = alpha * sums[places[1] + r * k + t]  # [c-mu]
            label[r, t] = alpha * sums[places[10] + r * k + t]


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
def control_mu(lines, pairs, means, m_past, used, share):
    """mu from <g kappa^T> and from integration by parts in kappa, combined as `controlled` in equations/rows.py does. The
    weights of the blocks of K_R are those of the completed row. Eq. [c-stein]."""
    mu, m, memory, delta_nu, label = means[Mean.MU], means[Mean.M], lines[Line.COMPLETED], pairs[Block.DELTA_NU], means[Mean.LABEL]
    for r in range(len(m)):
        for t in range(m.shape[1]):
            through_fields = -dot(memory[r], m_past[t], used)
            for q in range(len(m)):
                through_fields += delta_nu[r, q] * m[q, t]
            mu[r, t] -= share * (mu[r, t] - through_fields - label[r, t])  # [c-stein]


class RowEstimates:
    """Row n of the kernels from sums over samples. Rows are estimated in place: one is gone with the next."""

    def __init__(self, weights: UnitWeights, places: SumPlaces, use: InUse, exchangeable: bool):
        self.weights, self.places, self.starts, self.use, self.exchangeable = weights, places, places.starts, use, exchangeable

    def estimate(self, sums: np.ndarray) -> Estimated:
        """The row from the sums of `CommitteeSamples.row_sums` over all samples (weights add up to one)."""
        weights, places, use, arrays, used = self.weights, self.places, self.use, self.weights.arrays[1:4], self.weights.known.used
        carried = float(sums[places.carried]) if use.identity and sums[places.carried] > 0 else 1.0
        g_squared, spread = sizes_of_row(sums, self.starts, carried, weights.units)
        eps = strength(weights, g_squared, use.trusted, spread) if use.identity else None
        if eps is not None:
            _keep_factor(weights, eps)
        row_of_sums(*arrays, sums, self.starts, weights.experiment.alpha, carried, used)
        if self.exchangeable:
            make_alike(*arrays, used)
        if use.identity:
            weights.begin()
        noise, largest = weights.identity_residual() if use.identity else (None, 0.0)
        if eps is not None:
            weights.complete()
        if use.stein:
            self._control(float(sums[places.wild]), g_squared, spread if use.identity else 0.0)
        return Estimated(weights.row, noise, largest)

    def _control(self, wild: float, g_squared: float, spread: float) -> None:
        """mu by parts. Eq. [c-stein]."""
        weights = self.weights
        t = float(weights.experiment.t_n[weights.n])
        weights.history.unit_weights(weights.row.K_R, weights.completed)
        share = share_of_control(weights.estimator, self.use, wild, t, g_squared, spread)
        control_mu(*weights.arrays[1:], weights.known.used, share)


def strength(weights: UnitWeights, g_squared: float, share: float, spread: float) -> float | None:
    """eps of the ridge; None where tangents have no noise. g_squared: <g.g>/p; share: K_T/K as far as it is trusted, 0 without
    tangents; spread: variance of g'_n sum_k T_nk over samples. Eq. [c-ibp]."""
    by = weights.estimator
    if not share:
        return least_strength(by, weights.n, weights.known.trace)
    s2 = assumed_variance(by, spread)
    return strength_of(by, share, g_squared, weights.n, s2, weights.known.trace) if s2 > 0.0 else None


def _keep_factor(weights: UnitWeights, eps: float) -> None:
    """As of equations/ibp.py: the Cholesky factor of Q + eps S over the past, with eps raised until it is positive."""
    by, state = weights.estimator, weights.state
    renew(by, state, eps)
    while not weights.factor_ridge(anyhow=state.ridge_eps >= by.ridge_max):
        raise_ridge(by, state)
