"""Gaussian averages of smooth activations at any width: never more than four fields at a time.

es, f, j2 and the square need pairs of fields, because given two fields every other one is normal with a mean linear in
them. In g[i, j] = E[s'(u_i) s'(u_j) E^2] the error is a sum over fields: given u_i and u_j the others are normal with
means mu_q, standard deviations sigma_q and correlations R_qr that do not depend on the values, and by Mehler's formula
    E[s_q s_r | u_i, u_j] = sum_n R_qr^n h_n^q h_n^r,    h_n^q = E[s_q(mu_q + sigma_q z) He_n(z)]/sqrt(n!).
The sum is cut at ORDER: for tanh the terms fall as exp(-4.4 sqrt n), for polynomials it ends by itself. Costs are
p^2 (p + k) nodes^3, about a millisecond for each (i, j) and field, instead of nodes^(p+k).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from dmft.core.errors import RunError
from onepass.networks.field_moments import trapezoid_grid
from onepass.networks.field_pairs import add_pair, conditional_law, pair_roots
from onepass.networks.hermite import hermite_polynomials

ORDER = 32
MAX_UNITS_OF_WORK = 60_000  # (pairs of units) times fields, each about a millisecond


@njit(cache=True, error_model="numpy")
def _pair_averages(functions, points, weights, om, c, p):
    """es (p,), f (p, n), j2 (p, p) and the square. functions: s, s', s*."""
    s, ds, s_star = functions
    n = om.shape[0]
    es, f, j2, square = np.zeros(p), np.zeros((p, n)), np.zeros((p, p)), 0.0
    for i in range(n):
        for q in range(n):
            if i >= p and q < p:
                continue  # add_pair counts pairs of student and teacher twice in the square
            root, slope, rest = pair_roots(om, i, q)
            both = first = second = slopes = 0.0
            for index in range(len(weights)):
                z1, z2, w = points[index, 0], points[index, 1], weights[index]
                u, v = root * z1, slope * z1 + rest * z2
                value = s(v) if q < p else s_star(v)
                both += w * value * (s(u) if i < p else s_star(u))
                if i < p:
                    d = ds(u)
                    first += w * d * value * z1
                    second += w * d * value * z2
                    if q < p:
                        slopes += w * d * ds(v)
            square += add_pair((es, f, j2), om, c, p, i, q, (both, first, second, slopes))
    return es, f, j2, square


@njit(cache=True, error_model="numpy")
def _squared_error_average(functions, points, weights, one_normal, om, c, p, i, j):
    """g[i, j]; functions: s, s', s*; one_normal: of `_line`."""
    (s, ds, s_star), (line, line_weights, hermite) = functions, one_normal
    n, orders = om.shape[0], hermite.shape[0]
    root, slope, rest, along, across, spread, correlation = conditional_law(om, i, j)
    total = 0.0
    h = np.empty((n, orders))
    own = np.empty(n)  # E[s_q^2 | u_i, u_j], for which no series is needed
    for index in range(len(weights)):
        z1, z2 = points[index, 0], points[index, 1]
        for q in range(n):
            mean = along[q] * z1 + across[q] * z2
            h[q, :] = 0.0
            if spread[q] == 0.0:
                h[q, 0] = c[q] * (s(mean) if q < p else s_star(mean))
                own[q] = h[q, 0] ** 2
                continue
            own[q] = 0.0
            for m in range(len(line)):
                u = mean + spread[q] * line[m]
                value = c[q] * (s(u) if q < p else s_star(u))
                own[q] += line_weights[m] * value * value
                value *= line_weights[m]
                for order in range(orders):
                    h[q, order] += value * hermite[order, m]
        squared = 0.0
        for q in range(n):
            squared += own[q]
            for r in range(q):
                power = 2.0
                for order in range(orders):
                    squared += power * h[q, order] * h[r, order]
                    power *= correlation[q, r]
        total += weights[index] * ds(root * z1) * ds(slope * z1 + rest * z2) * squared
    return total


def _line(nodes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points (m,) and weights (m,) of the trapezoid rule for one normal, and He_n/sqrt(n!) (ORDER + 1, m) on it."""
    points, weights = trapezoid_grid(1, nodes)
    x = np.ascontiguousarray(points[:, 0])
    return x, weights, hermite_polynomials(x, ORDER)


def check_work(width: int, fields: int, diagonal: bool) -> None:
    """Refuse widths at which an evaluation would take more than about a minute."""
    work = (width if diagonal else width * (width + 1) // 2) * fields
    if work > MAX_UNITS_OF_WORK:
        raise RunError(
            f"width = {width}, teacher_width = {fields - width}: an evaluation would take about {work / 1000:.0f} s; take a closed "
            'form ("erf", "relu", QuadraticNetwork), reduction = "mean_field", fewer units, or chain(...)'
        )


def smooth_moments(student, teacher, om: np.ndarray, c: np.ndarray, p: int, nodes: int, diagonal: bool = False):
    """es, f, g, j2, square of field_moments.py; with `diagonal` only i = j of g. `nodes` is meant for fields of variance
    one; wider fields, in which the activation is narrower, get more."""
    nodes = int(np.ceil(nodes * max(1.0, np.sqrt(np.diagonal(om).max()))))
    points, weights = trapezoid_grid(2, nodes)
    functions = (student.s, student.ds, teacher.s)
    es, f, j2, square = _pair_averages(functions, points, weights, om, c, p)
    line = _line(nodes)
    single = np.stack([line[0], np.zeros_like(line[0])], axis=1)  # for i = j, where the second field is the first
    g = np.zeros((p, p))
    for i in range(p):
        for j in range(i, i + 1 if diagonal else p):
            outer = (single, line[1]) if i == j else (points, weights)
            g[i, j] = g[j, i] = _squared_error_average(functions, *outer, line, om, c, p, i, j)
    return es, f, g, j2, square
