"""A user's function that has the name of a built-in one is still the user's: closed forms ask what a function is, not its name."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import onepass

START = {"M": np.array([[0.3], [-0.2]]), "Q": np.array([[1.0, 0.1], [0.1, 0.8]])}


def named(function, name):
    """A copy of the function under another name."""
    copy = type(function)(function.__code__, function.__globals__, name)
    copy.__name__ = name
    return copy


def plain_erf(x):
    return math.erf(x)


def plain_bell(x):
    return 2.0 / math.sqrt(math.pi) * math.exp(-x * x)


def tripled(x):
    return 3.0 * x * x


def six_fold(x):
    return 6.0 * x


def doubled_square(y, f):
    return (y - f) ** 2


def doubled_difference(y, f):
    return 2.0 * (y - f)


@pytest.mark.parametrize("name, s, ds, what", [("erf", plain_erf, plain_bell, "drift"),
                                               ("quadratic", tripled, six_fold, "covariance")])
def test_an_activation_by_another_name_gives_the_same_numbers(name, s, ds, what):
    """The twin is the built-in function of that name, whose closed form the user's must not get."""
    found = []
    for activation in ((named(s, name), ds), (named(s, "mine"), ds), name):
        net = onepass.Committee(activation, 2, 1, 0.2, 0.1)
        found.append(getattr(net, what)(net.start(START)))
    assert_array_equal(found[0], found[1])
    assert np.abs(found[0] - found[2]).max() > 0.1 * np.abs(found[2]).max()


def test_a_loss_by_another_name_gives_the_same_numbers():
    """Wide enough for the averages that hold for the built-in square alone; twice that loss pulls twice as hard."""
    start = {"M": 0.1 * np.arange(1.0, 5.0)[:, None], "Q": np.eye(4)}
    found = []
    own = [(named(doubled_square, name), doubled_difference) for name in ("square", "mine")]
    for loss in (*own, "square"):
        net = onepass.MultiIndexNetwork("tanh", 4, 1, 0.2, activation="tanh", loss=loss)
        found.append(net.drift(net.start(start)))
        assert ("loss" in net.observables(net.layout.unpack(net.start(start)))) == (loss != "square")
    assert_array_equal(found[0], found[1])
    slope = net.layout.slice("M")
    np.testing.assert_allclose(found[0][slope], 2.0 * found[2][slope], rtol=2e-3)  # quasi-random points: off by 3e-4 here
