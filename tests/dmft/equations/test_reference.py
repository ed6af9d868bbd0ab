"""The solvers against the plain statement of the equations, dmft/equations/reference.py: same random numbers, same answer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dmft.equations import reference
from dmft.model.experiment import Experiment
from dmft.samples.sampling import Sampling, draw
from tests.solver_cases import ALGORITHMS, CONSTRAINTS, SMOOTH, make_iteration, make_march, make_run

STEPS, SAMPLES = 14, 60
# Plain sampling and plain estimates on both sides: the reference has no control variate.
PLAIN = frozenset()
WEIGHTED = frozenset({"sobol", "weights"})


def solved(experiment: Experiment, parts: frozenset[str] = PLAIN, **options):
    """Kernels and weights of the reference, for the samples of the solvers."""
    sampling = Sampling(SAMPLES, 1, (0,), parts)
    draws = draw(experiment, sampling, np.arange(SAMPLES))
    return reference.solve(experiment, draws, draws.weight / draws.weight.sum(), sampling.keys, **options)


def assert_same(solution, kernels, weights, rtol: float) -> None:
    """Curves and kernels of a solver against those of the reference."""
    eta, C = np.append(solution.experiment.eta_n, 1.0), weights.Q + np.tril(weights.Q, -1).T + np.outer(weights.m, weights.m)
    for name, want in (("m", weights.m_w), ("loss", kernels.loss), ("delta_nu", kernels.delta_nu), ("mu", kernels.mu)):
        assert_allclose(solution.curves[name], want, rtol=rtol, atol=rtol, err_msg=name)
    for name, want in (("M_C", kernels.M_C), ("M_R", kernels.K_R / eta), ("C", C), ("R", weights.Gam / eta)):
        assert_allclose(solution.kernels[name], want, rtol=rtol, atol=rtol * np.abs(want).max(), err_msg=name)


@pytest.mark.parametrize("constraint", CONSTRAINTS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_march_solves_the_equations(algorithm, constraint):
    run = make_run(ALGORITHMS[algorithm], CONSTRAINTS[constraint], steps=STEPS)
    kernels, weights, sweeps = solved(Experiment.from_run(run))
    assert sweeps < 2 * STEPS  # causal: undamped, each sweep settles one more step
    # rounding is amplified by the nearly singular Cholesky factor where the noise is smooth
    assert_same(make_march(run, SAMPLES, parts=PLAIN), kernels, weights, 1e-6 if algorithm in SMOOTH else 1e-9)


def test_with_importance_weights():
    run = make_run(ALGORITHMS["persistent and hot"], steps=STEPS)
    kernels, weights, _ = solved(Experiment.from_run(run), WEIGHTED)
    assert_same(make_march(run, SAMPLES, parts=WEIGHTED), kernels, weights, 1e-9)


def test_linear_loss_and_mirrored_pairs():
    for problem in ({"loss": "linear", **CONSTRAINTS["ridge"]}, {"m0": 0.0}):
        run = make_run(ALGORITHMS["persistent"], problem, steps=STEPS)
        kernels, weights, _ = solved(Experiment.from_run(run))
        assert_same(make_march(run, SAMPLES, parts=PLAIN), kernels, weights, 1e-9)


def test_the_iteration_solves_the_equations():
    run = make_run(ALGORITHMS["persistent"], steps=STEPS)
    kernels, weights, _ = solved(Experiment.from_run(run))
    assert_same(make_iteration(run, SAMPLES, parts=PLAIN), kernels, weights, 1e-9)


def test_damping_changes_the_way_and_not_the_answer():
    experiment = Experiment.from_run(make_run(ALGORITHMS["persistent"], steps=6))
    straight, damped = solved(experiment), solved(experiment, mixing=0.6, tolerance=1e-11)
    assert damped[2] > straight[2]
    assert_allclose(damped[1].m, straight[1].m, rtol=1e-9)


def test_a_missing_memory_term_is_seen(monkeypatch):
    """The twin: without M_R in the process the answer is another one."""
    run = make_run(ALGORITHMS["persistent"], steps=STEPS)
    experiment = Experiment.from_run(run)
    kernels, weights, _ = solved(experiment)
    forget = reference.sweep_once

    def without_memory(e, draws, weight, keys, old, m=None):
        return forget(e, draws, weight, keys, old and replace(old, K_R=0 * old.K_R), m)

    monkeypatch.setattr(reference, "sweep_once", without_memory)
    assert np.abs(solved(experiment)[1].m - weights.m).max() > 1e-3
