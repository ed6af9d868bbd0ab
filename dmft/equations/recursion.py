"""The linear algebra of the weights over slots: sums over the past, and blocks that become one. Eqs. [dmft-Q], [dmft-R], [dyadic].

eta is that of the step, and unit the learning rate in whose units R is kept, R = Gam/unit; memory and correlation are kernel values
across blocks, (slots,), Q and R block sums, (slots, slots). Slots from `used` on hold nothing yet, and row i of R nothing from
stop[i] on; both are multiples of eight, where there are so many slots, for `dot`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from dmft.core.compiled import INNER, UNCOUNTED
from dmft.equations.blocks import NONE
from dmft.equations.noise import dot


class StepCoefficients(NamedTuple):
    """A step before it is scaled: eta, and the coefficients of the present position and of the past."""

    eta: float
    keep: float
    memory: np.ndarray  # (slots,)


class Correlations(NamedTuple):
    """Q between steps of the past, of step n with them, and of step n."""

    Q: np.ndarray  # (slots, slots)
    Q_row: np.ndarray  # (slots,)
    Q_now: float


class Responses(NamedTuple):
    """R between steps of the past, of step n to them, and where its rows end."""

    R: np.ndarray  # (slots, slots)
    R_row: np.ndarray  # (slots,)
    stop: np.ndarray  # (slots,)


@njit(**UNCOUNTED)
def through_noise(unit, correlation, responses, used, b):
    """b_j, into b (slots,), and b_n = <chi_n zeta_n>. Eq. [dmft-Q]."""
    R, R_row, stop = responses
    for i in range(used):
        b[i] = unit * dot(R[i], correlation, stop[i])
    b_now = unit * dot(R_row, correlation, used)
    return b_now


@njit(**INNER)
def against_past(step, noise, correlations, used, x):
    """x_j, into x (slots,), and x_n. noise: b_j of the past (slots,), and b_n. Eq. [dmft-Q]."""
    (eta, keep, memory), (b, b_now), (Q, Q_row, Q_now) = step, noise, correlations
    for j in range(len(x)):
        x[j] = keep * Q_row[j]
    for i in range(used):
        weight, row = eta * memory[i], Q[i]
        if weight != 0.0:
            for j in range(used):
                x[j] += weight * row[j]
    for j in range(len(x)):
        x[j] += eta * b[j]
    return keep * Q_now + eta * dot(memory, Q_row, used) + eta * b_now


@njit(**UNCOUNTED)
def next_row(step, c_now, noise, correlations, responses, used, x, r):
    """x_j, into x (slots,), the unnormalised next row of R, into r (slots,); x_n, and q_u without the thermal part. Eqs. [dmft-Q],
    [dmft-R]."""
    (eta, keep, memory), (b, b_now), (R, R_row, stop) = step, noise, responses
    x_now = against_past(step, noise, correlations, used, x)
    for j in range(len(r)):
        r[j] = keep * R_row[j]
    for i in range(used):
        weight, row = eta * memory[i], R[i]
        if weight != 0.0:
            for j in range(stop[i]):
                r[j] += weight * row[j]
    b_z = keep * b_now + eta * dot(memory, b, used) + eta * c_now
    q_u = keep * x_now + eta * dot(memory, x, used) + eta * b_z
    return x_now, q_u


@njit(**INNER)
def merge_vector(v, older, newer, into):
    """Two blocks become one in a vector of block sums, or one moves alone."""
    total = v[older]
    v[older] = 0.0
    if newer != NONE:
        total += v[newer]
        v[newer] = 0.0
    v[into] = total


@njit(**UNCOUNTED)
def merge_matrix(A, older, newer, into):
    """Two blocks become one in a matrix of block sums, or one moves alone: columns, then rows."""
    for i in range(len(A)):
        merge_vector(A[i], older, newer, into)
    both, one = A[into], A[older]
    for j in range(len(A)):
        both[j] = one[j]
        one[j] = 0.0
    if newer != NONE:
        other = A[newer]
        for j in range(len(A)):
            both[j] += other[j]
            other[j] = 0.0


@njit(**UNCOUNTED)
def merge_matrices(merges, matrices):
    """`merge_matrix` of a tuple of matrices, by all merges of a Plan."""
    for A in matrices:
        for k in range(len(merges)):
            merge_matrix(A, merges[k, 0], merges[k, 1], merges[k, 2])


def merge_columns(array: Any, merges: np.ndarray) -> None:
    """The same in the columns of an array (..., slots), on any device."""
    for older, newer, into in merges.tolist():
        total = array[..., older].copy()
        array[..., older] = 0
        if newer != NONE:
            total += array[..., newer]
            array[..., newer] = 0
        array[..., into] = total


@njit(**UNCOUNTED)
def merge_vectors(merges, vectors):
    """The same in a tuple of vectors of block sums."""
    for v in vectors:
        for k in range(len(merges)):
            merge_vector(v, merges[k, 0], merges[k, 1], merges[k, 2])
