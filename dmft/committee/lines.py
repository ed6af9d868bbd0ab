"""Products of a few lines (p, slots p) and of matrices (p, p), for compiled code: what samples on a card wait for counts in
microseconds, and an operation of NumPy takes one or two."""

from __future__ import annotations

from math import sqrt

from numba import njit

from dmft.core.compiled import INNER, UNCOUNTED
from dmft.equations.noise import add_scaled, dot
from dmft.equations.recursion import merge_vector

SWEEPS = 30  # of the method of Jacobi at most; it takes five or so


@njit(**INNER)
def larger(number, other):
    """The larger of two numbers; the first where it is NaN."""
    return number if number > other or number != number else other


@njit(**INNER)
def set_to(value, out):
    """Every entry of a matrix."""
    for r in range(len(out)):
        for j in range(out.shape[1]):
            out[r, j] = value


@njit(**INNER)
def put_lines(A, out):
    """out = A."""
    for r in range(len(out)):
        for j in range(out.shape[1]):
            out[r, j] = A[r, j]


@njit(**INNER)
def add_lines(scale, A, out):
    """out += scale A."""
    for r in range(len(out)):
        for j in range(out.shape[1]):
            out[r, j] += scale * A[r, j]


@njit(**INNER)
def add_product(scale, A, B, out):
    """out += scale A B; A (p, p), the others (p, any)."""
    for r in range(len(out)):
        for q in range(len(B)):
            add_scaled(out[r], scale * A[r, q], B[q], out.shape[1])


@njit(**INNER)
def product(A, B, out):
    """out = A B."""
    set_to(0.0, out)
    add_product(1.0, A, B, out)


@njit(**INNER)
def add_against(scale, A, B, size, out):
    """out += scale A B^T, of the first `size` entries of their lines."""
    for r in range(len(out)):
        for q in range(out.shape[1]):
            out[r, q] += scale * dot(A[r], B[q], size)


@njit(**INNER)
def add_turned(scale, A, out):
    """out += scale A^T."""
    for r in range(len(out)):
        for q in range(out.shape[1]):
            out[r, q] += scale * A[q, r]


@njit(**INNER)
def make_symmetric(X):
    """The mean of X and X^T, in place."""
    for r in range(len(X)):
        for q in range(r):
            X[r, q] = X[q, r] = 0.5 * (X[r, q] + X[q, r])


@njit(**INNER, error_model="numpy")
def _turn(S, V, i, j):
    """Let S[i, j] become 0 by a rotation of S (p, p), which is symmetric; V turns along."""
    t = (S[j, j] - S[i, i]) / (2.0 * S[i, j])
    t = (1.0 if t >= 0.0 else -1.0) / (abs(t) + sqrt(t * t + 1.0))
    c = 1.0 / sqrt(t * t + 1.0)
    for k in range(len(S)):
        S[k, i], S[k, j] = c * S[k, i] - t * c * S[k, j], t * c * S[k, i] + c * S[k, j]
        V[k, i], V[k, j] = c * V[k, i] - t * c * V[k, j], t * c * V[k, i] + c * V[k, j]
    for k in range(len(S)):
        S[i, k], S[j, k] = c * S[i, k] - t * c * S[j, k], t * c * S[i, k] + c * S[j, k]


@njit(**INNER, error_model="numpy")
def put_inverse(S, least, V, out):
    """The inverse of a symmetric matrix (p, p) whose eigenvalues are raised to `least` at least; S and V are for work. By the
    method of Jacobi, which takes a microsecond or so for a few units."""
    units = len(S)
    for r in range(units):
        for q in range(units):
            V[r, q] = 1.0 if r == q else 0.0
    for _ in range(SWEEPS):
        beside = 0.0
        for i in range(units):
            for j in range(i + 1, units):
                if abs(S[i, j]) > 1e-18 * (abs(S[i, i]) + abs(S[j, j])):
                    _turn(S, V, i, j)
                    beside = 1.0
        if beside == 0.0:
            break
    set_to(0.0, out)
    for k in range(units):
        value = S[k, k] if S[k, k] > least or S[k, k] != S[k, k] else least
        for r in range(units):
            for q in range(units):
                out[r, q] += V[r, k] * V[q, k] / value


@njit(**UNCOUNTED)
def put_upto(line, size, out):
    """out = line, of the first `size` entries (p, size)."""
    for r in range(len(out)):
        for j in range(size):
            out[r, j] = line[r, j]


@njit(**INNER)
def merge_lines(merges, several):
    """Blocks become one in every line of several (any, p, slots p), by merges as of weights.wide."""
    for i in range(len(several)):
        for line in several[i]:
            for k in range(len(merges)):
                merge_vector(line, merges[k, 0], merges[k, 1], merges[k, 2])


@njit(**UNCOUNTED)
def put_turned(line, out):
    """out (size, p) = line^T."""
    for j in range(len(out)):
        for r in range(out.shape[1]):
            out[j, r] = line[r, j]
