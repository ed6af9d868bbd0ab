"""The table of curves (dmft/model/curves.py) is the only list of them: one more entry appears wherever curves do."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from dmft.equations.rows import Entered
from dmft.model.curves import KNOWN, TABLE
from tests.project.test_architecture import MODULES
from tests.run_files import run_text

ROOT = Path(__file__).resolve().parents[2]
MANY = 3        # names in one literal that make it a list of curves
# Literals that name several curves without listing all, each with what it is.
ON_PURPOSE = {
    "dmft.solvers.closed": "the same without samples",
    "dmft.statics.limits": "where some curves end, by name",
    "dmft.committee.march": "the values of a row of a network, by name",
    "sgd_sim.cpu.network": "what an instance of a network records, by name",
    "dmft.result.theory": "a choice of what a notebook shows",
    "workbench.plots.network": "a choice of what is drawn",
    "sgd_sim.recording": "the places of rows, by name",
    "workbench.inspection.facts": "a choice of key figures",
    "workbench.plots.theory": "a choice of what is drawn",
    "reproduction.paper.drawing": "labels as in the paper",
    "reproduction.paper.numbers": "a choice of what figures keep",
}


def _lists(source: str) -> list[set[str]]:
    """Curves that are named together in one literal."""
    found = []
    for node in ast.walk(ast.parse(source)):
        parts = node.keys if isinstance(node, ast.Dict) else node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else []
        names = {part.value for part in parts if isinstance(part, ast.Constant) and part.value in KNOWN}
        found += [names] if len(names) >= MANY else []
    return found


@pytest.mark.long
def test_nobody_else_lists_curves():
    listing = {module for module, file in MODULES.items() if module != "dmft.model.curves" and _lists(file.read_text())}
    assert listing == set(ON_PURPOSE)
    assert _lists('CURVES = ("m", "loss", "q")') and _lists('{"m": 1, "V": 2, "b": 3}') and not _lists('("m", "loss", "x")')
    script = (ROOT / "workbench/reporting/page.js").read_text()
    assert not re.search(r"\b(mse|training_error|nu_hat)\b", script)


def test_names_are_taken_once():
    assert len(KNOWN) == len(TABLE) and all(curve.meaning and curve.unit for curve in TABLE)
    assert all(curve.replaces in ("", *KNOWN) for curve in TABLE)


def test_curves_of_a_row_have_places_without_gaps():
    assert [each.value for each in Entered] == list(range(len(Entered))) and {each.name for each in Entered} <= set(KNOWN)


def test_the_page_on_files_has_every_curve():
    text = (ROOT / "docs/hdf5.md").read_text()
    theory, simulation = (text[text.index(f"## {title}"):text.index(f"## {after}")]
                          for title, after in (("Theory", "Simulation"), ("Simulation", "One-pass")))
    for curve in TABLE:
        for told, part in ((curve.theory, theory), (curve.simulation, simulation)):
            assert not told or f"`{curve.name}`" in part, curve.name


ENTRY = """TABLE = (
    CurveDefinition("half_square", "half the mean square field", "1", "half $f^2$", AVERAGE, AVERAGE, value=_half_square),
"""
# The table as it would be with one more entry, before anybody has read it; then everything that shows curves.
SCRIPT = f"""
import json, sys, types
from pathlib import Path
from numba.extending import register_jitable
import dmft
root = Path(dmft.__file__).parent
source = (root / "model/curves.py").read_text().replace("TABLE = (\\n", {ENTRY!r}, 1)
module = sys.modules["dmft.model.curves"] = types.ModuleType("dmft.model.curves")
module._half_square = register_jitable(lambda f, y, h0: 0.5 * f * f)
exec(compile(source, "curves.py", "exec"), module.__dict__)
import numpy as np
import sgd_sim
from dmft.cli import main
from tests.emulate import COMPILER
from tests.cards import given_out
from tests.emulate import HostGpu
run = dmft.load_run("run.toml")
theory, simulation = dmft.solve(run, output="theory.h5", quiet=True), sgd_sim.simulate(run, output="simulation.h5")
if COMPILER:
    with given_out(HostGpu()):
        on_card = dmft.solve(run.replace(device="gpu"), quiet=True), sgd_sim.simulate(run.replace(device="gpu"))
    np.testing.assert_allclose(on_card[0].half_square, theory.half_square, rtol=1e-6)
    np.testing.assert_allclose(on_card[1].half_square, simulation.half_square, rtol=1e-5)
np.testing.assert_allclose(theory.half_square[0], 0.5, rtol=0.1)
np.testing.assert_allclose(dmft.load("theory.h5").half_square_error, theory.half_square_error)
np.testing.assert_allclose(sgd_sim.load("simulation.h5").mean().half_square[0], 0.5, rtol=0.2)
assert "half_square" in dir(theory) and "half_square" in theory.replicas
from dmft.model.quantities import described
assert described("half_square_error")[0] == "standard error of: half the mean square field"
from workbench.plots.theory import draw
assert "half $f^2$" in [axis.get_ylabel() for axis in draw(theory, None).axes]
for words in (["inspect", "theory.h5"], ["inspect", "simulation.h5"], ["export", "theory.h5", "--csv", "tables"],
              ["report", "theory.h5", "simulation.h5", "-o", "page.html"], ["compare", "theory.h5", "simulation.h5"]):
    assert main(words) == 0, words
assert "half_square" in Path("tables/curves.csv").read_text().splitlines()[0]
assert "half the mean square field" in Path("page.html").read_text()
"""


@pytest.mark.long
@pytest.mark.cli
def test_one_more_entry_appears_everywhere(tmp_path, run_python):
    for extra in ("matplotlib", "plotly"):
        pytest.importorskip(extra)
    (tmp_path / "run.toml").write_text(run_text("gd", t_max=0.1, theory={"samples": 64, "replicas": 2}, simulation={
        "dimension": 40, "instances": 3, "record": "linear"}))
    (tmp_path / "script.py").write_text(SCRIPT)
    done = run_python("script.py", timeout=300)
    assert done.returncode == 0, done.stderr
    for shown in ("half_square +- error", "half_square: theory against simulation"):
        assert shown in done.stdout
