"""Fixed points and stability of networks, and instances that explode while still finite."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import onepass

NET = onepass.QuadraticNetwork(1, 1, 0.05, 0.5, constraint="sphere")


def test_fixed_point_leaves_a_fixed_second_layer_and_the_sphere_alone():
    """dm/dt = m [A (1 - m^2) - 2 gamma Delta], A = 4 (1 - 6 gamma): m^2 = 1 - 2 gamma Delta/A."""
    point = onepass.fixed_point(NET, {"M": [[0.9]], "Q": [[1.0]]})
    assert point["a"] == 1.0 and point["Q"] == 1.0
    assert_allclose(point["M"], np.sqrt(1.0 - 0.05 / 2.8), rtol=1e-10)


def test_linearised_network_has_the_rate_and_the_noise_of_its_sde():
    point = onepass.fixed_point(NET, {"M": [[0.9]], "Q": [[1.0]]})
    around = onepass.linearise(NET, point)
    assert_allclose(around.rates()[0], -2.0 * 2.8 * (1.0 - 0.05 / 2.8), rtol=1e-8)  # d/dm at the fixed point: -2 A m^2
    assert_allclose(around.rates()[1:], 0.0)
    assert_allclose(around.S[1, 1], 0.05 * NET.covariance(NET.start(point))[1, 1])


@pytest.mark.long
@pytest.mark.statistical
def test_linearised_network_has_the_variance_of_the_chain():
    point, d, n = onepass.fixed_point(NET, {"M": [[0.9]], "Q": [[1.0]]}), 1500, 300
    variance = onepass.linearise(NET, point).covariance(1.0)[1, 1] / d
    measured = NET.chain(d, n, point, [1.0]).variance().M[0, 0, 0]
    assert abs(measured / variance - 1.0) < 4.5 * np.sqrt(2 / n)
    assert abs(measured / (2.0 * variance) - 1.0) > 4.5 * np.sqrt(2 / n)


def test_free_network_fixed_point_moves_everything():
    net = onepass.QuadraticNetwork(1, 1, 0.05, 0.0, second_layer="trained")
    point = onepass.fixed_point(net, {"a": [1.1], "M": [[0.95]], "Q": [[1.0]]})
    assert_allclose(net.drift(net.start(point)), 0.0, atol=1e-11)
    assert_allclose(point["a"] * point["Q"][0], 1.0, rtol=1e-8)  # a q = 1: the teacher is found


def test_an_instance_that_exploded_but_is_finite_is_marked():
    """Order 4 at n = 18: some runs pass through 1e15 and more at the last recorded step, and would make up the mean."""
    model = onepass.SpikedTensor(4, 2.0, 0.3)
    paths = model.chain(18, 1000, {"m": 0.3, "r2": 0.3}, [0.5, 17 / 18], seed=1)
    kept = paths.m[~paths.diverged]
    assert paths.diverged.any() and np.abs(kept).max() < 30.0 and abs(paths.mean().m[-1]) < 1.0
    assert np.isnan(paths.m[paths.diverged][:, -1]).all()
