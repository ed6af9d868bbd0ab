"""Hermite toolkit: coefficients of a link function, its information exponent and its generative exponent.

He_n are the probabilists' polynomials, h_n = He_n/sqrt(n!) orthonormal under N(0, 1). A link y = g(z) has
    information exponent: the smallest n >= 1 with E[g h_n] != 0. One-pass SGD that uses every sample once needs d
    (n = 1), d log d (2) or d^(n-1) steps (Ben Arous, Gheissari, Jagannath 2021);
    generative exponent: the smallest n >= 1 with E[T(y) h_n] != 0 for some transformation T of the labels, that is with
    E[h_n | y] not 0 (Damian et al. 2024). SGD that uses a sample twice in a row works with transformed labels (Dandi et
    al. 2024).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations_with_replacement

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
    y = _values(link, z)
    ranked = np.argsort(y, kind="stable")
    below = np.cumsum(weights[ranked])
    # equal labels (the two sides of an even link) must fall into one cell: cut between different values only
    rounded = np.round(y[ranked] / max(np.abs(y).max(), 1e-300), 9)
    cell = np.empty(len(y), int)
    cell[ranked] = np.minimum((below[np.searchsorted(rounded, rounded)] * CELLS).astype(int), CELLS - 1)
    mass = np.bincount(cell, weights, CELLS)
    sums = np.stack([np.bincount(cell, row * weights, CELLS) for row in hermite_polynomials(z, order)[1:]])
    power = np.sum(sums**2 / np.where(mass > 0, mass, 1.0), axis=1)
    return _first(np.sqrt(power) > tolerance, order, "generative", link)


def _first(found: np.ndarray, order: int, kind: str, link: Callable) -> int:
    if not found.any():
        name = getattr(link, "__name__", str(link))
        raise RunError(f"link {name}: no {kind} exponent up to order {order}; it is constant, or take a higher order")
    return int(np.argmax(found)) + 1


def multi_index_coefficients(link: Callable, width: int, degree: int, nodes: int = 41) -> Iterator[tuple[tuple[int, ...], float]]:
    """((directions), E[g(z) h(z)]) for the products of total degree `degree`, directions repeated by their power:
    (0, 0, 1) stands for h_2(z_0) h_1(z_1). `link` takes points (n, width) and gives (n,)."""
    x = np.linspace(-8.0, 8.0, nodes)
    grid = np.stack(np.meshgrid(*[x] * width, indexing="ij"), -1).reshape(-1, width)
    weights = np.exp(-0.5 * np.sum(grid**2, axis=1))
    weights /= weights.sum()
    values = weights * link(grid)
    h = hermite_polynomials(grid, degree)
    for directions in combinations_with_replacement(range(width), degree):
        product = np.ones(len(grid))
        for i in set(directions):
            product = product * h[directions.count(i), :, i]
        yield directions, float(values @ product)


def multi_index_exponent(link: Callable, width: int, order: int = 6, tolerance: float = 1e-3) -> tuple[int, list[tuple[int, ...]]]:
    """Information exponent of y = g(z_1, ..., z_width): the smallest total degree with a coefficient above `tolerance`,
    and the products of that degree that have one. Up to four directions."""
    if width > 4:
        raise RunError(f"teacher_width = {width}: the information exponent is computed for up to 4 directions")
    for degree in range(1, order + 1):
        found = [which for which, value in multi_index_coefficients(link, width, degree) if abs(value) > tolerance]
        if found:
            return degree, found
    raise RunError(f"no information exponent up to order {order}; the link is constant, or take a higher order")
