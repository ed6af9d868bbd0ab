"""Theory against direct simulation for algorithms that change in time: the examples of runs/algorithms."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dmft
import sgd_sim

RUNS = Path(__file__).resolve().parents[3] / "runs/algorithms"
pytestmark = [pytest.mark.statistical, pytest.mark.slow]


def worst(theory: dmft.api.Theory, simulation: sgd_sim.SimulationResult) -> float:
    """The largest |z| of m and loss over the recorded times."""
    mean, error, found = simulation.mean(), simulation.error(), 0.0
    steps = np.searchsorted(theory.t, simulation.t - 1e-9)
    for name in ("m", "loss"):
        curve, bar = theory.curves[name][steps], theory.curves[f"{name}_error"][steps]
        found = max(found, float(np.abs((curve - mean[name]) / (np.hypot(bar, error[name]) + 1e-4)).max()))
    return found


@pytest.mark.parametrize("name", ["spectral-then-epochs", "nesterov", "growing-batches"])
def test_theory_is_the_limit_of_the_simulation(name):
    """Some forty correlated numbers a case; 5 errors leave room for terms of order 1/N."""
    run = dmft.load_run(RUNS / f"{name}.toml")
    assert worst(dmft.solve(run, quiet=True), sgd_sim.simulate(run)) < 5


def test_another_algorithm_is_seen():
    """Twin: a chain that relaxes is not one that jumps."""
    run = dmft.load_run(RUNS / "growing-batches.toml")
    assert worst(dmft.solve(run.replace(batch_change="relax"), quiet=True), sgd_sim.simulate(run)) > 5
