"""Steps of the learning rate: a pulse between two long stretches without motion, in ODE, SDE, chain and SGD."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import onepass
from dmft.core.errors import RunError, UserError
from onepass.dynamics import Dynamics
from onepass.request import request
from onepass.runfile import parse_run
from onepass.stretches import Stretch
from sgd_sim.models.multi_index import rate_at
from tests.marks import slow

START = {"M": np.array([[0.2]]), "Q": np.array([[1.0]])}
PULSE = ((0.0, 0.0), (2.0, 1.0), (2.3, 0.0))


def network(rate_steps=PULSE):
    return onepass.MultiIndexNetwork("erf", 1, 1, gamma=0.5, activation="erf", rate_steps=rate_steps)


def blind(monkeypatch):
    """The twin: a network that does not tell where its rate changes."""
    monkeypatch.setattr(onepass.MultiIndexNetwork, "change_times", Dynamics.change_times)


@pytest.fixture(scope="module")
def moved():
    """M and Q after the pulse: the ODE at full rate for a time 0.3."""
    path = network(()).solve(START, [0.15, 0.3], rtol=1e-12, atol=1e-14)
    return {name: path[name] for name in ("M", "Q")}


@pytest.mark.long
@pytest.mark.parametrize("method", [slow("DOP853"), "RK45", "LSODA", slow("Radau")])
def test_the_ode_is_solved_piece_by_piece(method, moved, monkeypatch):
    path = network().solve(START, [0.0, 2.0, 2.15, 2.3, 20.0], method=method, rtol=1e-9)
    for name, value in moved.items():
        assert_allclose(path[name], np.stack([START[name], START[name], *value, value[1]]), rtol=0.0, atol=1e-8)
        assert_allclose(path.dense(2.15)[name], value[0], atol=1e-8)
    later = network().solve({**START, "clock": 1.5}, [10.0], method=method, rtol=1e-9)      # the rate follows the clock
    assert_allclose(later.M[0], moved["M"][1], atol=1e-8)
    blind(monkeypatch)
    assert_allclose(network().solve(START, [20.0], method="DOP853").M[0], START["M"], atol=1e-12)   # misses the pulse


@pytest.mark.long
def test_a_step_that_ends_at_a_change_belongs_to_the_time_before(monkeypatch):
    """Without that the rule of order 8 meets the jump in its last stage, and creeps towards it."""
    net = network(((0.0, 0.2), (2.0, 1.5), (2.3, 0.4)))
    few = net.solve(START, [4.0], rtol=1e-10).attrs["evaluations"]
    monkeypatch.setattr(Stretch, "_held", lambda self, x: x)
    assert few < 250 and net.solve(START, [4.0], rtol=1e-10).attrs["evaluations"] > 1000


def test_events_are_found_across_changes():
    """In the pulse, at a change itself (once), and as the end of the integration."""
    events = {"M": lambda t, s: s["M"][0, 0] - 0.24, "change": lambda t, s: t - 2.3, "late": lambda t, s: t - 7.0}
    events["late"].terminal = True
    path = network().solve(START, [2.0, 9.0], events=events)
    own = network(()).solve(START, [0.3], events={"M": events["M"]}).events["M"] + 2.0
    assert_allclose(path.events["M"], own, atol=1e-9)
    assert_allclose(path.events["change"], [2.3])
    assert_allclose(path.events["late"], [7.0])
    assert path.attrs["outcome"] == "event" and np.isfinite(path.M[0]).all() and np.isnan(path.M[1]).all()


def test_the_sde_steps_to_every_change(moved, monkeypatch):
    """Nearly without noise, sqrt(tau) = 1e-7, in steps longer than the pulse, which comes earlier where the clock started later."""
    start = {name: np.stack([value] * 2) for name, value in START.items()} | {"clock": np.array([0.0, 0.9])}
    paths = network().diffuse(10**14, 2, start, [2.0, 4.0], step=0.7)
    assert_allclose(paths.M[0, 0], START["M"], atol=1e-12)
    assert_allclose(paths.M[:, 1], np.stack([moved["M"][1]] * 2), atol=2e-6)
    blind(monkeypatch)
    assert np.abs(network().diffuse(10**14, 1, START, [2.0, 4.0], step=0.7).M[0, 1] - moved["M"][1]).max() > 0.01


def test_an_sde_whose_changes_would_move_is_not_grown():
    """A new instance whose clock starts elsewhere has its changes elsewhere, and all instances share their steps."""
    def wanted(clocks):
        start = {name: np.stack([value] * len(clocks)) for name, value in START.items()} | {"clock": np.array(clocks)}
        return request(network(), "sde", 100, len(clocks), start, [4.0], 1)

    wanted([0.0, 0.0, 0.0]).check_growth(wanted([0.0, 0.0]), "a.h5")
    with pytest.raises(UserError, match="the step of the SDE"):
        wanted([0.0, 0.0, 0.9]).check_growth(wanted([0.0, 0.0]), "a.h5")


@pytest.mark.long
@pytest.mark.statistical
def test_the_chain_follows_the_ode_through_a_pulse(monkeypatch):
    paths, ode = network().chain(1000, 100, START, [20.0]), network().solve(START, [20.0])
    for name in ("M", "Q"):
        assert np.abs((paths.mean()[name] - ode[name]) / paths.error()[name]).max() < 4.5
    blind(monkeypatch)
    missed = network().solve(START, [20.0])
    assert np.abs((paths.mean().M - missed.M) / paths.error().M).max() > 8.0


@pytest.mark.parametrize("process", ["chain", "simulate"])
def test_the_first_step_after_a_change_has_the_new_rate(process):
    """tau = 0.005: steps 400 to 459 of the first pulse move, and 401 to 460 of one that begins 0.6 tau later."""
    tau, first = 0.005, 400
    for late, shift in ((0.0, 0), (0.4 * tau, 0), (0.6 * tau, 1)):
        steps = np.array(PULSE) + [[0.0, 0.0], [late, 0.0], [late, 0.0]]
        net = network(tuple(map(tuple, steps)))
        counts = np.array([first, first + 1, first + 2, first + 59, first + 60, first + 61, first + 62])
        m = getattr(net, process)(100, 1, START, counts * tau).M[0, :, 0, 0]
        assert (np.diff(m) != 0.0).tolist() == [shift == 0, True, True, True, shift == 1, False]
    clock = 0.0
    for _ in range(first):
        clock += tau
    assert clock < 2.0      # the sum is rounded down, and without half a step the change would come one step late
    assert rate_at(clock, (1.0, 0.0), np.array(PULSE), 0.0) == 0.0 and rate_at(clock, (1.0, 0.0), np.array(PULSE), tau / 2) == 1.0


@pytest.mark.parametrize("given", ["[]", "[1.0]", "[1.0, 0.0, 2.0]"])
def test_rate_decay_has_two_numbers(given):
    model = f'kind = "QuadraticNetwork"\nwidth = 1\ngamma = 0.2\nrate_decay = {given}'
    with pytest.raises(RunError, match=r"a.toml: \[model\] rate_decay = .*two numbers"):
        parse_run(f"[model]\n{model}\n[initial]\nM = [[0.3]]\nQ = [[1.0]]\n", "a.toml")
