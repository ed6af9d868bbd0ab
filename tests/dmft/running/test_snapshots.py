"""The law of the fields: averages over snapshots are the curves, stops and devices change nothing, quantiles are those of data."""

from __future__ import annotations

import numpy as np
import pytest

import dmft
import sgd_sim
from dmft.core.errors import RunError, Stopped, UserError
from dmft.result.comparison import DISAGREE
from dmft.result.snapshots import quantiles
from tests.png import png_shape
from tests.run_files import run_text
from tests.sgd_sim.test_gpu_simulator import on_cpu, on_gpu
from tests.small_results import StopAfter, solved_and_simulated
from workbench.inspection.against_fields import SHARES
from workbench.inspection.kinds import kind_of
from workbench.inspection.opening import open_file
from workbench.inspection.tables import export_csv

RUN = dmft.parse_run(run_text(t_max=0.4, problem={"alpha": 2.0}, simulation={"dimension": 100, "instances": 12}, theory={
    "samples": 512, "replicas": 3, "snapshots": [0.0, 0.1, 0.4]}))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A theory and a simulation with snapshots."""
    return solved_and_simulated(RUN, tmp_path_factory.mktemp("snapshots"))


def test_averages_are_the_curves(files):
    theory, at = dmft.load(files / "theory.h5"), [0, 5, 20]
    found, loss = theory.snapshots, 0.25 * (theory.snapshots.f**2 - theory.snapshots.h0[:, :, None]**2) ** 2
    np.testing.assert_allclose(np.sum(found.weight[:, :, None] * loss, axis=1), theory.replicas["loss"][:, at], rtol=1e-12)
    np.testing.assert_allclose(found.t, theory.t[at])
    assert set(np.unique(found.s)) == {0.0, 1.0} and 0.4 < found.s[..., 0].mean() < 0.6
    simulation = sgd_sim.load(files / "sim.h5")
    f, y, teacher = simulation.snapshots.fields(3)
    np.testing.assert_array_equal(y, teacher)
    last = np.flatnonzero(np.isclose(simulation.t, 0.4))[0]
    np.testing.assert_allclose(np.mean(0.25 * (f[:, -1]**2 - y**2) ** 2), simulation.loss[3, last], rtol=1e-5)


def test_stops_and_growth_change_nothing(files, tmp_path):
    with pytest.raises(Stopped):
        dmft.solve(RUN.replace(replicas=2), output=tmp_path / "a.h5", stop=StopAfter(15))
    for run in (RUN.replace(replicas=2), RUN):
        dmft.solve(run, output=tmp_path / "a.h5", resume=True)
    one, other = dmft.load(files / "theory.h5").snapshots.arrays, dmft.load(tmp_path / "a.h5").snapshots.arrays
    for name, array in one.items():
        np.testing.assert_array_equal(array, other[name])
    sgd_sim.simulate(RUN.replace(instances=5), output=tmp_path / "b.h5")
    sgd_sim.simulate(RUN, output=tmp_path / "b.h5", resume=True)
    np.testing.assert_array_equal(sgd_sim.load(tmp_path / "b.h5").snapshots.w, sgd_sim.load(files / "sim.h5").snapshots.w)


@pytest.mark.gpu
def test_the_gpu_keeps_the_same_weights(card):
    run = RUN.replace(instances=2, dimension=60)
    np.testing.assert_allclose(on_gpu(run, card, stops=(5, 7)).snapshot_w, on_cpu(run).snapshot_w, atol=3e-6)


@pytest.mark.statistical
def test_quantiles_agree_and_a_wrong_law_does_not(files):
    """Twin: the fields of the theory at another time."""
    theory, simulation = dmft.load(files / "theory.h5"), sgd_sim.load(files / "sim.h5")
    assert dmft.compare(theory, simulation, fields=True).fields.pairs.verdict != DISAGREE
    theory.snapshots.f[..., 1] = theory.snapshots.f[..., 0]
    assert dmft.compare(theory, simulation, fields=True).fields.pairs.verdict == DISAGREE


def test_weighted_quantiles():
    values = np.array([3.0, 1.0, np.nan, 2.0])
    np.testing.assert_allclose(quantiles(values, np.ones(4), np.array([0.5])), 2.0)
    np.testing.assert_allclose(quantiles(values, np.array([8.0, 1.0, 5.0, 1.0]), np.array([0.5])), 2.0 + (5.0 - 1.5) / 4.5)
    x = np.random.default_rng(1).standard_normal(4001)
    np.testing.assert_allclose(quantiles(x, np.ones(4001), SHARES), np.quantile(x, SHARES), atol=5e-3)


@pytest.mark.slow
def test_pictures(files, results, tmp_path):
    for name in ("theory.h5", "sim.h5"):
        opened = open_file(files / name)
        kind_of(opened.header).draw_view(opened, "fields", tmp_path / f"{name}.png")
        assert png_shape(tmp_path / f"{name}.png")[1] > 1000
    opened = open_file(results.simulation)
    with pytest.raises(UserError, match="no snapshots"):
        kind_of(opened.header).draw_view(opened, "fields", None)


def test_export_has_a_line_per_sample(files, tmp_path):
    export_csv(open_file(files / "theory.h5"), tmp_path / "theory")
    lines = (tmp_path / "theory" / "snapshots.csv").read_text().splitlines()
    assert lines[0] == "replica,weight,k,y,sd,f(0),f(0.1),f(0.4),s(0),s(0.1),s(0.4)" and len(lines) == 1 + 3 * 512
    assert not any("snapshots_w" in path.name for path in export_csv(open_file(files / "sim.h5"), tmp_path / "sim"))


def test_what_cannot_be_kept_is_one_line():
    with pytest.raises(RunError, match=r"snapshots = \[..., 3\]: beyond algorithm.t_max"):
        dmft.solve(RUN.replace(snapshots=[3.0]))
    with pytest.raises(UserError, match=r"snapshots: 3 times of 1000000 replicas need"):
        dmft.solve(RUN.replace(samples=100000, replicas=1000000))
    with pytest.raises(RunError, match='snapshots: only method = "march"'):
        dmft.solve(RUN.replace(method="iterate"))
