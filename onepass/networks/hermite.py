"""Hermite toolkit: coefficients of a link function, its information and its generative exponent.

He_n are the probabilists' polynomials, h_n = He_n/sqrt(n!) orthonormal under N(0, 1). A link y = g(z) has
    information exponent: the smallest n >= 1 with E[g h_n] != 0. One-pass SGD that uses every sample once needs d
    (n = 1), d log d (2) or d^(n-1) steps (Ben Arous, Gheissari, Jagannath 2021);
    generative exponent: the smallest n >= 1 with E[T(y) h_n] != 0 for some transformation T of the labels, that is with
    E[h_n | y] not 0 (Damian et al. 2024). SGD that uses a sample twice in a row works with transformed labels (Dandi et
    al. 2024).
Links of several directions, and the order in which these are learnt: exponents.py.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dmft.core.errors import RunError

CELLS = 50
_FINE = np.linspace(-9.0, 9.0, 36001)
_FINE_WEIGHTS = np.exp(-0.5 * _FINE**2) / np.exp(-0.5 * _FINE**2).sum()


def hermite_polynomials(x: np.ndarray, order: int) -> np.ndarray:
    """h_0, ..., h_order at x, (order + 1, *x.shape)."""
    h = np.ones((order + 1,) + np.shape(x))
    if order > 0:
        h[1] = x
    for n in range(2, order + 1):
        h[n] = (x * h[n - 1] - np.sqrt(n - 1.0) * h[n - 2]) / np.sqrt(n)
    return h


def _values(link: Callable, x: np.ndarray) -> np.ndarray:
    values = np.array([float(link(value)) for value in x])
    if not np.isfinite(values).all():
        raise RunError(f"link {getattr(link, '__name__', link)}: not finite on [-9, 9]; its averages over normals do not exist")
    return values


def hermite_coefficients(link: Callable[[float], float], order: int = 10) -> np.ndarray:
    """E[g(z) h_n(z)] for n = 0, ..., order. Accurate to about 1e-4 for links with jumps and kinks, to rounding for smooth ones."""
    return hermite_polynomials(_FINE, order) @ (_FINE_WEIGHTS * _values(link, _FINE))


def information_exponent(link: Callable[[float], float], order: int = 10, tolerance: float = 1e-3) -> int:
    """Smallest n >= 1 whose coefficient is above `tolerance` times the root mean square of g - E[g]."""
    c = hermite_coefficients(link, order)
    square = _FINE_WEIGHTS @ _values(link, _FINE) ** 2
    spread = np.sqrt(max(square - c[0] ** 2, 0.0))
    rounding = 1e-12 * np.sqrt(square)  # the spread of a constant link is rounding alone
    return _first(np.abs(c[1:]) > max(tolerance * spread, rounding), order, "information", link)


def generative_exponent(link: Callable[[float], float], order: int = 10, tolerance: float = 0.02) -> int:
    """Smallest n >= 1 with E[h_n | y] != 0: the labels of a fine grid are sorted into CELLS of equal probability, and
    E[E[h_n | cell]^2]^(1/2), a number between 0 and 1, must exceed `tolerance` (the grid leaves about 0.002)."""
    z = np.linspace(-9.0, 9.0, 360001)
    weights = np.exp(-0.5 * z**2)
    weights /= weights.sum()
    cell = cells_of(_values(link, z), weights, CELLS)
    mass = np.bincount(cell, weights, CELLS)
    sums = np.stack([np.bincount(cell, row * weights, CELLS) for row in hermite_polynomials(z, order)[1:]])
    power = np.sum(sums**2 / np.where(mass > 0, mass, 1.0), axis=1)
    return _first(np.sqrt(power) > tolerance, order, "generative", link)


def cells_of(y: np.ndarray, weights: np.ndarray, cells: int) -> np.ndarray:
    """Number of the cell of each label y (n,), cells of equal probability. Equal labels (the two sides of an even link) must fall
    into one cell: cuts lie between different values only."""
    ranked = np.argsort(y, kind="stable")
    below = np.cumsum(weights[ranked])
    rounded = np.round(y[ranked] / max(np.abs(y).max(), 1e-300), 9)
    cell = np.empty(len(y), int)
    cell[ranked] = np.minimum((below[np.searchsorted(rounded, rounded)] * cells).astype(int), cells - 1)
    return cell


def _first(found: np.ndarray, order: int, kind: str, link: Callable) -> int:
    if not found.any():
        name = getattr(link, "__name__", str(link))
        raise RunError(f"link {name}: no {kind} exponent up to order {order}; it is constant, or take a higher order")
    return int(np.argmax(found)) + 1
