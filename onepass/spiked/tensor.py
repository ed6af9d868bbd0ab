"""Spiked matrices and tensors of every order (Ben Arous et al. 2022, section 3, with the corrections of docs/notes/errata.md).

Loss ||Y - x^(k)||^2 + beta |x|^2, Y = lambda v^(k) + W. Statistics m = x.v and r2 = |x|^2 - m^2, R^2 = m^2 + r2, delta = c/n:

    m'  = 2k m (lambda m^{k-2} - R^{2k-2}) - 2 beta m
    r2' = -4k R^{2k-2} (r2 - c) - 4 beta r2
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numba import njit

from dmft.core import streams
from dmft.core.errors import RunError
from onepass.effective.dynamics import EffectiveModel
from onepass.layout import StatisticsLayout
from onepass.process import KernelProcess
from onepass.spiked import phases
from onepass.spiked.parameters import SpikedParameters
from sgd_sim.models import spiked as sgd


@njit(cache=True, nogil=True)
def chain_advance(u, steps, delta, order, signal, ridge, dimension, rng):
    """Exact law of u = (m, r2) under SGD in the given dimension, O(1) a step: noise along v, along the rest of x, and the
    squared length of what is left, a chi-squared variable of n - 2 degrees of freedom."""
    root = np.sqrt(order)
    for _ in range(steps):
        m, r = u[0], np.sqrt(u[1])
        square = m * m + u[1]
        keep = 1.0 - 2.0 * delta * (order * square ** (order - 1) + ridge)
        noise = 2.0 * delta * root * square ** (0.5 * (order - 1))
        z1, z2 = rng.standard_normal(), rng.standard_normal()
        along = (root - 1.0) * (m * z1 + r * z2) / square if square > 0.0 else 0.0
        rest = noise * noise * rng.chisquare(dimension - 2) if dimension > 2 else 0.0
        across = keep * r + noise * (z2 + along * r)
        u[0] = keep * m + 2.0 * delta * order * signal * m ** (order - 1) + noise * (z1 + along * m)
        u[1] = across * across + rest


@dataclass(frozen=True)
class SpikedTensor(SpikedParameters, EffectiveModel):
    """Tensor PCA of the given order by one-pass SGD with delta = step/n; `literal` draws whole matrices (order 2 only).

    Statistics m and r2 (scalars)."""

    literal: bool = False

    def __post_init__(self):
        super().__post_init__()
        if self.literal and self.order != 2:
            raise RunError(f"literal = true needs order = 2, not {self.order}: a tensor of order 3 or more is too large to draw")

    @property
    def largest_statistic(self) -> float:  # type: ignore[override]
        """Ten times the scale of the fixed points: beyond it a run diverges, since a step then multiplies R by order R^(2k-2)."""
        return 10.0 * (1.0 + self.step + self.signal ** (2.0 / self.order))

    @property
    def layout(self) -> StatisticsLayout:
        return StatisticsLayout({"m": (), "r2": ()})

    def fixed_points(self) -> list[phases.FixedPoint]:
        """All fixed points with their stability (phases.py)."""
        return phases.fixed_points(self)

    def critical_signal(self) -> float:
        """lambda_c: the smallest signal with a stable fixed point m != 0 (phases.py)."""
        return phases.critical_signal(self)

    def random_start(self, dimension: int, instances: int, seed: int = 1) -> dict[str, np.ndarray]:
        """Statistics of x ~ N(0, I/n), instances first; those of an instance depend on its number alone."""
        rngs = [streams.generator(seed, "spiked-start", i) for i in range(instances)]
        m = np.array([rng.standard_normal() for rng in rngs]) / np.sqrt(dimension)
        return {"m": m, "r2": np.array([rng.chisquare(dimension - 1) for rng in rngs]) / dimension}

    def check_deterministic(self, x0: np.ndarray) -> None:
        if x0[0] == 0.0:
            warnings.warn("m = 0 at t = 0: the ODE stays there; start from m != 0, or use chain(...) or diffuse(...)", stacklevel=4)

    def validate(self, arrays: dict[str, np.ndarray], dimension: int | None) -> None:
        if np.any(arrays["r2"] < 0):
            raise RunError(f"initial r2 = {np.min(arrays['r2']):g}; a squared length is not negative")
        if dimension is not None and dimension < 2:
            raise RunError(f"dimension = {dimension}; need at least 2")

    def population_drift(self, x: np.ndarray) -> np.ndarray:
        k, m, r2 = self.order, x[..., 0], x[..., 1]
        decay = 2.0 * k * (m * m + r2) ** (k - 1) + 2.0 * self.ridge
        return np.stack([decay * m - 2.0 * k * self.signal * m ** (k - 1), 2.0 * decay * r2], axis=-1)

    def corrector(self, x: np.ndarray) -> np.ndarray:
        k, m, r2 = self.order, x[..., 0], x[..., 1]
        return np.stack([np.zeros_like(m), 4.0 * k * self.step * (m * m + r2) ** (k - 1)], axis=-1)

    def covariance(self, x: np.ndarray) -> np.ndarray:
        """J V J^T with V = 4k [R^{2k-2} I + (k-1) R^{2k-4} x x^T], grad m = v, grad r2 = 2 x_perp."""
        k, m, r2 = self.order, x[..., 0], np.maximum(x[..., 1], 0.0)
        square = m * m + r2
        iso, aniso = 4.0 * k * square ** (k - 1), 4.0 * k * (k - 1) * square ** (k - 2)
        mm, mr, rr = iso + aniso * m * m, 2.0 * aniso * m * r2, 4.0 * r2 * (iso + aniso * r2)
        return np.stack([np.stack([mm, mr], -1), np.stack([mr, rr], -1)], -2)

    def retract(self, x: np.ndarray) -> np.ndarray:
        x[..., 1] = np.abs(x[..., 1])
        return x

    def longest_step(self, x0: np.ndarray, t: np.ndarray) -> float:
        """Default step of the SDE: it resolves the fastest rate, 4k R^{2k-2} at the largest fixed point or start."""
        largest = max(self.step + self.signal ** (2.0 / self.order), float(np.max(x0[..., 0] ** 2 + x0[..., 1])))
        rate = 4.0 * self.order * largest ** (self.order - 1) + 4.0 * self.ridge
        return min(0.01, 0.3 / rate)

    def chain_process(self, x0: np.ndarray, dimension: int, seed: int, instance: int) -> KernelProcess:
        rng = streams.generator(seed, "spiked-chain", instance)
        args = (self.time_step(dimension), self.order, self.signal, self.ridge, dimension, rng)
        return KernelProcess(chain_advance, (x0.copy(),), args, np.copy)

    def sgd_process(self, x0: np.ndarray, dimension: int, seed: int, instance: int) -> KernelProcess:
        rng = streams.generator(seed, "spiked-sgd", instance)
        kernel = sgd.advance_matrix if self.literal else sgd.advance
        args = (self.time_step(dimension), self.order, self.signal, self.ridge, rng)
        return KernelProcess(kernel, (sgd.start_vector(x0[0], x0[1], dimension),), args, sgd.statistics)
