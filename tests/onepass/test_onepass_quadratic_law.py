"""ODE, SDE, exact chain and direct SGD of quadratic networks against each other, bounds from the measured spread."""

import numpy as np
import pytest

import onepass

pytestmark = pytest.mark.statistical


def largest_z(one, other, names=("a", "M", "Q")):
    """Largest |difference of means| in units of its standard error, entries without spread left out."""
    worst = 0.0
    for name in names:
        error = np.hypot(one.error()[name], other.error()[name])
        moves = error > 1e-12
        worst = max(worst, np.max(np.abs(one.mean()[name] - other.mean()[name])[moves] / error[moves], initial=0.0))
    return worst


def largest_variance_z(one, other, names=("M", "Q")):
    """The same for variances, whose error is measured from fourth moments."""
    worst = 0.0
    for name in names:
        parts = []
        for paths in (one, other):
            square = (paths[name] - paths[name].mean(0)) ** 2
            parts.append((square.mean(0), square.std(0) / np.sqrt(len(square))))
        error = np.hypot(parts[0][1], parts[1][1])
        moves = error > 1e-14
        worst = max(worst, np.max(np.abs(parts[0][0] - parts[1][0])[moves] / error[moves], initial=0.0))
    return worst


START = {"a": [0.8, 1.2], "M": [[0.4], [0.1]], "Q": [[1.0, 0.2], [0.2, 1.0]]}


@pytest.mark.parametrize(("constraint", "gamma", "d"), [("none", 0.05, 30), ("sphere", 0.3, 20)])
@pytest.mark.slow
def test_chain_and_direct_sgd_have_the_same_law_in_small_dimension(constraint, gamma, d):
    net = onepass.QuadraticNetwork(2, 1, gamma, 0.2, second_layer="trained", constraint=constraint)
    times = [0.05, 0.2]
    sgd = net.simulate(d, 2000, START, times, seed=1)
    chain = net.chain(d, 2000, START, times, seed=2)
    assert largest_z(sgd, chain) < 4.5
    assert largest_variance_z(sgd, chain, ("a", "M", "Q")) < 4.5
    wrong = net.chain(3 * d // 2, 2000, START, times, seed=2)  # a chain of another dimension must be told apart
    assert largest_variance_z(sgd, wrong, ("a", "M", "Q")) > 5


def test_large_chain_follows_the_ode():
    net = onepass.QuadraticNetwork(2, 1, 0.3, 0.2, second_layer="trained", constraint="sphere")
    times = [0.2, 0.5]
    ode = net.solve(START, times)
    chain = net.chain(10**4, 40, START, times)
    for name in ("a", "M"):
        assert np.abs((chain.mean()[name] - ode[name]) / chain.error()[name]).max() < 4.5
    other = onepass.QuadraticNetwork(2, 1, 0.3, 0.6, second_layer="trained", constraint="sphere").solve(START, times)
    assert np.abs((chain.mean().M - other.M) / chain.error().M).max() > 5


@pytest.mark.slow
def test_sde_has_the_variance_of_the_chain_and_the_printed_noise_has_not():
    g, delta, d, n = 0.1, 0.5, 3000, 1000
    net = onepass.QuadraticNetwork(1, 1, g, delta, constraint="sphere")
    start, times = {"M": [[0.5]], "Q": [[1.0]]}, [0.1, 0.3]
    chain = net.chain(d, n, start, times)
    sde = net.diffuse(d, n, start, times)
    assert largest_variance_z(chain, sde, ("M",)) < 4.5
    scaled = d * chain.variance().M[:, 0, 0]
    np.testing.assert_allclose(scaled, [0.404, 0.950], rtol=4.5 * np.sqrt(2 / n))
    assert np.all(np.abs(scaled / [0.288, 0.655] - 1) > 5 * np.sqrt(2 / n))  # variances under the printed (62)


def test_random_starts_have_the_law_of_random_weights():
    d, n = 12, 4000
    net = onepass.QuadraticNetwork(2, 1, 0.1, constraint="sphere")
    s = net.random_start(d, n)
    u = d * s["M"][:, 0, 0] ** 2
    assert abs(u.mean() - 1.0) < 4.5 * u.std() / np.sqrt(n)
    overlap = d * s["Q"][:, 0, 1] ** 2
    assert abs(overlap.mean() - 1.0) < 4.5 * overlap.std() / np.sqrt(n)
    np.testing.assert_allclose(s["Q"][:, 0, 0], 1.0)
