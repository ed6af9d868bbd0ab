"""Theory against direct simulation for labels that are signs and for clusters; data are built from their raw definition."""

from __future__ import annotations

import numpy as np
import pytest

import dmft
import sgd_sim
from dmft.model.mixture import Mixture
from dmft.model.runfile import Run, parse_run
from sgd_sim.landscape import make_landscape
from tests.marks import with_slow

RIDGE = 'constraint = "ridge"\nridge = {}\n'
PERSISTENT = 'kind = "persistent_sgd"\nbatch_fraction = 0.5\npersistence = 0.5'
TWO = 'data = "mixture"\nclusters = [[1, 0.3, 1, 0.5], [-1, 0.7, -1, 1.5]]\n'
THREE = 'data = "mixture"\nclusters = [[0, 0.5, -1, 0.25], [1, 0.25, 1, 0.25], [-1, 0.25, 1, 0.25]]\n'
CASES = {
    "flips, gd": ('alpha = 2\nm0 = 0.2\nloss = "logistic"\nflip = 0.1\n' + RIDGE.format(0.3), 'kind = "gd"', 0.05),
    "flips, persistent": ('alpha = 2\nm0 = 0.2\nloss = "smooth_hinge"\nflip = 0.1\n', PERSISTENT, 0.05),
    "two clusters, bias": ('alpha = 2\nm0 = 0.2\nbias = true\nstart_variance = 0.5\nloss = "logistic"\n' + TWO + RIDGE.format(0.3),
                           'kind = "sgd"\nbatch_fraction = 0.5', 0.05),
    "three clusters, door": ('alpha = 3\nm0 = 0.4\nloss = "door"\n' + THREE, PERSISTENT, 0.05),
    "noisy squares": ('alpha = 3\nm0 = 0.5\nlabels = "square"\nlabel_noise = 0.25\n', 'kind = "gd"', 0.02),
}


def make(name: str) -> Run:
    problem, algorithm, eta = CASES[name]
    return parse_run(f"[problem]\n{problem}\n[algorithm]\n{algorithm}\nlearning_rate = {eta}\nt_max = {30 * eta}\n"
                     f"[theory]\nsamples = 2048\nreplicas = 6\n[simulation]\ndimension = 400\ninstances = 40\n"
                     f"record = [{10 * eta}, {30 * eta}]")


def worst(theory: dmft.api.Theory, simulation: sgd_sim.SimulationResult) -> float:
    """The largest |z| of every curve that both have, and of errors measured on fresh samples."""
    mean, error, found = simulation.mean(), simulation.error(), 0.0
    steps = np.rint(simulation.t / theory.run.algorithm.learning_rate).astype(int)
    pairs = [(name, name) for name in ("m", "loss", "q", "training_error", "b") if name in theory.curves]
    pairs += [(name, f"{name}_fresh") for name in ("mse", "error") if name in theory.curves]
    for name, measured in pairs:
        curve, bar = theory.curves[name][steps], theory.curves[f"{name}_error"][steps]
        z = (curve - mean[measured]) / (np.hypot(bar, error[measured]) + 1e-4)
        found = max(found, float(np.abs(z).max()))
    return found


@pytest.mark.long
@pytest.mark.parametrize("name", with_slow(CASES, "flips, gd"))
def test_theory_is_the_limit_of_the_simulation(name):
    """Some ten numbers a case, correlated; 5 errors leave room for terms of order 1/N."""
    run = make(name)
    assert worst(dmft.solve(run, quiet=True), sgd_sim.simulate(run)) < 5


@pytest.mark.long
def test_a_theory_of_other_data_is_seen(monkeypatch):
    """Twins: clusters without their centres, and labels that the theory does not flip."""
    run = make("three clusters, door")
    simulation = sgd_sim.simulate(run)
    draw = Mixture.draw
    monkeypatch.setattr(Mixture, "draw", lambda self, h0, u: draw(self, h0, u)._replace(k=h0))
    assert worst(dmft.solve(run, quiet=True), simulation) > 8
    run = make("flips, gd")
    assert worst(dmft.solve(run.replace(flip=0.0), quiet=True), sgd_sim.simulate(run)) > 8


def test_shared_landscapes_are_those_of_single_instances():
    """The first start on a shared landscape is the one on its own: the same data, another order of additions."""
    for case, names in (("three clusters, door", ()), ("two clusters, bias", ("b",))):
        run = make(case).replace(instances=2, dimension=200)
        alone, shared = sgd_sim.simulate(run), sgd_sim.simulate(run.replace(landscape="shared"))
        for name in ("m", "loss", "training_error", "error_fresh", *names):
            np.testing.assert_allclose(alone.curve(name)[0], shared.curve(name)[0], rtol=0, atol=1e-4)


def test_results_survive_a_file(tmp_path):
    """A longer simulation continues from the intercepts of the file; theory keeps its new curves and takes up more replicas."""
    run = make("two clusters, bias").replace(instances=3, dimension=100, record="log")
    whole = sgd_sim.simulate(run)
    sgd_sim.simulate(run.replace(t_max=0.5), output=tmp_path / "sim.h5")
    sgd_sim.simulate(run, output=tmp_path / "sim.h5", resume=True)
    loaded = sgd_sim.load(tmp_path / "sim.h5")
    assert np.all(whole.b[:, -1] < -0.1)
    for name in ("m", "b", "error", "error_fresh", "training_error"):
        np.testing.assert_array_equal(loaded.curve(name), whole.curve(name))
    theory = dmft.solve(run.replace(samples=64, replicas=2), output=tmp_path / "theory.h5", quiet=True)
    again = dmft.load(tmp_path / "theory.h5")
    for name in ("b", "error", "training_error"):
        np.testing.assert_array_equal(again.curves[name], theory.curves[name])
    more = dmft.solve(run.replace(samples=64, replicas=3), output=tmp_path / "theory.h5", resume=True, quiet=True)
    np.testing.assert_array_equal(more.replicas["b"][:2], theory.replicas["b"])


def test_rows_of_a_mixture_are_raw():
    """Mean and covariance of each cluster's rows: c w0/sqrt(N) and Delta on every direction, along w0 too."""
    model = Mixture(((1.0, 0.3, 1.0, 0.5), (-1.0, 0.7, -1.0, 2.0)), loss=dmft.model.losses.get_loss("logistic"))
    landscape = make_landscape(1, 0, 60, 100.0, model=model)
    X = landscape.data[:landscape.h0.size, :60].astype(float)
    for c, probability, label, Delta in model.clusters:
        rows = X[landscape.h0 == label]
        assert len(rows) / len(X) == pytest.approx(probability, abs=5 * np.sqrt(0.25 / len(X)))
        along = rows @ landscape.w0 / np.sqrt(60)
        assert along.mean() == pytest.approx(c, abs=5 * np.sqrt(Delta / len(rows)))
        assert along.var() == pytest.approx(Delta, rel=5 * np.sqrt(2 / len(rows)))
        assert rows.var() == pytest.approx(Delta, rel=5 * np.sqrt(2 / rows.size) + 1 / (60 * Delta))
