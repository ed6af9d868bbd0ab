"""Products of a few lines (p, slots p) and of matrices (p, p), for compiled code: what samples on a card wait for counts in
microseconds, and an operation of NumPy takes one or two."""

from __future__ import annotations

from numba import njit

from dmft.core.compiled import INNER, UNCOUNTED
from dmft.equations.noise import add_scaled, dot
from dmft.equations.recursion import merge_vector


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


@njit(**UNCOUNTED)
def merge_lines(merges, arrays):
    """Blocks that become one in every line of a tuple of arrays (lines, slots p), by merges as of weights.wide."""
    for lines in arrays:
        for line in lines:
            for k in range(len(merges)):
                merge_vector(line, merges[k, 0], merges[k, 1], merges[k, 2])


@njit(**UNCOUNTED)
def put_turned(line, out):
    """out (size, p) = line^T."""
    for j in range(len(out)):
        for r in range(out.shape[1]):
            out[j, r] = line[r, j]
