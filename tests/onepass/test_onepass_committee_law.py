"""Committees: direct SGD, chain and SDE against the ODE and each other."""

import numpy as np
import pytest

import onepass

pytestmark = pytest.mark.statistical

START = {"a": [0.8, 1.2], "M": [[0.4], [0.1]], "Q": [[1.0, 0.2], [0.2, 0.8]]}


def worst_z(paths, ode, names):
    return max(np.abs((paths.mean()[n] - ode[n]) / np.maximum(paths.error()[n], 1e-14)).max() for n in names)


@pytest.mark.long
def test_erf_chain_and_sgd_follow_the_ode():
    net = onepass.Committee("erf", 2, 1, 0.5, 0.1, second_layer="trained", second_layer_rate=0.5)
    times = [1.0, 2.0]
    ode = net.solve(START, times)
    chain = net.chain(10**4, 30, START, times)
    assert worst_z(chain, ode, ("a", "M", "Q")) < 4.5
    sgd = net.simulate(600, 60, START, times)
    assert worst_z(sgd, ode, ("a", "M", "Q")) < 5
    wrong = onepass.Committee("erf", 2, 1, 0.5, 0.1, second_layer="trained").solve(START, times)
    assert worst_z(chain, wrong, ("a",)) > 8


def test_tanh_with_another_teacher():
    net = onepass.Committee("tanh", 2, 1, 0.5, 0.1, teacher_activation="erf")
    ode = net.solve(START, [1.0], rtol=1e-6)
    assert worst_z(net.chain(6000, 40, START, [1.0]), ode, ("M", "Q")) < 4.5
    same = onepass.Committee("tanh", 2, 1, 0.5, 0.1).solve(START, [1.0], rtol=1e-6)
    assert np.abs(same.M - ode.M).max() > 5e-3


@pytest.mark.long
def test_sde_has_the_variance_of_the_chain():
    net = onepass.Committee("erf", 1, 1, 1.0, 0.2)
    start, n, d = {"M": [[0.3]], "Q": [[0.7]]}, 300, 2000
    chain, sde = net.chain(d, n, start, [1.0]), net.diffuse(d, n, start, [1.0], step=0.1)
    for name in ("M", "Q"):
        ratio = sde.variance()[name] / chain.variance()[name]
        assert np.abs(ratio - 1.0).max() < 4.5 * np.sqrt(4 / n)
        third = sde.variance()[name] / 3.0 / chain.variance()[name]
        assert np.abs(third - 1.0).min() > 4.5 * np.sqrt(4 / n)
