"""How long one-pass SGD on a spiked matrix or tensor needs to find the spike: exit times, and samples against the dimension.

From a random start sqrt(n) m is of order one, and near m = 0 it obeys a linear SDE (near_zero.py). For matrices, k = 2, with
w = lambda - c > 0 it grows as e^{4wt} G, G normal of variance V = lim e^{-8wt} Var[sqrt(n) m]; r2 has then reached c. On larger
scales noise is negligible, and m follows the ODE m' = 4 m (w - m^2), whose solution from m^2 = G^2/n is known. Stitched together
(the end of section 3 of Ben Arous et al. 2022, there "in principle"), |m| reaches the level b < sqrt(w) at the mean time
    t = [log n + log(b^2 w/(w - b^2)) - log V + gamma_E + log 2]/(8 w),
that is after n t/c steps, n log n/(8 w c) to leading order. For lambda < c there is no exit on this scale. For k >= 3 a start of
order n^{-1/2} is left for a signal Lambda n^{(k-2)/2} alone: after a time of order one, or c^-1 n steps, by a share of runs that
depends on Lambda.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import scipy  # loads its parts when they are first used

from dmft.core.errors import RunError
from onepass.first_passage import measure_exit, overlap_measure
from onepass.spiked.near_zero import SpikedNearZero
from onepass.spiked.tensor import SpikedTensor

CHANCE_Z = 3.0            # a slope further off than so many errors is not the one expected
FEWEST_EXITS = 0.5        # share of runs below which mean times say little


def matrix_exit_time(model: SpikedTensor, dimension: int, level: float, start_variance: float = 1.0, r2: float = 1.0) -> float:
    """Mean time at which |m| reaches the level from sqrt(n) m ~ N(0, start_variance) and r2(0) = r2; infinite for lambda <= c."""
    if model.order != 2 or model.ridge != 0.0:
        raise RunError(f"order = {model.order}, ridge = {model.ridge:g}: exit times are known for matrices without ridge")
    w = model.signal - model.step
    if w <= 0.0:
        return float("inf")
    if not 0.0 < level < np.sqrt(w):
        raise RunError(f"level = {level:g}; |m| ends at {np.sqrt(w):.4g}: take a level between 0 and that")
    square = level**2
    return float((np.log(dimension) + np.log(square * w / (w - square)) - np.log(_variance(model, start_variance, r2))
                  + np.euler_gamma + np.log(2.0)) / (8.0 * w))


def _variance(model: SpikedTensor, start_variance: float, r2: float) -> float:
    """V: d/dt Var = 2 rate Var + noise along r2(t) of the SDE near zero, until r2 is at rest; then the noise still to come."""
    near, w = SpikedNearZero(2, model.signal, model.step), model.signal - model.step

    def slope(t: float, y: np.ndarray) -> np.ndarray:
        x = np.array([1.0, y[1]])
        rate, change = near.drift(x)
        return np.array([2.0 * (rate - 4.0 * w) * y[0] + np.exp(-8.0 * w * t) * near.covariance(x)[0, 0], change])

    rest = 30.0 / (8.0 * min(w, model.step))
    end = scipy.integrate.solve_ivp(slope, (0.0, rest), [start_variance, r2], rtol=1e-9, atol=1e-12)
    return float(end.y[0, -1])


class SpikedEscape(NamedTuple):
    """Steps until |m| reaches a level, per dimension: mean over the runs that did, error, and their share. `slope`: of steps/n
    against log n, with its error; `expected`: the slope of the theory; `verdict` in words."""

    dimensions: np.ndarray
    steps: np.ndarray
    errors: np.ndarray
    share: np.ndarray
    slope: float
    slope_error: float
    expected: float
    verdict: str


def sample_complexity(model: SpikedTensor, dimensions: Sequence[int], level: float, instances: int = 200, t_max: float = 4.0,
                      process: str = "chain", seed: int = 1, diverging: bool = False) -> SpikedEscape:
    """Steps of the exact chain (or of SGD) from random starts, against n, with the fit steps/n = A log n + B and a verdict on A.
    diverging: the signal is Lambda of lambda_n = Lambda n^{(k-2)/2}, and A is expected to be 0: n steps."""
    at = _growing(model) if diverging else lambda n: model
    found = [measure_exit(at(n), n, instances, overlap_measure(level, "m"), t_max, process, None, seed, 1e-3) for n in dimensions]
    n, share = np.asarray(dimensions, float), np.array([one.share for one in found])
    per_time = n / model.step
    steps, errors = (per_time * np.array([getattr(one, name) for one in found]) for name in ("mean", "error"))
    growth = 8.0 * (model.signal - model.step) * model.step
    expected = 0.0 if diverging else (1.0 / growth if model.order == 2 and growth > 0.0 else np.nan)
    if share.min() < FEWEST_EXITS and not diverging:
        verdict = f"not found: {100 * share.max():.0f} % of the runs at most reach |m| = {level:g} by t = {t_max:g}"
        return SpikedEscape(n, steps, errors, share, np.nan, np.nan, expected, verdict)
    design = np.stack([np.log(n), np.ones_like(n)], axis=1) / (errors / n)[:, None]
    covariance = np.linalg.inv(design.T @ design)
    slope, error = float((covariance @ design.T @ (steps / errors))[0]), float(np.sqrt(covariance[0, 0]))
    agrees = abs(slope - expected) < CHANCE_Z * error
    law = "n" if diverging else "n log n"
    verdict = f"{law} steps: slope {slope:.4f} +- {error:.4f}, expected {expected:.4f}" if agrees else \
        f"not {law} as expected: slope {slope:.4f} +- {error:.4f}, expected {expected:.4f}"
    return SpikedEscape(n, steps, errors, share, slope, error, expected, verdict)


def _growing(model: SpikedTensor) -> Callable[[int], SpikedTensor]:
    return lambda n: replace(model, signal=model.signal * float(n) ** (0.5 * (model.order - 2)))
