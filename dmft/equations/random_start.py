"""Random starts: the overlap at order 1/sqrt(N). Eqs. [random-K], [random-ibp], [random-V].

From a random start m is of order 1/sqrt(N), and 0 in the limit. For losses even in h0 the signs of h0 are independent of
everything else, and X = sqrt(N) m is a centred Gaussian process,

    X_{n+1} = a_n [ (1 - eta lambda) X_n - eta sum_{k<=n} K1(n,k) X_k - eta z_n + sqrt(2 T eta) xi_n ] ,   <z_n z_k> = Z(n,k)

with averages K1, Z over the m = 0 march. Its covariance V obeys the recursion of Q with other kernels, so the code is that of
weights.py. V is quadratic in K1: rows are averaged over replicas first, and V is made of the averages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from dmft.equations.history import History
from dmft.equations.ibp import FieldOverlaps, IdentityResidual
from dmft.equations.kernels import Kept, Wanted
from dmft.equations.recursion import merge_columns
from dmft.equations.rows import InUse
from dmft.equations.weights import NextRow, Row, WeightDynamics
from dmft.files.layouts import RANDOM_KERNELS
from dmft.model.experiment import Experiment

# Columns of the sums over samples with weight k^2 (k = h0 for a teacher), before the kernels: of g', g^2, g h, k^2 g^2, and of
# the bounded response k^2 g' sum_J T_nJ and its square. Behind them come the groups of rows.py, with this weight.
CURVATURE, SQUARE, FIELD, NOISE, K1_RESPONSE, K1_RESPONSE2 = range(6)
OVERLAP_SCALARS = 6


def raw_row(weights: WeightDynamics, sums: np.ndarray, carried: float) -> Row:
    """Row n of K1 and Z as sampled, in the place of the response and of M_C: delta_nu is K1(n,n), M_R is -K1(n,k), M_C is Z.
    Eq. [random-K]. sums: of `overlap_sums` over all samples; carried: weight of the samples with tangents."""
    alpha, slots = weights.experiment.alpha, weights.history.slots
    products, responses = (sums[OVERLAP_SCALARS + k * slots : OVERLAP_SCALARS + (k + 1) * slots] for k in range(2))
    return Row(delta_nu=alpha * sums[CURVATURE], mu=0.0, M_C_now=alpha * sums[SQUARE], M_C=alpha * products,  # [random-K]
               K_R=-alpha * responses / carried)  # [random-K]


def overlap_residual(weights: WeightDynamics, row: Row, sums: np.ndarray) -> IdentityResidual:
    """The residual of the weighted identity for a row. Eq. [random-ibp]. The Gaussian noise zeta of a sample does not depend on its
    h0, so that [ibp] holds with the weight h0^2 on both sides, with the same Q and R."""
    alpha, slots = weights.experiment.alpha, weights.history.slots
    overlaps = sums[OVERLAP_SCALARS + 2 * slots :]
    return weights.identity_residual(row, FieldOverlaps(alpha * overlaps, alpha * sums[FIELD]))  # [random-ibp]


class OverlapRows(NamedTuple):
    """Rows of K1 and Z at all steps, as block sums over the slots of the history at that step; a_n of the m = 0 march."""

    K1: np.ndarray  # (steps + 1, slots), k < n
    K1_now: np.ndarray  # (steps + 1,)
    Z: np.ndarray
    Z_now: np.ndarray
    a: np.ndarray  # (steps + 1,)

    @classmethod
    def empty(cls, steps: int, slots: int) -> OverlapRows:
        """Rows to be filled by `enter`; NaN until then."""
        wide, narrow = (steps + 1, slots), steps + 1
        return cls(*(np.full(shape, np.nan) for shape in (wide, narrow, wide, narrow, narrow)))

    def enter(self, n: int, row: Row, a: float) -> None:
        """Store row n, given in the place of the response and of M_C (see `raw_row`)."""
        self.K1[n], self.K1_now[n], self.Z[n], self.Z_now[n], self.a[n] = -row.K_R, row.delta_nu, row.M_C, row.M_C_now, a

    def row(self, n: int) -> Row:
        """Row n in the place of the response and of M_C."""
        return Row(float(self.K1_now[n]), 0.0, float(self.Z_now[n]), self.Z[n], -self.K1[n])

    @classmethod
    def mean(cls, replicas: Mapping[str, np.ndarray], left_out: int = -1) -> OverlapRows:
        """Averages over replicas (first axis), without replica `left_out` if that is not negative."""
        count = len(replicas["a"])
        chosen = np.arange(count) != left_out
        return cls(*(np.mean(replicas[name][chosen], axis=0) for name in cls._fields))


class OverlapKernels:
    """K1 and Z of one solution, row by row. Keeps a Cholesky factor of Q + eps S of its own, with eps rounded to a power of two: a
    step changes its newest rows only, and the factor does not depend on the step at which it was begun."""

    def __init__(self, steps: int, slots: int):
        self.rows = OverlapRows.empty(steps, slots)
        self._ridge, self._eps, self._upto = np.zeros((1, slots, slots)), 0.0, 0

    def estimate(self, weights: WeightDynamics, sums: np.ndarray, carried: float, use: InUse) -> Row:
        """Row n, with K1 corrected by the identity as M_R is. sums: of `overlap_sums`; carried: weight of the samples with
        tangents. The ridge is smaller than that of K_R by `random_trust`, so small that all tangents may count in it, `share` and
        not `trusted`."""
        row, weights = raw_row(weights, sums, carried), weights.beside()
        if not use.identity:
            return row
        spread = max(float(sums[K1_RESPONSE2] / carried - (sums[K1_RESPONSE] / carried) ** 2), 0.0)
        eps = weights.ridge_strength(sums[NOISE] / weights.estimator.random_trust, use.share, spread)  # [random-ibp]
        if eps == 0.0:
            return row
        return self._solved(weights, row, overlap_residual(weights, row, sums), 2.0 ** np.floor(np.log2(eps)))

    def forget(self, joins: tuple[int, ...]) -> None:
        """Rows of the factor from the first join of a Plan on are out of date. (They are not rotated, as those of the weights are:
        the factor is not part of a checkpoint, and a march that continues must find the same bits.)"""
        self._upto = min((self._upto, *joins))

    def _solved(self, weights: WeightDynamics, row: Row, residual: IdentityResidual, eps: float) -> Row:
        """`WeightDynamics.corrected` with this object's factor in the place of that of the weights."""
        weights.place(weights.solutions._replace(ridge=self._ridge), weights.at)
        now = weights.now
        now.ridge_eps, now.ridge_from, now.ridge_least = self._eps, self._upto, 0.0
        done = weights.corrected(row, residual, eps)  # [random-ibp]
        self._eps, self._upto = float(now.ridge_eps), int(now.ridge_from)
        return done


class Fluctuations(NamedTuple):
    """X = sqrt(N) m of a random start."""

    V: np.ndarray  # (steps + 1,) N <m_n^2>
    gain: np.ndarray  # (steps + 1,) dm_n/dm_0
    kernels: dict[str, np.ndarray]  # RANDOM_KERNELS, each (P, P) on the saved steps


def fluctuations(experiment: Experiment, history: History, rows: OverlapRows, wanted: Wanted | None) -> Fluctuations:
    """V and the gain from the rows of K1 and Z: the recursion of Q with K1(n,n) for delta_nu, -K1 for eta M_R, Z for M_C, and the
    a_n of the m = 0 march. Eq. [random-V]. The field m of the state holds the gain. NaN from the first step whose rows are not
    known. history: as that of the march, empty; wanted: entries of the kernels, None for no kernels."""
    dynamics = WeightDynamics(experiment, history, start=(1.0, experiment.h_start_variance))
    V, gain = np.full(experiment.steps + 1, np.nan), np.full(experiment.steps + 1, np.nan)
    kept = Kept.of(history, 0, wanted) if wanted else None
    kernels = {name: np.full((len(kept.grid), len(kept.grid)), np.nan) for name in RANDOM_KERNELS} if kept else {}
    for n in range(experiment.steps + 1):
        state, m = dynamics.state, dynamics.m
        V[n], gain[n] = dynamics.number("Q_now"), m
        row = rows.row(n)
        if kept:
            _keep_row(kernels, kept, dynamics, row)
        if n == experiment.steps or not np.isfinite(rows.a[n]):
            break
        step, a = dynamics.unscaled(row), float(rows.a[n])
        gain_u = step.keep * m + dynamics.eta * float(step.memory @ state.m_past)  # [random-V]
        unit = dynamics.eta / experiment.eta_0
        following = NextRow(a * step.x, a * step.x_now, a**2 * step.q_u, a * step.r, a * unit, a * gain_u, 0.0)  # [random-V]
        dynamics.advance(row, following, history.push(n))
    return Fluctuations(V, gain, kernels)


def sample_paths(experiment: Experiment, history: History, rows: OverlapRows, paths: int, rng: np.random.Generator) -> np.ndarray:
    """Paths (paths, steps + 1) of X, drawn by its recursion, with z conditioned on its past as chi of a sample is; NaN from the
    first step whose rows are not known. Eq. [random-V]. history: as that of the march, empty."""
    dynamics = WeightDynamics(experiment, history)
    X_past, z_past = np.zeros((paths, history.slots)), np.zeros((paths, history.slots))
    X = np.full((paths, experiment.steps + 1), np.nan)
    X[:, 0] = np.sqrt(experiment.h_start_variance) * rng.standard_normal(paths)
    for n in range(experiment.steps):
        row, a = rows.row(n), float(rows.a[n])
        if not np.isfinite(a):
            break
        after, eta = dynamics.step_from_row(row), dynamics.eta
        drive = after.drive
        z = z_past @ drive.chi_weights + drive.chi_sd * rng.standard_normal(paths)
        heat = drive.thermal * rng.standard_normal(paths) if drive.thermal else 0.0
        X[:, n + 1] = a * (drive.keep * X[:, n] + eta * (X_past @ drive.memory + z) + heat)  # [random-V]
        plan = history.push(n)
        for past in (X_past, z_past):
            merge_columns(past, plan.merges)
        X_past[:, plan.slot], z_past[:, plan.slot] = X[:, n], z
        dynamics.advance(row, after.next, plan)
    return X


def _keep_row(kernels: dict[str, np.ndarray], kept: Kept, dynamics: WeightDynamics, row: Row) -> None:
    """Enter row n into the maps of V, Z and K1 if they have it. K1 is a density in time below the diagonal, with K1(n,n) itself on
    it."""
    n, state, history = dynamics.n, dynamics.state, dynamics.history
    i = int(kept.grid.searchsorted(n))
    if n not in kept.grid[i : i + 1]:
        return
    for name, past, now in (("V", state.Q_row, dynamics.number("Q_now")), ("Z", row.M_C, row.M_C_now)):
        kernels[name][i, : i + 1] = kernels[name][: i + 1, i] = np.append(kept.means(past, history, i, 0), now)
    kernels["K1"][i] = 0.0
    kernels["K1"][i, : i + 1] = np.append(kept.means(-row.K_R, history, i, 0, dynamics.experiment.eta_n[:n]), row.delta_nu)
