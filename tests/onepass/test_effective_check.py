"""The check of an effective model against its SGD: right models pass, wrong ones do not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dmft.core.errors import RunError
from onepass import (
    BinaryMixture,
    EffectiveDynamics,
    Problem,
    SpikedTensor,
    XorMixture,
    built_in_problem,
    check_effective,
    localizability,
)
from tests.onepass.z_scores import compare

pytestmark = pytest.mark.statistical

NOISE = 0.3


def regression_sgd(u, n):
    """One-pass least squares, y = a.x* + noise, loss (y - a.x)^2/2, a ~ N(0, I), delta = 1/(2n); a point with (m, r2) = u."""

    def gradient(x, rng):
        a = rng.standard_normal(n)
        return -a * (a[0] + np.sqrt(NOISE) * rng.standard_normal() - a @ x)

    x = np.zeros(n)
    x[0], x[1] = u[0], np.sqrt(u[1])
    return Problem(gradient, lambda w: np.array([w[0], w[1:] @ w[1:]]), 0.5 / n), x


def risk(u):
    return (u[..., 0] - 1) ** 2 + u[..., 1] + NOISE


def sigma(u):
    """J V J^T with V = rho I + e e^T for e = x - x*, rho = |e|^2 + noise."""
    m, r2, rho = u[..., 0] - 1, u[..., 1], risk(u)
    mm, mr, rr = rho + m**2, 2 * m * r2, 4 * r2 * (rho + r2)
    return np.stack([np.stack([mm, mr], -1), np.stack([mr, rr], -1)], -2)


REGRESSION = EffectiveDynamics(
    {"m": (), "r2": ()},
    f=lambda u: np.stack([u[..., 0] - 1, 2 * u[..., 1]], -1),
    g=lambda u: np.stack([0 * u[..., 0], 0.5 * risk(u)], -1),
    sigma=sigma,
    step=0.5,
    sgd=regression_sgd,
)


@pytest.mark.long
def test_a_users_model_is_confirmed_and_simulated():
    problem, x = regression_sgd(np.array([0.3, 0.8]), 400)
    check = check_effective(REGRESSION, problem, x)
    assert check.agrees, check.table()
    initial, times = {"m": 0.3, "r2": 0.8}, [0.5, 1.0]
    sgd = REGRESSION.simulate(400, 60, initial, times)
    ode = REGRESSION.solve(initial, times)
    sde = REGRESSION.diffuse(400, 400, initial, times)
    assert max(np.abs(compare(ode, sgd, name)).max() for name in ("m", "r2")) < 5
    np.testing.assert_allclose(np.sqrt(sgd.variance().m), np.sqrt(sde.variance().m), rtol=0.45)  # sd of 60 runs: 9 % a sigma


@pytest.mark.parametrize("part", ["f", "g", "sigma"])
def test_a_wrong_model_is_refuted(part):
    problem, x = regression_sgd(np.array([0.3, 0.8]), 400)
    right = getattr(REGRESSION, part)
    check = check_effective(replace(REGRESSION, **{part: lambda u: 1.2 * right(u)}), problem, x)
    assert not check.agrees
    assert max(check.z(), key=check.z().get) == part


@pytest.mark.long
@pytest.mark.parametrize(
    "model, initial",
    [
        (SpikedTensor(3, 4.0, step=0.6, ridge=0.2), {"m": 0.6, "r2": 0.9}),
        (BinaryMixture(4.0, 0.1), {"v": [1.0, 0.5], "m": [0.3, -0.4], "R": np.array([[0.5, 0.1], [0.1, 0.3]])}),
        (XorMixture(4.0, 0.05), {"v": [1.0, -0.5, 0.7, -1.2], "m": np.full((4, 2), 0.4), "R": 0.5 * np.eye(4) + 0.1}),
    ],
)
def test_the_built_in_models_pass_their_own_check(model, initial):
    problem, x = built_in_problem(model, initial, 200)
    np.testing.assert_allclose(problem.statistics(x), model.start(initial), atol=1e-12)
    check = check_effective(model, problem, x, samples=4000)
    assert check.agrees, check.table()


def test_too_few_samples_are_refused():
    problem, x = regression_sgd(np.array([0.3, 0.8]), 20)
    with pytest.raises(RunError, match="two per block"):
        check_effective(REGRESSION, problem, x, samples=50)


def test_localizability_of_the_spiked_tensor():
    """(m, r2) are localizable at delta = 1/n; n times them are not. E<Hess u, grad H^2 - V>^2 is of order 1/delta, so the
    printed o(1/delta) fails while the o(1/delta^3) of the proof holds."""
    model = SpikedTensor(3, 4.0)

    def good(n):
        return built_in_problem(model, {"m": 0.6, "r2": 0.9}, n)

    def magnified(n):
        problem, x = good(n)
        return replace(problem, statistics=lambda w: n * problem.statistics(w)), x

    sizes = (50, 100, 200)
    right = localizability(good, sizes)
    assert all(right.holds.values())
    printed = right.scaled[:, 4] * np.array(sizes) ** 2.0  # times delta instead of delta^3
    assert abs(np.polyfit(np.log(sizes), np.log(printed), 1)[0]) < 0.2 and printed.min() > 1000
    wrong = localizability(magnified, sizes).holds
    assert not wrong["hessian"] and not wrong["fourth"]
