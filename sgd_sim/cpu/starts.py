"""The start of an instance: warm (an overlap m0 with the teacher), random, or spectral."""

from __future__ import annotations

import numpy as np
from numba import cfunc

from dmft.core.streams import generator
from dmft.model.constraints import Constraint
from dmft.model.preprocessing import lowest, preprocessing_of
from dmft.model.runfile import ProblemConfig
from dmft.model.starts import IID
from sgd_sim.cpu.by_rows import ByRows, weighted_rows
from sgd_sim.landscape import Landscape, on_sphere

MOST_ITERATIONS = 5000  # at small alpha the leading eigenvalue hardly leaves the bulk
TOLERANCE = 1e-7


def start_weights(problem: ProblemConfig, constraint: Constraint, landscape: Landscape, rows: ByRows, seed: int,
                  instance: int) -> np.ndarray:
    """w at t = 0, (N,): see `plain_start` and `spectral_start`."""
    z = start_noise(seed, instance, landscape.w0.size)
    if problem.start == "spectral":
        return spectral_start(problem, landscape, rows, z)
    return plain_start(problem, constraint, landscape.w0, z)


def start_noise(seed: int, instance: int, n: int) -> np.ndarray:
    """(N,) standard normals from which the start of an instance is made."""
    return generator(seed, "simulation/start", instance).standard_normal(n)


def plain_start(problem: ProblemConfig, constraint: Constraint, w0: np.ndarray, z: np.ndarray) -> np.ndarray:
    """A warm or random start from a teacher and normals z, with the variance v that the constraint says.

    warm: m0 w0 + sqrt(v) z; where the norm is fixed (v = 1 - m0^2 on the sphere), z is orthogonal to w0 and has |z|^2 = N, so that
    the overlap is exactly m0, or with start_overlap = "iid" z stays as it is, and the factor before it is the one that makes
    |w|^2 = N (eqs. 11, 12 of the paper). random: sqrt(v) z alone, of fixed norm there; its overlap has a random sign.
    """
    m0 = problem.m0 or 0.0
    if constraint.fixes_norm and problem.start == "warm" and problem.start_overlap == IID:    # [start-law]
        square, along = z @ z / z.size, m0 * (z @ w0) / z.size
        c = (np.sqrt(along**2 + square * constraint.spread(m0)) - along) / square
        return m0 * w0 + c * z
    if constraint.fixes_norm:
        z = on_sphere(z if problem.start == "random" else z - (z @ w0 / w0.size) * w0)
    return m0 * w0 + np.sqrt(constraint.spread(m0)) * z


def spectral_weights(problem: ProblemConfig, labels: np.ndarray) -> np.ndarray:
    """T(y) of `spectral_start`, (M,), with y = h0^2 as the labels give it."""
    T = preprocessing_of(problem.preprocessing, problem.alpha)
    return np.array([T(y) for y in labels**2])


def power_rate(problem: ProblemConfig) -> float:
    """c of the power iteration: so small that the lower end of the spectrum (T is negative there) cannot dominate."""
    T = preprocessing_of(problem.preprocessing, problem.alpha)
    return min(0.5, 1.0 / max(-lowest(T), 1e-3))


@cfunc("float64(float64, float64)", cache=True)
def _weight_times_field(field, weight):
    return weight * field


def spectral_start(problem: ProblemConfig, landscape: Landscape, rows: ByRows, guess: np.ndarray) -> np.ndarray:
    """Leading eigenvector of D = (1/N) sum_mu T(y_mu) x_mu x_mu^T with the preprocessing T of the run
    (dmft/model/preprocessing.py); |w|^2 = N.

    By power iteration w <- a (w + c D w) from `guess` until it has converged, as the theory does in its hidden first steps. Labels
    do not distinguish w from -w: the sign is chosen so that the overlap is >= 0.
    """
    weights, rate = spectral_weights(problem, landscape.h0), power_rate(problem)
    w = on_sphere(guess)
    for _ in range(MOST_ITERATIONS):
        rows.e[:w.size] = w
        weighted_rows(landscape.data, weights, int(_weight_times_field.address or 0), rows)
        new = on_sphere(w + rate / np.sqrt(w.size) * rows.total)
        moved = np.linalg.norm(new - w) / np.sqrt(w.size)
        w = new
        if moved < TOLERANCE:
            break
    return w if w @ landscape.w0 >= 0.0 else -w
