"""[cubature]: phase retrieval, rows 0, 1 and 2 of every kernel by Gauss-Hermite product rules in (h0, h(0)) and the innovations of
chi_0 and chi_1, times all paths of s. Integrands are polynomials, of degree 54 in h0 and h(0), 18 in the first innovation and 6 in
the second, so that the rules are exact up to rounding. What they say of row 3 (m, C, R of n = 3) is known, its kernels are not:
samples that overshoot dominate their moments ([lost]).
"""

from __future__ import annotations

import numpy as np

from tests.exact.laws import Paths
from tests.exact.setting import Answer, Setting, Weights

NODES = 28, 28, 10, 4
ROWS = 3


def _normals(nodes: tuple[int, ...]) -> tuple[list[np.ndarray], np.ndarray]:
    """Points of independent standard normals, one array each, and their weights, all of shape (1, points)."""
    rules = [np.polynomial.hermite_e.hermegauss(count) for count in nodes]
    points = [grid.reshape(1, -1) for grid in np.meshgrid(*(x for x, _ in rules), indexing="ij")]
    weight = np.ones((1, 1))
    for _, each in rules:
        weight = (weight[..., None] * (each / each.sum())).reshape(1, -1)
    return points, weight


def solve(setting: Setting, paths: Paths, nodes: tuple[int, ...] = NODES) -> Answer:
    """Phase retrieval with y = h0. paths: of ROWS rows; heat adds to the innovations, chi_n + sqrt(2T/eta) xi."""
    assert setting.steps == ROWS and setting.label_noise == 0
    weights, alpha, eta = Weights(setting), setting.alpha, np.broadcast_to(setting.eta, ROWS)
    (h0, start, *z), weight = _normals(nodes)
    weight = weight * paths.probability[:, None]
    hot = 2 * np.broadcast_to(setting.temperature, ROWS) / eta
    h = [np.sqrt(setting.h_variance) * start]
    g: list[np.ndarray] = []
    T: list[np.ndarray] = []  # of the present row: dh_n/dP_k
    for n in range(ROWS):
        s, field = paths.weight[:, n : n + 1], h[n] + weights.m[n] * h0
        g.append(s * field * (field**2 - h0**2))
        slope = s * (3 * field**2 - h0**2)
        mean = lambda x: float((weight * x).sum())  # noqa: E731
        K_R = np.array([-alpha * mean(slope * tangent) for tangent in T])
        M_C = np.array([alpha * mean(g[n] * other) for other in g])
        weights.enter(alpha * mean(slope), alpha * mean(g[n] * h0), M_C, K_R, mean((field**2 - h0**2) ** 2) / 4)
        if n + 1 == ROWS:
            break
        keep = 1 - eta[n] * (weights.delta_nu[n] + (setting.ridge or 0.0))
        factor = np.linalg.cholesky(weights.M_C[: n + 1, : n + 1] + np.diag(hot[: n + 1]))[n]
        chi = sum(c * innovation for c, innovation in zip(factor, z))
        memory = sum(k * old for k, old in zip(K_R, h))
        h.append(weights.a[n] * (keep * h[n] + eta[n] * (memory + chi - g[n])))
        # Two tangents at most live here, and what one feels of the memory begins a row later.
        T = [weights.a[n] * (keep - eta[n] * slope) * tangent for tangent in T] + [-weights.a[n] * eta[n] * slope]
    answer = weights.answer()
    for kernel in (answer.M_C, answer.M_R):
        kernel[ROWS:] = kernel[:, ROWS:] = np.nan
    return answer
