"""A user's constraint that fixes the norm is held against it, as the sphere is; where its file is missing, a result can be read all
the same."""

from __future__ import annotations

import numpy as np
import pytest

import dmft
import sgd_sim
from dmft.model import registry
from tests.own_physics import Radius
from tests.run_files import run_text
from workbench.inspection.checks import simulation_checks
from workbench.inspection.facts import facts
from workbench.inspection.opening import open_file
from workbench.plots.theory import draw
from workbench.reporting.data import page_data

RADIUS, NORM = 1.3, "1.69"


@pytest.fixture(scope="module")
def theory_file(tmp_path_factory):
    run = dmft.parse_run(run_text("gd", t_max=0.4, theory={"samples": 64, "replicas": 3})).replace(constraint=Radius(RADIUS))
    path = tmp_path_factory.mktemp("radius") / "theory.h5"
    dmft.solve(run, output=path, quiet=True)
    return path


def checked(path) -> dict:
    opened = open_file(path)
    return {check["name"]: check for check in facts(opened)["checks"]}


def test_the_theory_of_a_sphere_of_another_radius_is_checked(theory_file):
    found = checked(theory_file)
    assert abs(found[f"C(t,t)/{NORM} - 1"]["value"]) < 1e-12 and found[f"C(t,t)/{NORM} - 1"]["fine"]
    assert found["nu_hat: exact identity, largest deviation in standard errors"]["fine"]
    assert 0 < found["nu_hat: A.29 against A.19, largest relative gap"]["value"] < 0.2
    page = page_data([open_file(theory_file)])["observables"]
    assert "q" not in page and len(page["nu_hat"]) == 2


def test_two_lines_of_the_multiplier_are_drawn(theory_file, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr("workbench.plots.theory.draw_curve", lambda axis, curve, *more: drawn.append(more[3:4]))
    draw(dmft.load(theory_file), tmp_path / "theory.png")
    assert sum("A.19" in str(label) for label in drawn) == 1


def test_the_simulation_of_one_is_checked():
    run = dmft.parse_run(run_text("gd", t_max=0.4, simulation={"dimension": 40, "instances": 2})).replace(constraint=Radius(RADIUS))
    _, norm, _ = simulation_checks(sgd_sim.simulate(run, quiet=True), 1e-3)
    assert norm.name == f"q/{NORM} - 1" and norm.fine


def test_without_its_file_a_result_can_be_looked_at(theory_file, tmp_path, monkeypatch):
    """What the constraint fixes is not known then, and not checked."""
    monkeypatch.delitem(registry.members["constraint"], "radius")
    found = checked(theory_file)
    assert found and not any("C(t,t)" in name or "nu_hat" in name for name in found)
    opened = open_file(theory_file)
    assert len(page_data([opened])["observables"]["nu_hat"]) == 1 and np.isfinite(opened.result.m).all()
    draw(opened.result, tmp_path / "theory.png")
