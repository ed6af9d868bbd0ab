"""Constraints of networks as users write them: the example of docs/extending.md as a plug-in, in theory and simulation, on both
devices."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import dmft
import sgd_sim
from dmft.core.command import load_plugin
from dmft.core.errors import RunError
from dmft.model import registry
from dmft.model.experiment import Experiment
from dmft.model.runfile import parse_run
from tests.dmft.committee.test_gpu_networks import assert_same, solved
from tests.network_cases import PAIR, network_run
from tests.sgd_sim.test_gpu_network_simulation import assert_close, stepped
from workbench.inspection.checks import network_checks

PAGE = (Path(__file__).resolve().parents[3] / "docs/extending.md").read_text()
PART = PAGE[PAGE.index("## A constraint of a network"):].split("\n## ")[0]
TABLE = {"kind": "unequal_norms", "others": 2.0}
SETTINGS = {**PAIR, "constraint": TABLE, "temperature": 0.1, "dimension": 60, "instances": 2, "record": "linear", "samples": 64,
            "replicas": 1}


@pytest.fixture(autouse=True)
def plugin(tmp_path):
    (tmp_path / "norms.py").write_text(re.search(r"```python\n(.*?)```", PART, re.DOTALL)[1])
    load_plugin(str(tmp_path / "norms.py"))


def norms(C: np.ndarray) -> np.ndarray:
    return np.diagonal(C, axis1=-2, axis2=-1)


def test_the_page():
    toml = re.search(r"```toml\n(.*?)```", PART, re.DOTALL)[1]
    run = parse_run(toml + "[problem]\nalpha = 2.0\nm0 = 0\n[algorithm]\nkind = \"gd\"\nlearning_rate = 0.1\nt_max = 1.0\n")
    assert run.network.constraint == TABLE and parse_run(run.to_toml()) == run
    made = registry.find("network.constraint", "unequal_norms")(others=2.0)
    assert run.replace(constraint="units").replace(constraint=made) == run != run.replace(constraint="unequal_norms", units=3)


def test_norms_are_those_of_the_constraint_on_both_sides():
    run = network_run(SETTINGS)
    theory = dmft.solve(run, quiet=True)
    for C in (theory.C, sgd_sim.simulate(run).C):
        np.testing.assert_allclose(norms(C), np.broadcast_to([1.0, 4.0], norms(C).shape), atol=1e-12)
    check = network_checks(theory)[0]
    assert check.name == "C(t,t) off what constraint = unequal_norms fixes" and check.value < 1e-12
    registry.members["network.constraint"].pop("unequal_norms")     # forgotten, as where the plug-in is missing
    assert parse_run(run.to_toml(), any_loss=True) == run and not run.known
    assert network_checks(theory)[0].name != check.name
    with pytest.raises(RunError, match=r"\[network\] constraint: unknown .* 'unequal_norms' .*--plugin FILE.py"):
        parse_run(run.to_toml())


@pytest.mark.gpu
def test_cards_do_the_same(card):
    run = network_run(SETTINGS, t_max=0.6)
    want, got = (solved(gpu, run) for gpu in (None, card))
    assert_same(want, got)
    want, got = stepped(run), stepped(run, card)
    assert_close(got, want)
    other = stepped(run.replace(constraint={"kind": "unequal_norms", "others": 1.9}), card)
    assert np.abs(other.curves[..., -1] - want.curves[..., -1]).max() > 0.05    # twin: another norm


@pytest.mark.long
@pytest.mark.statistical
def test_theory_and_simulation_agree():
    """Twin: the theory of units that are free, from the same start. Measured: 2.6 and, in m, 16 standard errors."""
    run = network_run(SETTINGS, samples=2048, replicas=4, dimension=300, instances=24, record=[0.5, 1.0])
    simulation = sgd_sim.simulate(run)
    free = run.replace(constraint="none", Q0=Experiment.from_run(run).network.Q0.tolist())
    found, twin = (dmft.compare(dmft.solve(each, quiet=True), simulation) for each in (run, free))
    m = twin.comparisons[0]
    assert found.max_z < 4.0 and m.observable == "m[0,0]" and np.abs(m.z).max() > 8.0


def test_units_that_a_constraint_tells_apart_are_not_exchanged():
    class FirstInside(dmft.NetworkConstraint, name="first_inside"):
        """|w|^2 <= N for the first unit alone."""

        def scale(self, unit, norm, trace, units):
            return norm**-0.5 if unit == 0 and norm > 1 else 1.0

    runs = (network_run({**PAIR, "m0": [[0.2, 0.3], [0.2, 0.3]]}, constraint=name) for name in ("units", "first_inside"))
    assert [Experiment.from_run(run).network.exchangeable for run in runs] == [True, False]


def test_what_does_not_fit_is_one_line():
    with pytest.raises(RunError, match=r"m0 = .*units of norm 1, 2 \(squares of a row are at most 1, 4 in all\)"):
        network_run(SETTINGS, m0=[[0.4, 0.1], [2.1, 0.0]])
    with pytest.raises(RunError, match='Q0 = .* lies where constraint = "unequal_norms" wants it'):
        network_run(SETTINGS, Q0=[[0.83, 0.0], [0.0, 0.9]])
    with pytest.raises(RunError, match="ridge.* is not used with .*constraint = \"unequal_norms\""):
        network_run(SETTINGS, ridge=0.1)
    with pytest.raises(RunError, match="did you mean 'units'"):
        network_run(SETTINGS, constraint="unit")
    with pytest.raises(dmft.UserError, match="'units' is built in"):
        type("Mine", (dmft.NetworkConstraint,), {}, name="units")
