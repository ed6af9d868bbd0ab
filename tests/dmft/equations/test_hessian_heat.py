"""Outliers of the Hessian with heat and with momentum: the noise of the weights is part of what the Hessian knows of the past."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import dmft
import sgd_sim
from dmft.core.parallel import Comm
from dmft.core.tree import flatten
from dmft.equations.kernels import Wanted
from dmft.model.experiment import Experiment
from dmft.result.hessian import _fields
from dmft.samples.sampling import Sampling
from dmft.solvers.march import March
from sgd_sim import hessian as simulated
from tests.run_files import run_text

LOSS = {"alpha": 3.0, "m0": 0.3, "loss": "normalised_phase_retrieval"}


@pytest.mark.parametrize("blocks", [{}, {"history": "dyadic", "blocks_per_level": 4}])
def test_overlaps_of_weights_and_noise_are_the_response(blocks):
    """Without a constraint w_n.xi_j/N is sqrt(2 T eta/steps) times the sum of R(n, k) over the steps since the visited step before:
    to rounding in a full history, to what blocks blur in a dyadic one. The fields of that noise are standard normals."""
    temperature, eta = 0.2, 0.05
    run = dmft.parse_run(run_text("langevin", t_max=2.0, algorithm={"learning_rate": eta, "temperature": temperature}, problem={
        **LOSS, "constraint": "ridge", "ridge": 0.0}, theory={"samples": 256, "replicas": 1, "snapshots": [2.0], "hessian": True,
                                                            **blocks}))
    full, theory = (dmft.solve(each) for each in (run.replace(history="full"), run))
    found, visited = theory.snapshots, np.rint(theory.snapshots.visited / eta).astype(int)
    R = full.kernels.R
    for i, n in enumerate(visited):
        for j in range(1, i + 1):
            first, end = visited[j - 1], visited[j]
            exact = np.sqrt(2 * temperature * eta / (end - first)) * R[n, first:end].sum()
            assert abs(found.heat[0, i, j] - exact) < (0.05 if blocks else 1e-12), (n, first, end)
    assert not found.heat[0, 0].any() and abs(np.mean(found.xi[0, :, 1:] ** 2) - 1.0) < 0.1


def test_noise_that_was_not_there_is_no_direction():
    """Heat that sets in later: the times before it have no column, which would be an outlier at 0."""
    run = dmft.parse_run(run_text("langevin", t_max=1.0, algorithm={"learning_rate": 0.1, "temperature": [[0.0, 0.0], [0.5, 0.3]]},
                                  problem=LOSS, theory={"samples": 256, "replicas": 1, "snapshots": [0.3, 1.0], "hessian": True}))
    theory = dmft.solve(run)
    found = theory.snapshots
    f, _ = _fields(found, theory.replicas["m"][0], theory.t, 0, 0, np.ones(256, bool), False)
    assert found.xi is not None and f.any(axis=0).all() and theory.hessian(1.0).complete


def test_a_march_goes_on_from_its_state():
    """Noise, overlaps and what is left of a sum are part of a checkpoint, to the bit."""
    run = dmft.parse_run(run_text("langevin", t_max=1.0, algorithm={"learning_rate": 0.1, "temperature": 0.3}, problem=LOSS,
                                  theory={"samples": 64, "snapshots": [1.0], "hessian": True}))

    def march() -> March:
        sampling = Sampling(64, 3, (0,), frozenset(("sobol", "ibp")), 1 / 16)
        return March(Experiment.from_run(run), sampling, None, Wanted.of(run), Comm())

    whole, begun, other = march(), march(), march()
    for _ in range(6):
        begun.step()
    other.restore(flatten(begun.shared()), {k: v.copy() for k, v in begun.per_sample().items()}, begun.per_tangent())
    for each in (whole, other):
        while not each.done:
            each.step()
    assert whole.snapshots.xi.any()
    for name in ("h", "g", "xi", "gram", "heat"):
        np.testing.assert_array_equal(getattr(other.snapshots, name), getattr(whole.snapshots, name), name)


HOT = dmft.parse_run(run_text("langevin", t_max=6.0, algorithm={"learning_rate": 0.05, "temperature": 0.1}, problem=LOSS,
                              simulation={"dimension": 400, "instances": 6},
                              theory={"samples": 8192, "replicas": 3, "snapshots": [6.0], "hessian": True}))
BALL = dmft.parse_run(run_text("gd", t_max=2.0, algorithm={"learning_rate": 0.05, "momentum": 0.5}, problem=LOSS,
                               simulation={"dimension": 400, "instances": 6},
                               theory={"samples": 8192, "replicas": 3, "snapshots": [2.0], "hessian": True}))


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("run", [HOT, BALL], ids=["heat", "heavy ball"])
def test_theory_on_simulation(run):
    """Eigenvalues and overlaps at the last time. Twin: the past of the weights alone, without their noise (measured 0.04 where
    instances have 0.20(2)), or without its gradients."""
    theory, sim = dmft.solve(run), sgd_sim.simulate(run)
    instances = [simulated.hessians(sim.snapshots, i)[0] for i in range(6)]
    names = {"lowest": lambda one: one.eigenvalues[0], "largest": lambda one: one.eigenvalues[-1], "soft": lambda one: one.soft,
             "soft_overlap": lambda one: one.soft_overlap, "largest_overlap": lambda one: one.overlaps[1]}
    law = theory.hessian(theory.snapshots.t[0])
    found = theory.snapshots
    less = {"xi": np.zeros_like(found.xi)} if found.xi is not None else {"g": np.zeros_like(found.g)}
    twin = replace(theory, snapshots=replace(found, **less)).hessian(theory.snapshots.t[0])
    z, wrong = {}, {}
    for name, number in names.items():
        values = np.array([number(one) for one in instances])
        error = values.std(ddof=1) / np.sqrt(6)
        z[name], wrong[name] = ((each.mean(name)[0] - values.mean()) / np.hypot(each.mean(name)[1], error) for each in (law, twin))
    assert law.complete and max(map(abs, z.values())) < 5, z
    assert max(map(abs, wrong.values())) > 5, wrong
