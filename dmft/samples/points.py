"""Points in the unit cube, from which samples start: a scrambled Sobol set, or chance; and normals drawn too wide."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import qmc

from dmft.core import streams

BITS = 12  # of a coordinate, where neighbours are looked for
TOGETHER = 1 << 16  # points drawn at a time where all of them are needed


class PointSet(NamedTuple):
    """The points of one solution. `name` keys its random numbers; sobol: whether they are a Sobol set."""

    seed: int
    name: tuple[int, ...]
    dimensions: int
    sobol: bool

    def _engine(self) -> qmc.Sobol:
        return qmc.Sobol(self.dimensions, scramble=True, rng=streams.generator(self.seed, "sobol", *self.name))

    def stretch(self, first: int, count: int) -> np.ndarray:
        """Points first .. first+count-1 in the open unit cube, (count, dimensions)."""
        if not self.sobol:
            return streams.uniforms(streams.key(self.seed, "start", *self.name), first, (count, self.dimensions))
        engine = self._engine()
        if first:
            engine.fast_forward(first)
        return _drawn(engine, count)

    def at(self, index: np.ndarray) -> np.ndarray:
        """The points of these indices, (count, dimensions). Consecutive indices are drawn together."""
        chosen, place = np.unique(index, return_inverse=True)
        stretches = np.split(chosen, np.flatnonzero(np.diff(chosen) > 1) + 1) if len(chosen) else []
        drawn = [self.stretch(int(part[0]), len(part)) for part in stretches]
        return np.concatenate([np.empty((0, self.dimensions)), *drawn])[place]

    def codes(self, count: int, columns: list[int], apart: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """(count,): of each of the first `count` points of a Sobol set, its number in Morton's order of these columns: points that
        follow each other in it are close. apart (points) -> (count,) of 0 and 1: points with 0 come first."""
        code, engine = np.zeros(count, np.int64), self._engine()
        for first in range(0, count, TOGETHER):
            points = _drawn(engine, min(TOGETHER, count - first))
            digits, part = (points[:, columns] * (1 << BITS)).astype(np.int64), code[first : first + len(points)]
            part[:] = apart(points)
            for bit in reversed(range(BITS)):
                for column in digits.T:
                    part[:] = 2 * part + (column >> bit & 1)
        return code


def _drawn(engine: qmc.Sobol, count: int) -> np.ndarray:
    """The next points of a set."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # any sample count is allowed; powers of two balance best
        return np.clip(engine.random(count), 1e-12, 1 - 1e-12)


def too_wide(u: np.ndarray, factor: float, upto: float = math.inf) -> tuple[np.ndarray, np.ndarray]:
    """Numbers x of the density phi(x) exp((1 - 1/factor^2) min(|x|, upto)^2/2)/Z from uniforms u, and Z over that exponential, by
    which they weigh as normals do: the normal law `factor` times too wide up to |x| = upto, and proportional to itself beyond."""
    growth = 0.5 * (1 - 1 / factor**2)
    inside = factor * (ndtr(upto / factor) - 0.5)  # for x > 0, as the tail
    beyond = math.exp(growth * upto**2) if upto < math.inf else math.inf
    tail = beyond * ndtr(-upto) if upto < math.inf else 0.0
    mass = 2 * (inside + tail) * np.abs(u - 0.5)  # from 0 to |x|
    x = np.where(mass < inside, factor * ndtri(0.5 + np.minimum(mass, inside) / factor),
                 -ndtri(np.maximum(inside + tail - mass, 1e-300) / beyond))
    return np.copysign(x, u - 0.5), 2 * (inside + tail) * np.exp(-growth * np.minimum(np.abs(x), upto) ** 2)
