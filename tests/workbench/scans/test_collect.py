"""dmft collect: the table of a scan holds the numbers of its files."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

import dmft
import sgd_sim
from dmft.core import store
from dmft.model.runfile import parse_run
from tests.network_cases import SPHERES, network_run
from tests.run_files import run_text

pytestmark = pytest.mark.cli


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Theories at two alpha, simulations at two alpha and two dimensions."""
    folder = tmp_path_factory.mktemp("scan")
    run = parse_run(run_text("gd", t_max=0.4)).replace(samples=40, replicas=2, instances=6, record=[0.0, 0.1, 0.2, 0.4])
    for alpha in (2.0, 3.0):
        dmft.solve(run.replace(alpha=alpha), output=folder / f"a{alpha}.theory.h5", quiet=True)
        for dimension in (10, 20):
            sgd_sim.simulate(run.replace(alpha=alpha, dimension=dimension)).save(folder / f"a{alpha}.{dimension}.h5")
    return folder


@pytest.mark.long
def test_every_number_comes_from_its_file(dmft_main, results, tmp_path):
    done = dmft_main("collect", str(results), "--times", "0.1,0.4", "--threshold", "0.5", "-o", "s.h5")
    assert done.returncode == 0, done.stderr
    table = store.load(tmp_path / "s.h5")
    assert table.kind == "sweep" and (tmp_path / "s.png").stat().st_size > 5000
    assert json.loads(table.attrs["keys"]) == ["problem.alpha", "simulation.dimension"]
    assert table.arrays["m"].shape == (6, 2) and table.arrays["is_simulation"].tolist() == [False] * 2 + [True] * 4
    assert table.arrays["parameters/problem.alpha"].tolist() == [2.0, 3.0, 2.0, 2.0, 3.0, 3.0]
    np.testing.assert_array_equal(table.arrays["parameters/simulation.dimension"], [np.nan, np.nan, 10, 20, 10, 20])
    for row, path in enumerate(json.loads(table.attrs["files"])):
        stored = store.load(path)
        at = [int(np.argmin(abs(stored.arrays["t"] - time))) for time in (0.1, 0.4)]
        if table.arrays["is_simulation"][row]:
            np.testing.assert_allclose(table.arrays["m"][row], stored.arrays["m"][:, at].mean(axis=0), rtol=1e-12)
            np.testing.assert_array_equal(table.arrays["share"][row], (stored.arrays["loss"][:, at] < 0.5).mean(axis=0))
            assert (table.arrays["share_low"][row] <= table.arrays["share"][row]).all()
        else:
            np.testing.assert_allclose(table.arrays["m"][row], stored.arrays["m"][at], rtol=1e-12)
            assert np.isnan(table.arrays["share"][row]).all() and table.arrays["count"][row] == 2


@pytest.mark.long
def test_collect_again_after_more_points_and_leave_others_alone(dmft_main, results, tmp_path):
    assert dmft_main("collect", str(results), "-o", "s.h5").returncode == 0
    assert dmft_main("collect", str(results), "-o", "s.h5").returncode == 0
    victim = str(results / "a2.0.theory.h5")
    done = dmft_main("collect", str(results), "-o", victim)
    assert done.returncode == 2 and "not a table of a scan" in done.stderr
    assert store.load(victim).kind == "theory"


def test_a_table_needs_no_matplotlib(dmft_main, results, tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    done = dmft_main("collect", str(results), "-o", "s.h5")
    assert done.returncode == 0 and "no picture" in done.stdout and [path.name for path in tmp_path.iterdir()] == ["s.h5"]
    done = dmft_main("collect", str(results), "-o", "t.h5", "--plot", "t.png")
    assert done.returncode == 2 and "[plot]" in done.stderr and not (tmp_path / "t.h5").exists()


def test_complaints_are_one_line(dmft_main, results, tmp_path):
    (tmp_path / "empty").mkdir()
    for arguments, words in [(["nowhere"], "not a folder"), (["empty"], "no result"),
                             ([str(results), "--times", "x"], "--times"), ([str(results), "--against", "problem.m0"], "--against")]:
        done = dmft_main("collect", *arguments)
        assert done.returncode == 2 and words in done.stderr and len(done.stderr.splitlines()) == 1


@pytest.mark.long
def test_a_table_can_be_looked_at_and_drawn_again(dmft_main, results, tmp_path):
    assert dmft_main("collect", str(results), "-o", "s.h5", "--plot", "first.png").returncode == 0
    done = dmft_main("plot", "s.h5", "-o", "again.png")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "again.png").read_bytes() == (tmp_path / "first.png").read_bytes()
    assert dmft_main("inspect", "s.h5").returncode == 0 and dmft_main("export", "s.h5", "--csv", "tables").returncode == 0


@pytest.mark.long
def test_a_table_of_networks_holds_the_size_of_their_overlaps(dmft_main, tmp_path):
    """The root mean square over units of |m_r|, from single replicas and instances."""
    run, folder = network_run({**SPHERES, "kind": "gd", "samples": 32, "replicas": 3, "dimension": 20, "instances": 3, "t_max": 0.2,
                               "record": "linear"}), tmp_path / "scan"
    folder.mkdir()
    for alpha in (2.0, 3.0):
        theory = dmft.solve(run.replace(alpha=alpha), output=folder / f"{alpha}.theory.h5", quiet=True)
        simulation = sgd_sim.simulate(run.replace(alpha=alpha))
        simulation.save(folder / f"{alpha}.simulation.h5")
    done = dmft_main("collect", str(folder), "--times", "0.2", "-o", "s.h5")
    assert done.returncode == 0, done.stderr
    table = store.load(tmp_path / "s.h5")
    for row, each in ((1, theory.replicas["m"]), (3, simulation.m)):
        sizes = np.sqrt((each[:, -1] ** 2).sum(axis=(1, 2)) / 2)
        np.testing.assert_allclose(table.arrays["m"][row], sizes.mean(), rtol=1e-12)
        np.testing.assert_allclose(table.arrays["m_error"][row], sizes.std(ddof=1) / np.sqrt(3), rtol=1e-12)
