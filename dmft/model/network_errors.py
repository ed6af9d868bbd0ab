"""What follows from the overlaps of a network: its error on new samples, E (f - y)^2, from overlaps, norms and second layer, by
closed forms or rules; and how far its units have specialised.

On a new sample the fields h_r and kappa_s are Gaussian with covariances C, m and 1. Eq. [c-test].
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import scipy  # its parts load when they are used
from numba import njit

from dmft.model.activations import BUILT_IN, ERF, QUADRATIC, RELU, Activation
from dmft.model.curves import NETWORK_KNOWN
from dmft.model.network import TwoLayer

_PAIR_NODES = 64  # of a rule in two dimensions, in each of them
LINK_NODES = {1: (2048, 8.0), 2: (160, 8.0), 3: (48, 7.0), 4: (24, 6.0)}  # of k directions: nodes in each, and how far they reach
LINK_POINTS = 1 << 16  # beyond: points of a Sobol set, the same ones always
_PAIR_SECONDS, _NODE_SECONDS = 0.2e-3, 20e-9  # of one core: for a pair of units, and for a node of the rule over kappa
_FIELD_NODES = 32  # of the rule over h given kappa
_NOISES_OF_LABELS = 64, 8.0  # in the noise of a label that is not added to it: nodes, and how far they reach
_FIELD_GRID = 192  # intervals of the table of averages over h given its mean


def _linear(a, b, c):
    return c  # [c-pairs]


def _square(a, b, c):
    return a * b + 2.0 * c * c  # [c-pairs]


def _erf(a, b, c):
    return 2.0 / np.pi * np.arcsin(c / np.sqrt((1.0 + a) * (1.0 + b)))  # [c-pairs]


def _relu(a, b, c):
    norm = np.sqrt(a * b)
    rho = np.clip(c / np.where(norm > 0, norm, 1.0), -1.0, 1.0)
    return norm / (2.0 * np.pi) * (np.sqrt(1.0 - rho * rho) + rho * (0.5 * np.pi + np.arcsin(rho)))  # [c-pairs]


CLOSED = {ERF: _erf, QUADRATIC: _square, RELU: _relu, BUILT_IN["linear"]: _linear}


@cache
def normal_rule(nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of averages over a standard normal."""
    z, w = np.polynomial.hermite_e.hermegauss(nodes)
    return z, w / w.sum()


def pair_average(first: Activation, second: Activation, a: Any, b: Any, c: Any, shift: Any = 0.0, other: Any = 0.0) -> Any:
    """E s(u + shift) t(v + other) for Gaussians of variances a, b and covariance c, arrays (lines,). Eq. [c-pairs]."""
    if first == second and first in CLOSED and not (np.any(shift) or np.any(other)):
        return CLOSED[first](a, b, c)
    z, w = normal_rule(_PAIR_NODES)
    root = np.sqrt(np.maximum(a, 0.0))
    slope = c / np.where(root > 0, root, 1.0)
    rest, out = np.sqrt(np.maximum(b - slope**2, 0.0)), np.empty(a.shape)
    shift, other = (np.array(np.broadcast_to(x, a.shape), float) for x in (shift, other))
    _pair_rule(first.s, second.s, root, slope, rest, shift, other, z, w, out)
    return out


@njit(cache=True, nogil=True)
def _pair_rule(s, t, root, slope, rest, shift, other, z, w, out):
    """E s(root z + shift) t(slope z + rest z' + other) of every line, all (lines,)."""
    for i in range(len(out)):
        out[i] = 0.0
        for j in range(len(z)):
            given = 0.0
            for k in range(len(z)):
                given += w[k] * t(slope[i] * z[j] + rest[i] * z[k] + other[i])
            out[i] += w[j] * s(root[i] * z[j] + shift[i]) * given  # [c-pairs]


def _even_rule(count: int, reach: float) -> tuple[np.ndarray, np.ndarray]:
    """Even nodes and weights of averages over a standard normal."""
    z = reach * ((2.0 * np.arange(count) + 1.0) / count - 1.0)
    w = np.exp(-0.5 * z * z)
    return z, w / w.sum()


@cache
def _kappa_rule(k: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes (count, k) and weights of averages over k standard normals. Nodes lie evenly, which for smooth functions is as good as
    the rule of Gauss and Hermite, and much better for links that are steep or jump."""
    if k not in LINK_NODES:
        points = scipy.special.ndtri(scipy.stats.qmc.Sobol(k, seed=k).random(LINK_POINTS))
        return points, np.full(LINK_POINTS, 1.0 / LINK_POINTS)
    z, w = _even_rule(*LINK_NODES[k])
    nodes, weights = np.meshgrid(*[z] * k, indexing="ij"), np.meshgrid(*[w] * k, indexing="ij")
    return np.stack([each.ravel() for each in nodes], axis=1), np.prod(weights, axis=0).ravel()


@njit(cache=True, nogil=True)
def _link_rule(s, kappa, told, m, rest, beta, z, w, table, mean):
    """Sum over kappa (nodes, k) of told (nodes,) E_z s(m kappa + rest z + beta), for one unit. E_z is tabulated and interpolated by
    cubics. table (intervals + 3,), mean (nodes,): room."""
    low, high, last = np.inf, -np.inf, len(table) - 3
    for i in range(len(mean)):
        mean[i] = beta
        for t in range(len(m)):
            mean[i] += m[t] * kappa[i, t]
        low, high = min(low, mean[i]), max(high, mean[i])
    step = max((high - low) / last, 1e-300)
    for j in range(len(table)):
        table[j] = 0.0
        for k in range(len(z)):
            table[j] += w[k] * s(low + (j - 1) * step + rest * z[k])
    total = 0.0
    for i in range(len(mean)):
        place = (mean[i] - low) / step
        j = min(int(place), last - 1)
        x = place - j
        a, b, c, d = table[j], table[j + 1], table[j + 2], table[j + 3]
        value = (-x * (x - 1.0) * (x - 2.0) * a / 6.0 + (x + 1.0) * (x - 1.0) * (x - 2.0) * b / 2.0
                 - (x + 1.0) * x * (x - 2.0) * c / 2.0 + (x + 1.0) * x * (x - 1.0) * d / 6.0)
        total += told[i] * value
    return total


def _moments(network: TwoLayer, kappa: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """E y and E y^2 given kappa (nodes, k), over the noise of a label unless it is added."""
    z, w = _even_rule(*_NOISES_OF_LABELS) if network.label.noisy else (np.zeros(1), np.ones(1))
    first, second = np.zeros(len(kappa)), np.zeros(len(kappa))
    for zeta, weight in zip(np.sqrt(network.label_noise) * z, w):
        y = network.label(kappa, zeta)
        first += weight * y
        second += weight * y**2
    return first, second


def _with_link(network: TwoLayer, phi: np.ndarray, m: np.ndarray, norm: np.ndarray, beta: np.ndarray) -> np.ndarray:
    """E s(h_r + beta_r) phi(kappa), (lines, p), from phi (nodes,) on the nodes, m (lines, p, k), C_rr and beta (lines, p)."""
    kappa, weight = _kappa_rule(network.directions)
    told, found = weight * phi, np.empty(norm.shape)
    rest = np.sqrt(np.maximum(norm - (m**2).sum(axis=-1), 0.0))
    table, mean, (z, w) = np.empty(_FIELD_GRID + 3), np.empty(len(kappa)), normal_rule(_FIELD_NODES)
    for line, r in np.ndindex(norm.shape):
        along = np.ascontiguousarray(m[line, r])
        found[line, r] = _link_rule(network.activation.s, kappa, told, along, rest[line, r], beta[line, r], z, w, table, mean)
    return found


def error_seconds(network: TwoLayer) -> float:
    """Seconds of one core for the error at one time, measured on a shared x86-64 server; 0 with closed forms."""
    p, k, label, s = network.units, network.directions, network.label, network.activation
    own = 0 if s in CLOSED and not (network.beta.any() or network.train_intercepts) else p * (p + 1) // 2
    if label.link is None:
        return _PAIR_SECONDS * (own + (0 if own == 0 and label.activation == s else p * k))
    nodes = LINK_NODES[k][0] ** k if k in LINK_NODES else LINK_POINTS
    return _PAIR_SECONDS * own + p * (_NODE_SECONDS * nodes + _PAIR_SECONDS)


def network_errors(network: TwoLayer, curves: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """{"mse": E (f - y)^2 on new samples}, from curves m (.., p, k), C (.., p, p), a (.., p) and perhaps beta (.., p); NaN where
    these are. Eq. [c-test]."""
    p, label, s, shape = network.units, network.label, network.activation, curves["a"].shape[:-1]
    lines = [curves[name].reshape(-1, *curves[name].shape[len(shape):]) for name in ("m", "C", "a")]
    lines.append(curves["beta"].reshape(-1, p) if "beta" in curves else np.tile(network.beta, (len(lines[2]), 1)))
    good = np.all([np.isfinite(line).reshape(len(line), -1).all(axis=1) for line in lines], axis=0)
    (m, C, a, beta), found = (line[good] for line in lines), np.full(len(good), np.nan)
    norm, one, units = C[:, range(p), range(p)], np.ones(len(m)), range(p)
    square = sum((1.0 if r == q else 2.0) * a[:, r] * a[:, q] * pair_average(s, s, norm[:, r], norm[:, q], C[:, r, q], beta[:, r],
                                                                             beta[:, q]) for r in units for q in range(r + 1))
    if label.link is not None:
        kappa, weight = _kappa_rule(network.directions)
        phi, square_of_y = _moments(network, kappa)
        cross = (a * _with_link(network, phi, m, norm, beta)).sum(axis=1)
        own = float(weight @ square_of_y)
    else:
        overlap, gram, b, t = m @ label.root.T, label.root @ label.root.T, label.weights, label.activation
        cross = sum(a[:, r] * b[j] * pair_average(s, t, norm[:, r], gram[j, j] * one, overlap[:, r, j], beta[:, r])
                    for r in units for j in range(len(b)))
        own = sum(b[i] * b[j] * float(pair_average(t, t, *(np.array([gram[at]]) for at in ((i, i), (j, j), (i, j))))[0])
                  for i in range(len(b)) for j in range(len(b)))
    found[good] = square - 2.0 * cross + own + (0.0 if label.noisy else network.label_noise)  # [c-test]
    return {"mse": found.reshape(shape)}


def specialisations(network: TwoLayer, m: np.ndarray) -> dict[str, np.ndarray]:
    """{"specialisation": mean overlap of unit r with unit r of the teacher, less that with its other units}, from m (.., p, k); {}
    where units and directions are no pairs. With a link the directions are the teacher's units."""
    p = network.units
    if not NETWORK_KNOWN["specialisation"].where(network, False):
        return {}
    overlaps = m @ network.label.root.T
    same = np.trace(overlaps, axis1=-2, axis2=-1)
    return {"specialisation": same / p - (overlaps.sum(axis=(-2, -1)) - same) / (p * (p - 1))}
