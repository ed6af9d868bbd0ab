"""Cases of networks that other programs have solved and simulated: all of m, C(t,t), C(t,0) and the loss, in standard errors."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import dmft
import sgd_sim
from dmft.committee.rows import RowEstimates
from dmft.model.runfile import Run

ROOT = Path(__file__).parents[3]
CASES = json.loads((ROOT / "tests/data/networks_simulated.json").read_text())
FILES = {"A": "unequal", "B": "persistent", "E": "relu", "H gd": "reuse", "H sgd": "reuse", "H persistent_sgd": "reuse"}
LAWS = {"H sgd": {"kind": "sgd", "batch_fraction": 0.25},
        "H persistent_sgd": {"kind": "persistent_sgd", "batch_fraction": 0.25, "persistence": 1.0}}
FIXED = 1e-9  # what a constraint fixes has errors of rounding


def of_case(name: str, **settings) -> Run:
    """The run of a case."""
    return dmft.load_run(ROOT / "runs/networks" / f"{FILES[name]}.toml").replace({**LAWS.get(name, {}), **settings})


def deviations(name: str, run: Run, against: str) -> np.ndarray:
    """z of all numbers of a case, against the "simulation" or the "theory" of the other program."""
    theory, found = dmft.solve(run, quiet=True), []
    for key, other in CASES[name].items():
        what, n = key[:-1].split("(")
        ours, error = ((theory.kernels.C[int(n), 0], theory.kernels.C_error[int(n), 0]) if what == "C0" else
                       (theory.curves[what][int(n)], theory.curves[f"{what}_error"][int(n)]))
        value, bar = np.array(other[against]), np.hypot(error, other[f"{against}_error"])
        upper = np.triu(np.ones(value.shape, bool)) if what == "C" else np.ones(value.shape, bool)
        found.append(((ours - value) / bar)[upper & (bar > FIXED)])
    return np.concatenate(found)


def _says(name: str, z: np.ndarray) -> str:
    return f"{name}: {z.size} numbers, rms z {np.sqrt(np.mean(z**2)):.2f}, largest {np.abs(z).max():.2f}"


def _with_response(monkeypatch, change) -> None:
    """From now on a row's K_R, as blocks (p, slots, p), is what `change` makes of it."""
    right = RowEstimates.estimate

    def wrong(self, sums):
        found, p = right(self, sums), self.weights.units
        return found._replace(row=found.row._replace(K_R=change(found.row.K_R.reshape(p, -1, p)).reshape(p, -1)))

    monkeypatch.setattr(RowEstimates, "estimate", wrong)


@pytest.mark.long
@pytest.mark.statistical
def test_unequal_units_with_noisy_labels(monkeypatch):
    """Case A with a few thousand samples, and its twin without memory."""
    run = of_case("A", samples=4096, replicas=4)
    assert np.abs(deviations("A", run, "simulation")).max() < 4.0
    _with_response(monkeypatch, np.zeros_like)
    assert np.abs(deviations("A", run, "simulation")).max() > 30.0


@pytest.mark.slow
@pytest.mark.statistical
def test_the_wrong_order_is_seen_in_the_curves(monkeypatch):
    """Case A with T g' in place of g' T: seen in C after 30 steps, too, with errors as small as those of the other program."""
    _with_response(monkeypatch, lambda blocks: blocks.transpose(2, 1, 0))
    assert np.abs(deviations("A", of_case("A"), "theory")).max() > 8.0


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("name", CASES)
def test_cases_of_another_program(name, capsys):
    """Entries of a case are correlated: in m, C and the loss of three to five times."""
    run = of_case(name)
    for against in ("simulation", "theory"):
        z = deviations(name, run, against)
        with capsys.disabled():
            print(_says(f"{name}, {against}", z))
        assert np.abs(z).max() < 4.5 and np.sqrt(np.mean(z**2)) < 1.7


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("name", ["square", "smooth", "trained", "four"])
def test_cases_of_the_simulator(name, capsys):
    """As cases C, D, F and G, whose starts are not known: theory against simulator."""
    run = dmft.load_run(ROOT / f"runs/networks/{name}.toml")
    found = dmft.compare(dmft.solve(run, quiet=True), sgd_sim.simulate(run))
    z = np.concatenate([one.z[np.isfinite(one.z)] for one in found.comparisons])
    with capsys.disabled():
        print(_says(name, z))
    assert np.abs(z).max() < 4.5 and np.sqrt(np.mean(z**2)) < 1.8
