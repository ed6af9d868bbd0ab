"""Fluctuation and dissipation: exact in the stationary state of linear forces, at any learning rate; per replica within errors."""

from __future__ import annotations

import numpy as np
import pytest

import dmft
from dmft.core.errors import UserError
from dmft.equations.fdt import local, secant
from tests.exact import lin_volterra
from tests.exact.closed_models import closed_run
from tests.exact.setting import Setting
from tests.run_files import run_text


def modes(eta: float, ridge: float = 0.2, T: float = 0.3, a: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """C(lag) and Gamma(lag), lags 0..60, of the stationary state with heat T over a Marchenko-Pastur spectrum."""
    x, rho = lin_volterra.marchenko_pastur(2.0)
    r, lag = a * (1 - eta * (x + ridge)), np.arange(61)[:, None]
    V = 2 * T * eta * a**2 / (1 - r**2)
    return (V * r**lag) @ rho, np.append(0.0, (eta * a * r ** lag[:-1]) @ rho)


@pytest.mark.parametrize("a", [1.0, 0.8])
@pytest.mark.parametrize("eta", [0.2, 0.05])
def test_exact_at_finite_steps(eta, a):
    """[fdt-exact] to rounding, and twins: one-sided differences are off at first order in eta, by the numbers known for them."""
    C, Gamma = modes(eta, a=a)
    lag = np.arange(1, 60)
    np.testing.assert_allclose(local(C[lag - 1], C[lag + 1], Gamma[lag]), 0.3 * a, rtol=1e-10)
    chi = np.cumsum(Gamma)[lag]
    np.testing.assert_allclose(secant(C[0], C[1], C[lag], C[lag + 1]) / chi, 0.3 * a, rtol=1e-10)
    naive = ((C[0] - C[lag]) / chi)[round(1 / eta) - 1]
    assert abs(naive - 0.3 * a) > 0.01
    if a == 1.0:
        np.testing.assert_allclose(naive, {0.2: 0.3686, 0.05: 0.3133}[eta], atol=1e-4)


def test_mini_batches_have_a_temperature_for_every_lag():
    """[fdt-sgd] on the exact solution of the linear loss: the closed form's numbers, which a single temperature could not be."""
    setting = Setting(alpha=2.0, eta=0.1, ridge=0.2, label_noise=0.5, m0=0.5, start_variance=0.75, temperature=0.0, steps=260)
    answer = lin_volterra.solve(setting, "bernoulli", 0.5)
    Q, Gamma = answer.C - np.outer(answer.m, answer.m), 0.1 * answer.R
    n, lags = 260, np.array([1, 2, 5, 10, 20])
    found = local(Q[n, n - lags + 1], Q[n, n - lags - 1], Gamma[n, n - lags])
    np.testing.assert_allclose(found, [0.028575, 0.024912, 0.017625, 0.012131, 0.008227], rtol=1e-3)


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("history", ["full", "dyadic"])
def test_the_march_within_its_errors(history):
    """Langevin dynamics on the linear loss against the exact answer with its transient, per replica; twin: half the heat."""
    text = run_text("langevin", t_max=7.2, problem={"alpha": 2.0, "m0": 0.5, "loss": "linear", "constraint": "ridge", "ridge": 0.2},
                    algorithm={"learning_rate": 0.1, "temperature": 0.3}, theory={
                        "samples": 2048, "replicas": 6, "history": history, "blocks_per_level": 8, "waiting_times": [4.0, 5.0],
                        "fdt": True})
    found = dmft.solve(dmft.parse_run(text)).fdt()
    setting = Setting(alpha=2.0, eta=0.1, ridge=0.2, label_noise=0.0, m0=0.5, start_variance=1.0, temperature=0.3, steps=72)
    answer = lin_volterra.solve(setting)
    Q, Gamma = answer.C - np.outer(answer.m, answer.m), 0.1 * answer.R
    np.testing.assert_allclose(found.bath, 0.3, rtol=1e-12)
    for j, k in enumerate((40, 50)):
        tau, T, error = found.after("T_eff", j)
        n = np.rint((tau + found.t_w[j]) / 0.1).astype(int)
        chi = np.array([Gamma[i, k:i].sum() for i in n])
        exact = secant(Q[n, n], Q[n, n - 1], Q[n, k], Q[n, k - 1]) / chi
        assert n[0] == k + 1 and np.abs((T - exact) / error).max() < 6.0      # Student, five degrees of freedom
        assert np.abs((T - 0.5 * exact) / error).max() > 20.0
        assert error.max() < 0.02
        _, T, error = found.after("T_loc", j)
        exact = local(Q[n[:10], k + 1], Q[n[:10], k - 1], Gamma[n[:10], k])     # later ones are a difference of noise
        assert np.abs((T[:10] - exact) / error[:10]).max() < 6.0 and np.abs((T[:10] - 0.5 * exact) / error[:10]).max() > 20.0


def test_local_temperatures_in_blocks(monkeypatch):
    """T_loc subtracts neighbouring columns. The p = 3 model, no noise to hide behind: a history in blocks has that of the full one
    to 2 per cent; twin: blocks as long beside the waiting time as elsewhere, which puts one column off against the other."""
    def T_loc(history):
        found = dmft.solve(closed_run(powers=[[3, 1.0]], t_max=60.0, history=history, fdt=True, waiting_times=[10.0, 30.0])).fdt()
        return [found.after("T_loc", j)[:2] for j in (0, 1)]

    def off(blocks, full):
        return max(np.abs(np.interp(tau, *there) / T - 1)[tau > 1].max() for (tau, T), there in zip(full, blocks))

    full = T_loc("full")
    assert off(T_loc("dyadic"), full) < 0.02
    monkeypatch.setattr("dmft.equations.history.fine_fences", lambda step, early: [])
    assert off(T_loc("dyadic"), full) > 0.1


def test_a_run_that_did_not_ask_has_none(results):
    with pytest.raises(UserError, match="fdt = true"):
        results.result.fdt()
