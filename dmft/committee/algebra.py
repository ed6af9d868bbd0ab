"""Products and triangular solves with matrices over (slot, unit), for the lines of all units at once.

These matrices are read from memory in every step, so that each of them is read once for all lines, and large ones by all threads.
A number of a result is one sum, in the order of `dot`, or one row after the other: it has the same bits whatever the number of
lines and threads, and wherever work is cut.
"""

from __future__ import annotations

import numpy as np
from numba import get_num_threads, njit, prange

from dmft.core.compiled import INNER, UNCOUNTED
from dmft.core.lanes import add_four_lanes, four_lane_sums
from dmft.equations.noise import dot, set_pivot

PRODUCTS_SHARED_FROM = 1 << 20  # multiply-adds from which on threads share them: beside these it costs little to wake them
ROWS_OF_A_GROUP = 8  # rows that go down a triangle together: a thread keeps them in its fastest memory
ROWS_TOGETHER = 64  # rows of a factor that are solved for what lies before them, before they meet each other


def _threads(work: int, most: int) -> int:
    """The number of threads that share so many multiply-adds, which can be cut into `most` parts."""
    return 1 if work < PRODUCTS_SHARED_FROM else max(1, min(get_num_threads(), most))


@njit(**INNER)
def _joined(rest, a, b, c, d, e, f, g):
    """Eight interleaved sums as `dot` adds them up; rest: the first, with what is left of the vectors."""
    return ((rest + d) + (b + f)) + ((a + e) + (c + g))


@njit(**INNER)
def _dots(lines, row, n, out):
    """out_i = dot(lines_i, row, n)."""
    fours = len(lines) - len(lines) % 4
    for i in range(0, fours, 4):
        a, b, c, d = lines[i], lines[i + 1], lines[i + 2], lines[i + 3]
        s = four_lane_sums((a, b, c, d), row, n // 8)
        rest_a, rest_b, rest_c, rest_d = s[0], s[8], s[16], s[24]
        for k in range(n - n % 8, n):
            rest_a += a[k] * row[k]
            rest_b += b[k] * row[k]
            rest_c += c[k] * row[k]
            rest_d += d[k] * row[k]
        out[i] = _joined(rest_a, *s[1:8])
        out[i + 1] = _joined(rest_b, *s[9:16])
        out[i + 2] = _joined(rest_c, *s[17:24])
        out[i + 3] = _joined(rest_d, *s[25:32])
    for i in range(fours, len(lines)):
        out[i] = dot(lines[i], row, n)


@njit(**INNER)
def _add_four(line, weights, rows, first, last):
    """line_j += sum_k weights_k rows_k,j for first <= j < last, one of the four rows after the other."""
    (a, b, c, d), (row_a, row_b, row_c, row_d), count = weights, rows, (last - first) // 8
    add_four_lanes(line[first:last], weights, (row_a[first:last], row_b[first:last], row_c[first:last], row_d[first:last]), count)
    for j in range(first + 8 * count, last):
        line[j] = (((line[j] + a * row_a[j]) + b * row_b[j]) + c * row_c[j]) + d * row_d[j]


@njit(**INNER)
def _times(A, B, stop, used, first, last, out):
    """Add columns first .. last-1 of A B."""
    for k in range(0, used, 4):
        upto = min(last, stop[k])
        if first < upto and k + 4 <= used:
            rows = B[k], B[k + 1], B[k + 2], B[k + 3]
            for i in range(len(A)):
                _add_four(out[i], (A[i, k], A[i, k + 1], A[i, k + 2], A[i, k + 3]), rows, first, upto)
        elif first < upto:
            for rest in range(k, used):
                for i in range(len(A)):
                    for j in range(first, upto):
                        out[i, j] += A[i, rest] * B[rest, j]


@njit(**UNCOUNTED)
def _times_alone(A, B, stop, used, out):
    _times(A, B, stop, used, 0, used, out)


@njit(**UNCOUNTED, parallel=True)
def _times_shared(A, B, stop, used, out, threads):
    width = -(-used // (8 * threads)) * 8  # whole vectors
    for part in prange(threads):
        _times(A, B, stop, used, min(part * width, used), min((part + 1) * width, used), out)


def times(A: np.ndarray, B: np.ndarray, stop: np.ndarray, used: int) -> np.ndarray:
    """A B (lines, size); A (lines, size), B (size, size), all of them 0 from `used` on. stop (size,): where the rows of B end, the
    same for every four of them."""
    arguments = A, B, stop, used, (out := np.zeros_like(A))
    threads = _threads(len(A) * used * used, used // 8)
    _times_alone(*arguments) if threads == 1 else _times_shared(*arguments, threads)
    return out


@njit(**INNER)
def _against(A, B, stop, used, first, last, out):
    """Columns first .. last-1 of A B^T."""
    for j in range(first, last):
        _dots(A, B[j], min(stop[j], used), out[:, j])


@njit(**UNCOUNTED)
def _against_alone(A, B, stop, used, rows, out):
    _against(A, B, stop, used, 0, rows, out)


@njit(**UNCOUNTED, parallel=True)
def _against_shared(A, B, stop, used, rows, out, threads):
    for part in prange(threads):
        _against(A, B, stop, used, part * rows // threads, (part + 1) * rows // threads, out)


def against(A: np.ndarray, B: np.ndarray, stop: np.ndarray, used: int) -> np.ndarray:
    """A B^T (lines, rows); A (lines, size), B (rows, size), 0 from `used` on, rows too. stop (rows,): where the rows of B end."""
    rows = min(used, len(B))
    arguments = A, B, stop, used, rows, (out := np.zeros((len(A), len(B))))
    threads = _threads(len(A) * used * rows, rows)
    _against_alone(*arguments) if threads == 1 else _against_shared(*arguments, threads)
    return out


@njit(**INNER, error_model="numpy")
def _forward(L, x, begin, end, room):
    """Entries begin .. end-1 of L y = x for every line of x (lines, size), in place; those before are known. room (lines,)."""
    for i in range(begin, end):
        row = L[i]
        _dots(x, row, i, room)
        for k in range(len(x)):
            x[k, i] = (x[k, i] - room[k]) / row[i]


@njit(**INNER, error_model="numpy")
def _backward(L, x, size):
    """L^T y = x for every line of x (lines, size), in place."""
    fours = size - size % 4
    for i in range(size - 1, fours - 1, -1):
        row = L[i]
        for k in range(len(x)):
            line = x[k]
            line[i] /= row[i]
            for j in range(i):
                line[j] -= line[i] * row[j]
    for i in range(fours - 4, -1, -4):  # four rows at a time: first what they do to each other
        a, b, c, d = L[i + 3], L[i + 2], L[i + 1], L[i]
        for k in range(len(x)):
            line = x[k]
            line[i + 3] /= a[i + 3]
            p = -line[i + 3]
            line[i + 2] = (line[i + 2] + p * a[i + 2]) / b[i + 2]
            q = -line[i + 2]
            line[i + 1] = ((line[i + 1] + p * a[i + 1]) + q * b[i + 1]) / c[i + 1]
            r = -line[i + 1]
            line[i] = (((line[i] + p * a[i]) + q * b[i]) + r * c[i]) / d[i]
            _add_four(line, (p, q, r, -line[i]), (a, b, c, d), 0, i)


@njit(**INNER)
def _solve(L, lines, half, room):
    """See `solve_lines`."""
    count, size = lines.shape
    _forward(L, lines, 0, size, room)
    for i in range(count):
        for j in range(size):
            half[i, j] = lines[i, j]
    _backward(L, lines, size)


@njit(**UNCOUNTED)
def _solve_alone(L, lines, half, room):
    _solve(L, lines, half, room)


@njit(**UNCOUNTED, parallel=True)
def _solve_shared(L, lines, half, room, threads):
    for part in prange(threads):
        first, last = part * len(lines) // threads, (part + 1) * len(lines) // threads
        _solve(L, lines[first:last], half[first:last], room[first:last])


def solve_lines(L: np.ndarray, lines: np.ndarray) -> np.ndarray:
    """Every line of lines (count, size) times the inverse of L L^T, in place; returns half of it, (count, size), times that of
    L^T."""
    count, size = lines.shape
    arguments = L, lines, (half := np.empty_like(lines)), np.empty(count)
    threads = _threads(count * size * size, count)
    _solve_alone(*arguments) if threads == 1 else _solve_shared(*arguments, threads)
    return half


@njit(**INNER)
def _solve_group(M, order, L, first, last, known, group, room):
    """Some of the rows first .. last-1 of a factor, which are known up to column `known`, up to column `first`."""
    begin, end = first + group * ROWS_OF_A_GROUP, min(first + (group + 1) * ROWS_OF_A_GROUP, last)
    for i in range(begin, end):
        for j in range(known, first):
            L[i, j] = M[order[i], order[j]]
    _forward(L, L[begin:end], known, first, room[begin:end])


@njit(**UNCOUNTED)
def _solve_rows_alone(M, order, L, first, last, known, groups, room):
    for group in range(groups):
        _solve_group(M, order, L, first, last, known, group, room)


@njit(**UNCOUNTED, parallel=True)
def _solve_rows_shared(M, order, L, first, last, known, groups, room):
    for group in prange(groups):
        _solve_group(M, order, L, first, last, known, group, room)


@njit(**UNCOUNTED, error_model="numpy")
def _end_rows(M, diagonal, order, L, first, last, share, room):
    """Rows first .. last-1, which are known up to column `first`, up to their diagonal; returns as `factor_lines`."""
    floored = 0
    for i in range(first, last):
        for j in range(first, i):
            L[i, j] = M[order[i], order[j]]
        _forward(L, L[i : i + 1], first, i, room)
        floored += set_pivot(L, i, M[order[i], order[i]] + diagonal[order[i]], share)
    return floored


def factor_lines(M: np.ndarray, diagonal: np.ndarray, order: np.ndarray, L: np.ndarray, start: int, known: int,
                 share: float) -> int:
    """`noise.factor_rows` of M + diag(diagonal), many rows at a time: those from `start` on of its lower Cholesky factor L, which
    are known up to column `known`."""
    floored, known, room = 0, min(known, start), np.empty(len(order))
    for first in range(start, len(order), ROWS_TOGETHER):
        last = min(first + ROWS_TOGETHER, len(order))
        if known < first:
            groups, work = -(-(last - first) // ROWS_OF_A_GROUP), (last - first) * (first * first - known * known)
            solve = _solve_rows_alone if _threads(work, groups) == 1 else _solve_rows_shared
            solve(M, order, L, first, last, known, groups, room)
        floored += _end_rows(M, diagonal, order, L, first, last, share, room)
    return floored


def keep_solved(L: np.ndarray, half: np.ndarray) -> int:
    """Keep what `solve_lines` returned for lines of step n as the next rows of the factor L: once step n belongs to the past, they
    are these rows up to the columns of step n itself. Returns the column up to which they are known, 0 where there is no room."""
    count, size = half.shape
    if size + count > len(L):
        return 0
    L[size : size + count, :size] = half
    return size


def join_lines(L: np.ndarray, at: int, units: int, known: int) -> None:
    """Rows of a factor whose first `known` columns are right, when a block of rows, from `at` on, and the next one become one:
    these columns of the two add up, and the later rows move up."""
    L[at : at + units, :known] += L[at + units : at + 2 * units, :known]
    L[at + units : -units, :known] = L[at + 2 * units :, :known]
