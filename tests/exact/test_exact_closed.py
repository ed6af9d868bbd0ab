"""Closed models against exact answers: random matrices for p = 2, end points, the blocks of the history. Eqs. [closed-row],
[closed-m], [closed-energy]."""

from __future__ import annotations

import numpy as np
import pytest

from dmft.core.errors import OutcomeWarning
from dmft.equations.tuning import Estimator
from dmft.model.experiment import theory_experiment
from dmft.running.replica import WHOLE, Setup
from dmft.running.runner import solve
from dmft.solvers.closed import ClosedMarch
from tests.exact.closed_models import by_matrix, closed_run

RULES = {
    "gd": {},
    "heavy ball": {"momentum": 0.6},
    "nesterov": {"momentum": 0.5, "nesterov": True},
    "heat": {"kind": "langevin", "temperature": [[0.0, 1.0], [2.0, 0.3]]},
    "schedule": {"learning_rate": [[0.0, 0.1], [2.0, 0.05]], "t_max": 4.0, "momentum": 0.3, "temperature": 0.2},
}


@pytest.mark.parametrize("rule", RULES)
def test_two_spins_are_a_random_matrix(rule):
    """C, R and the energy for every rule that the package has, to rounding; another variance is seen."""
    run = closed_run(powers=[[2, 0.5]], t_max=3.0, **{key: value for key, value in RULES[rule].items() if key != "t_max"})
    theory, exact = solve(run, quiet=True), by_matrix(run, 1.0, 0.0)
    rates = np.append(run.algorithm.clock.eta, 1.0)
    assert np.abs(theory.energy - exact.E).max() < 1e-13
    if not run.algorithm.nesterov:  # kernels are those of the points where gradients are taken
        assert np.abs(theory.kernels.C - exact.C).max() < 1e-13
        assert np.abs((theory.kernels.R * rates)[:, :-1] - exact.Gam).max() < 1e-13
    assert np.abs(theory.energy - by_matrix(run, 1.01, 0.0).E).max() > 1e-4


@pytest.mark.parametrize("keys", [{}, {"momentum": 0.4}, {"kind": "langevin", "temperature": 0.1}])
def test_a_spiked_matrix(keys):
    """m and C with a signal; a spike that is one per cent stronger is seen."""
    run = closed_run(Delta_2=0.5, m0=0.2, t_max=4.0, **keys)
    theory, exact = solve(run, quiet=True), by_matrix(run, 2.0, 2.0)
    assert np.abs(theory.m - exact.m).max() < 1e-13 and np.abs(theory.kernels.C - exact.C).max() < 1e-13
    assert np.abs(theory.energy - exact.E).max() < 1e-13
    assert np.abs(theory.m - by_matrix(run, 2.0, 2.02).m).max() > 1e-3


@pytest.mark.long
def test_the_compiled_loop_and_single_steps_agree():
    """Rows between those that are kept are taken by a loop of their own; the same run with all rows kept goes one by one."""
    run = closed_run(powers=[[3, 1.0], [4, 0.2]], signal=[[2, 0.7]], m0=0.1, t_max=20.0, momentum=0.3,
                     kind="langevin", temperature=0.2)
    one_by_one, loop = solve(run, quiet=True), solve(run.replace(kernel_points=4, waiting_times=[2.0]), quiet=True)
    assert len(loop.kernels.t) == 4 and len(one_by_one.kernels.t) == 201
    for name in one_by_one.names:
        assert np.abs(one_by_one.curves[name] - loop.curves[name]).max() < 1e-12, name
    broken = solve(run.replace(kernel_points=4, waiting_times=[2.0], powers=[[3, 1.0], [4, 0.2001]]), quiet=True)
    assert np.abs(broken.energy - loop.energy).max() > 1e-6


@pytest.mark.long
def test_blocks_of_the_history_cost_little():
    """p = 3, gradient descent: the energy in blocks against the full history, and what the companion says of it."""
    run = closed_run(powers=[[3, 1.0]], t_max=60.0)
    full, blocks = solve(run, quiet=True), solve(run.replace(history="dyadic"), quiet=True)
    error, told = blocks.energy - full.energy, blocks.history_error["loss"]
    assert 1e-8 < np.abs(error).max() < 2e-5
    assert np.abs(error).max() < 3 * np.abs(told).max() < 2e-3
    few = solve(run.replace(history="dyadic", blocks_per_level=2), quiet=True)
    assert np.abs(few.energy - full.energy).max() > 1e-3
    at = [np.flatnonzero(np.isclose(theory.columns.t_w, 6.4))[0] for theory in (full, blocks)]
    C, chi = (np.array([getattr(theory.columns, name)[-1, j] for theory, j in zip((full, blocks), at)]) for name in ("C", "chi"))
    assert abs(np.diff(C)[0]) < 3e-3 and abs(np.diff(chi)[0]) < 1e-3


@pytest.mark.long
@pytest.mark.parametrize(("inverse", "end"), [(2.0, 0.72609664), (3.0, 0.82701428)])
def test_end_points_of_the_matrix_tensor_model(inverse, end):
    """m = chi phi'(m), chi^2 = (1 - m^2)/f'(1), to eight digits. Eq. [closed-threshold]."""
    run = closed_run(Delta_2=1 / inverse, Delta_p=4.0, m0=0.3, t_max=150.0)
    m = solve(run, quiet=True).m[-1]
    assert abs(m - end) < 1e-8
    slope = np.sqrt((1 - m**2) / (inverse + 0.25)) * (inverse * m + 0.25 * m**2)
    assert abs(slope - m) < 1e-7 and abs(np.sqrt((1 - m**2) / (inverse + 0.26)) * (inverse * m + 0.26 * m**2) - m) > 1e-4


def test_nothing_is_random():
    """One solution, errors 0 and not NaN; another seed or number of samples changes nothing, and the file says so."""
    run = closed_run(powers=[[3, 1.0]], t_max=2.0)
    changed = run.replace({"theory.seed": 7, "theory.samples": 10, "theory.replicas": 3})
    theory, other = solve(run, quiet=True), solve(changed, quiet=True)
    assert theory.outcome == other.outcome == "deterministic" and len(theory.replicas["m"]) == 1
    assert np.array_equal(theory.energy, other.energy) and not theory.energy_error.any()
    assert not theory.kernels.C_error.any() and not np.nan_to_num(theory.columns.C_error).any()
    assert "without samples" in repr(theory) and theory.mse is None and theory.lost is None


@pytest.mark.parametrize("rows", [{}, {"kernel_points": 4, "waiting_times": [1.0]}], ids=["one by one", "loop"])
def test_norms_are_held_against_the_estimator_that_is_given(rows):
    """|u|^2/N, of a step before it is scaled, is a little above 1."""
    run = closed_run(powers=[[3, 1.0]], t_max=20.0, **rows)
    assert solve(run, quiet=True, estimator=Estimator(largest=10.0)).outcome == "deterministic"
    with pytest.warns(OutcomeWarning, match="diverged at t = "):
        assert solve(run, quiet=True, estimator=Estimator(largest=0.5)).outcome == "diverged"


def test_a_stopped_march_goes_on():
    """The state of a checkpoint gives the same bits."""
    run = closed_run(powers=[[3, 1.0]], signal=[[2, 0.5]], m0=0.1, t_max=60.0, history="dyadic")
    setup = Setup.from_run(run)

    class Alone:
        rank, size = 0, 1

    def march() -> ClosedMarch:
        return ClosedMarch(theory_experiment(run), setup.blocks(WHOLE), setup.wanted, Alone())  # type: ignore[arg-type]

    first, second = march(), march()
    while first.n < 300:
        first.take([])
    second.restore(first.shared(), {}, {})
    while not first.done:
        first.take([])
    while not second.done:
        second.take([])
    assert first.outcome == "deterministic" and np.isfinite(first.curves["m"]).all()
    for name, curve in first.curves.items():
        assert np.array_equal(curve, second.curves[name]), name
    assert np.array_equal(first.columns["C"], second.columns["C"], equal_nan=True)
