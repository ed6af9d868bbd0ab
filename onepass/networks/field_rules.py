"""Rules for averages over all fields of a student and its multi-index teacher, and over the label noise.

Smooth functions of up to four fields: a product trapezoid rule. More fields, or kinks anywhere (a clipped error, a ReLU, a
parity): quasi-random normals in independent scramblings, each point with its mirror image and all of them whitened, so that
averages of polynomials up to the third degree are exact; the scatter of the scramblings measures the error.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from dmft.model import links
from onepass.gaussian import sobol_normals
from onepass.networks.field_moments import trapezoid_grid

PRODUCT_NODES = {2: 61, 3: 41, 4: 25}  # of the product rule, by number of fields
SCRAMBLINGS, LOG2_POINTS = 4, 13


class FieldRule(NamedTuple):
    """Points (N, fields) and weights (N,) for standard normals, label noise in units of its deviation (1 or N, nodes) with
    weights (nodes,), and the number of independent parts of equal size."""

    points: np.ndarray
    weights: np.ndarray
    noise: np.ndarray
    noise_weights: np.ndarray
    parts: int

    def part(self, index: int) -> FieldRule:
        """One of the independent parts, as a rule of its own."""
        size = len(self.weights) // self.parts
        piece = slice(index * size, (index + 1) * size)
        noise = self.noise[piece] if len(self.noise) > 1 else self.noise
        return FieldRule(self.points[piece], self.parts * self.weights[piece], noise, self.noise_weights, 1)


@lru_cache(maxsize=8)
def field_rule(fields: int, noisy: bool, smooth: bool, noise_nodes: int) -> FieldRule:
    """The rule for that many fields, with `noise_nodes` Gauss-Hermite nodes for the label noise: 3 where no power of it above the
    second is averaged. With quasi-random points and any other number of nodes, the label noise is one more coordinate."""
    z, w = np.polynomial.hermite_e.hermegauss(noise_nodes) if noisy else (np.zeros(1), np.ones(1))
    if smooth and fields in PRODUCT_NODES:
        return FieldRule(*trapezoid_grid(fields, PRODUCT_NODES[fields]), z[None], w / w.sum(), 1)
    own = noisy and noise_nodes != 3
    parts = []
    for i in range(SCRAMBLINGS):
        normals = sobol_normals(fields + own, LOG2_POINTS, [20241, i])
        normals = np.linalg.solve(np.linalg.cholesky(normals.T @ normals / len(normals)), normals.T).T
        parts += [normals, -normals]
    normals = np.concatenate(parts)
    noise, noise_weights = (np.ascontiguousarray(normals[:, fields:]), np.ones(1)) if own else (z[None], w / w.sum())
    equal = np.full(len(normals), 1.0 / len(normals))
    return FieldRule(np.ascontiguousarray(normals[:, :fields]), equal, noise, noise_weights, SCRAMBLINGS)


def smooth_link(link: links.Link, width: int) -> bool:
    """True if the link has no kink or jump on a few lines through the space of its fields: on a grid four times finer the second
    differences of a smooth function are smaller by 16, at a kink by 4, and at a jump they stay."""
    rng = np.random.default_rng(5)
    for _ in range(4):
        direction, offset = rng.standard_normal((2, width))
        found = []
        for points in (3001, 12001):
            t = np.linspace(-4.0, 4.0, points) + 1e-4 / 3.0
            values = links.evaluate(link.g, offset + t[:, None] * direction)
            found.append(np.abs(np.diff(values, 2)).max())
        if found[1] > 1e-11 * max(1.0, float(np.abs(values).max())) and found[1] > found[0] / 8.0:
            return False
    return True
