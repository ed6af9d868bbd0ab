"""Linear loss with ridge: gradient descent is linear, and the Marchenko-Pastur law gives everything in closed form."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import dmft
from tests.marks import slow
from tests.solver_cases import make_run

ETA, M0 = 0.05, 0.3


def spectrum(alpha: float, nodes: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of the law of xi^T xi / N at M = alpha N (trapezoid rule in the angle: spectrally exact)."""
    c = 1 / alpha
    theta = np.pi * (np.arange(nodes) + 0.5) / nodes
    y = 1 + c + 2 * np.sqrt(c) * np.cos(theta)
    x, weight = alpha * y, 2 * np.sin(theta) ** 2 / (nodes * y)
    if alpha < 1:
        weight, x = np.append(weight, 1 - alpha), np.append(x, 0.0)
    return x, weight


def closed_form(alpha: float, ridge: float, steps: int) -> dict[str, np.ndarray]:
    x, rho = spectrum(alpha)
    assert_allclose(rho.sum(), 1, rtol=1e-10)
    n = np.arange(steps + 1)[:, None]
    A = (1 - ETA * (x + ridge)) ** n                                      # (n, x): what is left of the start
    B = np.divide(x, x + ridge, out=np.zeros_like(x), where=x + ridge > 0) * (1 - A)
    signal = A * M0 + B                                                   # overlap with w0, mode by mode
    lag = n - n.T - 1
    R = np.where(lag >= 0, ((1 - ETA * (x + ridge)) ** np.maximum(lag, 0)[..., None]) @ rho, 0.0)
    return {"m": signal @ rho, "C": (signal * rho) @ signal.T + (A * rho) @ A.T, "R": R,
            "loss": ((signal - 1) ** 2 + A**2) @ (x * rho) / (2 * alpha), "mse": ((signal - 1) ** 2 + A**2) @ rho}


@pytest.fixture(scope="module", params=[(2.0, 0.2), (0.6, 0.0), slow((1.5, 0.0))], ids=str)
def solved(request):
    alpha, ridge = request.param
    problem = {"loss": "linear", "alpha": alpha, "m0": M0, "constraint": "ridge", "ridge": ridge}
    # plain sampling: with the Stein control variate mu, and so m, would have no Monte-Carlo error at all
    run = make_run({"kind": "gd"}, problem, steps=60, eta=ETA, samples=1000, replicas=12, variance_reduction=False)
    return dmft.solve(run, quiet=True), closed_form(alpha, ridge, 60)


@pytest.mark.long
def test_response_has_no_noise(solved):
    theory, exact = solved
    assert_allclose(theory.kernels.R, exact["R"], rtol=0, atol=1e-12)


def test_curves_and_correlation_within_error(solved):
    """12 replicas: Student's t with 11 degrees of freedom exceeds 7 once in 1e5; the points of a curve are one draw."""
    theory, exact = solved
    for name in ("m", "loss", "mse"):
        z = (getattr(theory, name) - exact[name])[1:] / getattr(theory, f"{name}_error")[1:]
        assert np.abs(z).max() < 7, name
    error = theory.kernels.C_error
    moved = error > 1e-12
    assert np.abs((theory.kernels.C - exact["C"])[moved] / error[moved]).max() < 8


def test_stein_leaves_no_noise_in_m():
    problem = {"loss": "linear", "alpha": 2.0, "m0": M0, "constraint": "ridge", "ridge": 0.2}
    run = make_run({"kind": "gd"}, problem, steps=60, eta=ETA, samples=200, replicas=2, variance_reduction=["stein"])
    assert_allclose(dmft.solve(run, quiet=True).m, closed_form(2.0, 0.2, 60)["m"], rtol=0, atol=1e-12)


def test_dropping_the_memory_fails(other_rows):
    """Twin: without M_R the same comparison must fail."""
    other_rows(lambda row: row._replace(K_R=0 * row.K_R))
    problem = {"loss": "linear", "alpha": 2.0, "m0": M0, "constraint": "ridge", "ridge": 0.2}
    theory = dmft.solve(make_run({"kind": "gd"}, problem, steps=60, eta=ETA, samples=500, replicas=2,
                                 variance_reduction=["stein"]), quiet=True)
    exact = closed_form(2.0, 0.2, 60)
    assert np.abs(theory.m - exact["m"]).max() > 0.01           # where the honest solution agrees to 1e-12
    assert np.abs(theory.kernels.R - exact["R"]).max() > 1e-3
