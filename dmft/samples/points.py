"""Points in the unit cube, from which samples start: a scrambled Sobol set, or chance; and normals drawn too wide."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy  # its parts load when they are used: those that look at files need no statistics
from scipy.special import ndtr, ndtri

from dmft.core import streams

BITS = 12  # of a coordinate, where neighbours are looked for
TOGETHER = 1 << 16  # points drawn at a time where all of them are needed


class PointSet(NamedTuple):
    """The points of one solution. `name` keys its random numbers; sobol: whether they are a Sobol set."""

    seed: int
    name: tuple[int, ...]
    dimensions: int
    sobol: bool

    def _engine(self) -> scipy.stats.qmc.Sobol:
        return scipy.stats.qmc.Sobol(self.dimensions, scramble=True, rng=streams.generator(self.seed, "sobol", *self.name))

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


def _drawn(engine: scipy.stats.qmc.Sobol, count: int) -> np.ndarray:
    """The next points of a set."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # any sample count is allowed; powers of two balance best
        return np.clip(engine.random(count), 1e-12, 1 - 1e-12)


def too_wide(u: np.ndarray, factor: float, upto: float = math.inf, beyond: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Numbers x from uniforms u, and the weights with which they count as normals do. Their density over the normal one is
    proportional to exp(a x^2) up to |x| = upto and to exp(b x^2) from there on, 2a = 1 - 1/factor^2 and 2b = 1 - 1/beyond^2: normal
    laws that are `factor` and `beyond` times too wide, joined without a jump."""
    if upto == math.inf:
        upto, beyond = 0.0, factor
    inner, outer = 0.5 * (1 - 1 / factor**2), 0.5 * (1 - 1 / beyond**2)
    height = math.exp((inner - outer) * upto**2)
    inside, outside = factor * (ndtr(upto / factor) - 0.5), height * beyond * ndtr(-upto / beyond)  # of x > 0
    mass = 2 * (inside + outside) * np.abs(u - 0.5)  # from 0 to |x|
    left = np.maximum(inside + outside - mass, 1e-300)
    x = np.where(mass < inside, factor * ndtri(0.5 + np.minimum(mass, inside) / factor), -beyond * ndtri(left / (height * beyond)))
    growth = np.where(x < upto, inner * x**2, outer * x**2 + (inner - outer) * upto**2)
    return np.copysign(x, u - 0.5), 2 * (inside + outside) * np.exp(-growth)
