"""Products and solves for the lines of all units: the bits of one line after the other, for any number of lines and threads."""

from __future__ import annotations

import numpy as np
import pytest

from dmft.committee import algebra
from dmft.committee.algebra import against, factor_lines, join_lines, keep_solved, solve_lines, times
from dmft.committee.arrays import Block, UnitArrays
from dmft.committee.steps import given_weights
from dmft.equations.noise import factor_rows, least_share
from dmft.equations.tuning import ESTIMATOR

LEAST = least_share(ESTIMATOR)  # of a variance that a pivot has
ENDS = (8, 16, 24, 37)  # where rows of a matrix end, in groups of four rows


def matrices(lines: int, size: int = 37) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lines, a symmetric positive matrix, and one whose rows end early with their ends."""
    rng = np.random.default_rng(lines)
    A, M = rng.standard_normal((lines, size)), rng.standard_normal((size, size))
    return A, M @ M.T / size + np.eye(size), np.array([ENDS[min(k // 12, 3)] for k in range(size)])


@pytest.mark.parametrize("lines", [1, 4, 6])
def test_lines_together_have_the_bits_of_each_alone(lines):
    A, S, stop = matrices(lines)
    size = len(S)
    B = np.where(np.arange(size) < stop[:, None], S, 0.0)
    np.testing.assert_allclose(times(A, B, stop, size), A @ B, atol=1e-13)
    np.testing.assert_allclose(against(A, B, stop, size), A @ B.T, atol=1e-13)
    L = np.zeros_like(S)
    assert factor_lines(S, np.full(size, 0.1), np.arange(size), L, 0, 0, LEAST) == 0
    solved = A.copy()
    half = solve_lines(L, solved)
    np.testing.assert_allclose(solved @ (S + 0.1 * np.eye(size)), A, atol=1e-13)
    np.testing.assert_allclose(half @ np.tril(L).T, A, atol=1e-13)
    for k in range(lines):
        one = A[k : k + 1].copy()
        assert np.array_equal(times(one, B, stop, size), times(A, B, stop, size)[k : k + 1])
        assert np.array_equal(against(one, B, stop, size), against(A, B, stop, size)[k : k + 1])
        assert np.array_equal(solve_lines(L, one), half[k : k + 1]) and np.array_equal(one, solved[k : k + 1])


def test_a_factor_is_that_of_one_row_after_the_other():
    """More rows than are taken together; rows that `solve_lines` has left, and blocks that become one, as far as they are known."""
    units, blocks = 3, 40
    size, rng = units * blocks, np.random.default_rng(5)
    M = rng.standard_normal((size, 2 * size))
    S, ridge, order = M @ M.T / size, np.full(size, 0.1), rng.permutation(size)
    right, made = np.zeros((size, size)), np.zeros((size, size))
    assert factor_rows(S, ridge, order, right, 0, LEAST) == factor_lines(S, ridge, order, made, 0, 0, LEAST) == 0
    assert np.array_equal(np.tril(made), np.tril(right))

    before, plain, added = size - units, np.arange(size), np.zeros((size, size))
    factor_rows(S, ridge, plain, right, 0, LEAST)
    factor_lines(S, ridge, plain[:before], added, 0, 0, LEAST)
    known = keep_solved(added, solve_lines(added, S[before:, :before].copy()))
    factor_lines(S, ridge, plain, added, before, known, LEAST)
    assert known == before and np.array_equal(np.tril(added), np.tril(right))
    assert keep_solved(added, np.zeros((units, size))) == 0  # there is no room for more

    at = 20 * units  # this block and the next one become one
    sums = np.delete(np.eye(size), np.s_[at + units : at + 2 * units], axis=0)
    sums[at : at + units, at + units : at + 2 * units] = np.eye(units)
    joined, fresh = sums @ (S + np.diag(ridge)) @ sums.T, np.zeros((size, size))
    join_lines(right, at, units, at)
    factor_lines(joined, np.zeros(before), plain[:before], right, at, at, LEAST)
    factor_rows(joined, np.zeros(before), plain[:before], fresh, 0, LEAST)
    np.testing.assert_allclose(np.tril(right[:before, :before]), np.tril(fresh[:before, :before]), atol=1e-13)


@pytest.mark.slow
def test_threads_change_no_bit():
    A, S, stop = matrices(6)
    size = len(S)
    out = np.zeros_like(A)
    algebra._times_shared(A, S, stop, size, out, 3)
    assert np.array_equal(out, times(A, S, stop, size))
    algebra._against_shared(A, S, stop, size, size, out, 3)
    assert np.array_equal(out, against(A, S, stop, size))
    L, other = np.zeros_like(S), np.zeros_like(S)
    factor_lines(S, np.ones(size), np.arange(size), L, 0, 0, LEAST)
    other[:20] = L[:20]
    algebra._solve_rows_shared(S, np.arange(size), other, 20, size, 0, 3, np.empty(size))
    np.testing.assert_array_equal(other[20:, :20], L[20:, :20])
    ours, half, theirs = A.copy(), np.empty_like(A), A.copy()
    algebra._solve_shared(L, ours, half, np.empty(len(A)), 4)
    assert np.array_equal(half, solve_lines(L, theirs)) and np.array_equal(ours, theirs)


@pytest.mark.parametrize("units", [1, 2, 5])
def test_the_inverse_of_what_is_left_has_eigenvalues_of_eps_at_least(units):
    """Of a matrix with negative eigenvalues, given a past that leaves less of it."""
    rng, eps, past = np.random.default_rng(units), 0.1, 6
    X, half = rng.standard_normal((units, units)), 0.3 * rng.standard_normal((units, past + 2))
    pairs = UnitArrays.empty(units, 1, 8).pairs
    pairs[Block.Q_NOW] = Q = X + X.T - 4.0 * np.eye(1, units * units).reshape(units, units)
    given_weights(pairs, eps, half, past)
    values, vectors = np.linalg.eigh(Q + eps * np.eye(units) - half[:, :past] @ half[:, :past].T)
    assert values.min() < eps
    np.testing.assert_allclose(pairs[Block.INVERSE], (vectors / np.maximum(values, eps)) @ vectors.T, rtol=0, atol=1e-13)
