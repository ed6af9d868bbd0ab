"""A user's own averages over the training samples of a network, in theory and simulation."""

from __future__ import annotations

import numpy as np
import pytest

import dmft
import sgd_sim
from tests.network_cases import UNEQUAL, network_run, observed


@pytest.fixture(scope="module")
def solved(tmp_path_factory):
    """A run with the loss and another average as observables, by theory, also from its file, and by simulation; both with the
    gradients at the point ahead, where records are made at the weights."""
    folder = tmp_path_factory.mktemp("observables")
    with observed() as names:
        run = network_run({**UNEQUAL, "momentum": 0.3, "nesterov": True, "dimension": 300, "instances": 24, "record": [0.5, 1.0],
                           "samples": 1024, "replicas": 4, "observables": names})
        dmft.solve(run, output=folder / "theory.h5")
        yield dmft.load(folder / "theory.h5"), sgd_sim.simulate(run, output=folder / "sim.h5"), folder


@pytest.mark.long
def test_the_loss_as_an_observable_is_the_loss(solved):
    theory, simulation, folder = solved
    np.testing.assert_allclose(theory.curves["misfit"], theory.loss, rtol=1e-12)
    np.testing.assert_allclose(simulation.curve("misfit"), simulation.loss, rtol=1e-12)
    np.testing.assert_array_equal(sgd_sim.load(folder / "sim.h5").curve("along"), simulation.curve("along"))


@pytest.mark.statistical
def test_theory_on_simulation(solved):
    """The mean of f kappa_1 agrees. Twin: m_1 a_1 + m_2 a_2, which it would be with linear units on new samples, does not."""
    theory, simulation, _ = solved
    found = dmft.compare(theory, simulation)
    (one,) = (each for each in found.comparisons if each.observable == "along")
    assert one.verdict == "agree", str(found)
    at = np.searchsorted(theory.t, one.t - 1e-9)
    linear = np.einsum("tuk,tu->t", theory.m[at], theory.curves["a"][at])
    assert (np.abs(linear - one.simulation.mean) > 5 * one.simulation.error).any()
