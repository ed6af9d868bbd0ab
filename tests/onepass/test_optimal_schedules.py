"""Optimal schedules: the adjoint against finite differences, the optimum against other schedules and against the chain."""

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose

import onepass
from dmft.core.errors import UserError
from onepass.networks.control import RateSchedule, best_schedules, final_risk, risk_and_gradient

START = {"M": np.array([[0.3], [0.1]]), "Q": np.array([[1.0, 0.1], [0.1, 1.0]])}
NETS = {
    "squares": onepass.QuadraticNetwork(2, 1, 0.2, 0.3),
    "sphere": onepass.QuadraticNetwork(2, 1, 0.2, 0.3, constraint="sphere"),
    "erf, trained, batch and decay": onepass.Network("erf", 2, 1, 1.0, 0.2, "trained", batch=2, weight_decay=0.1),
}


@pytest.mark.parametrize("name", NETS)
def test_the_adjoint_is_the_gradient(name):
    net, rates = NETS[name], np.array([1.5, 0.7, 0.3])
    x0 = net.start(START)
    value, gradient = risk_and_gradient(net, x0, rates, 1.0, 3)
    assert value == final_risk(net, x0, rates, 1.0, 3)
    for i, e in enumerate(1e-4 * np.eye(3)):
        difference = (final_risk(net, x0, rates + e, 1.0, 3) - final_risk(net, x0, rates - e, 1.0, 3)) / 2e-4
        assert_allclose(gradient[i], difference, rtol=1e-5, atol=1e-9)
        assert abs(1.01 * gradient[i] - difference) > 1e-5 * abs(difference)      # it would notice a per cent


def test_a_batch_is_no_second_control():
    """b samples at the rate u, per sample, are single ones at the rate u/b."""
    one, many = (onepass.Network("erf", 2, 1, 0.5, 0.2, batch=b) for b in (1, 4))
    x = one.start(START)
    assert_allclose(many.drift(x, np.array(4.0 * 0.7)) / 4.0, one.drift(x, np.array(0.7)), rtol=1e-12)
    assert np.abs(many.drift(x, np.array(0.7)) - one.drift(x, np.array(0.7))).max() > 1e-3


@pytest.mark.long
def test_the_optimum_of_few_long_intervals_is_that_of_the_ode():
    """Against a coarse grid of schedules, with the risks of the adaptive ODE. Two steps of the rule in each of these intervals, the
    twin, are off by more than what is to be gained."""
    net, start = onepass.QuadraticNetwork(1, 1, 0.1, 0.5), {"M": np.array([[0.4]]), "Q": np.array([[0.8]])}
    found = best_schedules(net, start, 4.0, 2)

    def risk(rates):
        return RateSchedule(np.array(rates), 4.0, 0.0).applied(net).solve(start, [4.0], rtol=1e-7).risk[0]

    best = risk(found.optimal.rates)
    assert abs(best - found.optimal.risk) < 4e-3 * (best - 0.25)
    others = [risk(pair) for pair in product((0.3, 0.6, 1.0, 1.6), repeat=2)]
    assert best < min(others) and found.optimal.risk < found.constant.risk
    with np.errstate(over="ignore", invalid="ignore"):
        rough = final_risk(net, net.start(start), found.optimal.rates, 4.0, 2)
    assert not abs(rough - best) < min(others) - best


@pytest.mark.statistical
@pytest.mark.slow
def test_the_optimum_is_best_and_the_chain_follows_it():
    net = onepass.QuadraticNetwork(1, 1, 0.1, 0.5)
    start = {"M": np.array([[0.4]]), "Q": np.array([[0.8]])}
    found = best_schedules(net, start, 4.0, 8)
    assert found.optimal.risk < found.power.risk < found.constant.risk
    excess = [one.risk - 0.25 for one in (found.optimal, found.constant)]
    assert excess[0] < 0.8 * excess[1]
    scheduled = found.optimal.applied(net)
    ode = scheduled.solve(start, [4.0])
    assert abs(ode.risk[0] - found.optimal.risk) < 4e-3 * excess[0]
    best, flat = (one.applied(net).chain(4000, 60, start, [4.0]) for one in (found.optimal, found.constant))
    assert abs(best.mean().risk[0] - ode.risk[0]) < 4.5 * best.error().risk[0] + 2e-3 * excess[1]
    assert flat.mean().risk[0] - best.mean().risk[0] > 6.0 * np.hypot(best.error().risk[0], flat.error().risk[0])


def test_a_schedule_takes_the_place_of_that_of_the_network():
    schedule = RateSchedule(np.array([1.5, 0.5]), 2.0, 0.0)
    net = onepass.QuadraticNetwork(2, 1, 0.2, 0.3, rate_decay=(0.5, 1.0))
    assert schedule.applied(net) == schedule.applied(NETS["squares"])
    assert_allclose(schedule.applied(net).solve(START, [2.0]).risk[0],
                    final_risk(NETS["squares"], NETS["squares"].start(START), schedule.rates, 2.0, 200), rtol=1e-7)


def test_what_is_not_smooth_is_refused():
    with pytest.raises(UserError, match="smooth and quadratic"):
        best_schedules(onepass.Network(loss="absolute"), {"M": [[0.1]], "Q": [[1.0]]}, 1.0)
