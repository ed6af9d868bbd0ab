"""Effective dynamics of summary statistics (Ben Arous et al. 2022, theorem 2.2).

SGD x <- x - delta grad L with delta = c/n. For statistics u(x) with Jacobian J, population loss Phi, and V the covariance
of grad L, an effective model gives, as functions of u at n -> infinity,

    f     = lim <grad Phi, grad u>                population drift
    g     = lim (delta/2) sum_ij V_ij d_i d_j u   population corrector
    Sigma = lim J V J^T                           per-step covariance of <grad L, grad u>

The ballistic limit is dU = (-f + g) dt; at finite n the fluctuations obey dU = (-f + g) dt + (delta Sigma)^{1/2} dB.
Near a fixed point U = u* + n^{-1/2} u~ the limit is the linear SDE of `linearise`; other scalings follow from `Rescaled`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import expm

from dmft.core import streams
from dmft.core.errors import RunError
from onepass.effective.problem import GradientProcess
from onepass.layout import StatisticsLayout
from onepass.model import Model
from onepass.process import Process


class EffectiveModel(Model):
    """A model given by f, g and Sigma, with delta = step/n and time counted as steps times delta."""

    step: float

    def population_drift(self, x: np.ndarray) -> np.ndarray:
        """f, (..., size)."""
        raise NotImplementedError

    def corrector(self, x: np.ndarray) -> np.ndarray:
        """g, (..., size); proportional to the step constant c."""
        raise NotImplementedError

    def validate(self, arrays: dict[str, np.ndarray], dimension: int | None) -> None:
        """RunError for statistics that no weights can have."""

    def drift(self, x: np.ndarray) -> np.ndarray:
        return self.corrector(x) - self.population_drift(x)

    def time_step(self, dimension: int) -> float:
        if self.step <= 0.0:
            raise RunError("step = 0 is the population flow; SGD, chain and SDE need step > 0")
        return self.step / dimension

    def step_constant(self) -> float:
        return self.step

    def start(self, initial: Mapping[str, np.ndarray], dimension: int | None = None) -> np.ndarray:
        shapes = self.layout.shapes
        unknown, missing = sorted(set(initial) - set(shapes)), [name for name in shapes if name not in initial]
        if unknown or missing:
            what = f"unknown {unknown[0]!r}" if unknown else f"missing {missing[0]!r}"
            raise RunError(f"initial: {what}; the statistics of {type(self).__name__} are {', '.join(shapes)}")
        arrays = {name: np.asarray(initial[name], float) for name in shapes}
        flat = self.layout.pack(arrays)  # refuses wrong shapes
        for name, array in arrays.items():
            if not np.all(np.isfinite(array)):
                raise RunError(f"initial {name} must be finite")
            if name in self.layout.symmetric and not np.allclose(array, np.swapaxes(array, -1, -2), rtol=1e-8, atol=1e-12):
                raise RunError(f"initial {name} must be symmetric")
        self.validate(self.layout.unpack(flat), dimension)
        return flat


@dataclass(frozen=True)
class EffectiveDynamics(EffectiveModel):
    """A user's own effective model: names and shapes of the statistics, and f, g, Sigma as functions of the flat vector.

    Every function takes u (..., size) and returns (..., size), or (..., size, size) for `sigma`. `sgd(u, n)` gives a Problem
    in dimension n and a point with statistics u, for `simulate`. Before trusting such a model compare it with its SGD at a
    point, `onepass.check_effective`.
    """

    shapes: Mapping[str, tuple[int, ...]]
    f: Callable[[np.ndarray], np.ndarray]
    g: Callable[[np.ndarray], np.ndarray] | None = None
    sigma: Callable[[np.ndarray], np.ndarray] | None = None
    step: float = 1.0
    symmetric: frozenset[str] = field(default=frozenset())
    sgd: Callable[[np.ndarray, int], tuple] | None = None

    @property
    def layout(self) -> StatisticsLayout:
        return StatisticsLayout(self.shapes, self.symmetric)

    def population_drift(self, x: np.ndarray) -> np.ndarray:
        return self.f(x)

    def corrector(self, x: np.ndarray) -> np.ndarray:
        return np.zeros_like(x) if self.g is None else self.g(x)

    def covariance(self, x: np.ndarray) -> np.ndarray:
        if self.sigma is None:
            raise RunError("this effective model has no sigma: its noise is unknown")
        return self.sigma(x)

    def sgd_process(self, x0: np.ndarray, dimension: int, seed: int, instance: int) -> Process:
        if self.sgd is None:
            raise RunError("this effective model has no sgd: there is nothing to simulate")
        problem, x = self.sgd(x0, dimension)
        return GradientProcess(problem, x, streams.generator(seed, "effective-sgd", instance))


def jacobian(model: Model, x: np.ndarray, width: float = 1e-5) -> np.ndarray:
    """d drift_i / d x_j (size, size) by central differences of fourth order (error about 1e-11 for smooth drifts)."""
    columns = []
    for j in range(x.size):
        e = np.zeros_like(x)
        e[j] = width * max(1.0, abs(x[j]))
        near = model.drift(x + e) - model.drift(x - e)
        far = model.drift(x + 2 * e) - model.drift(x - 2 * e)
        columns.append((8.0 * near - far) / (12.0 * e[j]))
    return np.stack(columns, axis=-1)


def fixed_point(model: Model, guess: Mapping[str, np.ndarray], tolerance: float = 1e-12) -> dict[str, np.ndarray]:
    """A zero of the drift by Newton's method from a guess. Steps are least-squares solutions, so that points on manifolds of fixed
    points (the rings) are found too. Entries that the dynamics cannot change (`movable`) keep their values."""
    x, movable = model.start(guess), model.movable()
    for _ in range(100):
        h = np.where(movable, model.drift(x), 0.0)
        if np.max(np.abs(h)) < tolerance:
            return model.layout.unpack(x)
        x[movable] -= np.linalg.lstsq(jacobian(model, x)[:, movable] * movable[:, None], h, rcond=1e-9)[0]
    raise RunError(f"Newton's method found no fixed point: |drift| = {np.max(np.abs(h)):.3g} after 100 steps")


@dataclass(frozen=True)
class LinearSDE:
    """du = A u dt + S^{1/2} dB: the fluctuations about a fixed point on the scale n^{-1/2}."""

    A: np.ndarray
    S: np.ndarray

    def rates(self) -> np.ndarray:
        """Eigenvalues of A by rising real part; the point attracts if all real parts (but those of directions that
        cannot change, which are 0) are negative."""
        values = np.linalg.eigvals(self.A)
        return values[np.argsort(values.real)]

    def mean(self, t: float, start: np.ndarray) -> np.ndarray:
        """E u(t) from u(0) = start."""
        return expm(self.A * t) @ start

    def covariance(self, t: float) -> np.ndarray:
        """Cov u(t) from a fixed start: int_0^t e^{As} S e^{A^T s} ds, by the doubling block of Van Loan."""
        n, pieces = len(self.A), max(1, int(np.ceil(np.linalg.norm(self.A, 2) * t)))
        block = np.zeros((2 * n, 2 * n))
        block[:n, :n], block[:n, n:], block[n:, n:] = -self.A, self.S, self.A.T
        e = expm(block * (t / pieces))  # in short pieces, since rounding errors of e^{-At} would swamp the rest
        flow = e[n:, n:].T
        one = flow @ e[:n, n:]
        total = np.zeros((n, n))
        for _ in range(pieces):
            total = flow @ total @ flow.T + one
        return 0.5 * (total + total.T)


def linearise(model: Model, point: Mapping[str, np.ndarray]) -> LinearSDE:
    """The rescaled effective dynamics (eq. 2.7) of sqrt(n)(u - u*) at a fixed point u*: A = d(-f + g)/du, S = c Sigma.
    For networks n is d and c = gamma/p. Rows and columns of what the dynamics cannot change are 0."""
    x, movable = model.start(point), model.movable()
    A = jacobian(model, x) * np.outer(movable, movable)
    return LinearSDE(A, model.step_constant() * model.covariance(x))
