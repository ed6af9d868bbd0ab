"""Means with errors compared: z, what chance makes of so many of them, and the limit of large sizes by extrapolation.

The bound of a batch holds for all of its numbers together: with `CHANCE` = 1e-3 one batch in a thousand fails without a reason,
however many cases it has. A case's share is CHANCE/cases, a number's share of that is 1/numbers (Bonferroni; correlations between
the numbers of a case only make it rarer). Errors are measured, so that |z| obeys Student's law with Welch's degrees of freedom;
it is told as the |z| of a normal number that is exceeded as rarely.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import stats

CHANCE = 1e-3
# Simulations hold their data in single precision: relative differences below this carry no information.
ROUNDING = 2e-6


class Estimate(NamedTuple):
    """Means (..,) of independent values, their variances, and how many values there are."""

    mean: np.ndarray
    variance: np.ndarray
    count: int

    @classmethod
    def of(cls, values: np.ndarray) -> Estimate:
        """From values (count, ..)."""
        return cls(values.mean(axis=0), values.var(axis=0, ddof=1) / len(values), len(values))


def extrapolated(small: Estimate, large: Estimate, factor: float) -> list[tuple[float, Estimate]]:
    """The limit of infinite size as terms (weight, estimate): sizes S and factor S, corrections c/S + O(1/S^2). The first order
    cancels in (factor x_large - x_small) / (factor - 1)."""
    return [(factor / (factor - 1.0), large), (-1.0 / (factor - 1.0), small)]


def mean_of(terms: list[tuple[float, Estimate]]) -> np.ndarray:
    return sum((weight * estimate.mean for weight, estimate in terms), np.zeros(()))


def gaps(ours: list[tuple[float, Estimate]], theirs: list[tuple[float, Estimate]]) -> np.ndarray:
    """|z| (..,) of two sums of independent estimates, each told as that of a normal number; NaN counts as infinite."""
    terms = [*ours, *((-weight, estimate) for weight, estimate in theirs)]
    scale = 1.0 + sum(abs(weight * estimate.mean) for weight, estimate in terms)
    parts = [(weight**2 * estimate.variance, estimate.count) for weight, estimate in terms]
    variance = sum(part for part, _ in parts) + (ROUNDING * scale) ** 2
    # the variance of rounding is known, and adds nothing to the uncertainty of the variance
    doubt = sum(part**2 / max(count - 1, 1) for part, count in parts)
    freedom = np.minimum(variance**2 / np.maximum(doubt, 1e-300), 1e9)
    z = np.abs(mean_of(terms)) / np.sqrt(variance)
    found = stats.norm.isf(np.maximum(stats.t.sf(z, freedom), 1e-300))
    return np.where(np.isfinite(z), np.maximum(found, 0.0), np.inf)


def corrected(z: float, numbers: int) -> float:
    """The largest |z| of so many numbers as the |z| of one number that is exceeded as rarely."""
    return float(max(stats.norm.isf(min(numbers * stats.norm.sf(z), 0.5)), 0.0)) if np.isfinite(z) else np.inf


def bound(cases: int, chance: float = CHANCE) -> float:
    """|z| of a case, corrected for its numbers, that one of so many cases exceeds by chance with this probability."""
    return float(stats.norm.isf(chance / 2.0 / cases))


@dataclass(frozen=True)
class Finding:
    """What a judge found in a case: the largest difference, in units of what it may be (`limit` of them), and where."""

    size: float
    limit: float
    where: str
    numbers: int
    left_out: str = ""      # why the case could not be judged

    @property
    def failed(self) -> bool:
        return not self.left_out and not self.size <= self.limit


def left_out(reason: str) -> Finding:
    return Finding(0.0, np.inf, "", 0, reason)


def largest(z: dict[str, np.ndarray], limit: float) -> Finding:
    """The largest of some |z| by name, corrected for their number."""
    numbers = sum(array.size for array in z.values())
    name = max(z, key=lambda name: z[name].max(initial=0.0))
    place = np.unravel_index(int(z[name].argmax()), z[name].shape)
    return Finding(corrected(float(z[name].max()), numbers), limit, f"{name}{[int(k) for k in place]}", numbers)
