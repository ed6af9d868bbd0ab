"""The differential tests themselves: their cases, their bounds, and that broken physics and missing refusals are noticed. The long
run over many cases is `make test-differential`."""

from __future__ import annotations

import dataclasses
import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

import dmft
from dmft.core.errors import UserError
from dmft.model.algorithm import AlgorithmConfig
from tests.differential import onepass_runs, plugins, refused, same
from tests.differential.batch import main
from tests.differential.chance import Estimate, bound, corrected, extrapolated, gaps, largest, mean_of
from tests.differential.onepass_runs import ONEPASS
from tests.differential.other_runs import CLOSED, NETWORKS
from tests.differential.runs import RUNS, run_text
from tests.differential.table import Case, coverage, shrunk
from tests.differential.theory_simulation import SMALL, compared, estimates
from tests.marks import slow

CHOSEN = {"loss": "linear", "algorithm": "sgd", "constraint": "ridge"}        # a case with little in it


@pytest.fixture(autouse=True)
def losses():
    plugins.register()


def case_with(**options: str) -> Case:
    return Case(RUNS, 3, 5, RUNS.defaults | {name.replace("_", " "): option for name, option in options.items()})


@pytest.mark.long
def test_cases_are_runs_and_are_made_again():
    for index in range(100):
        case = RUNS.case(4, index)
        run = dmft.parse_run(run_text(case))
        assert dmft.parse_run(run.to_toml()) == run and 10 <= run.algorithm.steps < 90, run_text(case)
        assert run_text(RUNS.case(4, index)) == run_text(case) == run_text(pickle.loads(pickle.dumps(case)))
    assert run_text(RUNS.case(5, 0)) != run_text(RUNS.case(4, 0))


@pytest.mark.long
@pytest.mark.parametrize("table", [NETWORKS, CLOSED], ids=lambda table: table.name)
def test_networks_and_closed_models_are_runs(table):
    for index in range(60):
        run = dmft.parse_run(run_text(table.case(4, index)))
        assert dmft.parse_run(run.to_toml()) == run and run.has_network == (table is NETWORKS)


@pytest.mark.long
def test_parts_add_up(tmp_path, capsys):
    """Two halves of a batch, kept and added, are the batch."""
    asked = ["--cases", "2", "--seed", "2", "--judge", "closed, stops", "--judge", "refused"]
    assert main(asked) == 0
    whole = capsys.readouterr().out
    for part in "12":
        assert main([*asked, "--part", f"{part}/2", "--keep", str(tmp_path / part)]) == 0
    capsys.readouterr()
    assert main([*asked, "--add", str(tmp_path / "1"), str(tmp_path / "2")]) == 0
    rows = [[line.rsplit("|", 2)[0] for line in text.splitlines() if line.startswith(("| closed", "| refused"))]      # no seconds
            for text in (whole, capsys.readouterr().out)]
    assert len(rows[0]) == 2 and rows[0] == rows[1]


@pytest.mark.long
@pytest.mark.parametrize("table, cases", [(RUNS, 1000), (ONEPASS, 200), (NETWORKS, 400), (CLOSED, 200)])
def test_no_pair_of_options_is_left_empty(table, cases):
    counts = coverage(table, [table.case(1, index) for index in range(cases)])
    assert len(counts) == len(table.pairs) > 200 and min(counts.values()) > 0
    for feature in table.features:      # and no option is one that never comes
        names = {option for pair in counts for name, option in (pair[:2], pair[2:]) if name == feature.name}
        assert names == {option.name for option in feature.options}


def test_an_empty_pair_has_a_case_made_for_it():
    for pair in RUNS.pairs[::1000]:
        assert pair in RUNS.case(3, RUNS.made_for(3, pair)).pairs


def test_one_pass_models_are_made():
    for index in range(60):
        case = ONEPASS.case(2, index)
        model = onepass_runs.model_of(case)
        model.start({name: np.array(value) for name, value in onepass_runs.start_of(case).items()}, 50)


def test_a_failing_case_shrinks_to_what_it_needs():
    guilty = {"data": "teacher", "algorithm": "persistent_sgd", "batch": "relaxes", "start": "against"}
    case = next(case for index in range(100_000) if (case := Case(RUNS, 1, index, RUNS.draw(np.random.default_rng(index)))) and all(
        case.choice[name] == option for name, option in guilty.items()))
    small = shrunk(case, lambda other: all(other.choice[name] == option for name, option in guilty.items()))
    assert small.choice == RUNS.defaults | guilty and case.choice != small.choice
    assert case.keys["problem.m0"] == small.keys["problem.m0"]


@pytest.mark.long
def test_chance_is_what_it_says():
    """Twenty comparisons of a mean over 6 values with one over 40: the largest |z| of all is beyond the
    bound for a chance of 1/20 in about one of 20 batches, and a shift by five errors in most of them."""
    rng, batches, limit = np.random.default_rng(0), 2000, bound(1, 0.05)
    beyond = shifted = 0
    for _ in range(batches):
        ours, theirs = Estimate.of(3.0 * rng.standard_normal((6, 20))), Estimate.of(rng.standard_normal((40, 20)))
        beyond += largest({"x": gaps([(1.0, ours)], [(1.0, theirs)])}, limit).failed
        moved = ours._replace(mean=ours.mean + 15.0 * (np.arange(20) == 7))
        shifted += largest({"x": gaps([(1.0, moved)], [(1.0, theirs)])}, limit).failed
    low, high = stats.binom.interval(1 - 1e-4, batches, 0.05)
    assert 0.5 * low < beyond < high and shifted > 0.9 * batches
    assert corrected(4.0, 1) == pytest.approx(4.0)
    assert corrected(4.0, 100) == pytest.approx(stats.norm.isf(100 * stats.norm.sf(4.0)))


def test_extrapolation_takes_the_first_order_away():
    small, large = (Estimate(np.array([2.0 + 3.0 / n + 5.0 / n**2]), np.array([1e-4]), 10) for n in (50, 200))
    assert mean_of(extrapolated(small, large, 4.0))[0] == pytest.approx(2.0 - 5.0 / (50 * 200))


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("options, broken", [
    slow(CHOSEN, {"problem__alpha": 2.2}),
    ({"momentum": "heavy ball", "loss": "linear"}, {"algorithm__momentum": 0.0}),
    ({"loss": "logistic", "flip": "flipped"}, {"problem__flip": 0.0}),
])
def test_wrong_physics_is_noticed(options, broken):
    """The theory of another run: ten per cent more data, no momentum, labels that are not flipped."""
    case = case_with(**options)
    changed = {name: value for name, value in broken.items() if name != "problem__alpha"} or {
        "problem__alpha": 1.1 * case.keys["problem.alpha"]}
    assert not largest(compared(case, SMALL), bound(1000)).failed
    assert largest(compared(case, SMALL, **changed), bound(1000)).failed


@pytest.mark.parametrize("refusal", refused.REFUSALS, ids=lambda refusal: refusal.name)
def test_what_cannot_be_is_refused_for_its_reason(refusal):
    for index in range(2):      # the wrong phase comes first, or behind another one
        found = refused.judge(refusal, refused.case_for(refusal, 1, index))
        assert not found.failed, found.where


def test_a_refusal_that_is_gone_is_noticed(monkeypatch):
    """With a loss of the package, whose compiled code is kept: what is not refused is solved."""
    def found(name: str):
        refusal = next(one for one in refused.REFUSALS if one.name == name)
        cases = (refused.case_for(refusal, 1, index) for index in range(1000))
        return refused.judge(refusal, next(case for case in cases if case.choice["loss"] == "logistic"))

    assert not found("intercept, later momentum").failed
    monkeypatch.setattr(AlgorithmConfig, "has_momentum", property(lambda self: self.momentum not in (0.0, None)))
    assert found("intercept, later momentum").failed and "not refused" in found("intercept, later momentum").where
    assert not found("intercept with momentum").failed


def test_what_must_be_the_same_is_compared_to_the_last_number():
    ours = {"m": np.linspace(0.0, 1.0, 5), "q": np.ones(5)}
    near, far, gone = ({**ours, "m": ours["m"] + shift} for shift in (1e-9, 1e-3, np.array([0, 0, 0, 0, np.nan])))
    assert not same.apart(ours, near, 1e-6).failed and same.apart(ours, near, 0.0).failed
    assert same.apart(ours, far, 1e-6).failed and same.apart(ours, gone, 1.0).failed
    assert same.apart(ours, {"m": ours["m"]}, 1.0).failed and not same.apart(gone, dict(gone), 0.0).failed


@pytest.mark.parametrize("grown, overshot, explodes", [
    (2.0, 0.01, False), (4.0, 0.0, False), (4.0, 0.01, True), (11.0, 0.0, True), (np.nan, 0.0, True)])
def test_explosions_are_told_from_losses_that_rise(grown, overshot, explodes):
    theory = SimpleNamespace(sampled=True, loss=np.array([0.5, 0.5 * grown]), curves={"unstable": np.array([0.0, overshot])},
                             averaged=np.ones(3, bool))
    assert same.explodes(theory) == explodes
    theory.averaged[1] = False
    assert same.explodes(theory)


@pytest.mark.slow
def test_what_judges_once_stumbled_over():
    """Copies, which an iteration and a result that can grow do not have; columns of more steps than they have rows."""
    copies = case_with(clones="pairs")
    assert not same.judge("iteration", copies).failed and not same.judge("growth", copies).failed
    long = Case(RUNS, 12, 196, RUNS.defaults | {"rate": "formula", "two times": "kernels"})
    ours, _, rows = estimates(long, SMALL)
    assert rows.size < rows[-1] + 1 == ours["m"][0][1].mean.size == ours["C(t, t_w)"][0][1].mean.shape[0]
    assert not largest(compared(long, SMALL), bound(1000)).failed


@pytest.mark.long
@pytest.mark.parametrize("name, change", [slow("histories", {"theory__samples": 49}), ("stops", {"theory__seed": 7})])
def test_another_run_is_not_the_same(name, change, monkeypatch):
    """Twin: the second way of two has one sample more, or another seed."""
    case, parsed, calls = case_with(**CHOSEN), same.parsed, []

    def other(case: Case, **changes):
        calls.append(changes)
        return parsed(case, **{**changes, **(change if len(calls) > 1 else {})})

    assert not same.judge(name, case).failed
    if name == "stops":
        solve = dmft.solve
        monkeypatch.setattr(dmft, "solve", lambda run, **options: solve(
            run.replace({"theory.seed": 7}) if options["output"].stem == "whole" else run, **options))
    monkeypatch.setattr(same, "parsed", other if name == "histories" else parsed)
    assert same.judge(name, case).failed


def test_options_of_a_case_can_be_said_by_hand():
    """What a shrunk case prints is a run file that solves by itself, or says in one line why not."""
    case = case_with(**CHOSEN)
    run = dmft.parse_run(run_text(case)).replace(samples=8, replicas=1)
    assert dmft.solve(run, quiet=True).outcome == "done"
    with pytest.raises(UserError):
        dmft.parse_run(run_text(dataclasses.replace(case, choice={**case.choice, "loss": "door"})))


def test_a_label_on_the_boundary_may_flip_and_more_may_not():
    ours = {"error_fresh": np.full((3, 28), 77 / 256), "m": np.zeros((3, 28))}
    for flips, size, allowed in ((1, 1, True), (2, 1, True), (3, 1, False), (1, 2, False)):
        theirs = {name: array.copy() for name, array in ours.items()}
        theirs["error_fresh"].flat[:flips] -= size / 256
        assert (same.apart(ours, same.up_to_flips(ours, theirs, 60), same.SINGLE).size == 0.0) == allowed
