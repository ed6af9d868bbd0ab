"""Multi-index teachers and the variants of one-pass SGD: ODE, exact chain and direct SGD; the Hermite toolkit."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

import onepass
from dmft.core.errors import UserError
from onepass import hermite
from onepass.cli import main
from onepass.networks.chain import NetworkChain
from onepass.runfile import parse_run

START = {"M": np.array([[0.4]]), "Q": np.array([[0.9]])}
VARIANTS = {
    "plain": {},
    "uses": {"uses": 2},
    "batch": {"batch": 4},
    "weight decay": {"weight_decay": 1.0},
    "rate decay": {"rate_decay": (0.3, 1.0)},
    "noisy uses": {"uses": 2, "batch": 2, "noise": 0.3},
}


def cubic(u, k):
    return u[0] * u[0] * u[0] / 3.0


def square(x):
    return x * x


def worst(paths, ode, names=("M", "Q")):
    return max(np.abs((paths.mean()[n] - ode[n]) / np.maximum(paths.error()[n], 1e-12)).max() for n in names)


@pytest.mark.statistical
@pytest.mark.parametrize("variant", list(VARIANTS))
def test_chain_and_sgd_follow_the_ode(variant):
    net = onepass.MultiIndexNetwork(cubic, 1, 1, 1.0, activation="tanh", **VARIANTS[variant])
    times = [0.4, 1.0]
    ode = net.solve(START, times, rtol=1e-7)
    chain, sgd = net.chain(3000, 80, START, times), net.simulate(150, 100, START, times)
    assert worst(chain, ode) < 4.5
    assert worst(sgd, ode) < 5.0
    if variant != "plain":
        other = onepass.MultiIndexNetwork(cubic, 1, 1, 1.0, VARIANTS[variant].get("noise", 0.0), activation="tanh")
        assert worst(chain, other.solve(START, times, rtol=1e-7)) > 8.0


def test_two_directions_and_two_units_on_the_sphere():
    start = {"M": np.array([[0.5, 0.3], [0.2, 0.6]]), "Q": np.array([[1.0, 0.4], [0.4, 1.0]])}
    net = onepass.MultiIndexNetwork("product", 2, 2, 0.8, constraint="sphere", activation="quadratic")
    ode = net.solve(start, [0.3], rtol=1e-4)
    chain = net.chain(3000, 60, start, [0.3])
    assert_allclose(chain.Q[:, 0, [0, 1], [0, 1]], 1.0, rtol=1e-12)
    assert np.abs((chain.mean().M - ode.M) / chain.error().M).max() < 4.5


def test_one_direction_is_the_committee():
    """y = u: a committee with a linear teacher, drift by drift, and the same chain in law of one step."""
    plain = onepass.MultiIndexNetwork("product", 2, 1, 0.5, 0.2, activation="tanh")
    committee = onepass.Committee("tanh", 2, 1, 0.5, 0.2, teacher_activation=(lambda x: x, lambda x: 1.0))
    start = {"a": [0.8, 1.2], "M": [[0.4], [0.1]], "Q": [[1.0, 0.2], [0.2, 0.8]]}
    x, y = plain.start(start), committee.start(start)
    assert_allclose(plain.drift(x)[:-1], committee.drift(y), atol=1e-9)
    assert_allclose(plain.solve(start, [0.0]).risk, committee.solve(start, [0.0]).risk, rtol=1e-9)
    assert plain.drift(x)[-1] == 1.0  # the clock


@pytest.mark.statistical
def test_sample_reuse_leaves_the_start_that_plain_sgd_cannot_leave():
    """Information exponent 3, generative exponent 1: at m = 0 plain SGD has no drift, and near it one of order m^2 at most
    beside the shrinking on the sphere; with every sample used twice the drift at m = 0 is a number, and SGD follows it."""
    start, times = {"M": [[0.0]], "Q": [[1.0]]}, [0.5]
    ends, drifts = {}, {}
    for uses in (1, 2):
        net = onepass.MultiIndexNetwork("hermite3", 1, 1, 0.5, activation="tanh", constraint="sphere", uses=uses)
        drifts[uses] = net.drift(net.start(start))[1]
        paths, ode = net.simulate(300, 300, start, times), net.solve(start, times, rtol=1e-6)
        assert worst(paths, ode, ("M",)) < 4.5
        ends[uses] = abs(paths.mean().M[0, 0, 0]) / paths.error().M[0, 0, 0]
    assert abs(drifts[1]) < 1e-12 and abs(drifts[2]) > 0.05
    assert ends[1] < 4.5 and ends[2] > 8.0
    assert hermite.information_exponent(lambda x: x**3 - 3 * x) == 3 and hermite.generative_exponent(lambda x: x**3 - 3 * x) == 1


def test_information_exponents_of_links():
    assert onepass.MultiIndexNetwork("staircase", 1, 3).information_exponent() == (1, [(0,)])
    assert onepass.MultiIndexNetwork("product", 1, 3).information_exponent() == (3, [(0, 1, 2)])
    assert onepass.MultiIndexNetwork("hermite3", 1, 2).information_exponent() == (3, [(0, 0, 0), (1, 1, 1)])


def test_hermite_coefficients_and_exponents():
    assert_allclose(hermite.hermite_coefficients(lambda x: x**3, 4), [0.0, 3.0, 0.0, math.sqrt(6.0), 0.0], atol=1e-10)
    rows = hermite.hermite_polynomials(np.polynomial.hermite_e.hermegauss(20)[0], 6)
    w = np.polynomial.hermite_e.hermegauss(20)[1]
    assert_allclose(rows @ (w / w.sum() * rows).T, np.eye(7), atol=1e-12)

    def damian(x):  # Damian et al. 2024: information and generative exponent 4
        return x * x * math.exp(-x * x)

    cases = {math.tanh: (1, 1), square: (2, 2), abs: (2, 2), damian: (4, 4)}
    cases[lambda x: x**3 - 3 * x] = (3, 1)
    cases[lambda x: x**4 - 6 * x * x] = (4, 2)
    for link, exponents in cases.items():
        assert (hermite.information_exponent(link), hermite.generative_exponent(link)) == exponents
    with pytest.raises(UserError, match="no information exponent"):
        hermite.information_exponent(lambda x: 1.0)


def test_bad_input_is_one_line():
    with pytest.raises(UserError, match="allowed: product, staircase, hermite3"):
        onepass.MultiIndexNetwork("parity")
    with pytest.raises(UserError, match="up to 4 fields"):
        onepass.MultiIndexNetwork("product", 3, 2).solve({"M": np.zeros((3, 2)), "Q": np.eye(3)}, [0.1])
    with pytest.raises(UserError, match="uses = 0"):
        onepass.MultiIndexNetwork(uses=0)
    with pytest.raises(UserError, match="no SDE"):
        onepass.MultiIndexNetwork().diffuse(100, 2, START, [0.1])
    with pytest.raises(UserError, match="norm 0 and no direction"):
        onepass.QuadraticNetwork(1, 2, teacher_overlaps=((1.0, 0.0), (0.0, 0.0)))
    with pytest.raises(UserError, match="nothing to learn"):
        onepass.QuadraticNetwork(1, 1, teacher_weights=(0.0,))
    singular = onepass.Committee("erf", 2, 2, 0.1, teacher_overlaps=((1.0, 1.0), (1.0, 1.0)))
    with pytest.raises(UserError, match="independent teacher vectors"):
        singular.reduced().solve({"M": np.zeros((2, 2)), "Q": np.eye(2)}, [0.1])


@pytest.mark.parametrize(("model", "said"), [
    ('kind = "Committee"\nactivation = "tanh"\nwidth = 60\ngamma = 0.1', "an evaluation would take about"),
    ('kind = "Committee"\nwidth = 1\ngamma = 0.1\nteacher_overlaps = [[0.0]]', "no direction"),
    ('kind = "MultiIndexNetwork"\nwidth = 4\ngamma = 0.1', "up to 4 fields"),
])  # fmt: skip
def test_the_command_refuses_in_one_line(model, said, tmp_path, capsys):
    run = tmp_path / "bad.toml"
    run.write_text(f'[model]\n{model}\n[initial]\nstart = "random"\n')
    assert main(["solve", str(run), "-o", str(tmp_path / "out.h5")]) == 2
    error = capsys.readouterr().err.strip()
    assert said in error and len(error.splitlines()) == 1


def test_run_file():
    text = """
[model]
kind = "MultiIndexNetwork"
link = "staircase"
width = 1
teacher_width = 2
gamma = 0.5
uses = 2
rate_decay = [1.0, 0.5]
[initial]
M = [[0.1, 0.1]]
Q = [[1.0]]
"""
    run = parse_run(text)
    assert run.model == onepass.MultiIndexNetwork("staircase", 1, 2, 0.5, uses=2, rate_decay=(1.0, 0.5))
    assert parse_run(run.to_toml()).model == run.model
    with pytest.raises(UserError, match="two numbers"):
        parse_run(text.replace("[1.0, 0.5]", "[1.0]"))


def test_the_plain_chain_has_the_law_of_the_chain_of_networks():
    """Mean and variance of one step from the same state, against the kernel of committees."""
    committee = onepass.Committee("tanh", 1, 1, 1.0, 0.1, teacher_activation=(lambda x: x, lambda x: 1.0))
    plain = onepass.MultiIndexNetwork("product", 1, 1, 1.0, 0.1, activation="tanh")
    d, n = 20, 800
    one = committee.chain(d, n, START, [1.0 / d]).M[:, 0, 0, 0]
    other = plain.chain(d, n, START, [1.0 / d]).M[:, 0, 0, 0]
    assert abs(one.mean() - other.mean()) < 4.5 * np.sqrt((one.var() + other.var()) / n)
    assert abs(one.var() / other.var() - 1.0) < 4.5 * np.sqrt((np.mean(((one - one.mean()) ** 2 / one.var()) ** 2) - 1) * 2 / n)
    assert isinstance(committee.chain_process(committee.start(START), d, 1, 0), NetworkChain)
