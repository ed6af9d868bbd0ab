"""Layout, ODE, SDE and ensemble drivers on a model solved by hand: dx = -x dt + noise."""

from dataclasses import dataclass

import numpy as np
import pytest

from dmft.core import streams
from dmft.core.errors import UserError
from onepass.layout import StatisticsLayout
from onepass.model import Model


@dataclass(frozen=True)
class Decay(Model):
    """x <- x (1 - c/n) + (c/n) normal: drift -x, bracket variance 1."""

    step: float = 0.5

    @property
    def layout(self):
        return StatisticsLayout({"x": (), "S": (2, 2)}, frozenset({"S"}))

    def start(self, initial, dimension=None):
        return self.layout.pack(initial)

    def drift(self, x):
        return -x

    def covariance(self, x):
        return np.broadcast_to(np.eye(4), x.shape + (4,))

    def time_step(self, dimension):
        return self.step / dimension

    def chain_process(self, x0, dimension, seed, instance):
        return _Walk(x0, self.time_step(dimension), streams.generator(seed, "test-decay", instance))


class _Walk:
    def __init__(self, x0, tau, rng):
        self.x, self.tau, self.rng = x0.copy(), tau, rng

    def advance(self, steps):
        for _ in range(steps):
            self.x += self.tau * (-self.x + self.rng.standard_normal(self.x.size))

    def flat(self):
        return self.x


START = {"x": 1.0, "S": np.array([[1.0, 0.5], [0.5, 2.0]])}


def test_layout_round_trip_with_leading_axes():
    layout = StatisticsLayout({"a": (2,), "S": (3, 3), "s": ()}, frozenset({"S"}))
    rng = np.random.default_rng(0)
    s = rng.normal(size=(5, 3, 3))
    arrays = {"a": rng.normal(size=2), "S": s + s.swapaxes(1, 2), "s": np.arange(5.0)}
    flat = layout.pack(arrays)
    assert flat.shape == (5, layout.size) and layout.size == 9
    back = layout.unpack(flat)
    np.testing.assert_array_equal(back["S"], arrays["S"])
    np.testing.assert_array_equal(back["a"], np.broadcast_to(arrays["a"], (5, 2)))
    with pytest.raises(UserError, match="shape"):
        layout.pack({**arrays, "a": np.ones(3)})


def test_ode_meets_tight_tolerance_at_the_asked_times_and_finds_events():
    def half(t, s):
        return s["x"] - 0.5

    times = [0.0, 0.3, 2.0]
    path = Decay().solve(START, times, rtol=1e-11, events={"half": half})
    np.testing.assert_array_equal(path.t, times)
    np.testing.assert_allclose(path.x, np.exp(-path.t), rtol=1e-10)
    np.testing.assert_allclose(path.S[:, 0, 1], 0.5 * np.exp(-path.t), rtol=1e-10)
    np.testing.assert_allclose(path.events["half"], [np.log(2)], rtol=1e-9)
    np.testing.assert_allclose(path.dense(1.0)["x"], np.exp(-1.0), rtol=1e-8)
    half.terminal = True
    stopped = Decay().solve(START, times, events={"half": half})
    assert np.isnan(stopped.x[-1]) and stopped.attrs["outcome"] == "event"


def test_chain_and_sde_have_the_mean_and_variance_of_the_process():
    d, t = 50, 1.0
    tau = 0.5 / d
    variance = tau / 2 * (1 - np.exp(-2 * t))
    for paths in (Decay().chain(d, 400, START, [0.5, t]), Decay().diffuse(d, 400, START, [0.5, t])):
        assert paths.x.shape == (400, 2)
        assert abs(paths.mean().x[-1] - np.exp(-t)) < 5 * paths.error().x[-1] + 2 * tau
        assert abs(paths.variance().x[-1] / variance - 1) < 5 * np.sqrt(2 / 400)


def test_instances_do_not_depend_on_threads_or_company():
    one = Decay().chain(20, 3, START, [0.5], threads=1)
    two = Decay().chain(20, 6, START, [0.5], threads=2)
    np.testing.assert_array_equal(one.x, two.x[:3])


def test_one_instance_has_no_error_and_diverged_ones_are_left_out():
    one = Decay().chain(20, 1, START, [0.5])
    assert np.isfinite(one.mean().x).all() and np.isnan(one.error().x).all()
    three = Decay().chain(20, 3, START, [0.25, 0.5])
    three.diverged[1] = True
    three.x[1] = np.nan
    assert np.isfinite(three.mean().x).all() and np.isfinite(three.error().x).all()


def test_times_and_instances_are_checked():
    with pytest.raises(UserError, match="increasing"):
        Decay().solve(START, [1.0, 0.5])
    with pytest.raises(UserError, match="instances"):
        Decay().chain(20, 4, {"x": np.ones(3), "S": START["S"]}, [0.5])
