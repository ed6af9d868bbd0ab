"""What the scatter of m(0) does to m(t): warm starts at order 1/sqrt(N), for `start_overlap = "iid"`. Eq. [start-law].

Given m(0) the i.i.d. start *is* the exact one with that overlap: the rest of w is normal to w0, of fixed norm and in no direction
more than in another. So at any N the law of m(t) is that of exact starts, mixed over the law of m(0). To leading order this needs
the first two derivatives of m(t) by m0, which solutions at m0 and m0 +- step give, with the same random numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dmft.core.averages import mean_and_error
from dmft.core.errors import RunError, UserError
from dmft.model.data import make_constraint, make_start
from dmft.model.runfile import Run
from dmft.model.starts import Warm
from dmft.running.runner import solve

START_STEP = 0.05


@dataclass(frozen=True)
class StartLaw:
    """m(t), its slope dm/dm0 and its curvature d2m/dm0^2 over t, each (n+1,), with standard errors over replicas."""

    m0: float
    t: np.ndarray
    m: np.ndarray
    m_error: np.ndarray
    slope: np.ndarray
    slope_error: np.ndarray
    curvature: np.ndarray
    curvature_error: np.ndarray

    def spread(self, dimension: int) -> np.ndarray:
        """Standard deviation of m(t) that comes from the scatter of m(0) at N, to leading order: its square is what an i.i.d. start
        adds to the variance over runs with the exact start."""
        return np.abs(self.slope) * np.sqrt((1.0 - self.m0**2) / dimension)  # [start-law]

    def shift(self, dimension: int) -> np.ndarray:
        """What an i.i.d. start adds to the mean of m(t) at N, to order 1/N: the mean of m(0) is m0 (1 - 1/N), and m(t) is curved
        in m0."""
        return (0.5 * (1.0 - self.m0**2) * self.curvature - self.m0 * self.slope) / dimension  # [start-law]

    def shift_error(self, dimension: int) -> np.ndarray:
        """Its standard error, if slope and curvature err independently."""
        return np.hypot(0.5 * (1.0 - self.m0**2) * self.curvature_error, self.m0 * self.slope_error) / dimension


def start_law(run: Run, step: float = START_STEP, quiet: bool = False) -> StartLaw:
    """The law of m(t) from a warm start, by three solutions, at m0 and m0 +- step. UserError for other starts, and for a
    ridge, whose start is i.i.d. already and scatters in its norm, too."""
    if run.has_network:
        raise UserError("[network]: the scatter of m(0) is known for a single unit alone")
    start = make_start(run.problem)
    if start.random or start.spectral:
        raise UserError(f'[problem] start = "{start.name}": the scatter of m(0) is known for start = "warm" alone; '
                        "dmft escape is made for random ones")
    constraint, m0 = make_constraint(run.problem), start.overlap
    if not constraint.fixes_norm:
        raise UserError(f'[problem] constraint = "{constraint.name}": the scatter of m(0) is known for the sphere alone; '
                        "take another constraint")
    if not 0.0 < step < 1.0 - abs(m0):
        raise RunError(f"step = {step:g}: m0 +- step must lie between -1 and 1; take one below {1.0 - abs(m0):g}")
    low, middle, high = (solve(run.replace(start=Warm(m0 + k * step), target_error=0.0), quiet=quiet) for k in (-1, 0, 1))
    good = low.averaged & middle.averaged & high.averaged
    m = [theory.replicas["m"][good] for theory in (low, middle, high)]
    slope = mean_and_error((m[2] - m[0]) / (2.0 * step))
    curvature = mean_and_error((m[2] - 2.0 * m[1] + m[0]) / step**2)
    return StartLaw(m0, middle.t, *mean_and_error(m[1]), *slope, *curvature)
