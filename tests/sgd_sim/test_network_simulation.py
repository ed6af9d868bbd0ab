"""The simulator of networks against a plain loop, against the theory in m and C, and when it is stopped and resumed."""

from __future__ import annotations

import numpy as np
import pytest

import dmft
import sgd_sim
from dmft.committee.rows import RowEstimates
from dmft.core.errors import FileError
from dmft.model.activations import apply
from dmft.model.experiment import Experiment
from sgd_sim.cpu.network import NetworkTrajectory
from sgd_sim.states import empty_states
from tests.network_cases import PAIR, UNEQUAL, network_run

SMALL = {"dimension": 60, "instances": 2, "record": "linear"}


@pytest.mark.parametrize(("constraint", "nesterov"), [("none", False), ("frobenius", True), ("orthonormal", False)])
def test_steps_are_those_of_a_plain_loop(constraint, nesterov):
    """Gradient descent with momentum, and a second layer that is trained, written in a few lines of NumPy on the same data."""
    run = network_run({**SMALL, "units": 2, "directions": 2, "activation": "tanh", "alpha": 2.0, "m0": [[0.4, 0.1], [-0.1, 0.3]],
                       "intercepts": [0.2, -0.1], "train": 0.05, "train_intercepts": 0.03, "constraint": constraint,
                       "kind": "gd", "momentum": 0.4, "nesterov": nesterov, "learning_rate": 0.1, "t_max": 1.0, "label_noise": 0.04,
                       **({"ridge": 0.2} if constraint == "none" else {})})
    found = sgd_sim.simulate(run)
    start = NetworkTrajectory(run, 1, empty_states(run), False)
    e, n, network = Experiment.from_run(run), 60, start.network
    X, W, (a, beta) = start.data[:120, :n].astype(float), start.weights.copy(), start.shared.copy()
    before = W.copy()
    for step in range(10):
        y = W + (0.4 * (W - before) if nesterov and step else 0.0)
        h = X @ y.T / np.sqrt(n) + beta
        c = apply(network.activation.s, h) @ a - start.labels
        g = c[:, None] * a * apply(network.activation.ds, h)
        A, B = e.update.A[step], e.update.B[step]
        u = (A - e.eta_n[step] * e.ridge_n[step]) * y - B * before - e.eta_n[step] * g.T @ X / np.sqrt(n)
        before, W = W, network.constraint.projection(u @ u.T / n) @ u
        a, beta = a - 0.05 / n * c @ apply(network.activation.s, h), beta - 0.03 / n * g.sum(axis=0)
    np.testing.assert_allclose(found.C[1, -1], W @ W.T / n, atol=2e-5)
    np.testing.assert_allclose(found.m[1, -1], W @ start.directions.T / n, atol=2e-5)
    np.testing.assert_allclose(found.a[1, -1], a, atol=2e-5)
    np.testing.assert_allclose(found.curves["beta"][1, -1], beta, atol=2e-5)


def test_starts_are_exact():
    run = network_run({**UNEQUAL, **SMALL})
    found = sgd_sim.simulate(run)
    np.testing.assert_allclose(found.m[:, 0], np.broadcast_to([[0.4], [-0.1]], (2, 2, 1)), atol=1e-12)
    np.testing.assert_allclose(found.C[:, 0], np.broadcast_to([[1.16, 0.26], [0.26, 0.71]], (2, 2, 2)), atol=1e-12)


def test_a_simulation_goes_on_where_it_was_stopped(tmp_path):
    run = network_run({**PAIR, **SMALL, "temperature": 0.1, "t_max": 0.5})
    short = sgd_sim.simulate(run, output=tmp_path / "a.h5")
    longer = sgd_sim.simulate(run.replace(t_max=1.0, instances=3), output=tmp_path / "a.h5", resume=True)
    whole = sgd_sim.simulate(run.replace(t_max=1.0, instances=3))
    assert np.array_equal(longer.C, whole.C) and np.array_equal(longer.loss, whole.loss)
    assert np.array_equal(longer.m[:2, :6], short.m)


def test_what_is_trained_is_compared_and_matrices_are_known_by_their_names():
    run = network_run({**UNEQUAL, **SMALL, "train": 0.05, "train_intercepts": 0.03, "samples": 512, "replicas": 2})
    theory, simulation = dmft.solve(run, quiet=True), sgd_sim.simulate(run)

    def names(*asked: str) -> list[str]:
        return [one.observable for one in dmft.compare(theory, simulation, observable=asked).comparisons]

    assert names() == ["m[0,0]", "m[1,0]", "C[0,0]", "C[0,1]", "C[1,1]", "a[0]", "a[1]", "beta[0]", "beta[1]", "loss", "mse"]
    assert names("mse", "C", "a[1]") == ["mse", "C[0,0]", "C[0,1]", "C[1,1]", "a[1]"]
    with pytest.raises(FileError, match="has no 'q'; observables in it: m, C, a, beta, loss, mse$"):
        names("q")
    drawn = {axis.get_ylabel() for axis in theory.plot().axes}
    assert {"second layer $a$", r"intercepts $\beta$"} <= drawn


@pytest.mark.statistical
def test_theory_and_simulation_agree_in_m_and_in_C(monkeypatch):
    """Both in all components, with Nesterov's momentum; without its memory the theory still has m nearly right, and C wrong."""
    run = network_run({**PAIR, "momentum": 0.3, "nesterov": True, "samples": 2048, "replicas": 4, "dimension": 400, "instances": 40,
                       "record": [0.5, 1.0, 2.0], "t_max": 2.0})
    simulation = sgd_sim.simulate(run)
    found = dmft.compare(dmft.solve(run, quiet=True), simulation)
    names = [one.observable for one in found.comparisons]
    assert names == ["m[0,0]", "m[0,1]", "m[1,0]", "m[1,1]", "C[0,0]", "C[0,1]", "C[1,1]", "loss", "mse", "specialisation"]
    assert found.max_z < 4.0
    right = RowEstimates.estimate

    def forgets(self, sums):
        found = right(self, sums)
        return found._replace(row=found.row._replace(K_R=np.zeros_like(found.row.K_R)))

    monkeypatch.setattr(RowEstimates, "estimate", forgets)
    assert dmft.compare(dmft.solve(run, quiet=True), simulation).verdict == "disagree"
