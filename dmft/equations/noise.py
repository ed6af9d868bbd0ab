"""The Gaussian noise chi, drawn step by step: chi_n given the past, from the covariance M_C of the past.

The past is known through sums X_I of chi over the blocks of the history, with covariance S (the block sums of
M_C). Given them chi_n = sum_I w_I X_I + sd z_n with S w = c, c_I = <chi_n X_I>, sd^2 = M_C(n,n) - w.c: a row of
the Cholesky factor, written on the past instead of on its normals, so that merging two blocks is adding them.

M_C is nearly singular where the kernels are smooth, so every chi_n carries a small white part of its own,
variance jitter * M_C(n,n) (tuning.py). It is added to the matrix that is factored and to the variance drawn, consistently;
merely flooring a pivot would let the error of the past feed on itself.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numba.extending import register_jitable

from dmft.core.compiled import INNER, UNCOUNTED, each
from dmft.core.lanes import add_lanes, lane_sums


@register_jitable
def least_share(by):
    """Of a variance, what is left of it at least: smaller ones, and smaller pivots of Cholesky factors, are rounding. by: an
    Estimator, or its numbers."""
    return by.least_of_jitter * by.jitter


@njit(**UNCOUNTED)
def dot(a, b, n):
    """sum_k a_k b_k over the first n, in eight interleaved sums of double precision; b may be of single precision. The order is
    fixed, rather than left to fastmath, because two compilations may choose differently: rounding would then depend on the
    machine."""
    s = lane_sums(a, b, n // 8)
    rest = s[0]
    for k in range(n - n % 8, n):
        rest += a[k] * b[k]
    return ((rest + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]))


@njit(**INNER)
def total(a, n):
    """sum_k a_k over the first n."""
    found = 0.0
    for k in range(n):
        found += a[k]
    return found


@njit(**INNER)
def largest(a, n):
    """The largest of the first n numbers, none of which is negative, or 0; NaN counts."""
    found = 0.0
    for k in range(n):
        if a[k] > found or a[k] != a[k]:
            found = a[k]
    return found


@njit(**INNER)
def add_scaled(out, weight, b, n):
    """out_k += weight b_k over the first n; b may be of single precision."""
    add_lanes(out, weight, b, n // 8)
    for k in range(n - n % 8, n):
        out[k] += weight * b[k]


@njit(**INNER, error_model="numpy")
def forward(L, x, size):
    """L y = x for every line of x (lines, size), in place; all lines go down together, so that L is read once."""
    for i in range(size):
        row = L[i]
        for k in range(len(x)):
            line = x[k]
            line[i] = (line[i] - dot(row, line, i)) / row[i]


@njit(**INNER, error_model="numpy")
def backward(L, x, size):
    """L^T y = x for every line of x (lines, size), in place."""
    for i in range(size - 1, -1, -1):
        row = L[i]
        for k in range(len(x)):
            line = x[k]
            line[i] /= row[i]
            weight = line[i]
            for j in range(i):
                line[j] -= weight * row[j]


@njit(**INNER)
def set_pivot(L, i, variance, share):
    """The diagonal of row i of a lower Cholesky factor, the rest of which is known, of a matrix with this variance. Returns 1 where
    rounding made the pivot smaller than this share of the variance, or negative; it is that then."""
    pivot = variance - dot(L[i], L[i], i)
    least = share * variance
    floored = 0 if pivot > least else 1
    L[i, i] = np.sqrt(max(least, 1e-300) if floored else pivot)
    return floored


@njit(**UNCOUNTED, error_model="numpy")
def factor_rows(M_C, jitter, order, L, start, share):
    """Rows from `start` on of the lower Cholesky factor L, in order of time, of S = M_C + jitter (over slots; `order` lists
    them in time), in place. Returns the number of pivots that rounding made too small or negative; they are set to this share
    of the variance (`least_share`)."""
    floored = 0
    for i in range(start, len(order)):
        for j in each(i):
            L[i, j] = M_C[order[i], order[j]]
        forward(L, L[i : i + 1], i)
        floored += set_pivot(L, i, M_C[order[i], order[i]] + jitter[order[i]], share)
    return floored


@njit(**UNCOUNTED)
def join_rows(L, valid, at):
    """The first `valid` rows of a lower Cholesky factor, in order of time, when blocks `at` and `at` + 1 become one: in place.
    Returns the number of rows that are right afterwards. The two rows add up, the later ones move up, and the diagonal that now
    sticks out above is turned back by rotations of neighbouring columns: O(rows^2) for the rows from `at` on, where factoring
    them again takes O(rows) products with all of L."""
    if at + 1 >= valid:
        return min(valid, at)
    for i in range(at, valid - 1):
        for k in range(i + 2):
            L[i, k] = L[i + 1, k] + (L[i, k] if i == at and k <= at else 0.0)
    for c in range(at, valid - 1):
        x, y = L[c, c], L[c, c + 1]
        size = np.hypot(x, y)
        x, y = x / size, y / size
        for i in range(c, valid - 1):
            left, right = L[i, c], L[i, c + 1]
            L[i, c] = x * left + y * right
            L[i, c + 1] = x * right - y * left
        L[c, c + 1] = 0.0
    return valid - 1


@njit(**UNCOUNTED)
def conditional(L, order, c, variance, x, w):
    """Weights of chi_n given the past, into w (slots,), which is 0 elsewhere, and its variance: L L^T w = c, variance - w.c. L in
    order of time, c (slots,); x (1, steps of the past): room to work in."""
    size, half = len(order), x[0]
    for i in each(size):
        half[i] = c[order[i]]
    forward(L, x, size)
    left = variance - dot(half, half, size)
    backward(L, x, size)
    for i in each(size):
        w[order[i]] = half[i]
    return left
