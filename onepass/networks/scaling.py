"""How one-pass SGD scales with dimension: steps to escape by information exponent, distance from the ODE."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dmft.core.averages import standard_error
from dmft.core.errors import RunError
from onepass.first_passage import ExitTimes, measure_exit, overlap_measure
from onepass.networks.named import Committee
from onepass.networks.network import Network


def _hermite3(x):
    return (x * x * x - 3.0 * x) / 2.449489742783178


def _d_hermite3(x):
    return (3.0 * x * x - 3.0) / 2.449489742783178


class Fit(NamedTuple):
    """A line through (log x, log y) and the standard error of its slope, from the errors of y."""

    slope: float
    slope_error: float
    intercept: float


def fit_power(x: ArrayLike, y: ArrayLike, y_error: ArrayLike | None = None) -> Fit:
    """Weighted least squares of log y on log x."""
    lx, ly = np.log(np.asarray(x, float)), np.log(np.asarray(y, float))
    sigma = np.ones_like(lx) if y_error is None else np.asarray(y_error, float) / np.asarray(y, float)
    design = np.stack([lx, np.ones_like(lx)], axis=1) / sigma[:, None]
    covariance = np.linalg.inv(design.T @ design)
    slope, intercept = covariance @ design.T @ (ly / sigma)
    return Fit(float(slope), float(np.sqrt(covariance[0, 0])) if y_error is not None else np.nan, float(intercept))


def single_index(exponent: int, dimension: int, rate: float | None = None) -> Committee:
    """One unit on the sphere learning a teacher of its own kind, with information exponent 1 (erf), 2 (square) or
    3 (third Hermite polynomial). For exponent 3 the learning rate falls as d^-1/2, without which its noise hides the
    signal; then m' ~ m^2 from m = d^-1/2 takes d^1/2 of time and d^2 steps."""
    if exponent not in (1, 2, 3):
        raise RunError(f"information exponent {exponent}; allowed: 1, 2, 3")
    activation = {1: "erf", 2: "quadratic", 3: (_hermite3, _d_hermite3)}[exponent]
    gamma = rate if rate is not None else {1: 1.0, 2: 0.05, 3: 0.003}[exponent]
    if exponent == 3:
        gamma /= np.sqrt(dimension)
    return Committee(activation, 1, 1, gamma, constraint="sphere")


class Escape(NamedTuple):
    """Mean steps until |m| reaches the level, with errors, per dimension."""

    dimensions: np.ndarray
    steps: np.ndarray
    errors: np.ndarray
    fit: Fit


def escape_steps(
    exponent: int, dimensions: Sequence[int], instances: int = 40, level: float = 0.5, seed: int = 1
) -> Escape:
    """Steps of the exact chain from m = d^-1/2 to |m| = level, against d. Expected: d for exponent 1, d log d for 2,
    d^2 for 3."""
    means, errors = [], []
    for d in dimensions:
        net = single_index(exponent, d)
        start = {"M": np.full((1, 1), d**-0.5), "Q": np.ones((1, 1))}
        longest = {1: 20.0, 2: 10.0 + 3.0 * np.log(d), 3: 30.0 * np.sqrt(d)}[exponent]
        found = measure_exit(net, d, instances, overlap_measure(level), longest, "chain", start, seed, 5e-4)
        if found.share < 1.0:
            raise RunError(f"d = {d}: {100 * (1 - found.share):.0f} % of the instances did not escape")
        means.append(found.mean / net.time_step(d))
        errors.append(found.error / net.time_step(d))
    y, e = np.array(means), np.array(errors)
    return Escape(np.asarray(dimensions), y, e, fit_power(dimensions, y, e))


def learning_times(net: Network, directions: np.ndarray, dimension: int, instances: int, t_max: float, level: float,
                   seed: int = 1) -> list[ExitTimes]:
    """For each combination e (count, k) of the teacher's vectors the times at which the exact chain, from random starts with a
    second layer of random signs, has an overlap |M e| = level with it."""
    starts = net.random_start(dimension, instances, seed, "signs")

    def learnt(direction: np.ndarray):
        return lambda _: lambda s: float(np.linalg.norm(s["M"] @ direction)) - level

    return [measure_exit(net, dimension, instances, learnt(e), t_max, "chain", starts, seed, 1e-3) for e in directions]


def ode_distance(
    nets: Sequence[Network], dimensions: Sequence[int], initial, times, instances: int = 40, seed: int = 1
) -> tuple[np.ndarray, np.ndarray, Fit]:
    """Mean over instances of max_t |M - M_ode|, for each pair (net, dimension), against tau = gamma/(p d): the pair
    (tau, distance) and the fitted power, 1/2 by the central limit theorem. `initial` is a function of the net."""
    tau, distance, error = [], [], []
    for net, d in zip(nets, dimensions, strict=True):
        start = initial(net)
        ode = net.solve(start, times)
        paths = net.chain(d, instances, start, times, seed)
        largest = np.abs(paths.M - ode.M).max(axis=(1, 2, 3))
        tau.append(net.time_step(d))
        distance.append(largest.mean())
        error.append(standard_error(largest))
    return np.array(tau), np.array(distance), fit_power(tau, distance, error)
