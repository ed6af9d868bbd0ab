"""Population risk of one quadratic unit against one (Arnaboldi et al., appendix G, corrected), x ~ N(0, I_d).

w and w* in R^d with |w|^2 = q, |w*|^2 = rho, w.w* = m; loss ((w.x)^2 - y)^2/2, y = (w*.x)^2 + sqrt(Delta) z. With
x ~ N(0, I/d) and vectors of norm sqrt(d), gradients and Hessians are smaller by 1/d (outer products by 1/d^2).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


def risk(w: np.ndarray, w_star: np.ndarray, noise: float = 0.0) -> float:
    """R = Delta/2 + (3 rho^2 + 3 q^2 - 4 m^2 - 2 rho q)/2."""
    q, rho, m = w @ w, w_star @ w_star, w @ w_star
    return float(noise / 2.0 + 0.5 * (3 * rho**2 + 3 * q**2 - 4 * m**2 - 2 * rho * q))


def gradient(w: np.ndarray, w_star: np.ndarray) -> np.ndarray:
    """-2 ((rho - 3 q) w + 2 m w*)."""
    return -2.0 * ((w_star @ w_star - 3.0 * (w @ w)) * w + 2.0 * (w @ w_star) * w_star)


def hessian(w: np.ndarray, w_star: np.ndarray) -> np.ndarray:
    """2 (-(rho - 3 q) 1 + 6 w w^T - 2 w* w*^T)."""
    shift = 3.0 * (w @ w) - w_star @ w_star
    return 2.0 * (shift * np.eye(len(w)) + 6.0 * np.outer(w, w) - 2.0 * np.outer(w_star, w_star))


class CriticalPoint(NamedTuple):
    """A critical point: name, one representative (d,), its excess risk, eigenvalues with multiplicities."""

    name: str
    w: np.ndarray
    excess: float
    spectrum: list[tuple[float, int]]


def critical_points(w_star: np.ndarray) -> list[CriticalPoint]:
    """All of them: the origin (a maximum along every direction), the (d-2)-sphere of w orthogonal to w* with
    q = rho/3 (saddles), and w = +-w* (minima)."""
    d, rho = len(w_star), float(w_star @ w_star)
    across = np.zeros(d)
    across[np.argmin(np.abs(w_star))] = 1.0
    across -= (across @ w_star) / rho * w_star
    across *= np.sqrt(rho / 3.0) / np.linalg.norm(across)
    return [
        CriticalPoint("origin", np.zeros(d), 1.5 * rho**2, [(-6.0 * rho, 1), (-2.0 * rho, d - 1)]),
        CriticalPoint("orthogonal", across, 4.0 / 3.0 * rho**2, [(-4.0 * rho, 1), (0.0, d - 2), (4.0 * rho, 1)]),
        CriticalPoint("teacher", w_star.copy(), 0.0, [(4.0 * rho, d - 1), (12.0 * rho, 1)]),
        CriticalPoint("minus teacher", -w_star, 0.0, [(4.0 * rho, d - 1), (12.0 * rho, 1)]),
    ]


def sphere_risk(m: float, noise: float = 0.0) -> float:
    """On the unit sphere R = 2 (1 - m^2) + Delta/2."""
    return 2.0 * (1.0 - m * m) + noise / 2.0


def sphere_spectrum(d: int, m: float) -> list[tuple[float, int]]:
    """Eigenvalues on the (d-1)-dimensional tangent space: 4 m^2 on d - 2 directions, 4 (2 m^2 - 1) along w*."""
    return sorted([(4.0 * (2.0 * m * m - 1.0), 1), (4.0 * m * m, d - 2)])
