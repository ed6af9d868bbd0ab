"""The fractions of figures 2 and 3 by direct SGD at the paper's sizes, and the SDE of the mixtures at finite snr. Minutes."""

from __future__ import annotations

import numpy as np
import pytest

from onepass import BinaryMixture, XorMixture

pytestmark = pytest.mark.slow


def z_of(hits: np.ndarray, probability: float) -> float:
    return (np.mean(hits) - probability) / np.sqrt(probability * (1 - probability) / len(hits))


def test_binary_fraction_by_direct_sgd():
    model = BinaryMixture(100.0, 0.1)
    end = model.simulate(250, 1000, model.random_start(250, 1000), [40.0])
    assert abs(z_of(model.classify(end.v[:, 0], end.m[:, 0]) == "optimal", 0.5)) < 4


def test_xor_fraction_by_direct_sgd():
    model = XorMixture(1000.0, 0.1)
    end = model.simulate(250, 600, model.random_start(250, 600), [150.0])
    optimal = model.is_optimal(end.v[:, 0], end.m[:, 0])
    assert abs(z_of(optimal, 3 / 32)) < 4
    assert abs(z_of(optimal, 6 / 32)) > 4


@pytest.mark.parametrize(
    "model, initial",
    [
        (BinaryMixture(4.0, 0.1, quadrature=20), {"v": [1.0, 0.5], "m": [0.3, -0.4], "R": [[0.5, 0.1], [0.1, 0.3]]}),
        (XorMixture(4.0, 0.05, quadrature=9), {"v": [1.0, -0.5, 0.7, -1.2], "m": np.full((4, 2), 0.4), "R": 0.5 * np.eye(4) + 0.1}),
    ],
)
def test_sde_of_the_mixtures_at_finite_snr(model, initial):
    chain = model.chain(2000, 3000, initial, [1.0])
    paths = model.diffuse(2000, 200, initial, [1.0], step=0.05)
    for name in ("v", "m", "R"):
        ratio = paths.variance()[name] / chain.variance()[name]
        assert np.all(np.abs(np.log(ratio)) < 5 * np.sqrt(2 / 200 + 2 / 3000))
