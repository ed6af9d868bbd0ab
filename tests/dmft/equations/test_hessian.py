"""The Hessian along a run: exact numbers at the start, the formulas fed with the fields of an instance against its own eigenvalues,
the march against a diagonalised simulation, files and commands."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import qmc

import dmft
import sgd_sim
from dmft.core.errors import UserError
from dmft.equations.hessian import Curvatures, basis
from dmft.result.hessian import hessian_law
from sgd_sim import hessian as simulated
from tests.png import png_shape
from tests.run_files import run_text
from tests.sgd_sim.simulator_reference import reference


def curvature(h: np.ndarray, h0: np.ndarray) -> np.ndarray:
    """v'' of normalised phase retrieval."""
    return (3 * h**2 - h0**2) / (1 + h0**2)


def test_the_start_is_exact():
    """alpha = 3, m0 = 0.3 at t = 0: lower edge, lowest eigenvalue and overlap are known to five digits."""
    x = ndtri(np.clip(qmc.Sobol(2, seed=1).random(1 << 16), 1e-12, 1 - 1e-12))
    h0, h = x[:, 0], 0.3 * x[:, 0] + np.sqrt(1 - 0.09) * x[:, 1]
    law = Curvatures.of(3.0, curvature(h, h0), np.full(h.size, 1.0 / h.size), x)
    (lowest,) = law.outliers(True)
    np.testing.assert_allclose((law.z(law.edge(True)), lowest.z, lowest.overlap), (-0.64884, -0.71261, 0.2589), atol=3e-4)


def test_marchenko_pastur_and_its_atom():
    """All a = 1: edges (1 -+ sqrt(alpha))^2 and the known density; alpha < 1: the lower edge is 0."""
    one = Curvatures.of(2.0, np.ones(50), np.full(50, 0.02))
    edges = [one.z(one.edge(lower)) for lower in (True, False)]
    np.testing.assert_allclose(edges, (1 + np.array([-1, 1]) * np.sqrt(2.0)) ** 2, rtol=1e-9)
    z = np.linspace(0.5, 5.0, 40)
    exact = np.sqrt((5.8284 - z) * (z - 0.17157)) / (2 * np.pi * z)
    np.testing.assert_allclose(one.density(z, 1e-4), exact, atol=2e-3)
    assert Curvatures.of(0.5, np.ones(50), np.full(50, 0.02)).edge(True) == np.inf


def test_sums_of_gradients_of_any_scale_are_the_same():
    """K knows the span of g alone. Twin: columns cut by their size, as if the early ones were nothing."""
    rng = np.random.default_rng(3)
    a, f, g = rng.standard_normal(400) + 2.0, rng.standard_normal((400, 2)), rng.standard_normal((400, 3))
    law, far, cut = (Curvatures.of(2.0, a, np.full(400, 1 / 400), f=f, g=each)
                     for each in (g, g * [1.0, 1e4, 1e9], g * [0.0, 0.0, 1.0]))
    G = 0.5 * law.edge(True)
    np.testing.assert_allclose(far.K(G), law.K(G), rtol=1e-9)
    assert np.abs(cut.K(G) - law.K(G)).max() > 1e-3


def test_the_multiplier_is_that_of_the_gradient_with_an_intercept():
    """-w.grad L/N of an instance, by its own data; with the intercept in the fields it is another number."""
    text = run_text("gd", t_max=1.0, algorithm={"learning_rate": 0.05}, simulation={"dimension": 60, "instances": 1}, problem={
        "data": "mixture", "clusters": [[1.0, 0.3, 1.0, 0.5], [-1.0, 0.7, -1.0, 0.5]], "loss": "logistic", "bias": True},
        theory={"snapshots": [0.99, 1.0]})
    found = sgd_sim.simulate(dmft.parse_run(text)).snapshots
    assert found.t.size == 1    # two times of one step
    f, y, _ = found.fields(0)
    slope = -y / (1.0 + np.exp(y * f[:, 0]))
    b = float(found.b[0, 0])
    (one,) = simulated.hessians(found, 0)
    np.testing.assert_allclose(one.multiplier, -slope @ (f[:, 0] - b) / 60, rtol=1e-6)
    assert abs(one.multiplier + slope @ f[:, 0] / 60) > 1e-3


def instance(seed: int, n: int = 500, steps: int = 120) -> tuple[float, float, float]:
    """Lowest eigenvalue of an instance of gradient descent at t = 6, by diagonalisation, by [hess-K] with the instance's own
    fields, and by the formula of t = 0, with teacher and present weights alone."""
    rng, eta = np.random.default_rng(seed), 0.05
    X, w0 = rng.standard_normal((3 * n, n)), rng.standard_normal(n)
    w0 *= np.sqrt(n) / np.linalg.norm(w0)
    z = rng.standard_normal(n)
    z -= (z @ w0 / n) * w0
    start = 0.3 * w0 + np.sqrt(0.91) * z * np.sqrt(n) / np.linalg.norm(z)
    path = reference(X, w0, start, eta, steps, lambda f, y: f * (f * f - y * y) / (1 + y * y))
    h0, h = X @ w0 / np.sqrt(n), path @ X.T / np.sqrt(n)
    a = curvature(h[-1], h0)
    lowest = np.linalg.eigvalsh((X.T * a) @ X / n)[0]
    g = h[:-1] * (h[:-1] ** 2 - h0**2) / (1 + h0**2)
    u = path[:-1] - eta * g @ X / np.sqrt(n)
    A = np.cumprod(np.append(1.0, np.sqrt(n) / np.linalg.norm(u, axis=1)))
    vectors, fields, weight = np.vstack([w0, path]), np.vstack([h0, h]), np.full(3 * n, 1 / (3 * n))
    gram = vectors @ vectors.T / n
    taken = basis(gram, (0, steps + 1, 1), 1e-9)
    f = np.linalg.solve(np.linalg.cholesky(gram[np.ix_(taken, taken)]), fields[taken]).T
    chosen = np.sort([i - 1 for i in taken if i])
    sums = np.array([(eta / A[first:end, None] * g[first:end]).sum(axis=0) for first, end in zip(chosen, chosen[1:])]).T

    def ends(law: Curvatures) -> float:
        found = law.outliers(True)
        return found[0].z if found else law.z(law.edge(True))

    few = np.linalg.solve(np.linalg.cholesky(gram[np.ix_([0, -1], [0, -1])]), fields[[0, -1]]).T
    return lowest, ends(Curvatures.of(3.0, a, weight, f, sums)), ends(Curvatures.of(3.0, a, weight, few))


@pytest.mark.statistical
def test_outliers_of_an_instance():
    """Twin: without the past, [hess-K] misses by what the data have been used for."""
    found = np.array([instance(seed) for seed in range(4)])
    gap, twin = (found[:, 0, None] - found[:, 1:]).T
    assert np.abs(gap).max() < 0.02 and abs(gap.mean()) < 0.01, found
    assert twin.min() > 0.03, found


RUN = dmft.parse_run(run_text("gd", t_max=2.0, algorithm={"learning_rate": 0.05}, problem={
    "alpha": 3.0, "m0": 0.3, "loss": "normalised_phase_retrieval"}, simulation={"dimension": 400, "instances": 6}, theory={
        "samples": 4096, "replicas": 3, "snapshots": [0.0, 2.0], "hessian": True}))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A theory in full, one in blocks, and a simulation."""
    folder = tmp_path_factory.mktemp("hessian")
    dmft.solve(RUN, output=folder / "theory.h5")
    dmft.solve(RUN.replace(history="dyadic", blocks_per_level=6), output=folder / "blocks.h5")
    sgd_sim.simulate(RUN, output=folder / "sim.h5")
    return folder


@pytest.mark.long
@pytest.mark.statistical
def test_theory_on_simulation(files):
    """Lowest and largest eigenvalues, softest direction along the sphere, and overlaps, in full and dyadic histories."""
    instances = [simulated.hessians(sgd_sim.load(files / "sim.h5").snapshots, i)[1] for i in range(6)]
    names = {"lowest": lambda one: one.eigenvalues[0], "largest": lambda one: one.eigenvalues[-1], "soft": lambda one: one.soft,
             "multiplier": lambda one: one.multiplier, "soft_overlap": lambda one: one.soft_overlap}
    laws = [dmft.load(files / name).hessian(2.0) for name in ("theory.h5", "blocks.h5")]
    for name, number in names.items():
        values = np.array([number(one) for one in instances])
        error = values.std(ddof=1) / np.sqrt(6)
        for law in laws:
            assert abs(law.mean(name)[0] - values.mean()) < 5 * np.hypot(law.mean(name)[1], error), name
    assert laws[0].complete and abs(laws[0].mean("lowest")[0] - laws[1].mean("lowest")[0]) < 0.03
    assert laws[0].mean("lowest")[0] < laws[0].mean("lower_edge")[0] - 0.02 and laws[0].mean("lowest_overlap")[0] > 0.05


def test_where_the_loss_has_vanished_there_are_edges_alone(files):
    """Gradients that nearly coincide have spurious outliers: they are left out, and the law says so; twin: a loss above that."""
    theory = dmft.load(files / "theory.h5")
    for share, complete in ((0.5, True), (1e-3, False)):
        loss = theory.replicas["loss"].copy()
        loss[:, np.searchsorted(theory.t, 2.0 - 1e-9)] = share * loss[:, 0]
        law = hessian_law(theory.run, theory.snapshots, {**theory.replicas, "loss": loss}, theory.t, 2.0, 400)
        assert law.complete == complete and (law.mean("lowest")[0] == law.mean("lower_edge")[0]) == (not complete)


def test_lanczos_gives_the_ends(files, monkeypatch):
    snapshots = sgd_sim.load(files / "sim.h5").snapshots
    dense = simulated.hessians(snapshots, 0)[1]
    monkeypatch.setattr(simulated, "DENSE", 100)
    ends = simulated.hessians(snapshots, 0)[1]
    np.testing.assert_allclose(ends.eigenvalues, dense.eigenvalues[[0, -1]], rtol=1e-6)
    one, other = ((each.soft, each.soft_overlap, *each.overlaps) for each in (ends, dense))
    np.testing.assert_allclose(one, other, atol=1e-5)


@pytest.mark.long
@pytest.mark.cli
def test_the_command(files, dmft_main, tmp_path):
    done = dmft_main("hessian", str(files / "theory.h5"), str(files / "sim.h5"), "--instances", "2", "-o",
                      str(tmp_path / "a.png"))
    assert done.returncode == 0 and "2 instances (dense)" in done.stdout and "soft (sphere)" in done.stdout, done.stderr
    assert png_shape(tmp_path / "a.png")[1] > 1000


def test_what_has_no_hessian_is_one_line(results, files):
    with pytest.raises(UserError, match="has no snapshots"):
        results.result.hessian(0.1)
    theory = dmft.load(files / "theory.h5")
    others = {"nesterov": RUN.replace(momentum=0.5, nesterov=True),
              "heat with momentum": RUN.replace(kind="langevin", temperature=0.1, momentum=0.5),
              "spectral start": RUN.replace(start="spectral")}
    for reason, other in others.items():
        law = hessian_law(other, theory.snapshots, theory.replicas, theory.t, 2.0, 400)
        assert reason in law.unknown and not law.complete and law.mean("lowest")[0] == law.mean("lower_edge")[0]
