"""The error of a network on new samples, E (f - y)^2, from overlaps, norms and second layer: closed forms, or Gauss-Hermite rules.

On a new sample the fields h_r and kappa_s are Gaussian with covariances C, m and 1. Eq. [c-test].
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from dmft.model.activations import BUILT_IN, ERF, QUADRATIC, RELU, Activation, apply
from dmft.model.network import TwoLayer

_PAIR_NODES = 64  # of a rule in two dimensions, in each of them
_LINK_NODES = {1: 128, 2: 48, 3: 20}  # of the rule over kappa, in each of k dimensions
_MOST_NODES = 1 << 14  # beyond three directions: random points, the same ones always
_FIELD_NODES = 48  # of the rule over h given kappa


def _linear(a, b, c):
    return c


def _square(a, b, c):
    return a * b + 2.0 * c * c


def _erf(a, b, c):
    return 2.0 / np.pi * np.arcsin(c / np.sqrt((1.0 + a) * (1.0 + b)))


def _relu(a, b, c):
    norm = np.sqrt(a * b)
    rho = np.clip(c / np.where(norm > 0, norm, 1.0), -1.0, 1.0)
    return norm / (2.0 * np.pi) * (np.sqrt(1.0 - rho * rho) + rho * (0.5 * np.pi + np.arcsin(rho)))


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
    root, shift, other = np.sqrt(np.maximum(a, 0.0)), np.broadcast_to(shift, a.shape), np.broadcast_to(other, a.shape)
    slope = c / np.where(root > 0, root, 1.0)
    rest = np.sqrt(np.maximum(b - slope**2, 0.0))
    u = np.multiply.outer(root, z) + shift[:, None]
    v = np.multiply.outer(slope, z)[:, :, None] + np.multiply.outer(rest, z)[:, None, :] + other[:, None, None]
    return np.einsum("i,ni,nij,j->n", w, apply(first.s, u), apply(second.s, v), w)


@cache
def _kappa_rule(k: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes (count, k) and weights of averages over k standard normals."""
    if k not in _LINK_NODES:
        return np.random.default_rng(k).standard_normal((_MOST_NODES, k)), np.full(_MOST_NODES, 1.0 / _MOST_NODES)
    z, w = normal_rule(_LINK_NODES[k])
    nodes, weights = np.meshgrid(*[z] * k, indexing="ij"), np.meshgrid(*[w] * k, indexing="ij")
    return np.stack([each.ravel() for each in nodes], axis=1), np.prod(weights, axis=0).ravel()


def _with_link(network: TwoLayer, m: np.ndarray, norm: np.ndarray, beta: np.ndarray) -> np.ndarray:
    """E s(h_r + beta_r) phi(kappa), (lines, p), from m (lines, p, k), C_rr and beta (lines, p)."""
    kappa, weight = _kappa_rule(network.directions)
    z, w = normal_rule(_FIELD_NODES)
    told, found = weight * network.label(kappa), np.empty(norm.shape)
    rest = np.sqrt(np.maximum(norm - (m**2).sum(axis=-1), 0.0))
    for line, r in np.ndindex(norm.shape):
        h = (kappa @ m[line, r])[:, None] + rest[line, r] * z + beta[line, r]
        found[line, r] = told @ (apply(network.activation.s, h) @ w)
    return found


def network_errors(network: TwoLayer, curves: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """{"mse": E (f - y)^2 on new samples}, from curves m (.., p, k), C (.., p, p), a (.., p) and perhaps beta (.., p); NaN where
    these are. Eq. [c-test]."""
    p, label, s, shape = network.units, network.label, network.activation, curves["a"].shape[:-1]
    lines = [curves[name].reshape(-1, *curves[name].shape[len(shape):]) for name in ("m", "C", "a")]
    lines.append(curves["beta"].reshape(-1, p) if "beta" in curves else np.tile(network.beta, (len(lines[2]), 1)))
    good = np.all([np.isfinite(line).reshape(len(line), -1).all(axis=1) for line in lines], axis=0)
    (m, C, a, beta), found = (line[good] for line in lines), np.full(len(good), np.nan)
    norm, one, units = C[:, range(p), range(p)], np.ones(len(m)), range(p)
    square = sum(a[:, r] * a[:, q] * pair_average(s, s, norm[:, r], norm[:, q], C[:, r, q], beta[:, r], beta[:, q])
                 for r in units for q in units)
    if label.link is not None:
        kappa, weight = _kappa_rule(network.directions)
        cross = (a * _with_link(network, m, norm, beta)).sum(axis=1)
        own = float(weight @ label(kappa) ** 2)
    else:
        overlap, gram, b, t = m @ label.root.T, label.root @ label.root.T, label.weights, label.activation
        cross = sum(a[:, r] * b[j] * pair_average(s, t, norm[:, r], gram[j, j] * one, overlap[:, r, j], beta[:, r])
                    for r in units for j in range(len(b)))
        own = sum(b[i] * b[j] * float(pair_average(t, t, *(np.array([gram[at]]) for at in ((i, i), (j, j), (i, j))))[0])
                  for i in range(len(b)) for j in range(len(b)))
    found[good] = square - 2.0 * cross + own + network.label_noise
    return {"mse": found.reshape(shape)}
