"""Fixed points of the spiked tensor's ballistic dynamics, their stability, and the critical signal.

A fixed point with m != 0 is determined by rho = R^2: with K = k rho^{k-1} the second equation gives r2 = c K/(K + beta), so
m^2 = rho - r2, and the first gives lambda = (K + beta)/(k m^{k-2}). For k >= 3 without ridge lambda(rho) falls from infinity
to its minimum lambda_c and rises again: two fixed points, m_dagger (unstable) below and m_star (stable) above; with ridge
there may be more. For k = 2 there is one, rho = lambda - beta/2. For even k their mirror images are fixed points too; for
odd k there is none with m < 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy  # loads its parts when they are first used

from onepass.spiked.parameters import SpikedParameters


@dataclass(frozen=True)
class FixedPoint:
    """A fixed point (m, r2), the eigenvalues of the linearised dynamics there, and whether it attracts."""

    name: str
    m: float
    r2: float
    eigenvalues: np.ndarray
    stable: bool


def _branch(model: SpikedParameters, rho: float) -> tuple[float, float, float]:
    """(m, r2, lambda) of the fixed point with R^2 = rho; m = 0 and lambda = inf where rho is below r2."""
    k = model.order
    K = k * rho ** (k - 1)
    r2 = model.step * K / (K + model.ridge) if K > 0.0 else model.step
    square = rho - r2
    if square <= 0.0:
        return 0.0, r2, np.inf
    m = np.sqrt(square)
    return m, r2, (K + model.ridge) / (k * m ** (k - 2))


def critical_signal(model: SpikedParameters) -> float:
    """lambda_c: the smallest signal with a stable fixed point m != 0.

    Without ridge c^{k/2} ((2k-2)/k)^{k-1} (k/(k-2))^{(k-2)/2}, taken at m^2 = c (k-2)/k, and c for k = 2."""
    k, c = model.order, model.step
    if k == 2:
        return max(c, 0.5 * model.ridge)
    if model.ridge == 0.0:
        return c ** (k / 2.0) * ((2.0 * k - 2.0) / k) ** (k - 1) * (k / (k - 2.0)) ** ((k - 2.0) / 2.0)

    def signal_if_stable(rho: float) -> float:
        m, r2, signal = _branch(model, rho)
        if not np.isfinite(signal):
            return np.inf
        return signal if _eigenvalues(replace(model, signal=signal), m, r2).real.max() < 0.0 else np.inf

    grid = _grid(model)
    i = int(np.clip(np.argmin([signal_if_stable(rho) for rho in grid]), 1, grid.size - 2))
    best = scipy.optimize.minimize_scalar(lambda rho: _branch(model, rho)[2], bounds=(grid[i - 1], grid[i + 1]), method="bounded")
    return float(best.fun)


def _grid(model: SpikedParameters) -> np.ndarray:
    """Values of rho between which lambda(rho) is monotone: from far below to far above the scales of c, beta and lambda."""
    k, c = model.order, model.step
    top = max(c, (model.ridge / k) ** (1.0 / (k - 1)), model.signal ** (2.0 / k), 1e-6)
    grid = np.geomspace(1e-6 * top, 10.0 * top, 4001)
    return np.union1d(grid, [c * (2.0 * k - 2.0) / k, c * (1.0 + 1e-9)]) if c > 0.0 else grid


def informative(model: SpikedParameters) -> list[tuple[float, float]]:
    """(m, r2) of the fixed points with m > 0, in rising order of R."""
    if model.order == 2:
        if model.signal <= critical_signal(model):
            return []
        return [_branch(model, model.signal - 0.5 * model.ridge)[:2]]

    def gap(rho: float) -> float:
        value = _branch(model, rho)[2]
        return np.log(value / model.signal) if np.isfinite(value) else 700.0

    grid = _grid(model)
    gaps = np.array([gap(rho) for rho in grid])
    crossings = np.flatnonzero(gaps[:-1] * gaps[1:] < 0.0)
    return [_branch(model, scipy.optimize.brentq(gap, grid[i], grid[i + 1], xtol=1e-15, rtol=8.9e-16))[:2] for i in crossings]


def _radii(model: SpikedParameters) -> list[float]:
    """Values of r2 > 0 of the fixed points with m = 0: k r^{k-2} (c - r) = beta."""
    k, c = model.order, model.step
    coefficients = np.zeros(k)  # -k r^{k-1} + k c r^{k-2} - beta, highest power first
    coefficients[0], coefficients[1] = -k, k * c
    coefficients[-1] -= model.ridge
    roots = np.roots(coefficients)
    real = sorted(float(r.real) for r in roots if abs(r.imag) < 1e-9 * (1 + abs(r)) and r.real > 1e-12 * max(c, 1.0))
    return real


def fixed_points(model: SpikedParameters) -> list[FixedPoint]:
    """All fixed points, mirror images included: "origin", "uninformative" (m = 0), and among those with m != 0 "m_star"
    where stable and "m_dagger" where not. At the origin the linearisation vanishes for k >= 3 without ridge; there
    r2' = 4 k c r2^{k-1} > 0 still repels."""
    places = [("origin", 0.0, 0.0)] + [("uninformative", 0.0, r2) for r2 in _radii(model)]
    for m, r2 in informative(model):
        places += [("", m, r2)] + ([("", -m, r2)] if model.order % 2 == 0 else [])
    points = []
    for name, m, r2 in places:
        values = _eigenvalues(model, m, r2)
        stable = bool(values.real.max() < 0.0)
        points.append(FixedPoint(name or ("m_star" if stable else "m_dagger"), float(m), float(r2), values, stable))
    return points


def _eigenvalues(model: SpikedParameters, m: float, r2: float) -> np.ndarray:
    """Eigenvalues of the derivatives of (m', r2') with respect to (m, r2), by rising real part."""
    k, square = model.order, m * m + r2
    power, slope = square ** (k - 1), (k - 1) * square ** (k - 2)  # d power/d r2; d power/d m = 2 m slope
    rise = (k - 1) * model.signal * (m ** (k - 2) if k > 2 else 1.0)
    jacobian = np.array(
        [
            [2 * k * (rise - power - 2 * m * m * slope) - 2 * model.ridge, -2 * k * m * slope],
            [-8 * k * m * slope * (r2 - model.step), -4 * k * (power + slope * (r2 - model.step)) - 4 * model.ridge],
        ]
    )
    values = np.linalg.eigvals(jacobian)
    return values[np.argsort(values.real)]
