"""Closed models against direct simulation: p = 3 with every kind of step, where no exact answer is known."""

from __future__ import annotations

import numpy as np
import pytest

from dmft.running.runner import solve
from tests.exact.closed_models import closed_run
from tests.exact.p_spin_simulation import simulate
from tests.marks import slow

pytestmark = pytest.mark.statistical
MIXED = {"powers": [[2, 0.4], [3, 0.6]], "signal": [[2, 0.6]], "m0": 0.3, "t_max": 2.0}
CASES = [
    ({"powers": [[3, 1.0]], "t_max": 2.0}, 60, 60),
    ({**MIXED, "momentum": 0.5, "nesterov": True}, 60, 60),
    slow({**MIXED, "kind": "langevin", "temperature": 0.5, "momentum": 0.4}, 60, 60),
    slow({"powers": [[3, 1.0]], "t_max": 2.0}, 150, 20),
    slow({"Delta_2": 0.5, "m0": 0.2, "t_max": 6.0}, 2000, 10),
]


@pytest.mark.parametrize(("keys", "N", "instances"), CASES)
def test_theory_and_simulation(keys, N, instances):
    """m, E and C(n, 0) at three times within 4.5 standard errors and 1.5/N; an energy that is half as large again is
    seen."""
    run = closed_run(**keys)
    theory, told = solve(run, quiet=True), simulate(run, N, instances)
    steps = run.algorithm.steps
    at = [steps // 4, steps // 2, steps]
    error = lambda x: x.std(axis=0, ddof=1) / np.sqrt(instances)  # noqa: E731
    for name, curve in (("m", theory.m), ("E", theory.energy), ("C_start", theory.columns.C[:, 0])):
        if name == "C_start" and run.algorithm.nesterov:
            continue  # kernels are those of the points where gradients are taken
        simulated = getattr(told, name)
        values = np.interp(run.algorithm.clock.t[at], theory.columns.t, curve) if name == "C_start" else curve[at]
        gap = np.abs(simulated.mean(axis=0)[at] - values)
        assert np.all(gap < 4.5 * error(simulated)[at] + 1.5 / N), (name, gap, error(simulated)[at])
    stronger = {key: [[p, 1.5 * c] for p, c in value] if key == "powers" else value for key, value in keys.items()}
    if "Delta_2" in keys:
        stronger["Delta_2"] = keys["Delta_2"] / 1.5
    broken = solve(closed_run(**stronger), quiet=True)
    assert np.any(np.abs(told.E.mean(axis=0)[at] - broken.energy[at]) > 4.5 * error(told.E)[at] + 1.5 / N)
