"""Gaussian averages of a wide student of a smooth multi-index teacher y = g(u), square loss, each sample used once.

The error is g - f with f = (1/p) sum_m a_m s(l_m), so no average needs all fields. Parts with f alone are those of a committee
(smooth_moments.py, never more than four fields). With the k teacher fields written as root_P t,
    E[g s'_j u_q], E[g s_j]      need (t, l_j),
    E[g^2 s'_j s'_l]             needs (t, l_j, l_l),
    E[g s'_j s'_l s_m]           needs the same: given them l_m is normal with a spread that does not depend on their values, so
that the mean of s_m is a function of one variable, tabulated once for each (j, l, m). So at any width k + 2 <= 4 fields at a time.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from dmft.model import links
from dmft.model.activations import Activation
from onepass.networks.field_moments import mean_square_error, trapezoid_grid
from onepass.networks.field_rules import PRODUCT_NODES
from onepass.networks.smooth_moments import check_work, smooth_moments

MOST_DIRECTIONS = 2
TABLE_POINTS, TABLE_REACH = 1000, 12.0  # points of a table, and how far it reaches in units of the root of the largest variance


@njit(cache=True, error_model="numpy")
def _with_one(s, ds, values, points, weights, along, rest, k):
    """E[g s(l_j)] and E[g s'(l_j) (t, z)] (k + 1,) for l_j = along . t + rest z."""
    mean, first = 0.0, np.zeros(k + 1)
    for index in range(len(weights)):
        u = rest * points[index, k]
        for r in range(k):
            u += along[r] * points[index, r]
        mean += weights[index] * values[index] * s(u)
        d = weights[index] * values[index] * ds(u)
        for r in range(k + 1):
            first[r] += d * points[index, r]
    return mean, first


@njit(cache=True, error_model="numpy")
def _table(s, spread, reach, line, line_weights, table):
    """E[s(mean + spread z)] on an even grid of means in [-reach, reach]."""
    for i in range(len(table)):
        mean = reach * (2.0 * i / (len(table) - 1) - 1.0)
        table[i] = 0.0
        for m in range(len(line)):
            table[i] += line_weights[m] * s(mean + spread * line[m])


@njit(cache=True, error_model="numpy")
def _read(table, reach, mean):
    """The table at `mean`, by cubic interpolation."""
    x = (mean / reach + 1.0) * 0.5 * (len(table) - 1)
    i = min(max(int(x), 1), len(table) - 3)
    t = x - i
    a, b, c, d = table[i - 1], table[i], table[i + 1], table[i + 2]
    return b + 0.5 * t * (c - a + t * (2.0 * a - 5.0 * b + 4.0 * c - d + t * (3.0 * (b - c) + d - a)))


@njit(cache=True, error_model="numpy")
def _with_two(ds, values, points, weights, rows, k, tables, reach, a):
    """E[g^2 s'_j s'_l] and E[g s'_j s'_l f]; rows (2 + p, k + 2): coefficients of l_j, l_l and of the means of all l_m."""
    square, cross = 0.0, 0.0
    p = len(a)
    for index in range(len(weights)):
        u = v = 0.0
        for r in range(k + 2):
            u += rows[0, r] * points[index, r]
            v += rows[1, r] * points[index, r]
        weight = weights[index] * values[index] * ds(u) * ds(v)
        output = 0.0
        for m in range(p):
            mean = 0.0
            for r in range(k + 2):
                mean += rows[2 + m, r] * points[index, r]
            output += a[m] * _read(tables[m], reach, mean) / p
        square += weight * values[index]
        cross += weight * output
    return square, cross


def link_moments(student: Activation, teacher: links.Link, om: np.ndarray, a: np.ndarray, k: int):
    """es, f, g, j2, square of field_moments.py for the error g(u) - f."""
    p = len(a)
    n = p + k
    c = np.concatenate([-a / p, np.zeros(k)])
    es, f, g, j2, square = smooth_moments(student, student, om, c, p, 41)
    values_p, vectors = np.linalg.eigh(om[p:, p:])
    root = (vectors * np.sqrt(np.clip(values_p, 0.0, None))) @ vectors.T
    inverse = (vectors / np.sqrt(np.maximum(values_p, 1e-300))) @ vectors.T
    along = om[:, p:] @ inverse                                     # l_i = along_i . t + rest_i z
    perpendicular = om - along @ along.T
    reach = TABLE_REACH * np.sqrt(om.diagonal().max())
    line, line_weights = (part.ravel() for part in trapezoid_grid(1, 57))

    def on_grid(fields: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        points, weights = trapezoid_grid(fields, PRODUCT_NODES[fields])
        return links.evaluate(teacher.g, np.ascontiguousarray(points[:, :k] @ root)), points, weights

    values, points, weights = on_grid(k + 1)
    square += float(weights @ values**2)
    for j in range(p):
        rest = np.sqrt(max(perpendicular[j, j], 0.0))
        mean, first = _with_one(student.s, student.ds, values, points, weights, along[j].copy(), rest, k)
        square -= 2.0 * a[j] / p * mean
        es[j] += mean
        across = perpendicular[j] / rest if rest > 1e-7 * np.sqrt(om[j, j]) else np.zeros(n)
        f[j] += along @ first[:k] + across * first[k]
    values, points, weights = on_grid(k + 2)
    tables = np.empty((p, TABLE_POINTS))
    for j in range(p):
        for l in range(j, p):
            rows, spreads = _conditional(along, perpendicular, j, l, p)
            for m in range(p):
                _table(student.s, spreads[m], reach, line, line_weights, tables[m])
            both, cross = _with_two(student.ds, values, points, weights, rows, k, tables, reach, a)
            g[j, l] += both - 2.0 * cross
            g[l, j] = g[j, l]
    return es, f, g, j2, square


def link_square(student: Activation, teacher: links.Link, om: np.ndarray, a: np.ndarray, k: int) -> float:
    """E[(g - f)^2] alone; it needs pairs of student fields, and one student field with the teacher's."""
    p = len(a)
    values_p, vectors = np.linalg.eigh(om[p:, p:])
    root, inverse = ((vectors * np.clip(values_p, 1e-300, None) ** power) @ vectors.T for power in (0.5, -0.5))
    along = om[:p, p:] @ inverse
    points, weights = trapezoid_grid(k + 1, PRODUCT_NODES[k + 1])
    values = links.evaluate(teacher.g, np.ascontiguousarray(points[:, :k] @ root))
    total = float(weights @ values**2) + mean_square_error(student, student, om[:p, :p].copy(), -a / p, p, 41)
    for j in range(p):
        rest = np.sqrt(max(om[j, j] - along[j] @ along[j], 0.0))
        total -= 2.0 * a[j] / p * _with_one(student.s, student.ds, values, points, weights, along[j].copy(), rest, k)[0]
    return total


def _conditional(along: np.ndarray, perpendicular: np.ndarray, j: int, l: int, p: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows (2 + p, k + 2) of l_j, l_l and of the means of the student's fields given t, z_1, z_2, and spreads (p,)."""
    first = np.sqrt(max(perpendicular[j, j], 0.0))
    one = perpendicular[:p, j] / first if first > 1e-7 else np.zeros(p)
    rest = np.sqrt(max(perpendicular[l, l] - one[l] ** 2, 0.0)) if l != j else 0.0
    two = (perpendicular[:p, l] - one * one[l]) / rest if rest > 1e-7 else np.zeros(p)
    rows = np.concatenate([along[:p], one[:, None], two[:, None]], axis=1)
    spreads = np.sqrt(np.maximum(np.diagonal(perpendicular)[:p] - one**2 - two**2, 0.0))
    spreads[[j, l]] = 0.0
    return np.ascontiguousarray(np.concatenate([rows[[j, l]], rows])), spreads


def check_wide(width: int, teacher_width: int) -> None:
    """Refuse widths at which an evaluation would take more than about a minute."""
    check_work(width, 3 * (width + teacher_width) * (1 if teacher_width == 1 else 4), False)
