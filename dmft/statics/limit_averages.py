"""Averages over training samples at the end of gradient descent on a convex loss (limits.py), by quadrature.

A sample has a field omega, Gaussian given its label y, and the mean of k given both. Where labels are signs or belong to clusters
each label is one integral over omega; where they are numbers there is a second integral, over y or over the h0 and the noise that
make it. Integrals over omega run in panels that end where v'' jumps, so that losses with kinks in v' lose no digits.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numba import vectorize
from scipy.special import ndtr

from dmft.model.information import standard_normal
from dmft.model.law import DataModel
from dmft.model.loss import Loss, Scalar
from dmft.model.losses import LINEAR, built_in

OMEGA_PANEL, OMEGA_REACH, OMEGA_NODES = 0.5, 10.0, 16  # width, range in standard deviations, and nodes of the panels of omega
NEWTON = 80  # most steps of Newton's method
KINK_GRID = np.linspace(-12.0, 12.0, 2402) + 1e-4 * np.pi  # fields between which jumps of v'' are searched
NOISE_NODES = 24  # for the noise on the labels of a teacher
AT_ONCE = 200  # labels that are integrated over omega together


class Averages(NamedTuple):
    """Averages over training samples at given m, q, V, b."""

    m_hat: float  # m <D dgh/domega> - <sd k gh>
    squares: float  # <D gh^2>
    stiffness: float  # <D dgh/domega>
    push: float  # <gh>
    push_slope: float  # <dgh/domega>
    loss: float
    wrong: float  # share of wrong labels


class _Part(NamedTuple):
    """Samples of given labels: nodes of omega with weights that add up to their share, and <k | omega, y> (not for clusters)."""

    omega: np.ndarray
    weight: np.ndarray
    y: np.ndarray
    D: float
    k: np.ndarray | None
    c: float


class _Functions(NamedTuple):
    """The functions of a loss, elementwise on arrays."""

    v: Scalar
    dv: Scalar
    d2v: Scalar


@lru_cache
def functions(loss: Loss) -> _Functions:
    """The functions of a loss for arrays: those of the package take them as they are; a user's may branch on a number, and are
    vectorised."""
    if built_in(loss.name):
        return _Functions(loss.v, loss.dv, loss.d2v)

    def elementwise(scalar: Scalar) -> Scalar:
        return vectorize(nopython=True)(lambda f, y: scalar(f, y))

    return _Functions(elementwise(loss.v), elementwise(loss.dv), elementwise(loss.d2v))


def averages(data: DataModel, m: float, q: float, V: float, b: float) -> Averages:
    """Everything that the static equations need."""
    if data.channel.moments and data.loss is LINEAR:
        return _moments(data, m, q, V)
    return integrals(data, m, q, V, b)


def _moments(data: Any, m: float, q: float, V: float) -> Averages:
    """The square loss with labels that are numbers: gh = (omega - y)/(1 + V), so that <k y> and <y^2> are all it takes."""
    ky, yy = data.channel.moments
    yy += data.label_noise
    slope = 1.0 / (1.0 + V)
    squares = slope**2 * (q - 2.0 * m * ky + yy)
    return Averages(m * slope - slope * (m - ky), squares, slope, 0.0, slope, 0.5 * squares, np.nan)


def integrals(data: DataModel, m: float, q: float, V: float, b: float) -> Averages:
    """The averages for any convex loss and any labels, by quadrature."""
    total = np.zeros(7)
    loss, (v, dv, d2v) = data.loss, functions(data.loss)
    for part in _parts(data, m, q, V, b):
        y, DV = part.y, part.D * V
        f = prox(loss, part.omega, y, DV)
        gh, curvature = dv(f, y), d2v(f, y)
        slope = curvature / (1.0 + DV * curvature)
        # <sd k gh> of a cluster is <c gh> + m <D dgh/domega>, by parts in the noise along w0
        m_hat = -part.c * gh if part.k is None else m * slope - part.k * gh
        terms = (m_hat, part.D * gh**2, part.D * slope, gh, slope, v(f, y), 1.0 * loss.is_wrong(f, y))
        total += [np.sum(part.weight * term) for term in terms]
    return Averages(*total)


def _parts(data: Any, m: float, q: float, V: float, b: float) -> Iterator[_Part]:
    """The samples by their labels."""
    if data.clustered:
        for c, probability, label, D in data.clusters:
            omega, weight, y = _nodes(data.loss, np.array([c * m + b]), np.sqrt(D * q), np.array([label]), D * V)
            yield _Part(omega, probability * weight, y, D, None, c)
    elif data.channel.halves:
        yield from _signs(data, m, q, V)
    else:
        yield from _numbers(data, m, q, V)


def _signs(data: Any, m: float, q: float, V: float) -> Iterator[_Part]:
    """k given omega ~ N(0, q) is N(m omega/q, Q/q); the label is the sign of k + sqrt(Delta) zeta, perhaps flipped."""
    left, p = max(q - m**2, 1e-300) / q, data.flip
    spread = np.sqrt(left + data.label_noise)
    for sign in (1.0, -1.0):
        omega, weight, y = _nodes(data.loss, np.zeros(1), np.sqrt(q), np.array([sign]), V)
        mean = m * omega / q
        share = p + (1.0 - 2.0 * p) * ndtr(y * mean / spread)
        bump = left / spread * np.exp(-0.5 * (mean / spread)**2) / np.sqrt(2.0 * np.pi)
        k = p * mean + (1.0 - 2.0 * p) * (mean * ndtr(y * mean / spread) + y * bump)
        yield _Part(omega, weight * share, y, 1.0, k / np.maximum(share, 1e-300), 0.0)


def _numbers(data: Any, m: float, q: float, V: float) -> Iterator[_Part]:
    """Labels that are numbers. y = h0 + noise is Gaussian, and given y so are omega and k; for other labels the integral runs over
    h0 and the noise, given which omega ~ N(m h0, Q)."""
    if data.channel.gaussian:
        wide = 1.0 + data.label_noise
        x, share = standard_normal()
        y, variance = np.sqrt(wide) * x, max(q - m * m / wide, 1e-300)
        k0, centre, tilt = y / wide, m * y / wide, m * (1.0 - 1.0 / wide) / variance
    else:
        h0, share = standard_normal()
        zeta, other = np.polynomial.hermite_e.hermegauss(NOISE_NODES if data.label_noise > 0 else 1)
        h0, zeta = (grid.ravel() for grid in np.meshgrid(h0, np.sqrt(data.label_noise) * zeta, indexing="ij"))
        share = np.outer(share, other / other.sum()).ravel()
        h0, zeta, share = (array[share > 1e-18] for array in (h0, zeta, share))  # a third of the pairs are far out in both
        y = data.channel.label(h0, zeta)
        k0, centre, tilt, variance = h0, m * h0, 0.0, max(q - m * m, 1e-300)
    for first in range(0, len(y), AT_ONCE):
        part = slice(first, first + AT_ONCE)
        omega, weight, labels = _nodes(data.loss, centre[part], np.sqrt(variance), y[part], V)
        k = k0[part, None] + tilt * (omega - centre[part, None])
        yield _Part(omega, share[part, None] * weight, labels, 1.0, k, 0.0)


def _nodes(loss: Loss, centre: np.ndarray, spread: float, y: np.ndarray, DV: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Nodes of omega ~ N(centre, spread^2), weights and labels, (labels, nodes) each, in panels that end where v'' jumps or f
    changes sign. centre, y: (labels,)."""
    grid = np.arange(-OMEGA_REACH, OMEGA_REACH + OMEGA_PANEL / 2, OMEGA_PANEL)
    cuts = [np.append(0.0, kinks(loss, float(label))) for label in y]
    most = max(len(at) for at in cuts)
    fields = np.array([np.append(at, np.zeros(most - len(at))) for at in cuts])  # padded with cuts at 0, which do no harm
    labels = np.broadcast_to(y[:, None], fields.shape).copy()
    x = (fields + DV * functions(loss).dv(fields, labels) - centre[:, None]) / spread
    inside = np.clip(x, -OMEGA_REACH, OMEGA_REACH)
    ends = np.sort(np.concatenate([np.broadcast_to(grid, (len(y), len(grid))), inside], axis=1), axis=1)
    nodes, weights = np.polynomial.legendre.leggauss(OMEGA_NODES)
    half = 0.5 * np.diff(ends)[..., None]
    x = (ends[:, :-1, None] + half * (nodes + 1.0)).reshape(len(y), -1)
    weight = (half * weights).reshape(len(y), -1) * np.exp(-0.5 * x**2) / np.sqrt(2.0 * np.pi)
    return centre[:, None] + spread * x, weight, np.broadcast_to(y[:, None], x.shape).copy()


@lru_cache(maxsize=100_000)
def kinks(loss: Loss, y: float) -> tuple[float, ...]:
    """Fields at which v'' jumps for the label y: those that the loss declares, or those found by a search for a user's loss."""
    if loss.kinks is not None:
        return tuple(y * at for at in loss.kinks)
    d2v = functions(loss).d2v
    values = d2v(KINK_GRID, np.full_like(KINK_GRID, y))
    scale = 1.0 + np.abs(values).max()
    at = np.flatnonzero(np.abs(np.diff(values)) > 1e-3 * scale)
    low, high = KINK_GRID[at], KINK_GRID[at + 1]
    for _ in range(45):
        middle = 0.5 * (low + high)
        first, between, last = d2v(np.array([low, middle, high]), y)
        left = np.abs(between - first) >= np.abs(last - between)
        low, high = np.where(left, low, middle), np.where(left, middle, high)
        jumps = np.where(left, np.abs(between - first), np.abs(last - between)) > 1e-4 * scale  # a mere slope is soon left out
        low, high = low[jumps], high[jumps]
    return tuple(0.5 * (low + high))


def prox(loss: Loss, omega: np.ndarray, y: np.ndarray, DV: float) -> np.ndarray:
    """f with f + D V v'(f, y) = omega, for a convex loss: Newton's method between bounds. A step that leaves the bounds, or is not
    half as long as the one before, is replaced by a bisection: where v' is steep between two flat parts and D V is large, Newton's
    method may jump from one part to the other for ever."""
    _, dv, d2v = functions(loss)
    other = omega - DV * dv(omega, y)
    low, high = np.minimum(omega, other), np.maximum(omega, other)
    f, last = 0.5 * (low + high), high - low
    for _ in range(NEWTON):
        gap = f + DV * dv(f, y) - omega
        low, high = np.where(gap < 0, f, low), np.where(gap < 0, high, f)
        new, rounding = f - gap / (1.0 + DV * d2v(f, y)), 4e-15 * (1.0 + np.abs(f))
        jumps = (np.abs(new - f) > 0.5 * last) & (np.abs(new - f) > rounding)
        new = np.where((new < low) | (new > high) | jumps, 0.5 * (low + high), new)
        f, last = new, np.abs(new - f)
        if np.all(last <= rounding):
            break
    return f
