"""An effective model magnified about a point: u~ = n^{exponent} (u - u*) statistic by statistic, at finite n.

With exponent 1/2 about a fixed point of the ballistic dynamics its drift and noise have limits as n -> infinity (eq. 2.7).
`linearise` gives that limit when all fluctuating statistics have the same exponent; models give others in closed form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from onepass.effective.dynamics import EffectiveModel
from onepass.layout import StatisticsLayout
from onepass.process import Moving, Process


@dataclass
class RescaledProcess:
    """A process of the model itself, whose statistics are rescaled when they are read."""

    inner: Process
    centre: np.ndarray
    factor: np.ndarray

    def advance(self, steps: int) -> None:
        self.inner.advance(steps)

    @property
    def moving(self) -> Moving:
        return getattr(self.inner, "moving", ())

    def flat(self) -> np.ndarray:
        return self.factor * (self.inner.flat() - self.centre)


@dataclass(frozen=True)
class Rescaled(EffectiveModel):
    """`base` about `point` (statistics of a fixed point), each deviation times n^{exponents[name]} (exponent 0 where not named), in
    dimension n. Statistics and solve, diffuse, chain, simulate are those of the base; pass them the same dimension."""

    base: EffectiveModel
    point: Mapping[str, np.ndarray]
    exponents: Mapping[str, float]
    dimension: int

    @property
    def step(self) -> float:  # type: ignore[override]
        return self.base.step

    @property
    def largest_statistic(self) -> float:  # type: ignore[override]
        return self.base.largest_statistic * max(1.0, float(self.factor.max()))

    @property
    def layout(self) -> StatisticsLayout:
        return self.base.layout

    @property
    def centre(self) -> np.ndarray:
        """u* as a flat vector."""
        return self.layout.pack(self.point)

    @property
    def factor(self) -> np.ndarray:
        """n^{exponent} for each entry of the flat vector."""
        shapes = self.layout.shapes
        return self.layout.pack(
            {name: np.full(shape, float(self.dimension) ** self.exponents.get(name, 0.0)) for name, shape in shapes.items()}
        )

    def inside(self, x: np.ndarray) -> np.ndarray:
        """Statistics of the base, from the rescaled ones."""
        return self.centre + x / self.factor

    def validate(self, arrays: dict[str, np.ndarray], dimension: int | None) -> None:
        self.base.validate(self.layout.unpack(self.inside(self.layout.pack(arrays))), dimension)

    def population_drift(self, x: np.ndarray) -> np.ndarray:
        return self.factor * self.base.population_drift(self.inside(x))

    def corrector(self, x: np.ndarray) -> np.ndarray:
        return self.factor * self.base.corrector(self.inside(x))

    def covariance(self, x: np.ndarray) -> np.ndarray:
        return np.multiply.outer(self.factor, self.factor) * self.base.covariance(self.inside(x))

    def chain_process(self, x0: np.ndarray, dimension: int, seed: int, instance: int) -> Process:
        inner = self.base.chain_process(self.inside(x0), dimension, seed, instance)
        return RescaledProcess(inner, self.centre, self.factor)

    def sgd_process(self, x0: np.ndarray, dimension: int, seed: int, instance: int) -> Process:
        inner = self.base.sgd_process(self.inside(x0), dimension, seed, instance)
        return RescaledProcess(inner, self.centre, self.factor)
