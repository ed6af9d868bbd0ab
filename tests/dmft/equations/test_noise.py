"""The noise chi drawn step by step, against the textbook formula for a Gaussian given its past. Eq. [dmft-chi]."""

import numpy as np
import pytest

import dmft
from dmft.equations.history import History
from dmft.equations.noise import JITTER
from dmft.equations.weights import Row, WeightDynamics
from dmft.model.experiment import Experiment

STEPS = 7
RUN = """
[problem]
alpha = 2.0
m0 = 0.5
[algorithm]
kind = "gd"
learning_rate = 0.02
t_max = 0.14
"""
RNG = np.random.default_rng(4)
ROUGH = (lambda a: a @ a.T)(RNG.standard_normal((STEPS, STEPS)))
SMOOTH = np.ones((STEPS, STEPS))  # chi constant in time: nothing but the jitter is left to draw


def drives(M_C: np.ndarray) -> list:
    """What `close` says of the noise at each step, for the kernel M_C and no response."""
    weights = WeightDynamics(Experiment.from_run(dmft.parse_run(RUN)), History(STEPS))
    found = []
    for n in range(STEPS):
        past = np.zeros(weights.history.slots)
        past[weights.history.order] = M_C[n, :n]
        row = Row(0.0, 0.0, M_C[n, n], past, np.zeros_like(past))
        closing = weights.close(row)
        found.append((closing.drive.chi_weights[weights.history.order], closing.drive.chi_sd))
        weights.advance(row, closing.next, weights.history.push(n))
    return found


@pytest.mark.parametrize("M_C", [ROUGH, SMOOTH], ids=["rough", "smooth"])
def test_law_given_the_past(M_C):
    """Weights and spread of chi_n given chi_0 .. chi_{n-1}, with the jitter in the covariance and in the variance that is drawn:
    for a constant chi what is left is JITTER (1 + 1/n). Rounding of the difference of two
    numbers of order one is 1e-16 against 1e-9; the bound is a hundred times that."""
    full = M_C + JITTER * np.diag(np.diag(M_C))
    for n, (weights, spread) in enumerate(drives(M_C)):
        expected = np.linalg.solve(full[:n, :n], M_C[n, :n]) if n else np.zeros(0)
        np.testing.assert_allclose(weights, expected, rtol=1e-5, atol=1e-6)
        left = full[n, n] - M_C[n, :n] @ expected if M_C is ROUGH or n == 0 else JITTER * (1 + 1 / n)
        np.testing.assert_allclose(spread**2, left, rtol=1e-5)
