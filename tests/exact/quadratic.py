"""[quadratic]: losses quadratic in the field, v = a(y) h^2/2 - b(y) h + c(y). Given a label and a path of s the effective
process is linear, and each row of the kernels is a sum over labels and paths. [lin-enumerate] is the linear loss among them,
with any law of s.

Given (h0, y, s), with h~ = z + m h0 - Gam g and g_n = (s_n/l) (a h~_n - b), z Gaussian of covariance Q:

    G = dg/dz ,  G_nj = (s_n/l) a (delta_nj - sum_k Gam(n,k) G_kj) ,  g- = <g> the same recursion with m h0 and b as sources
    M_C = alpha <g- g-' + G Q G'> ,  K_R(n,k) = -alpha <G_nk> ,  delta_nu_n = alpha <G_nn> ,  mu_n = alpha <g-_n h0>
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tests.exact.laws import Paths
from tests.exact.setting import Answer, Setting, Weights


class Labels(NamedTuple):
    """h0 and the coefficients of the loss at nodes, with the weights of these, each (nodes,)."""

    h0: np.ndarray
    a: np.ndarray
    b: np.ndarray
    c: np.ndarray
    weight: np.ndarray


def linear_labels(noise: float) -> Labels:
    """v = (h - y)^2/2, y = h0 + sqrt(noise) zeta. Averages have squares of h0 and zeta at most: two nodes of each are exact."""
    h0, zeta = (sign.ravel() for sign in np.meshgrid([-1.0, 1.0], [-1.0, 1.0]))
    y = h0 + np.sqrt(noise) * zeta
    return Labels(h0, np.ones(4), y, y**2 / 2, np.full(4, 0.25))


def smooth_labels(a: Callable, b: Callable, width: float = 9.0, step: float = 0.15) -> Labels:
    """y = h0 ~ N(0, 1) by the trapezoid rule, whose error falls exponentially with 1/step where a and b are smooth."""
    y = np.arange(-width, width + step / 2, step)
    return Labels(y, a(y), b(y), np.zeros_like(y), step * np.exp(-y**2 / 2) / np.sqrt(2 * np.pi))


def solve(setting: Setting, labels: Labels, paths: Paths) -> Answer:
    rows, weights = setting.steps + 1, Weights(setting)
    h0, a, b, c, share = (np.repeat(part, len(paths.probability)) for part in labels)
    share = share * np.tile(paths.probability, len(labels.weight))
    batch = np.tile(paths.weight, (len(labels.weight), 1))  # (labels x paths, rows)
    G, g = np.zeros((len(h0), rows, rows)), np.zeros((len(h0), rows))
    for n in range(rows):
        Gam, Q = weights.Gam[n, :n], weights.Q[: n + 1, : n + 1]
        H = -np.einsum("k,pkj->pj", Gam, G[:, :n, : n + 1])  # dh~_n/dz_j
        H[:, n] += 1
        h = weights.m[n] * h0 - g[:, :n] @ Gam
        G[:, n, : n + 1] = (batch[:, n] * a)[:, None] * H
        g[:, n] = batch[:, n] * (a * h - b)
        loss = share @ (a / 2 * (h**2 + np.einsum("pi,ij,pj->p", H, Q, H)) - b * h + c)
        shared = share[:, None] * (G[:, n, : n + 1] @ Q)
        M_C = np.einsum("pj,pkj->k", shared, G[:, : n + 1, : n + 1]) + (share * g[:, n]) @ g[:, : n + 1]
        response = share @ G[:, n, : n + 1]
        alpha = setting.alpha
        weights.enter(alpha * response[n], alpha * (share * g[:, n]) @ h0, alpha * M_C, -alpha * response[:n], loss)
    return weights.answer()


def linear(setting: Setting, paths: Paths) -> Answer:
    """[lin-enumerate]."""
    return solve(setting, linear_labels(setting.label_noise), paths)
