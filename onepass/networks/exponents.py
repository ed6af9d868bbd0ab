"""Exponents of teachers with several directions, y = g(z_1, ..., z_k), z ~ N(0, 1): the order in which SGD learns them.

Once the directions of a subspace U are learnt, SGD sees the others through the conditional averages E[g h_n(z_perp) | z_U], tensors
of degree n in them. The smallest n at which they do not vanish is the exponent of the next leap; what is learnt then is the span of
these tensors. The steps of a leap are those of an information exponent: d (n = 1), d log d (2), d^(n-1) (more). The largest of
them is the leap exponent (Abbe et al. 2023), the first one the information exponent. With labels that may be transformed (samples
used more than once) g becomes the indicator of any set of labels: then the first leap is the generative exponent. Spans do not
depend on the basis: the link is rotated so that directions known come first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations_with_replacement, product
from math import factorial
from typing import Any, NamedTuple

import numpy as np

from dmft.core.errors import RunError
from onepass.networks.hermite import cells_of, hermite_polynomials

GRID_NODES = {1: 20000, 2: 600, 3: 120, 4: 36}  # in each direction, by their number: even, so that none lies on a jump at 0
LABEL_CELLS = 12        # sets of labels whose indicators are looked at
SMALLEST = 2e-3         # of a tensor, over the root mean square of g - E[g]; and no less than three times what the grids differ by

Link = Callable[[np.ndarray], np.ndarray]       # (n, k) -> (n,)


class Leap(NamedTuple):
    """One step of the staircase: its exponent, and the directions (count, k), orthonormal, that it teaches."""

    exponent: int
    directions: np.ndarray

    def __str__(self) -> str:
        steps = {1: "d", 2: "d log d"}.get(self.exponent, f"d^{self.exponent - 1}")
        return f"exponent {self.exponent}, {steps} steps: " + ", ".join(_combination(row) for row in self.directions)


class Staircase(NamedTuple):
    """The leaps, in their order, and the directions (count, k) not learnt up to the order looked at, or too faintly for the
    grids to tell (transformed labels of four directions, above all)."""

    leaps: list[Leap]
    unseen: np.ndarray

    @property
    def first(self) -> int:
        """Information (or generative) exponent."""
        return self.leaps[0].exponent

    @property
    def leap(self) -> int:
        """The leap exponent."""
        return max(leap.exponent for leap in self.leaps)


def _combination(row: np.ndarray) -> str:
    """A direction in words: "u1", or "0.71 u1 - 0.71 u2"."""
    row = row * np.sign(row[np.argmax(np.round(np.abs(row), 6))])
    if np.abs(row).max() > 1.0 - 1e-3:
        return f"u{int(np.argmax(row)) + 1}"
    return " ".join(f"{value:+.2f} u{i + 1}" for i, value in enumerate(row) if abs(value) > 1e-2).lstrip("+")


def _grids(k: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Two grids on a line, (nodes,) and weights, of which one lies between the points of the other."""
    if k not in GRID_NODES:
        raise RunError(f"teacher_width = {k}: exponents are computed for up to {max(GRID_NODES)} directions")
    step = 16.0 / GRID_NODES[k]
    for shift in (0.5, 0.75):
        x = -8.0 + step * (np.arange(GRID_NODES[k]) + shift)
        weights = np.exp(-0.5 * x * x)
        yield x, weights / weights.sum()


def _coefficients(values: np.ndarray, x: np.ndarray, weights: np.ndarray, order: int) -> np.ndarray:
    """E[g h_a1(z_1) ... h_ak(z_k)], (order + 1,)*k, from values (nodes,)*k."""
    h = hermite_polynomials(x, order) * weights
    for axis in range(values.ndim):
        values = np.moveaxis(np.tensordot(h, values, axes=(1, axis)), 0, axis)
    return values


def _on_grids(link: Link, k: int, basis: np.ndarray, order: int, cells: int) -> list[np.ndarray]:
    """For each of the two grids the coefficients (functions, (order + 1,)*k) in coordinates along the rows of `basis`, of the link
    in units of its spread, or with cells > 0 of the indicators of that many sets of labels, in units of theirs."""
    found = []
    for x, weights in _grids(k):
        points = np.stack(np.meshgrid(*[x] * k, indexing="ij"), -1).reshape(-1, k) @ basis
        w = weights
        for _ in range(k - 1):
            w = np.multiply.outer(w, weights)
        y = link(np.ascontiguousarray(points))
        if not np.isfinite(y).all():
            raise RunError("link: not finite on [-8, 8]; its averages over normals do not exist")
        shape, w = (len(x),) * k, w.ravel()
        spread = np.sqrt(max(w @ y**2 - (w @ y) ** 2, 0.0))
        if spread <= 1e-7 * np.abs(y).max():
            raise RunError("link: constant, a teacher without direction; there is nothing to learn")
        if not cells:
            functions = [y / spread]
        else:
            cell = cells_of(y, w, cells)
            mass = np.bincount(cell, w, cells)
            functions = [(cell == c) / np.sqrt(mass[c]) for c in range(cells) if mass[c] > 0]
        found.append(np.stack([_coefficients(f.reshape(shape), x, weights, order) for f in functions]))
    return found


def _tensors(coefficients: np.ndarray, known: int, degree: int) -> np.ndarray:
    """The tensors of that degree in the unknown coordinates, as one matrix (unknown, all others): entries c_alpha (alpha!/n!)^(1/2)
    for every set of indices, every function and every degree in the known coordinates."""
    k = coefficients.ndim - 1
    unknown = range(known, k)
    order = coefficients.shape[-1]
    rows = np.zeros((k - known, 0))
    for indices in product(unknown, repeat=degree - 1):
        columns = []
        for first in unknown:
            alpha = [(first, *indices).count(i) for i in unknown]
            weight = np.sqrt(np.prod([factorial(n) for n in alpha]) / factorial(degree))
            # degrees in the known coordinates beyond what is left of the order are rough on any grid
            place: Any = (slice(None), *([slice(0, max(order - degree, 1))] * known), *alpha)
            picked = coefficients[place]
            columns.append(weight * picked.ravel())
        rows = np.concatenate([rows, np.stack(columns)], axis=1)
    return rows


def _along_axes(directions: np.ndarray) -> np.ndarray:
    """Another orthonormal basis (count, k) of the span of `directions`, along the axes as far as these lie in it: the span alone
    has a meaning."""
    left, found = directions.T @ directions, []
    for _ in directions:
        i = int(np.argmax(np.round(np.diagonal(left), 9)))
        found.append(left[i] / np.linalg.norm(left[i]))
        left = left - np.outer(found[-1], found[-1])
    return np.array(found).reshape(directions.shape)


def staircase(link: Link, k: int, order: int = 5, transformed: bool = False) -> Staircase:
    """The leaps by which SGD learns y = link(z), z (n, k). transformed: labels may be transformed (generative exponents)."""
    basis, leaps, known = np.eye(k), [], 0
    while known < k:
        one, other = _on_grids(link, k, basis, order, LABEL_CELLS if transformed else 0)
        for degree in range(1, order + 1):
            tensors, gap = _tensors(0.5 * (one + other), known, degree), _tensors(one - other, known, degree)
            left, sizes, _ = np.linalg.svd(tensors, full_matrices=True)
            seen = sizes > max(SMALLEST, 3.0 * float(np.linalg.norm(gap)))
            if seen.any():
                count = int(seen.sum())
                found = left.T @ basis[known:]
                basis = np.concatenate([basis[:known], _along_axes(found[:count]), _along_axes(found[count:])])
                leaps.append(Leap(degree, basis[known : known + count].copy()))
                known += count
                break
        else:
            break
    if not leaps:
        raise RunError(f"no exponent up to order {order}; take a higher order")
    return Staircase(leaps, basis[known:])


def multi_index_exponent(link: Link, width: int, order: int = 6) -> tuple[int, list[tuple[int, ...]]]:
    """Information exponent of y = g(z_1, ..., z_width): the smallest total degree with a coefficient that is not 0, and the
    products of that degree that have one: (0, 0, 1) stands for h_2(z_0) h_1(z_1). Up to four directions."""
    one, other = (each[0] for each in _on_grids(link, width, np.eye(width), order, 0))
    for degree in range(1, order + 1):
        found = []
        for directions in combinations_with_replacement(range(width), degree):
            alpha = tuple(directions.count(i) for i in range(width))
            if abs(one[alpha] + other[alpha]) > 2.0 * max(SMALLEST, 3.0 * abs(one[alpha] - other[alpha])):
                found.append(directions)
        if found:
            return degree, found
    raise RunError(f"no information exponent up to order {order}; the link is constant, or take a higher order")
