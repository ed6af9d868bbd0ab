"""Does an effective model describe its SGD? Monte-Carlo averages at one point in finite dimension against f, g and Sigma.

At x, with g_s the gradient on fresh data s, Phi the population loss and V the covariance of g_s,

    A_n u       = E <g_s, grad u>                        against  f(u)
    delta L_n u = (delta/2) tr(V Hess u)                 against  g(u)
    J V J^T     = Cov(<g_s, grad u>)                     against  Sigma(u)

The derivatives of u along a gradient are taken from the differences u(x +- eps g), so that only u itself is needed; they are exact
for statistics of second degree. Errors come from independent blocks of samples. The limits hold up to O(1/n), so only the part of
a difference beyond `allowance` (default 2/n times the size of each quantity) counts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dmft.core import streams
from dmft.core.averages import mean_and_error
from dmft.core.errors import RunError
from onepass.effective.dynamics import EffectiveModel
from onepass.effective.problem import Problem


def slopes(problem: Problem, x: np.ndarray, direction: np.ndarray, centre: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """<grad u, d> and <d, Hess u d>, each (size,), for a direction d; centre = u(x)."""
    length = float(np.linalg.norm(direction))
    if length == 0.0:
        return np.zeros_like(centre), np.zeros_like(centre)
    eps = 1e-3 * (1.0 + float(np.linalg.norm(x))) / length
    up, down = problem.statistics(x + eps * direction), problem.statistics(x - eps * direction)
    return (up - down) / (2.0 * eps), (up - 2.0 * centre + down) / eps**2


@dataclass(frozen=True)
class MeasuredLimit:
    """Monte-Carlo mean and error against the model's value, elementwise."""

    value: np.ndarray
    error: np.ndarray
    model: np.ndarray

    def z(self, allowance: float) -> np.ndarray:
        """Differences beyond allowance * size, in standard errors; a difference at round-off level counts as 0."""
        scale = np.maximum(np.max(np.abs(self.model)), np.max(np.abs(self.value)))
        excess = np.maximum(np.abs(self.value - self.model) - allowance * scale - 1e-9 * scale, 0.0)
        return excess / np.maximum(self.error, 1e-300)


@dataclass(frozen=True)
class EffectiveCheck:
    """Result of `check_effective`: the three comparisons at one point."""

    f: MeasuredLimit
    g: MeasuredLimit
    sigma: MeasuredLimit
    names: tuple[str, ...]
    allowance: float

    def z(self) -> dict[str, float]:
        """Largest z of each comparison."""
        return {name: float(np.max(getattr(self, name).z(self.allowance))) for name in ("f", "g", "sigma")}

    @property
    def agrees(self) -> bool:
        """True if no difference is larger than five standard errors plus the allowance for the finite dimension."""
        return max(self.z().values()) < 5.0

    def table(self) -> str:
        """Text with one line per statistic: f and g measured on SGD, with errors, beside those of the model."""
        lines = [f"{'statistic':>10} {'A_n u':>12} {'+-':>9} {'f':>12} {'delta L_n u':>12} {'+-':>9} {'g':>12}"]
        for i, name in enumerate(self.names):
            lines.append(
                f"{name:>10} {self.f.value[i]:12.6f} {self.f.error[i]:9.2g} {self.f.model[i]:12.6f}"
                f" {self.g.value[i]:12.6f} {self.g.error[i]:9.2g} {self.g.model[i]:12.6f}"
            )
        worst = self.z()
        lines.append("max z: " + ", ".join(f"{name} {worst[name]:.2f}" for name in worst))
        return "\n".join(lines)


def check_effective(
    model: EffectiveModel, problem: Problem, x: np.ndarray, samples: int = 8000, blocks: int = 40, seed: int = 1,
    allowance: float | None = None,
) -> EffectiveCheck:
    """Compare the model with the SGD of `problem` at the point x (P,)."""
    if samples < 2 * blocks:
        raise RunError(f"samples = {samples}; need at least {2 * blocks}, two per block")
    per_block = samples // blocks
    centre = problem.statistics(x)
    if centre.shape != (model.layout.size,):
        raise RunError(f"the problem has {centre.size} statistics, the model {model.layout.size}")
    first = np.empty((blocks, per_block, centre.size))
    second = np.empty((blocks, centre.size))
    means = np.empty((blocks, x.size))
    for b in range(blocks):
        rng = streams.generator(seed, "check-effective", b)
        total, curve = np.zeros_like(x), np.zeros_like(centre)
        for s in range(per_block):
            gradient = problem.gradient(x, rng)
            first[b, s], bend = slopes(problem, x, gradient, centre)
            total += gradient
            curve += bend
        means[b], second[b] = total / per_block, curve / per_block

    pooled = first.reshape(-1, centre.size)
    f = MeasuredLimit(*mean_and_error(pooled), model.population_drift(centre))

    def bilinear(p: np.ndarray, q: np.ndarray) -> np.ndarray:
        return 0.25 * (slopes(problem, x, p + q, centre)[1] - slopes(problem, x, p - q, centre)[1])

    # grad Phi from other blocks than the gradient beside it: no bias of order P/samples
    others = (means.sum(0) - means) / (blocks - 1)
    square = np.stack([bilinear(means[b], others[b]) for b in range(blocks)])
    corrector = 0.5 * problem.delta * (second - square)
    g = MeasuredLimit(*mean_and_error(corrector), model.corrector(centre))

    by_block = np.stack([np.atleast_2d(np.cov(first[b].T)) for b in range(blocks)])
    sigma = MeasuredLimit(*mean_and_error(by_block), model.covariance(centre))
    names = tuple(_flat_names(model))
    return EffectiveCheck(f, g, sigma, names, 2.0 * problem.delta / max(model.step, 1e-300) if allowance is None else allowance)


def _flat_names(model: EffectiveModel) -> list[str]:
    """A name for each entry of the flat vector, e.g. R[0,1]."""
    names = []
    for name, shape in model.layout.shapes.items():
        for i in np.ndindex(*shape):
            if name not in model.layout.symmetric or i[0] <= i[1]:
                names.append(name + (f"[{','.join(map(str, i))}]" if i else ""))
    return names
