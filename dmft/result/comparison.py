"""Theory and simulation compared: means and errors at common times, and their difference in standard errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy  # its parts load when they are used

from dmft.core.averages import mean_and_error
from dmft.core.streams import generator
from dmft.result.statistics import DIVERGED

# Simulations hold single-precision data: differences below this carry no information.
SIMULATION_ROUNDING = 1e-6
# A combined error above this share of the largest value in the simulation could hide a wrong theory.
BLIND_SHARE = 0.1
# Share of tables in which chance alone takes some |z| beyond its bound, at most.
CHANCE = 0.01
# Tables that are drawn to see how correlated the entries of one are: enough for the CHANCE quantile to 10 %.
TABLES = 10000
# A theory that is this many times larger than anything in the simulation has blown up.
BLOWN_UP = 10.0

AGREE, DISAGREE, CANNOT_TELL = "agree", "disagree", "cannot tell"
# From good to bad: several verdicts are summed up by the worst of them.
VERDICTS = (AGREE, CANNOT_TELL, DISAGREE, DIVERGED)


@dataclass(frozen=True)
class Curve:
    """A mean with its standard error at each time, from `count` independent solutions or instances."""

    t: np.ndarray
    mean: np.ndarray
    error: np.ndarray
    count: int

    def at(self, times: np.ndarray, tolerance: float) -> Curve:
        """The same curve at some of its times, found up to the tolerance."""
        return self.where(_match(times, self.t, tolerance))

    def where(self, index: np.ndarray) -> Curve:
        """The same curve at the times of an index or a mask."""
        return Curve(self.t[index], self.mean[index], self.error[index], self.count)


@dataclass(frozen=True)
class Comparison:
    """Theory and simulation at common times, each (n,); z = (theory - simulation) / combined standard error, NaN where the
    simulation has none: a single instance of finite N is off by itself, nobody knows how far."""

    observable: str
    t: np.ndarray
    theory: Curve
    simulation: Curve
    z: np.ndarray
    tests: float = 0.0      # as how many independent tests the table counts; 0: as many as it has entries
    among: int = 1          # tables that are judged together, this one included

    @property
    def usable(self) -> np.ndarray:
        """(n,): True where both sides are finite. The error of a single solution is unknown (NaN), not infinite."""
        errors = np.isinf(self.theory.error) | np.isinf(self.simulation.error)
        return np.isfinite(self.theory.mean) & np.isfinite(self.simulation.mean) & ~errors

    def where(self, mask: np.ndarray) -> Comparison:
        """The same comparison at some of its times."""
        return replace(self, t=self.t[mask], theory=self.theory.where(mask), simulation=self.simulation.where(mask),
                       z=self.z[mask])

    @property
    def degrees_of_freedom(self) -> np.ndarray:
        """(n,): Welch's degrees of freedom of z at each time."""
        errors = np.nan_to_num(self.theory.error), np.nan_to_num(self.simulation.error)
        largest = np.maximum(np.maximum(*errors), 1e-300)       # only ratios count, and errors of what explodes have huge squares
        a, b = ((error / largest) ** 2 for error in errors)
        below = a**2 / max(self.theory.count - 1, 1) + b**2 / max(self.simulation.count - 1, 1)
        most = max(self.theory.count + self.simulation.count - 2, 1)
        return np.where(below > 0.0, (a + b) ** 2 / np.where(below > 0.0, below, 1.0), most)

    @property
    def worst(self) -> float:
        """The largest |z|; NaN where there is none."""
        return float(np.nan if np.isnan(self.z).all() else np.nanmax(np.abs(self.z)))

    @property
    def scale(self) -> float:
        """The largest |value| of the simulation, to which errors are compared."""
        return float(np.nanmax(np.abs(self.simulation.mean), initial=0.0))

    @property
    def blind(self) -> np.ndarray:
        """(n,): where the combined error is unknown, or above BLIND_SHARE of the scale."""
        a, b = self.theory.error, self.simulation.error
        return np.isnan(b) | (np.hypot(np.nan_to_num(a), np.nan_to_num(b)) > BLIND_SHARE * self.scale + SIMULATION_ROUNDING)

    @property
    def blown_up(self) -> np.ndarray:
        """(n,): where the theory is far above everything in the simulation, with an error as large as that."""
        return (np.abs(self.theory.mean) > BLOWN_UP * self.scale + SIMULATION_ROUNDING) & (self.theory.error > self.scale)

    @property
    def verdict(self) -> str:
        """One of VERDICTS: diverged where a side is not finite or the theory has blown up; disagree where |z| exceeds
        `bound`; cannot tell where the errors are so large that they could hide a disagreement."""
        if not self.usable.all() or self.blown_up.any():
            return DIVERGED
        if self.worst > self.bound:
            return DISAGREE
        return CANNOT_TELL if self.blind.any() else AGREE

    @property
    def bound(self) -> float:
        """|z| that chance exceeds anywhere in the tables that are judged together with probability 1 % at most (Student,
        Bonferroni)."""
        return float(np.max(chance_bounds(self.among * (self.tests or self.z.size), self.degrees_of_freedom)))


def judged_together(tables: Sequence[Comparison]) -> list[Comparison]:
    """Tables whose verdicts are summed up by the worst, with bounds for all of them: each by itself would have its own chance to
    disagree, and a network has dozens. What has no errors but rounding, as norms on spheres, does not count."""
    errors = [np.nan_to_num([table.theory.error, table.simulation.error]) for table in tables]
    uncertain = sum(bool((each > SIMULATION_ROUNDING).any()) for each in errors)
    return [replace(table, among=max(uncertain, 1)) for table in tables]


def chance_bounds(tests: float, freedom: np.ndarray, chance: float = CHANCE) -> np.ndarray:
    """|z| with these degrees of freedom that one of so many tests exceeds by chance with probability `chance` at most (Student,
    Bonferroni); the more the tests are correlated, the less often."""
    return -scipy.special.stdtrit(freedom, chance / 2.0 / tests)


def instances_curve(t: np.ndarray, values: np.ndarray) -> Curve:
    """Mean and standard error over instances, values (instances, times); diverged instances (NaN) left out."""
    good = values[np.isfinite(values).all(axis=1)]
    if len(good) == 0:
        empty = np.full(t.shape, np.nan)
        return Curve(t, empty, empty, 0)
    return Curve(t, *mean_and_error(good), len(good))


def squared_overlaps(t: np.ndarray, m: np.ndarray, N: int, at_start: float) -> np.ndarray:
    """N m^2 of instances (instances, times) from a random start, whose mean at t = 0 is known to be `at_start`: where the start was
    recorded it serves as a control variate, with the regression coefficient of each time."""
    squares = N * m**2
    good = squares[np.isfinite(squares).all(axis=1)]
    if t[0] > 0 or len(good) < 3:
        return squares
    start = good[:, 0] - good[:, 0].mean()
    slope = start @ (good - good.mean(axis=0)) / (start @ start)
    return squares - slope * (squares[:, :1] - at_start)


def common_times(curves: Sequence[Curve], tolerance: float) -> np.ndarray:
    """Times that all curves have, up to the tolerance; those of the last curve."""
    times = curves[-1].t
    for curve in curves[:-1]:
        times = times[_match(times, curve.t, tolerance) >= 0]
    return times


def common_indices(a: np.ndarray, b: np.ndarray, tolerance: float) -> tuple[np.ndarray, np.ndarray]:
    """Indices in a, and in b, of the times that both grids have."""
    place = _match(b, a, tolerance)
    there = np.flatnonzero(place >= 0)
    return place[there], there


def _match(times: np.ndarray, grid: np.ndarray, tolerance: float) -> np.ndarray:
    """Index in the grid of each time, -1 where the grid does not have it."""
    right = np.clip(np.searchsorted(grid, times), 0, grid.size - 1)
    left = np.maximum(right - 1, 0)
    nearest = np.where(np.abs(grid[left] - times) <= np.abs(grid[right] - times), left, right)
    return np.where(np.abs(grid[nearest] - times) <= tolerance, nearest, -1)


def extrapolate(curves: Sequence[Curve], dimensions: Sequence[int]) -> Curve:
    """Simulations at several dimensions N, on the same times, extrapolated to N = infinity.

    Different dimensions: the intercept of a straight line in 1/N, weighted by the errors. A single dimension: the
    weighted mean, which of one simulation is itself.
    """
    if len(curves) == 1:
        return curves[0]
    x = 1.0 / np.asarray(dimensions, float)
    means = np.array([curve.mean for curve in curves])
    variances = np.array([curve.error for curve in curves]) ** 2 + SIMULATION_ROUNDING**2
    weights = 1.0 / variances
    count = sum(curve.count for curve in curves) - len(curves) + 1
    s0 = weights.sum(axis=0)
    s1, y0 = (weights * x[:, None]).sum(axis=0), (weights * means).sum(axis=0)
    if np.ptp(x) == 0.0:
        return Curve(curves[0].t, y0 / s0, 1.0 / np.sqrt(s0), count)
    s2, y1 = (weights * x[:, None] ** 2).sum(axis=0), (weights * means * x[:, None]).sum(axis=0)
    determinant = s0 * s2 - s1**2
    return Curve(curves[0].t, (s2 * y0 - s1 * y1) / determinant, np.sqrt(s2 / determinant), count - 1)


def equivalent_tests(values: Sequence[np.ndarray], curves: Sequence[Curve], dimensions: Sequence[int]) -> float:
    """As how many independent tests the entries of a table count, if theory and simulations are correlated from entry to entry as
    the instances are. values: (instances, entries) at each dimension, with their means and errors as curves.

    Deviations of the instances, added with random weights, have the correlations of the means: TABLES tables of them are drawn,
    carried to N = infinity as the means are, and chance exceeds the largest |z| of a table as often as that of so many
    independent tests."""
    t, rng, tables = curves[0].t, generator(0, "compare", len(values)), 0.0
    for k, each in enumerate(values):
        good = each[np.isfinite(each).all(axis=1)]
        if len(good) < 3:
            return float(t.size)
        units = [replace(curve, mean=np.full(t.size, float(j == k))) for j, curve in enumerate(curves)]
        mixed = rng.standard_normal((TABLES, len(good))) @ (good - good.mean(axis=0)) / np.sqrt(len(good) * (len(good) - 1.0))
        tables = tables + extrapolate(units, dimensions).mean * mixed
    error = extrapolate(curves, dimensions).error
    z = np.abs(tables / np.sqrt(error**2 + SIMULATION_ROUNDING**2)).max(axis=1)
    return float(np.clip(CHANCE / np.quantile(2.0 * scipy.special.ndtr(-z), CHANCE), 1.0, t.size))


def compare(observable: str, theory: Curve, simulations: Sequence[Curve], dimensions: Sequence[int],
            tolerance: float) -> Comparison:
    """z-scores at the common times; several simulations are extrapolated first."""
    times = common_times([theory, *simulations], tolerance)
    theory = theory.at(times, tolerance)
    curves = [curve.at(times, tolerance) for curve in simulations]
    return of_pair(observable, theory, extrapolate(curves, dimensions))


def of_pair(observable: str, theory: Curve, simulation: Curve) -> Comparison:
    """z-scores of two curves that have the same times."""
    spread = np.sqrt(np.nan_to_num(theory.error) ** 2 + np.nan_to_num(simulation.error) ** 2 + SIMULATION_ROUNDING**2)
    spread[np.isnan(simulation.error)] = np.nan
    return Comparison(observable, theory.t, theory, simulation, (theory.mean - simulation.mean) / spread)


def of_table(name: str, theory: Curve, values: Sequence[np.ndarray], dimensions: Sequence[int]) -> Comparison:
    """A table of numbers, in the place of times, against instances at each dimension, (instances, entries). The bound on z knows
    how correlated the entries are."""
    curves = [instances_curve(theory.t, each) for each in values]
    return replace(of_pair(name, theory, extrapolate(curves, dimensions)), tests=equivalent_tests(values, curves, dimensions))
