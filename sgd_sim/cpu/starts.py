"""The start of an instance: warm (an overlap m0 with the teacher), random, or spectral."""

from __future__ import annotations

import numpy as np

from dmft.core.streams import generator
from dmft.core.user_functions import pointer
from dmft.model.constraints import Constraint
from dmft.model.data import make_start
from dmft.model.preprocessing import lowest, preprocessing_of
from dmft.model.runfile import ProblemConfig
from dmft.model.starts import on_sphere
from sgd_sim.cpu.by_rows import ByRows, weighted_rows
from sgd_sim.landscape import Landscape

MOST_ITERATIONS = 5000  # at small alpha the leading eigenvalue hardly leaves the bulk
TOLERANCE = 1e-7


def start_weights(problem: ProblemConfig, constraint: Constraint, landscape: Landscape, rows: ByRows, seed: int,
                  instance: int) -> np.ndarray:
    """w at t = 0, (N,): `Start.weights`, or `spectral_start`."""
    z = start_noise(seed, instance, landscape.w0.size)
    start = make_start(problem)
    return spectral_start(problem, landscape, rows, z) if start.spectral else start.weights(constraint, landscape.w0, z)


def start_noise(seed: int, instance: int, n: int) -> np.ndarray:
    """(N,) standard normals from which the start of an instance is made."""
    return generator(seed, "simulation/start", instance).standard_normal(n)


def spectral_weights(problem: ProblemConfig, labels: np.ndarray) -> np.ndarray:
    """T(y) of `spectral_start`, (M,), with y = h0^2 as the labels give it."""
    T = preprocessing_of(problem.preprocessing, problem.alpha)
    return np.array([T(y) for y in labels**2])


def power_rate(problem: ProblemConfig) -> float:
    """c of the power iteration: so small that the lower end of the spectrum (T is negative there) cannot dominate."""
    T = preprocessing_of(problem.preprocessing, problem.alpha)
    return min(0.5, 1.0 / max(-lowest(T), 1e-3))


def _weight_times_field(field, weight):
    return weight * field


def spectral_start(problem: ProblemConfig, landscape: Landscape, rows: ByRows, guess: np.ndarray) -> np.ndarray:
    """Leading eigenvector of D = (1/N) sum_mu T(y_mu) x_mu x_mu^T with the preprocessing T of the run
    (dmft/model/preprocessing.py); |w|^2 = N.

    By power iteration w <- a (w + c D w) from `guess` until it has converged, as the theory does in its hidden first steps. Labels
    do not distinguish w from -w: the sign is chosen so that the overlap is >= 0.
    """
    weights, rate = spectral_weights(problem, landscape.h0), power_rate(problem)
    times = pointer(_weight_times_field, "float64(float64, float64)")
    w = on_sphere(guess)
    for _ in range(MOST_ITERATIONS):
        rows.e[:w.size] = w
        weighted_rows(landscape.data, weights, int(times.address or 0), rows)
        new = on_sphere(w + rate / np.sqrt(w.size) * rows.total)
        moved = np.linalg.norm(new - w) / np.sqrt(w.size)
        w = new
        if moved < TOLERANCE:
            break
    return w if w @ landscape.w0 >= 0.0 else -w
