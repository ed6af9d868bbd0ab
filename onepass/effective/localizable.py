"""Localizability (Ben Arous et al. 2022, definition 2.1), tested numerically: how its quantities scale with the dimension.

With delta = c/n the definition asks, on compact sets of the statistics, for

    |Hess u_i|_op delta^{1/2}, |D^3 u_i|_op, |grad Phi|, E<grad H, grad u_i>^4 delta^2   bounded,
    E<Hess u_i, grad H (x) grad H - V>^2 delta^3                                       -> 0,

H = L - Phi. (The paper prints o(1/delta) for the last expectation, which its own r2 violates: there it is of order
1/delta. What the martingale bound needs is the sum over 1/delta steps of delta^4 times it, so o(1/delta^3).) Each is
estimated at one point per dimension; its slope against n on a double logarithmic scale must not be positive (negative
for the last). This can refute localizability or make it plausible, but cannot prove it: the definition has suprema over sets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dmft.core import streams
from onepass.effective.check import slopes
from onepass.effective.problem import Problem

CONDITIONS = ("hessian", "third", "population", "fourth", "fluctuation")


@dataclass(frozen=True)
class Localizability:
    """Scaled quantities (dimensions, 5) in the order of CONDITIONS, their slopes, and which conditions were not refuted."""

    dimensions: np.ndarray
    scaled: np.ndarray

    @property
    def slopes(self) -> np.ndarray:
        """d log(quantity)/d log(n), 0 for quantities that vanish."""
        log_n = np.log(self.dimensions)
        out = np.zeros(len(CONDITIONS))
        for i, column in enumerate(self.scaled.T):
            if column.max() > 1e-6:
                out[i] = np.polyfit(log_n, np.log(np.maximum(column, 1e-12)), 1)[0]
        return out

    @property
    def holds(self) -> dict[str, bool]:
        """(5,) bool: slope below 0.2 where the condition is boundedness, below -0.3 (or all zero) where it is a limit of 0."""
        slope = self.slopes
        bounded = {name: bool(slope[i] < 0.2) for i, name in enumerate(CONDITIONS[:4])}
        return {**bounded, "fluctuation": bool(slope[4] < -0.3 or self.scaled[:, 4].max() < 1e-6)}


def _hessian_norms(problem: Problem, x: np.ndarray, rng: np.random.Generator, rounds: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """|Hess u_i|_op by power iteration on differences of gradients of u, and |D^3 u_i| along the directions met (a lower
    bound), each (size,)."""
    eps = 1e-3 * (1.0 + np.linalg.norm(x))
    size = problem.statistics(x).size

    def gradients(point: np.ndarray) -> np.ndarray:
        out = np.empty((size, x.size))
        for j in range(x.size):
            step = np.zeros_like(x)
            step[j] = eps
            out[:, j] = (problem.statistics(point + step) - problem.statistics(point - step)) / (2.0 * eps)
        return out

    norms, third = np.zeros(size), np.zeros(size)
    shared = np.empty((size, x.size))
    shared[:] = rng.standard_normal(x.size)
    for i in range(size):
        d = shared[i] / np.linalg.norm(shared[i])
        for _ in range(rounds):
            image = (gradients(x + eps * d)[i] - gradients(x - eps * d)[i]) / (2.0 * eps)
            norms[i] = np.linalg.norm(image)
            if norms[i] < 1e-9:
                break
            d = image / norms[i]
        wide = 20.0 * eps  # a wider difference, since its rounding error grows as eps^-3
        u = [problem.statistics(x + k * wide * d)[i] for k in (-2, -1, 1, 2)]
        third[i] = abs(u[3] - 2.0 * u[2] + 2.0 * u[1] - u[0]) / (2.0 * wide**3)
    return norms, third


def localizability(
    make: Callable[[int], tuple[Problem, np.ndarray]], dimensions: Sequence[int], samples: int = 1000, seed: int = 1
) -> Localizability:
    """Estimate the conditions along the dimensions; make(n) gives the problem and a point with the same statistics."""
    rows = []
    for n in dimensions:
        problem, x = make(n)
        rng = streams.generator(seed, "localizability", n)
        centre = problem.statistics(x)
        gradients = np.stack([problem.gradient(x, rng) for _ in range(samples)])
        half = samples // 2
        population = gradients[:half].mean(0) @ gradients[half:].mean(0)  # unbiased |grad Phi|^2
        noise = gradients - gradients.mean(0)
        first, second = (np.stack(part) for part in zip(*(slopes(problem, x, h, centre) for h in noise), strict=True))
        hessian, third = _hessian_norms(problem, x, rng)
        rows.append(
            [
                hessian.max() * problem.delta**0.5,
                third.max(),
                np.sqrt(max(population, 0.0)),
                np.mean(first**4, 0).max() * problem.delta**2,
                np.var(second, 0).max() * problem.delta**3,
            ]
        )
    return Localizability(np.asarray(dimensions, float), np.asarray(rows))
