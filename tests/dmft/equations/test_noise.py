"""The noise chi drawn step by step, against the textbook formula for a Gaussian given its past. Eq. [dmft-chi]."""

from fractions import Fraction

import numpy as np
import pytest
from numba.core.errors import TypingError

import dmft
from dmft.equations.history import History
from dmft.equations.noise import dot, factor_rows, join_rows, least_share
from dmft.equations.tuning import ESTIMATOR, Estimator
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


def drives(M_C: np.ndarray, estimator: Estimator = ESTIMATOR) -> list:
    """What `close` says of the noise at each step, for the kernel M_C and no response; and the factor of its past."""
    weights = WeightDynamics(Experiment.from_run(dmft.parse_run(RUN)), History(STEPS), estimator)
    found = []
    for n in range(len(M_C)):
        past = np.zeros(weights.history.slots)
        past[weights.history.order] = M_C[n, :n]
        row = Row(0.0, 0.0, M_C[n, n], past, np.zeros_like(past))
        after = weights.step_from_row(row)
        found.append((after.drive.chi_weights[weights.history.order], after.drive.chi_sd,
                      weights.state.factor.copy()))
        weights.advance(row, after.next, weights.history.push(n))
    return found


@pytest.mark.parametrize("M_C", [ROUGH, SMOOTH], ids=["rough", "smooth"])
def test_law_given_the_past(M_C):
    """Weights and spread of chi_n given chi_0 .. chi_{n-1}, with the jitter in the covariance and in the variance that is drawn:
    for a constant chi what is left is ESTIMATOR.jitter (1 + 1/n). Rounding of the difference of two
    numbers of order one is 1e-16 against 1e-9; the bound is a hundred times that."""
    full = M_C + ESTIMATOR.jitter * np.diag(np.diag(M_C))
    for n, (weights, spread, _) in enumerate(drives(M_C)):
        expected = np.linalg.solve(full[:n, :n], M_C[n, :n]) if n else np.zeros(0)
        np.testing.assert_allclose(weights, expected, rtol=1e-5, atol=1e-6)
        left = full[n, n] - M_C[n, :n] @ expected if M_C is ROUGH or n == 0 else ESTIMATOR.jitter * (1 + 1 / n)
        np.testing.assert_allclose(spread**2, left, rtol=1e-5)


@pytest.mark.parametrize("by", [ESTIMATOR, Estimator(jitter=1e-4), Estimator(jitter=1e-4, least_of_jitter=0.5)], ids=str)
def test_what_comes_out_negative_is_a_share_of_the_jitter(by):
    """Of the estimator that is asked for, both of the variance that is drawn and of a pivot of the factor. (M_C is no covariance
    here, by far more than rounding makes of it.)"""
    overlap = np.array([[1.0, 1.1, 1.1], [1.1, 1.0, 1.1], [1.1, 1.1, 1.0]])
    _, (_, spread, _), (_, _, factor) = drives(overlap, by)
    least = by.least_of_jitter * by.jitter
    assert spread**2 == pytest.approx(least, rel=1e-12)
    assert factor[1, 1] ** 2 == pytest.approx(least * (1 + by.jitter), rel=1e-12)


def covariance_of_blocks(count: int) -> tuple[np.ndarray, np.ndarray]:
    """A covariance as smooth as those of gradient descent (nearly singular), and its jitter."""
    t = 0.05 * np.arange(count)
    return np.exp(-0.5 * (t[:, None] - t) ** 2), ESTIMATOR.jitter * np.ones(count)


@pytest.mark.parametrize("broken", [False, True], ids=["", "rows added, not rotated"])
def test_factor_when_blocks_become_one(broken):
    """Joining rows of the factor, at the oldest, middle and newest blocks, one after the other, gives a factor of the covariance in
    which these blocks are sums: to 1e-14 of its largest entry (measured 3e-16; the twin, which leaves the rotations out, is off by
    more than 1e-3)."""
    M_C, jitter = covariance_of_blocks(40)
    L = np.zeros((40, 40))
    assert factor_rows(M_C, jitter, np.arange(40), L, 0, least_share(ESTIMATOR)) == 0
    S, valid = M_C + np.diag(jitter), 40
    for at in (0, 0, 17, 35, 20, 5, 32):
        together = np.delete(np.eye(valid), at + 1, axis=0)
        together[at, at + 1] = 1.0
        S = together @ S @ together.T
        if broken:
            L[at] += L[at + 1]
            L[at + 1 : valid - 1] = L[at + 2 : valid].copy()
            valid -= 1
        else:
            valid = join_rows(L, valid, at)
    lower = np.tril(L[:valid, :valid])
    error = np.max(np.abs(lower @ lower.T - S)) / np.max(S)
    assert valid == len(S) and np.all(np.diag(lower) > 0)
    assert error > 1e-3 if broken else error < 1e-14


def test_rows_beyond_a_join_are_forgotten():
    """Where only some rows are right, a join past them changes nothing, and a join that needs the row after them ends them."""
    M_C, jitter = covariance_of_blocks(12)
    L = np.zeros((12, 12))
    factor_rows(M_C, jitter, np.arange(12), L, 0, least_share(ESTIMATOR))
    before = L.copy()
    assert [join_rows(L, 5, at) for at in (7, 5, 4)] == [5, 5, 4]
    np.testing.assert_array_equal(L, before)
    assert join_rows(L, 5, 3) == 4


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_products_are_summed_in_eight_lanes(dtype):
    """To the last bit, for any length and place in memory; the same terms in plain order give other bits. Numbers of single
    precision are widened, and product and sum in a lane are one rounding."""
    def in_lane(total: float, x: float, y: float) -> float:
        return total + x * y if dtype is np.float64 else float(Fraction(total) + Fraction(x) * Fraction(y))

    rng, others = np.random.default_rng(3), 0
    for n in range(50):
        a, b = rng.standard_normal(51)[1:], rng.standard_normal(50).astype(dtype)
        lanes = [0.0] * 8
        for k in range(n):
            if k < n - n % 8:
                lanes[k % 8] = in_lane(lanes[k % 8], float(a[k]), float(b[k]))
            else:
                lanes[0] += a[k] * float(b[k])
        s = lanes
        assert dot(a, b, n) == ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]))
        others += dot(a, b, n) != sum(a[:n] * b[:n].astype(float))
    assert others > 20
    with pytest.raises(TypingError, match="contiguous arrays of float64 or float32"):
        dot(a[::2], b, 8)
