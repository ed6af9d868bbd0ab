"""Labels of networks that are a user's function of the fields and of the noise, in theory and simulation."""

from __future__ import annotations

import re
from math import tanh
from pathlib import Path

import numpy as np
import pytest

import dmft
import onepass
import sgd_sim
from dmft.core.command import load_plugin
from dmft.core.errors import RunError
from dmft.model import links
from dmft.model.experiment import Experiment, known_errors
from tests.cards import given_out
from tests.emulate import COMPILER, HostGpu
from tests.network_cases import SPHERES, network_run

PAGE = (Path(__file__).resolve().parents[3] / "docs/networks.md").read_text()
RUN = {**SPHERES, "kind": "gd", "label_noise": 0.5, "samples": 2048, "replicas": 4, "dimension": 300, "instances": 24,
       "record": [0.5, 1.0]}


def plain(u, k):
    return tanh(u[0]) + u[1]


def added(u, k, zeta):
    return tanh(u[0]) + u[1] + zeta


def probit(u, k, zeta):
    return 1.0 if u[0] + zeta > 0.0 else -1.0


@pytest.fixture(autouse=True)
def registered(tmp_path):
    """Labels of these names, and `faded` of the page on networks."""
    before = dict(links.BUILT_IN_LINKS)
    for g in (plain, added, probit):
        links.register_link(g.__name__, g)
    (block,) = (block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "register_link" in block)
    (tmp_path / "plugin.py").write_text(block)
    load_plugin(str(tmp_path / "plugin.py"))
    yield
    links.BUILT_IN_LINKS.clear()
    links.BUILT_IN_LINKS.update(before)


@pytest.mark.long
def test_noise_that_a_link_adds_is_noise_that_is_added():
    runs = [network_run({**RUN, "label": label, "samples": 256, "dimension": 60, "instances": 2}) for label in ("plain", "added")]
    theories, simulations = ([solve(run) for run in runs] for solve in (dmft.solve, sgd_sim.simulate))
    for name in ("m", "C", "loss"):
        for one, other in (theories, simulations):
            np.testing.assert_array_equal(one.curves[name], other.curves[name])
    np.testing.assert_allclose(theories[0].mse, theories[1].mse, rtol=1e-10)
    quiet = dmft.solve(runs[0].replace(label_noise=0.0))
    assert np.abs(quiet.m - theories[0].m)[-1].max() > 1e-3


@pytest.mark.long
@pytest.mark.statistical
def test_noise_that_multiplies_a_label():
    """Theory on simulation. Twin: the same noise, added."""
    run = network_run({**RUN, "label": "faded"})
    theory, simulation = dmft.solve(run, quiet=True), sgd_sim.simulate(run)
    found = dmft.compare(theory, simulation)
    assert found.verdict == "agree", str(found)
    twin = dmft.compare(dmft.solve(run.replace(label="tanh"), quiet=True), simulation)
    assert twin.verdict == "disagree", str(twin)


@pytest.mark.gpu
@pytest.mark.skipif(not COMPILER, reason="no compiler for the sources of a card")
def test_labels_with_their_noise_are_the_same_on_a_card():
    run = network_run({**RUN, "label": "faded", "samples": 64, "replicas": 2, "dimension": 60, "instances": 2})
    want = dmft.solve(run, quiet=True), sgd_sim.simulate(run)
    with given_out(HostGpu()):
        got = [solve(run.replace(device="gpu"), quiet=True) for solve in (dmft.solve, sgd_sim.simulate)]
    for one, other, close in zip(want, got, (1e-6, 1e-5)):
        for name in ("m", "C", "loss", "mse", "specialisation"):
            np.testing.assert_allclose(other.curves[name], one.curves[name], rtol=close, atol=close)


@pytest.mark.parametrize("label", ["faded", "probit"])
def test_errors_on_new_samples_have_the_noise(label):
    run = network_run({**RUN, "label": label})
    network = Experiment.from_run(run).network
    curves = {"m": network.m0[None], "C": (network.Q0 + network.m0 @ network.m0.T)[None], "a": network.a[None]}
    rng = np.random.default_rng(5)
    kappa, rest = rng.standard_normal((400_000, 2)), rng.standard_normal((400_000, 2)) @ np.linalg.cholesky(network.Q0).T
    y = network.label(kappa, np.sqrt(0.5) * rng.standard_normal(400_000))
    miss = (network.output(rest + kappa @ network.m0.T) - y) ** 2
    found = known_errors(run, curves)["mse"][0]
    assert abs(found - miss.mean()) < 4.0 * miss.std() / np.sqrt(miss.size) < 0.02 * abs(found)
    quiet = known_errors(run.replace(label_noise=0.0), curves)["mse"][0]
    assert abs(quiet - miss.mean()) > 8.0 * miss.std() / np.sqrt(miss.size)


def test_signs_with_noise_inside_are_signs():
    assert network_run({**RUN, "label": "probit", "loss": "logistic"}).problem.label_noise == 0.5
    with pytest.raises(RunError, match='label = "faded" gives real numbers'):
        network_run({**RUN, "label": "faded", "loss": "logistic"})


def test_one_pass_adds_noise_alone():
    with pytest.raises(RunError, match=r"^link 'added': a function of noise, .* take a link g\(u, k\)$"):
        onepass.Network(link="added", teacher_width=2)


@pytest.mark.long
def test_files_are_shown_and_compared_where_nobody_knows_the_label(tmp_path):
    """The error on new samples, which cannot be computed again, is that of the file."""
    run = network_run({**RUN, "label": "faded", "samples": 256, "dimension": 60, "instances": 2})
    dmft.solve(run, output=tmp_path / "theory.h5", quiet=True)
    made = sgd_sim.simulate(run, output=tmp_path / "simulation.h5")
    del links.BUILT_IN_LINKS["faded"]
    found = sgd_sim.load(tmp_path / "simulation.h5")
    np.testing.assert_array_equal(found.mse, made.mse)
    np.testing.assert_array_equal(found.specialisation, made.specialisation)
    dmft.report([tmp_path / "theory.h5", tmp_path / "simulation.h5"], tmp_path / "page.html")
    assert "specialisation" in (tmp_path / "page.html").read_text()
