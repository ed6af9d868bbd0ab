"""Ensembles against laws known in closed form, within measured errors."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad

import sgd_sim
from dmft.model.runfile import parse_run

pytestmark = pytest.mark.statistical

LINEAR = """
[problem]
loss = "linear"
alpha = 2.0
m0 = 0.3
constraint = "ridge"
ridge = 0.2
[algorithm]
kind = "gd"
learning_rate = 0.05
t_max = 3.0
[simulation]
dimension = 250
instances = 80
record = [0.0, 0.05, 0.5, 3.0]
"""


def marchenko_pastur(function, alpha):
    """Integral of a function over the law of X^T X/N for alpha > 1, x = 1 + alpha + 2 sqrt(alpha) cos(angle)."""
    def integrand(angle):
        x = 1.0 + alpha + 2.0 * np.sqrt(alpha) * np.cos(angle)
        return function(x) * 4.0 * alpha * np.sin(angle) ** 2 / (2.0 * np.pi * x)
    return quad(integrand, 0.0, np.pi)[0]


def linear_gd(alpha, m0, ridge, eta, n):
    """m, q, loss after n steps: w_n = f w0 + r^n (w_0 - f w0) in each eigenvector, f = x/(x + lambda), r = 1 - eta (x + lambda)."""
    def part(x):
        f = x / (x + ridge)
        decay = (1.0 - eta * (x + ridge)) ** n
        return f + decay * (m0 - f), decay**2
    return (marchenko_pastur(lambda x: part(x)[0], alpha),
            marchenko_pastur(lambda x: part(x)[0] ** 2 + part(x)[1], alpha),
            marchenko_pastur(lambda x: x * ((part(x)[0] - 1.0) ** 2 + part(x)[1]), alpha) / (2.0 * alpha))


def scores(result, expected):
    """z of m, q, loss (times x 3); expected: rows of (m, q, loss). Corrections to N = infinity are O(1/N)."""
    mean, error, size = result.mean(), result.error(), 1.0 / result.run.simulation.dimension
    return np.stack([(mean[name] - expected[:, k]) / np.hypot(error[name], size * np.abs(expected[:, k]))
                     for k, name in enumerate(("m", "q", "loss"))], axis=1)


@pytest.fixture(scope="module")
def linear():
    return sgd_sim.simulate(parse_run(LINEAR))


def test_gd_on_the_linear_loss(linear):
    expected = np.array([linear_gd(2.0, 0.3, 0.2, 0.05, n) for n in linear.states.record])
    assert np.abs(scores(linear, expected)).max() < 4


def test_another_ridge_would_be_seen(linear):
    expected = np.array([linear_gd(2.0, 0.3, 0.25, 0.05, n) for n in linear.states.record])
    assert np.abs(scores(linear, expected)).max() > 6


def langevin_rest(alpha, ridge, eta, temperature):
    """q and loss at rest: each eigenvector fluctuates with variance T / ((x + lambda)(1 - eta (x + lambda)/2))."""
    def variance(x):
        return temperature / ((x + ridge) * (1.0 - eta * (x + ridge) / 2.0))
    q = marchenko_pastur(lambda x: (x / (x + ridge)) ** 2 + variance(x), alpha)
    return q, marchenko_pastur(lambda x: x * ((ridge / (x + ridge)) ** 2 + variance(x)), alpha) / (2.0 * alpha)


def test_langevin_energy_balance():
    """At long times noise and friction balance: the loss and q of the Gibbs law, with the correction of finite eta."""
    times = list(np.arange(15.0, 24.9, 0.5))
    run = parse_run(LINEAR).replace(kind="langevin", temperature=0.4, t_max=25.0, record=times, instances=12)
    result = sgd_sim.simulate(run)
    q, loss = langevin_rest(2.0, 0.2, 0.05, 0.4)
    for values, expected in ((result.q, q), (result.loss, loss)):
        each = values.mean(axis=1)                       # over time; instances are independent
        error = np.hypot(each.std(ddof=1) / np.sqrt(each.size), expected / 250)
        assert abs(each.mean() - expected) < 4 * error
        colder = langevin_rest(2.0, 0.2, 0.05, 0.2)[0 if values is result.q else 1]
        assert abs(each.mean() - colder) > 6 * error


def test_population_limit():
    """alpha -> infinity at fixed alpha t: dm/dt = 2 alpha m (1 - m^2), as the map of one step."""
    alpha, eta, steps = 150.0, 1e-4, 100
    run = parse_run(LINEAR.replace('loss = "linear"', "").replace("ridge = 0.2", "").replace('constraint = "ridge"', ""))
    run = run.replace(alpha=alpha, learning_rate=eta, t_max=steps * eta, dimension=60, instances=12, record="linear")
    m, path = 0.3, [0.3]
    for _ in range(steps):
        a, c = 1.0 - 2.0 * eta * alpha, 2.0 * eta * alpha
        m /= np.sqrt(a * a + 2.0 * a * c * m * m + c * c * m * m)
        path.append(m)
    result = sgd_sim.simulate(run)
    assert path[-1] > 0.95
    flow = np.sqrt(1.0 / (1.0 + (1.0 / 0.09 - 1.0) * np.exp(-4.0 * alpha * result.t)))
    assert np.abs(flow - path).max() < 0.01              # the map is the flow up to eta
    deviation = np.abs(result.mean().m - path) / (result.error().m + 1.0 / alpha)
    assert deviation.max() < 4
    twice = np.abs(result.mean().m - np.interp(2 * result.t, result.t, path)) / (result.error().m + 1.0 / alpha)
    assert twice.max() > 8


@pytest.mark.parametrize("constraint", [{}, {"constraint": "ridge", "ridge": 0.5}])
def test_mse_by_formula_and_on_fresh_samples(demo_text, constraint):
    run = parse_run(demo_text).replace(dimension=200, instances=60, record=[0.0, 0.2, 1.0, 2.0], **constraint)
    result = sgd_sim.simulate(run)
    difference = result.mse_fresh - result.mse
    z = difference.mean(axis=0) / (difference.std(axis=0, ddof=1) / np.sqrt(60))
    assert np.abs(z).max() < 4
    assert (np.abs(result.mse[:, 1:] - result.mse[:, :-1]).mean(axis=0) > 0.01).all()


def test_training_error_is_not_the_error_on_fresh_samples(demo_text):
    """Twin of the above: with few samples the fields of the training set are not those of fresh ones."""
    run = parse_run(demo_text).replace(dimension=200, instances=30, alpha=1.0, t_max=4.0, record=[4.0], kind="gd")
    result = sgd_sim.simulate(run)
    fields_like_fresh = 0.25 * (3.0 + 3.0 - 2.0 * (1.0 + 2.0 * result.m**2))    # <(h^2 - h0^2)^2>/4 of Gaussians, q = 1
    assert (result.loss < 0.5 * fields_like_fresh).all()
