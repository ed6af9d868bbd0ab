"""The specialisation of a network's units: a curve of theory and simulation, computed for every solution and instance."""

from __future__ import annotations

import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest

import dmft
import sgd_sim
from dmft.cli import main
from dmft.model.experiment import known_errors
from tests.network_cases import PAIR, UNEQUAL, network_run

SMALL = {"samples": 256, "replicas": 3, "dimension": 60, "instances": 3, "t_max": 0.3, "record": "linear"}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("specialisation")
    run = network_run({**PAIR, **SMALL})
    dmft.solve(run, output=folder / "theory.h5", quiet=True)
    sgd_sim.simulate(run, output=folder / "simulation.h5")
    return folder


def without(folder: Path, name: str, to: Path) -> Path:
    """A file as versions before had it."""
    path = Path(shutil.copy(folder / name, to / name))
    with h5py.File(path, "a") as file:
        found: list[str] = []
        file.visit(found.append)
        for dataset in found:
            if dataset.rpartition("/")[2].startswith("specialisation"):
                del file[dataset]
    return path


def test_mean_and_error_over_solutions_and_instances(files):
    theory, simulation = dmft.load(files / "theory.h5"), sgd_sim.load(files / "simulation.h5")
    mean_of, error_of = simulation.mean(), simulation.error()
    for m, mean, error in ((theory.replicas["m"], theory.specialisation, theory.specialisation_error),
                           (simulation.m, mean_of.specialisation, error_of.specialisation)):
        each = (m[..., 0, 0] + m[..., 1, 1] - m[..., 0, 1] - m[..., 1, 0]) / 2
        np.testing.assert_allclose(mean, each.mean(axis=0), rtol=1e-12)
        np.testing.assert_allclose(error, each.std(axis=0, ddof=1) / np.sqrt(len(each)), rtol=1e-9, atol=1e-12)


def test_overlaps_are_those_with_the_units_of_the_teacher():
    """Two teacher's units of overlap 0.6: m = root is a student that is the teacher."""
    run = network_run({**PAIR, "teacher_overlaps": [[1.0, 0.6], [0.6, 1.0]]})
    m = np.array([[[1.0, 0.0], [0.6, 0.8]]])
    curves = {"m": m, "C": m @ m.transpose(0, 2, 1), "a": np.ones((1, 2))}
    found = known_errors(run, curves)
    assert found["specialisation"][0] == pytest.approx(1.0 - 0.6) and found["mse"][0] == pytest.approx(0.0, abs=1e-12)


def test_units_that_are_no_pairs_have_none():
    run = network_run({**UNEQUAL, **SMALL})
    theory, simulation = dmft.solve(run, quiet=True), sgd_sim.simulate(run)
    assert theory.specialisation is None and "specialisation" not in simulation.curves


@pytest.mark.long
def test_it_is_shown_wherever_curves_are(files, capsys, tmp_path):
    theory, simulation = str(files / "theory.h5"), str(files / "simulation.h5")
    for words in (["inspect", theory], ["inspect", simulation], ["compare", theory, simulation],
                  ["export", theory, "--csv", str(tmp_path)]):
        capsys.readouterr()
        main(words)
        assert "specialisation" in capsys.readouterr().out or words[0] == "export"
    assert "specialisation_error" in (tmp_path / "curves.csv").read_text().splitlines()[0]
    assert "specialisation" in [text.get_text() for text in dmft.load(theory).plot().axes[0].get_legend().get_texts()]
    assert "less that with the others" in dmft.load(theory).to_xarray().specialisation.attrs["long_name"]


def test_files_of_before_have_none_and_are_read(files, tmp_path):
    """What is added to them is not averaged with what is not there."""
    run = network_run({**PAIR, **SMALL})
    theory, simulation = (without(files, name, tmp_path) for name in ("theory.h5", "simulation.h5"))
    assert dmft.load(theory).specialisation is None
    assert "mse" in [one.observable for one in dmft.compare(files / "theory.h5", simulation).comparisons]
    more = dmft.solve(run.replace(replicas=4), output=theory, resume=True, quiet=True)
    assert np.isfinite(more.specialisation).all() and np.isnan(more.bias["specialisation"]).all()
    assert np.isfinite(more.bias["m"]).all()
