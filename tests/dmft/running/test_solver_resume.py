"""What --resume does beyond going on: more sweeps, a first guess whose file is gone, a longer run, kernels at chosen times."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import dmft
from dmft.core.errors import RunError, Stopped
from tests.small_results import StopAfter
from tests.solver_cases import ALGORITHMS, make_run

ITERATE = {"method": "iterate", "steps": 12, "samples": 64, "tolerance": 1e-9}


def interrupted(run, path, polls: int) -> None:
    with pytest.raises(Stopped):
        dmft.solve(run, output=path, quiet=True, stop=StopAfter(polls))


def test_more_sweeps_for_a_checkpoint_whose_replicas_ended_at_the_limit(tmp_path, capsys):
    """3 sweeps a replica: stopped in the second of two."""
    run = make_run(ALGORITHMS["sgd"], replicas=2, max_sweeps=3, **ITERATE)
    interrupted(run, tmp_path / "a.h5", 5)
    result = dmft.solve(run.replace(max_sweeps=100), output=tmp_path / "a.h5", resume=True)
    assert "more sweeps allowed" in capsys.readouterr().err
    assert result.outcome == "converged" and result.attrs["outcomes"] == "converged,converged"
    assert_allclose(result.m, dmft.solve(run.replace(max_sweeps=100), quiet=True).m, rtol=0, atol=1e-7)


def test_a_first_guess_is_kept_with_the_checkpoint(tmp_path):
    run = make_run(ALGORITHMS["sgd"], replicas=1, **ITERATE)
    dmft.solve(run, output=tmp_path / "first.h5", quiet=True)
    run = run.replace(start_from=str(tmp_path / "first.h5"), replicas=2)
    whole = dmft.solve(run, quiet=True)
    interrupted(run, tmp_path / "a.h5", 2)
    (tmp_path / "first.h5").unlink()
    result = dmft.solve(run, output=tmp_path / "a.h5", resume=True, quiet=True)
    assert_array_equal(result.replicas["m"], whole.replicas["m"])
    assert_array_equal(result.history, whole.history)


@pytest.mark.parametrize(("steps", "words"), [(30, "rounding alone"), (201, "is now dyadic")])
def test_a_longer_run_says_what_it_changes(tmp_path, capsys, steps, words):
    run = make_run({"kind": "gd"}, steps=20, samples=64, replicas=1)
    first = dmft.solve(run, output=tmp_path / "a.h5", quiet=True)
    longer = dmft.solve(run.replace(t_max=steps * 0.02), output=tmp_path / "a.h5", resume=True)
    assert words in capsys.readouterr().err
    if steps == 30:
        assert_allclose(longer.m[:21], first.m, rtol=0, atol=1e-9)


def test_kernels_at_chosen_times():
    run = make_run({"kind": "gd"}, steps=20, samples=64, replicas=1)
    everywhere, chosen = dmft.solve(run, quiet=True), dmft.solve(run.replace(kernel_points=[0.0, 0.1, 0.4]), quiet=True)
    assert_allclose(chosen.kernels.t, [0.0, 0.1, 0.4])
    assert_array_equal(chosen.kernels.M_C, everywhere.kernels.M_C[np.ix_([0, 5, 20], [0, 5, 20])])
    with pytest.raises(RunError, match=r"kernel_points = \[..., 0.5\]: beyond"):
        dmft.solve(run.replace(kernel_points=[0.1, 0.5]), quiet=True)
    for wrong in ([], [0.2, 0.1], -1, "log"):
        with pytest.raises(RunError, match="kernel_points"):
            run.replace(kernel_points=wrong)
