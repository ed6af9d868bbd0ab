"""The linear algebra of the weights over slots: sums over the past, and blocks that become one. Eqs. [dmft-Q], [dmft-R], [dyadic].

eta is that of the step, and unit the learning rate in whose units R is kept, R = Gam/unit; memory and correlation are kernel values
across blocks, (slots,), Q and R block sums, (slots, slots). Slots from `used` on hold nothing yet, and row i of R nothing from
stop[i] on; both are multiples of eight, where there are so many slots, for `dot`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from dmft.core.compiled import INNER, UNCOUNTED, each
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


@njit(**INNER)
def row_products(scale, A, v, stop, used, out):
    """out_i = scale sum_j A_ij v_j over the first stop[i], for the first `used` rows."""
    for i in range(used):
        out[i] = scale * dot(A[i], v, stop[i])


@njit(**INNER)
def add_rows(scale, weights, A, used, out):
    """out_j += sum_i scale weights_i A_ij, over the first `used` of both."""
    for i in range(used):
        weight, row = scale * weights[i], A[i]
        if weight != 0.0:
            for j in range(used):
                out[j] += weight * row[j]


@njit(**INNER)
def add_short_rows(scale, weights, A, stop, used, out):
    """The same where row i ends at stop[i]."""
    for i in range(used):
        weight, row = scale * weights[i], A[i]
        if weight != 0.0:
            for j in range(stop[i]):
                out[j] += weight * row[j]


@njit(**INNER)
def through_noise(unit, correlation, responses, used, b):
    """b_j, into b (slots,), and b_n = <chi_n zeta_n>. Eq. [dmft-Q]."""
    row_products(unit, responses.R, correlation, responses.stop, used, b)  # [dmft-Q]
    return unit * dot(responses.R_row, correlation, used)


@njit(**INNER)
def against_past(step, b, b_now, correlations, used, x):
    """x_j, into x (slots,), and x_n. b, b_now: b_j of the past (slots,), and b_n. Eq. [dmft-Q]."""
    Q_row = correlations.Q_row
    for j in each(len(x)):
        x[j] = step.keep * Q_row[j]
    add_rows(step.eta, step.memory, correlations.Q, used, x)  # [dmft-Q]
    for j in each(len(x)):
        x[j] += step.eta * b[j]  # [dmft-Q]
    return step.keep * correlations.Q_now + step.eta * dot(step.memory, Q_row, used) + step.eta * b_now


@njit(**INNER)
def next_response(step, responses, used, r):
    """The unnormalised next row of R, into r (slots,). Eq. [dmft-R]."""
    R_row = responses.R_row
    for j in each(len(r)):
        r[j] = step.keep * R_row[j]
    add_short_rows(step.eta, step.memory, responses.R, responses.stop, used, r)  # [dmft-R]


@njit(**INNER)
def next_norm(step, c_now, b, b_now, x, x_now, used):
    """q_u without the thermal part. Eq. [dmft-Q]."""
    b_z = step.keep * b_now + step.eta * dot(step.memory, b, used) + step.eta * c_now  # [dmft-Q]
    return step.keep * x_now + step.eta * dot(step.memory, x, used) + step.eta * b_z  # [dmft-Q]


@njit(**INNER)
def merge_vector(v, older, newer, into):
    """Two blocks become one in a vector of block sums, or one moves alone."""
    total = v[older]
    v[older] = 0.0
    if newer != NONE:
        total += v[newer]  # [dyadic]
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
