"""Mixtures with unequal classes and other labels: the integrals, and ODE, chain and SGD against each other."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import onepass
from dmft.core.errors import UserError
from onepass.mixtures.binary_integrals import binary_integrals, legendre_rule
from onepass.mixtures.relu_integrals import relu_integrals, sobol_nodes
from onepass.runfile import parse_run

BINARY = {"v": [0.8, -0.5], "m": [0.5, -0.3], "R": [[0.4, 0.1], [0.1, 0.3]]}
XOR = {"v": np.array([0.8, -0.5, 0.6, -0.9]), "m": np.array([[0.5, 0.1], [0.0, -0.4], [-0.6, 0.2], [0.1, 0.5]]),
       "R": 0.4 * np.eye(4) + 0.1}  # fmt: skip


def classes(labels, weights):
    return np.stack([np.array(labels, float), np.array(weights, float)], axis=-1)


def test_integrals_are_linear_in_the_weights_and_in_the_labels():
    """Class by class; with labels A and Ap are linear, B is not."""
    v, m, R = (np.array(value) for value in BINARY.values())

    def binary(labels, weights):
        return binary_integrals(v, m, R, 3.0, legendre_rule(48), classes([labels], [weights]))

    plus, minus = binary((1, 0), (1, 0)), binary((1, 0), (0, 1))
    for mixed, a, b in zip(binary((1, 0), (0.3, 0.7)), plus, minus, strict=True):
        assert_allclose(mixed, 0.3 * a + 0.7 * b, atol=1e-14)
    soft, hard, opposite = (binary((y, 0), (0.3, 0.7)) for y in (0.8, 1.0, 0.0))
    for part in range(2):
        assert_allclose(soft[part], 0.8 * hard[part] + 0.2 * opposite[part], atol=1e-14)
    assert np.abs(soft[2] - 0.8 * hard[2] - 0.2 * opposite[2]).max() > 1e-3

    labels, nodes = [[1, 0.9], [0, 0.2]], sobol_nodes(4, 9)

    def xor(weights):
        return relu_integrals(*XOR.values(), 3.0, nodes, classes(labels, weights))

    corners = [xor(np.eye(4)[c].reshape(2, 2)) for c in range(4)]
    weights = np.array([0.1, 0.2, 0.3, 0.4])
    for part, mixed in enumerate(xor(weights.reshape(2, 2))):
        assert_allclose(mixed, sum(w * one[part] for w, one in zip(weights, corners, strict=True)), atol=1e-14)


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize(("cls", "start", "options"), [
    (onepass.BinaryMixture, BINARY, {"class_weights": [[0.8, 0.2]], "class_labels": [[0.9, 0.3]]}),
    (onepass.XorMixture, XOR, {"class_weights": [[0.4, 0.1], [0.3, 0.2]], "class_labels": [[1.0, 0.6], [0.0, 0.3]],
                               "quadrature": 10}),
])  # fmt: skip
def test_chain_and_sgd_follow_the_ode(cls, start, options):
    model, times = cls(5.0, 0.1, 1.0, **options), [1.0]
    ode = model.solve(start, times)
    chain, sgd = model.chain(4000, 60, start, times), model.simulate(400, 60, start, times)

    def worst(paths, other):
        return max(np.abs((paths.mean()[n] - other[n]) / paths.error()[n]).max() for n in ("v", "m", "R"))

    assert worst(chain, ode) < 4.8 and worst(sgd, ode) < 5.0
    plain = cls(5.0, 0.1, 1.0, **{name: value for name, value in options.items() if name == "quadrature"})
    assert worst(chain, plain.solve(start, times)) > 10.0


def test_noise_and_infinite_snr_know_the_classes():
    """One class of probability 1 at infinite snr has no noise, and drift towards its label alone."""
    one = onepass.BinaryMixture(np.inf, 0.1, class_weights=[[1.0, 0.0]])
    x = one.start(BINARY)
    assert np.abs(one.covariance(x)).max() < 1e-14
    both = onepass.BinaryMixture(np.inf, 0.1)
    assert np.abs(both.covariance(x)).max() > 0.01
    other = onepass.BinaryMixture(np.inf, 0.1, class_weights=[[0.0, 1.0]])
    assert_allclose(0.5 * (one.drift(x) + other.drift(x)), both.drift(x), atol=1e-15)


def test_bad_classes_are_refused_in_one_line():
    for options, said in (({"class_weights": [[0.5, 0.6]]}, "sum to 1"), ({"class_weights": [[0.5], [0.5]]}, "expected (1, 2)"),
                          ({"class_labels": [[1.0, 2.0]]}, "between 0 and 1"), ({"class_labels": [[1.0, -1.0]]}, ">= 0")):
        with pytest.raises(UserError) as caught:
            onepass.BinaryMixture(100.0, 0.1, **options)
        assert said in str(caught.value)
    with pytest.raises(UserError, match="equal class weights"):
        onepass.BinaryMixture(100.0, 0.1, class_weights=[[0.9, 0.1]]).ring_point(0.3)
    run = parse_run('[model]\nkind = "BinaryMixture"\nsnr = 10.0\nridge = 0.1\n'
                    'class_weights = [[0.7, 0.3]]\n[initial]\nstart = "random"\n')
    assert run.model.class_weights == ((0.7, 0.3),) and parse_run(run.to_toml()).model == run.model
