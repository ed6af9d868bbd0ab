"""What a user sees who works in Python: names that complete, objects that print what they are, arguments that are named."""

from __future__ import annotations

import inspect
import pickle

import numpy as np
import pytest

import dmft
import onepass
import sgd_sim
from dmft.convergence.axis import make_axis
from dmft.core.errors import UserError


@pytest.mark.parametrize("package", (dmft, sgd_sim, onepass))
def test_completion_shows_public_names(package):
    assert sorted(dir(package)) == sorted(package.__all__)
    assert all(getattr(package, name) is not None for name in package.__all__)


def test_a_run_prints_what_it_is(results):
    assert repr(results.run) == ("<Run 'small': persistent_sgd, alpha = 3, m0 = 0.5, eta = 0.02, t_max = 0.4; theory: march, "
                                 "4 x 200 samples; simulation: N = 40, 12 instances>")
    assert "<td" in results.run._repr_html_() and "learning_rate = 0.02" in results.run._repr_html_()
    with pytest.raises(UserError, match="no field 'sample'; did you mean 'samples'"):
        results.run.replace(sample=3)


def test_a_title_goes_with_what_it_speaks_of(results):
    assert results.run.replace(samples=100).title == "small" and results.run.replace(kind="gd").title == ""
    assert results.run.replace(kind="gd", title="GD").title == "GD"
    assert dmft.parse_run(results.run.to_toml(), overrides=["algorithm.kind=gd"]).title == ""
    assert dmft.parse_run(results.run.to_toml(), overrides=["algorithm.kind=gd", "title=GD"]).title == "GD"


@pytest.mark.parametrize("ask, words", (
    (lambda results: results.result.kernels.MC, "Kernels have no 'MC', only t, M_C.*did you mean 'M_C'"),
    (lambda results: results.result.columns.chii, "did you mean 'chi'"),
    (lambda results: results.result.lss, "its curves: m, loss.*did you mean 'loss'"),
    (lambda results: results.sim.losss, "did you mean 'loss'"),
    (lambda results: results.result.generalization(3), "3 must be a function of two arrays"),
    (lambda results: onepass.QuadraticNetwork(widht=3), "QuadraticNetwork has no parameter 'widht'; did you mean 'width'"),
    (lambda results: onepass.MultiIndexNetwork(frictoin=3), "did you mean 'friction'"),
))
def test_a_slip_is_answered_in_one_line(results, ask, words):
    with pytest.raises((UserError, AttributeError), match=words):
        ask(results)


def test_results_can_be_sent_to_other_ranks(results):
    """As mpi4py does: an object under way has no curves yet."""
    for result in (results.result, results.sim):
        copy = pickle.loads(pickle.dumps(result))
        np.testing.assert_array_equal(copy.m, result.m)
        assert "m" in dir(copy)


def test_a_theory_names_its_curves(results):
    assert repr(results.result).endswith("nu_gap, ibp_gap, unstable, lost>") and "curves m, loss" in repr(results.result)
    assert "curves" not in str(results.result) and {"m", "m_error", "nu_hat"} <= set(dir(results.result))
    assert "curves" in results.result._repr_html_()


def test_an_axis_prints_its_order(results):
    other = dmft.load(results.other)
    axis = make_axis("learning_rate", [0.04, 0.02], [other, results.result])
    assert repr(axis) == "<Axis learning_rate = 0.04, 0.02; order of m: - (expected 1)>"
    assert "convergence in learning_rate" in axis._repr_html_()


@pytest.mark.parametrize("function", (dmft.solve, dmft.convergence_study))
def test_arguments_are_named_and_documented(function):
    parameters = inspect.signature(function).parameters
    assert not any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())
    assert [name for name in parameters if name not in function.__doc__] == []


def test_tables_for_pandas(results):
    pytest.importorskip("pandas")
    theory, simulation = results.result.to_dataframe(), results.sim.to_dataframe()
    assert np.array_equal(theory["m_error"], results.result.m_error) and len(theory) == results.result.t.size
    assert np.array_equal(simulation[simulation.instance == 3]["loss"], results.sim.loss[3])
    assert len(simulation) == results.sim.m.size
