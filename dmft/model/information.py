"""How much a label tells of the teacher's field to a student who already knows w0 up to an overlap q, and the least error of any
prediction of it: what the channels of the package give to Bayes-optimal learning (dmft/statics/bayes.py has the notation).

    qh(q)/alpha = E[g^2] ,   g = (E[h0 | omega, y] - omega)/V ,   V = 1 - q ,   h0 ~ N(omega, V) ,   omega ~ N(0, q) .
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy  # its parts load when they are used

Information = Callable[[float], float]  # q -> qh(q)/alpha
FIELD_REACH, FIELD_PANEL, FIELD_NODES = 10.0, 1.0, 10  # quadrature over a standard normal: range, width and nodes of panels


def standard_normal(panel: float = FIELD_PANEL, count: int = FIELD_NODES) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of a standard normal, in panels with an end at 0."""
    ends = np.arange(-FIELD_REACH, FIELD_REACH + panel / 2, panel)
    nodes, weights = np.polynomial.legendre.leggauss(count)
    x = (ends[:-1, None] + 0.5 * panel * (nodes + 1.0)).ravel()
    return x, np.tile(0.5 * panel * weights, len(ends) - 1) * np.exp(-0.5 * x**2) / np.sqrt(2.0 * np.pi)


def of_sign(q: float, noise: float, flip: float) -> float:
    """y = sign(h0 + noise), flipped with probability p: Z(y) = p + (1-2p) Phi(y omega/sqrt(V + Delta))."""
    wide = max(1.0 - q + noise, 1e-300)
    omega, weight = _near_zero(q, wide)
    t = omega / np.sqrt(wide)
    bump = ((1.0 - 2.0 * flip) * np.exp(-0.5 * t**2)) ** 2 / (2.0 * np.pi * wide)
    return float(weight @ sum(bump / (flip + (1.0 - 2.0 * flip) * scipy.special.ndtr(sign * t)) for sign in (1.0, -1.0)))


def _near_zero(q: float, wide: float) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of omega ~ N(0, q) for what lives at |omega| < 10 sqrt(wide)."""
    x, weight = standard_normal()
    scale = min(np.sqrt(wide / max(q, 1e-300)), 1.0)
    return np.sqrt(q) * scale * x, weight * scale * np.exp(0.5 * x**2 * (1.0 - scale**2))


def of_magnitude(q: float) -> float:
    """y = |h0| exactly: E[h0 | omega, y] = y tanh(y omega/V), and what is left of its variance is y^2/cosh^2."""
    V = 1.0 - q
    omega, weight = _near_zero(q, V)
    x, own = standard_normal()
    y = omega[:, None] + np.sqrt(V) * x
    left = weight @ (y / np.cosh(np.minimum(np.abs(y * omega[:, None]) / V, 300.0))) ** 2 @ own
    return (V - float(left)) / V**2


def of_noisy_magnitude(q: float, noise: float) -> float:
    """y = |h0| + noise: given omega and y, h0 is Gaussian on either half line. What is left of its variance beyond that of a
    Gaussian label, V Delta/(V + Delta), lives near omega = 0."""
    V = 1.0 - q
    wide, floor = V + noise, V * noise / (V + noise)
    sd = np.sqrt(floor)
    omega, weight = (array[len(array) // 2:] for array in _near_zero(q, wide))  # even in omega: one half, twice
    omega, weight = omega[:, None], 2.0 * weight
    x, own = standard_normal(1.0 if noise > 0.1 * V else 0.25)
    left = 0.0
    for branch in (1.0, -1.0):  # y is drawn as if h0 were on one half line for sure, and weighted by the chance that it is
        y = branch * omega + np.sqrt(wide) * x
        Z, first, second = np.zeros(y.shape), np.zeros(y.shape), np.zeros(y.shape)
        for side in (1.0, -1.0):
            mean = (side * omega * noise + y * V) / wide
            height = np.exp(0.5 * ((y - branch * omega) ** 2 - (y - side * omega) ** 2) / wide)  # over that of the branch
            bump, share = sd * np.exp(-0.5 * (mean / sd) ** 2) / np.sqrt(2.0 * np.pi), scipy.special.ndtr(mean / sd)
            Z += height * share
            first += side * height * (mean * share + bump)
            second += height * ((mean**2 + floor) * share + mean * bump)
            if side == branch:
                chosen = share
        Z = np.maximum(Z, 1e-300)
        left += float(weight @ (chosen * (second / Z - (first / Z) ** 2 - floor)) @ own)
    return (V - floor - left) / V**2


def least_magnitude_error(q: float) -> float:
    """The least mean square error of a prediction of |h0|."""
    V = 1.0 - q
    x, weight = standard_normal()
    if V <= 0:
        return 0.0
    omega = np.sqrt(q) * x
    mean = np.sqrt(2.0 * V / np.pi) * np.exp(-0.5 * omega**2 / V) + omega * (1.0 - 2.0 * scipy.special.ndtr(-omega / np.sqrt(V)))
    return float(1.0 - weight @ mean**2)
