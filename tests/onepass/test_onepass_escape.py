"""Exit times, escape by information exponent and distance from the ODE, measured on the exact chain and on SGD."""

import numpy as np
import pytest

import onepass
from onepass.first_passage import ExitProcess, measure_exit, overlap_measure, risk_measure
from onepass.networks import exit_times, scaling
from onepass.process import from_bytes, to_bytes

pytestmark = pytest.mark.statistical


@pytest.mark.slow
def test_exit_time_of_one_unit_needs_the_noise_correction():
    gamma, d, threshold = 1 / 12, 500, 0.1
    net = onepass.QuadraticNetwork(1, 1, gamma, constraint="sphere")
    found = measure_exit(net, d, 500, risk_measure(net, threshold), 5.0)
    assert found.share == 1.0
    # the correction is itself of leading order in 1/d; at d = 1000 (slow test) it holds within 0.01
    assert abs(found.mean - exit_times.one_unit_with_noise(d, gamma, 0.0, threshold)) < 4 * found.error + 0.03
    assert exit_times.one_unit_quenched(d, gamma, 0.0, threshold) - found.mean > 5 * found.error


@pytest.mark.parametrize("process", ["chain", "sgd"])
def test_exit_times_are_those_of_the_recorded_paths(process):
    """The ensemble recorded at every look, crossed by hand: the same numbers, bit for bit. On one rank and from a snapshot."""
    net, t_max, looks, d = onepass.QuadraticNetwork(2, 1, 0.2, 0.1, constraint="sphere"), 2.0, 40, 100
    found = measure_exit(net, d, 6, overlap_measure(0.5), t_max, process, resolution=1 / looks).times
    tau, chunk = net.time_step(d), round(t_max / looks / net.time_step(d))
    run = net.chain if process == "chain" else net.simulate
    paths = run(d, 6, net.random_start(d, 6), tau * chunk * np.arange(looks + 1))
    measure = np.abs(paths.M).max(axis=(2, 3)) - 0.5
    for time, path in zip(found, measure, strict=True):
        after = np.flatnonzero(path >= 0.0)
        if not len(after):
            assert np.isnan(time)
            continue
        i = after[0]
        assert time == tau * (chunk * i - chunk * path[i] / (path[i] - path[i - 1]))
    assert np.isfinite(found).sum() >= 3
    x0 = net.start({"M": [[0.1], [0.0]], "Q": np.eye(2)}, d)
    walks = [ExitProcess(net.chain_process(x0.copy(), d, 1, 0), net.layout.unpack, overlap_measure(0.5), x0, chunk, tau)
             for _ in range(2)]
    walks[0].advance(chunk + 3)
    from_bytes(walks[1].moving, to_bytes(walks[0].moving))
    for walk in walks:
        walk.advance(40 * chunk)
    assert walks[0].flat() == walks[1].flat() and np.isfinite(walks[0].flat())


@pytest.mark.long
def test_sgd_and_chain_exit_alike():
    net = onepass.QuadraticNetwork(2, 1, 0.2, 0.1, constraint="sphere")
    measure = risk_measure(net, 0.1)
    chain = measure_exit(net, 200, 100, measure, 4.0)
    sgd = measure_exit(net, 200, 100, measure, 4.0, process="sgd", seed=2)
    assert abs(chain.mean - sgd.mean) < 4.5 * np.hypot(chain.error, sgd.error)
    other = measure_exit(net, 1600, 25, measure, 4.0)  # in a larger dimension the chain exits later, by log(8)/(2 omega)
    assert abs(other.mean - sgd.mean) > 5 * np.hypot(other.error, sgd.error)


@pytest.mark.long
def test_exit_from_zero_overlap_is_that_of_the_ornstein_uhlenbeck_process():
    d, gamma, threshold = 3000, 1 / 12, 0.01
    net = onepass.QuadraticNetwork(1, 1, gamma, constraint="sphere")
    start = {"M": [[0.0]], "Q": [[1.0]]}
    level = np.sqrt(threshold)
    found = measure_exit(net, d, 100, overlap_measure(level), 6.0, initial=start, resolution=2e-3)
    assert abs(found.mean - exit_times.ornstein_uhlenbeck(d, gamma, 0.0, threshold)) < 4.5 * found.error
    assert abs(found.mean - exit_times.ornstein_uhlenbeck(d, 1.5 * gamma, 0.0, threshold)) > 8 * found.error


@pytest.mark.long
def test_steps_to_escape_for_information_exponents_one_and_two():
    one = scaling.escape_steps(1, (100, 400, 1600), 24)
    assert abs(one.fit.slope - 1.0) < 0.1
    two = scaling.escape_steps(2, (100, 400, 1600), 24)
    assert 1.1 < two.fit.slope < 1.4  # d log d over this range
    d = np.asarray(two.dimensions)
    per = two.steps / (d * np.log(d))
    assert per.max() / per.min() < 1.35


@pytest.mark.slow
def test_steps_to_escape_for_information_exponent_three():
    three = scaling.escape_steps(3, (30, 60, 120), 16)
    assert abs(three.fit.slope - 2.0) < 4.5 * three.fit.slope_error + 0.15


@pytest.mark.long
def test_distance_from_the_ode_falls_as_the_square_root_of_the_time_step():
    cases = [(1, 500), (1, 2000), (2, 1000), (2, 4000), (4, 8000)]
    nets = [onepass.QuadraticNetwork(p, 1, 0.1 * p, constraint="sphere") for p, _ in cases]

    def start(net):
        return {"M": np.full((net.width, 1), 0.3), "Q": 0.5 * np.eye(net.width) + 0.5}

    tau, distance, fit = scaling.ode_distance(nets, [d for _, d in cases], start, np.linspace(0.1, 0.5, 5), 60)
    assert np.all(np.diff(distance[np.argsort(tau)]) > -0.2 * distance.max())
    assert abs(fit.slope - 0.5) < 4.5 * fit.slope_error + 0.05
    assert abs(fit.slope - 1.0) > 5 * fit.slope_error
