"""Mixtures of any width, activation and number of directions; the share of solved runs against the width."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import onepass
from dmft.core.errors import UserError
from onepass.mixtures.width import coverage, solved_share
from onepass.runfile import parse_run
from tests.marks import slow

XOR = ((1.0, 1.0), (0.0, 0.0))
THREE = ((1.0, 0.0), (0.0, 1.0), (1.0, 1.0))


def start(p, r):
    rng = np.random.default_rng(p)
    root = 0.4 * rng.standard_normal((p, p))
    return {"v": 0.5 * rng.standard_normal(p), "m": 0.5 * rng.standard_normal((p, r)), "R": root @ root.T + 0.1 * np.eye(p)}


def z(paths, ode):
    return max(np.abs((paths.mean()[n] - ode[n]) / np.maximum(paths.error()[n], 1e-12)).max() for n in ("v", "m", "R"))


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize(("p", "labels", "activation"), [(3, XOR, "tanh"), slow(2, THREE, "erf"), slow(6, XOR, "relu")])
def test_chain_and_sgd_follow_the_ode(p, labels, activation):
    """Twin: the drift without the corrector."""
    net = onepass.GaussianMixture(4.0, 0.05, p, labels, activation, quadrature=12)
    s, times = start(p, len(labels)), [1.0]
    ode = net.solve(s, times)
    chain, sgd = net.chain(4000, 60, s, times), net.simulate(500, 40, s, times)
    assert z(chain, ode) < 4.5 and z(sgd, ode) < 4.5
    flow = onepass.GaussianMixture(4.0, 0.05, p, labels, activation, 0.0, 12)
    assert z(chain, flow.solve(s, times)) > 8.0


def test_integrals_are_those_of_the_mixtures_with_their_own_rules():
    s = start(2, 1)
    binary = onepass.BinaryMixture(5.0, 0.1)
    any_width = onepass.GaussianMixture(5.0, 0.1, 2, ((1.0, 0.0),))
    exact = binary.drift(binary.start(s | {"m": s["m"][:, 0]}))
    assert_allclose(any_width.drift(any_width.start(s)), exact, atol=2e-5)
    assert np.abs(any_width.drift(any_width.start(s | {"v": -s["v"]})) - exact).max() > 0.05
    xor, s = onepass.XorMixture(np.inf, 0.05), start(4, 2)
    limit = onepass.GaussianMixture(np.inf, 0.05, 4, XOR)
    assert_allclose(limit.drift(limit.start(s)), xor.drift(xor.start(s)), atol=1e-14)
    assert_allclose(limit.covariance(limit.start(s)), xor.covariance(xor.start(s)), atol=1e-14)


@pytest.mark.long
@pytest.mark.statistical
def test_noise_and_errors_of_any_activation():
    """The covariance against steps of SGD (its own estimator), and the classification error against new data."""
    net = onepass.GaussianMixture(3.0, 0.1, 3, XOR, "tanh", quadrature=12)
    s = start(3, 2)
    problem, x = onepass.built_in_problem(net, s, 400)
    found = onepass.check_effective(net, problem, x, samples=4000)
    assert found.agrees
    net = onepass.GaussianMixture(3.0, 0.1, 3, XOR, quadrature=12)
    s |= {"v": np.array([1.0, 1.0, -1.5]), "m": np.array([[1.0, 0.0], [-1.0, 0.2], [0.1, 1.0]])}
    rng = np.random.default_rng(1)
    n, root = 40000, np.linalg.cholesky(s["R"])
    which, sign = rng.integers(0, 2, n), rng.choice([-1.0, 1.0], n)
    X = rng.standard_normal((n, 2)) / np.sqrt(3.0)
    X[np.arange(n), which] += sign
    h = X @ s["m"].T + rng.standard_normal((n, 3)) @ root.T / np.sqrt(3.0)
    output = np.maximum(h, 0.0) @ s["v"]
    wrong = np.where(output == 0.0, 0.5, (output > 0.0) != (which == 0))       # no neuron active: a toss
    error = wrong.std() / np.sqrt(n)
    assert abs(net.classification_error(s) - wrong.mean()) < 4.5 * error + 2e-3
    assert abs(net.classification_error(s | {"v": -s["v"]}) - wrong.mean()) > 8.0 * error


@pytest.mark.long
@pytest.mark.statistical
def test_width_solves_xor():
    """The coupon collector's probabilities: 3/32 at four neurons, 0.62 at eight. Twin: one neuron fewer."""
    net = onepass.GaussianMixture(np.inf, 0.05, class_labels=XOR)
    found = solved_share(net, (4, 8), 100, 250, 100.0)
    assert abs(coverage(4, 4) - 3 / 32) < 1e-12 and abs(coverage(2, 2) - 0.5) < 1e-12
    assert (np.abs(found.share - found.expected) < 4.5 * found.error).all()
    assert abs(found.share[1] - coverage(6, 4)) > 4.5 * found.error[1]


def test_what_to_expect_is_said_of_the_papers_classes_alone():
    for labels, activation, known in ((XOR, "relu", True), (((0.0, 1.0),), "relu", True), (THREE, "relu", False),
                                      (XOR, "tanh", False), (((1.0, 0.0), (1.0, 0.0)), "relu", False)):
        net = onepass.GaussianMixture(np.inf, 0.05, class_labels=labels, activation=activation)
        assert np.isfinite(solved_share(net, (2,), 20, 2, 0.1).expected[0]) == known


def test_run_file_and_bad_input():
    text = ('[model]\nkind = "GaussianMixture"\nsnr = inf\nridge = 0.05\nneurons = 6\nclass_labels = [[1.0, 1.0], [0.0, 0.0]]\n'
            '[initial]\nstart = "random"\n')
    run = parse_run(text)
    assert run.model == onepass.GaussianMixture(np.inf, 0.05, 6, XOR) and parse_run(run.to_toml()).model == run.model
    with pytest.raises(UserError, match="neurons = 0"):
        onepass.GaussianMixture(1.0, 0.1, 0)
    with pytest.raises(UserError, match="a line of two labels per direction"):
        onepass.GaussianMixture(1.0, 0.1, 2, (1.0, 0.0))
