"""Overlaps of random students, drawn without their weights, have the law of overlaps of weights."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import beta, kstest

from onepass.networks.overlaps import omega, random_overlaps

DIMENSION, COUNT = 6, 6000


@pytest.fixture(scope="module")
def drawn():
    """Two students and two teachers in six dimensions, where a degree of freedom more or less is a fifth of them."""
    teachers = np.array([[1.0, 0.5], [0.5, 2.0]])
    return teachers, random_overlaps(2, teachers, DIMENSION, COUNT, 1, sphere=False)


def off_by(values: np.ndarray, mean: float) -> float:
    """Distance of an average from what it should be, in its standard errors."""
    return float(abs(values.mean() - mean) / (values.std(ddof=1) / np.sqrt(len(values))))


def test_lengths_and_what_teachers_do_not_see(drawn):
    """Weights N(0, 1) in d dimensions: <Q_ii> = 1, <M_ir M_is> = P_rs/d, and what is left of Q beside the span of k teachers is a
    Wishart matrix of d - k degrees: its mean is (d-k)/d and its determinant (d-k)(d-k-1)/d^2 on average. Measured: 1.5
    standard errors off at most; with d degrees instead of d - k, 38 to 51."""
    P, found = drawn
    M, Q = found["M"], found["Q"]
    rest = Q - M @ np.linalg.inv(P) @ np.swapaxes(M, 1, 2)
    left = DIMENSION - 2
    assert off_by(Q[:, 0, 0], 1.0) < 4 and off_by(Q[:, 1, 1], 1.0) < 4 and off_by(Q[:, 0, 1], 0.0) < 4
    assert max(off_by(M[:, 0, r] * M[:, 0, s], P[r, s] / DIMENSION) for r in range(2) for s in range(2)) < 4
    assert off_by(rest[:, 0, 0], left / DIMENSION) < 4 and off_by(rest[:, 1, 1], left / DIMENSION) < 4
    assert off_by(np.linalg.det(rest), left * (left - 1) / DIMENSION**2) < 4
    assert np.linalg.eigvalsh(omega(M, Q, np.broadcast_to(P, (COUNT, 2, 2))))[:, 0].min() > 0


def test_a_direction_on_the_sphere_is_uniform():
    """m^2 of a uniform direction in d dimensions: Beta(1/2, (d-1)/2). Twin: the law of one dimension more is told apart."""
    found = random_overlaps(1, np.eye(1), DIMENSION, COUNT, 2, sphere=True)
    squares = found["M"][:, 0, 0] ** 2
    assert np.allclose(found["Q"], 1.0)
    assert kstest(squares, beta(0.5, (DIMENSION - 1) / 2).cdf).pvalue > 1e-3
    assert kstest(squares, beta(0.5, DIMENSION / 2).cdf).pvalue < 1e-6
