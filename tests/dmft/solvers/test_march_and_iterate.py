"""March and iterate solve the same finite-sample equations: with the same random numbers, the same answer."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dmft.core.parallel import Comm
from dmft.core.tree import flatten
from dmft.equations.kernels import Wanted
from dmft.model.experiment import Experiment
from dmft.samples.sampling import PARTS, Sampling
from dmft.solvers.iterate import Iteration, Options
from tests.marks import slow, with_slow
from tests.solver_cases import ALGORITHMS, CONSTRAINTS, SMOOTH, make_iteration, make_march, make_run

# Every algorithm on one of the constraints; on the other they are slow.
BRIEF = {("gd", "sphere"), ("sgd", "sphere"), ("sgd with replacement", "sphere"), ("persistent", "sphere"),
         ("langevin, then cold", "sphere"), ("persistent and hot", "ridge")}
LONG = [case for case in product(ALGORITHMS, CONSTRAINTS) if case not in BRIEF]


@pytest.mark.parametrize("algorithm, constraint", with_slow(list(product(ALGORITHMS, CONSTRAINTS)), *LONG))
def test_undamped_iteration_ends_at_the_march(algorithm, constraint):
    run = make_run(ALGORITHMS[algorithm], CONSTRAINTS[constraint], steps=26)
    march, iteration = make_march(run), make_iteration(run)
    assert iteration.outcome == "converged"
    # Rounding is amplified by the Cholesky factor where M_C is nearly singular (measured: 2e-10 in the kernels).
    m_tolerance, kernel_tolerance = (1e-8, 1e-7) if algorithm in SMOOTH else (1e-11, 1e-10)
    assert_allclose(iteration.curves["m"], march.curves["m"], rtol=0, atol=m_tolerance)
    for name in march.kernels:
        scale = np.abs(march.kernels[name]).max()
        assert_allclose(iteration.kernels[name], march.kernels[name], rtol=0, atol=kernel_tolerance * scale, err_msg=name)


@pytest.mark.long
def test_damping_changes_the_way_and_not_the_end():
    run = make_run(ALGORITHMS["persistent"], steps=26)
    march, iteration = make_march(run), make_iteration(run, mixing=0.6, max_sweeps=200)
    assert iteration.outcome == "converged"
    assert_allclose(iteration.curves["m"], march.curves["m"], rtol=0, atol=1e-11)


def test_the_first_rows_are_exact_after_as_many_sweeps():
    run = make_run(ALGORITHMS["sgd"])
    march, iteration = make_march(run), make_iteration(run, max_sweeps=8)
    assert iteration.outcome == "sweep limit"
    assert_allclose(iteration.kernels["M_C"][:7, :7], march.kernels["M_C"][:7, :7], rtol=1e-11)
    assert np.abs(iteration.kernels["M_C"] - march.kernels["M_C"]).max() > 1e-6      # and later rows are not


def test_residual_is_measured_before_mixing():
    """A small mixing weight must not fake convergence: the first residual does not know of it."""
    run = make_run(ALGORITHMS["sgd"])
    first = [make_iteration(run, mixing=mixing, max_sweeps=1).residuals[0] for mixing in (1.0, 0.01)]
    assert first[0] == first[1] > 0.1


@pytest.mark.long
def test_a_guess_that_explodes_repairs_itself():
    """Strong mini-batch noise and a large step: the paper's guess blows up, rows before that are kept, and the iteration still ends
    at the march. Most marches of so few samples diverge here, too, 37 of 40: the first that does not is taken."""
    run = make_run({"kind": "sgd", "batch_fraction": 0.1, "minibatch": "with_replacement"}, {"m0": 0.6}, steps=30, eta=0.025)
    marches = ((seed, make_march(run, seed=seed)) for seed in range(1, 41))
    seed, march = next((seed, march) for seed, march in marches if not march.diverged)
    iteration = make_iteration(run, seed=seed)
    assert not np.isfinite(iteration.residuals[0])
    assert iteration.outcome == "converged"
    assert_allclose(iteration.curves["m"], march.curves["m"], rtol=0, atol=1e-10)


def test_a_row_that_explodes_by_itself_repairs_itself():
    """A guess with one absurd row: paths before it give that row anew, and the iteration ends where it does without."""
    run = make_run(ALGORITHMS["persistent"], steps=12)
    sane, absurd = started(run, 80, 1.0), started(run, 80, 1.0)
    absurd.guess.M_C[5, 5] = 1e130
    for iteration in (sane, absurd):
        while not iteration.done:
            iteration.sweep()
    assert np.isfinite(sane.residuals[0]) and absurd.residuals[0] == np.inf and absurd.outcome == "converged"
    assert_allclose(absurd.curves["m"], sane.curves["m"], rtol=0, atol=1e-8)


def test_fresh_noise_stops_at_the_noise_floor():
    run = make_run(ALGORITHMS["persistent"], steps=15)
    iteration = make_iteration(run, tolerance=1e-12, max_sweeps=60, fresh=True)
    assert iteration.outcome == "noise floor"
    assert 0 < iteration.residuals[-1] < iteration.residuals[0]


def started(run, max_sweeps: int, mixing: float = 0.7) -> Iteration:
    """An iteration whose every step walks one block of samples."""
    problem = Experiment.from_run(run)
    options = Options(mixing, 1e-9, max_sweeps, fresh_noise=False, step_work=0)
    return Iteration(problem, Sampling(400, 1, (0,), frozenset(PARTS)), options, Wanted.plain(problem.steps), Comm())


@pytest.mark.long
@pytest.mark.parametrize("limit", [5, slow(80)])
def test_an_iteration_goes_on_from_its_arrays(limit):
    """What a checkpoint holds is all there is: stopped within the sixth sweep, or at a sweep limit that is raised then, and
    taken up by another object, it ends with the same bits."""
    run = make_run(ALGORITHMS["sgd"], steps=25)
    whole, part, again = started(run, 80), started(run, limit), started(run, 80)
    for _ in range(5):
        part.sweep()
    if not part.done:
        part.step()
        assert part.blocks.total > 1
    assert (part.outcome, part.n) == ("sweep limit" if limit == 5 else "", 5)
    again.restore({name: np.array(array) for name, array in flatten(part.shared()).items()}, {}, {})
    for iteration in (whole, again):
        while not iteration.done:
            iteration.step()
    assert again.outcome == whole.outcome == "converged"
    assert again.residuals == whole.residuals and len(whole.residuals) > 10
    for kind in ("curves", "kernels"):
        for name, array in getattr(whole, kind).items():
            assert_array_equal(getattr(again, kind)[name], array, err_msg=name)
