"""Observables that users register: what is refused, and that they are averages over the samples of a solution, on CPU and GPU."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import dmft
from dmft.core.errors import RunError, UserError
from dmft.model import curves
from dmft.model.cuda_loss import check_averages
from dmft.model.experiment import Experiment
from dmft.model.runfile import Run, parse_run
from dmft.model.sample_averages import RESERVED, averages, register_observable
from dmft.result.theory import Theory
from dmft.samples.lost import GONE
from sgd_sim.result import Curves, SimulationResult
from tests.dmft.samples.test_gpu_march import march_of
from tests.run_files import run_text


def wrong_side(f, y, h0):
    return f * h0 < 0


def moment(f, y, h0):
    if y > 0.0:
        return f * h0 + abs(y)
    return np.tanh(f) * h0 - 0.5


@pytest.mark.parametrize(("name", "value", "words"), [
    ("two words", wrong_side, "is not a name"), ("m", wrong_side, "is taken"), ("kernels", wrong_side, "is taken"),
    ("my_error", wrong_side, "is taken"), ("half_m", wrong_side, "is taken"), ("_hidden", wrong_side, "is taken"),
    ("training", wrong_side, "is taken"),
    ("text", lambda f, y, h0: "no", "does not compile to a number"), ("two", lambda f, y: f, "does not compile to a number"),
    ("list", lambda f, y, h0: [f][7:][0], "does not compile to a number"),
    ("root", lambda f, y, h0: np.sqrt(f), "it is nan at f = -"),
])
def test_what_is_no_observable_is_refused_in_one_line(name, value, words):
    with pytest.raises(UserError) as error:
        register_observable(name, value)
    assert words in str(error.value) and repr(name) in str(error.value) and "\n" not in str(error.value)
    assert name not in curves.registered


def test_no_name_of_a_result_is_free():
    """A curve must not hide behind a field or a method."""
    for cls in (Theory, SimulationResult, Curves):
        fields = {one.name for one in dataclasses.fields(cls)} if dataclasses.is_dataclass(cls) else set()
        assert {name for name in {*dir(cls), *fields} if not name.startswith("_")} - {"error", "t"} <= RESERVED
    assert {"error", "t"} <= RESERVED


def test_two_files_do_not_share_a_name():
    def registered_by(file: str, sign: str) -> None:
        names: dict = {}
        exec(compile(f"def value(f, y, h0): return f * h0 {sign} 0", file, "exec"), {"__name__": "dmft_plugin"}, names)
        register_observable("side", names["value"])

    registered_by("a.py", "<")
    registered_by("a.py", ">")          # the same file, mended
    assert curves.registered["side"].value(1.0, 1.0, 1.0)
    with pytest.raises(UserError, match="'side' is registered by a.py, too; choose another name"):
        registered_by("b.py", "<")


def test_a_run_must_know_its_observables():
    text = run_text("gd", theory={"observables": ["wrong_side"]})
    with pytest.raises(RunError) as error:
        parse_run(text, "run.toml")
    assert str(error.value) == ("run.toml: [theory] observables: the observable 'wrong_side' is not registered; --plugin FILE.py "
                                "takes the file that does dmft.register_observable('wrong_side', ...)")
    stored = parse_run(text, any_loss=True)     # a result is read back without it, but not solved
    with pytest.raises(UserError, match="'wrong_side' is not registered"):
        dmft.solve(stored, quiet=True)
    with pytest.raises(RunError, match="a list of names of registered observables"):
        parse_run(run_text("gd", theory={"observables": ["a", "a"]}))
    dmft.register_observable("wrong_side", wrong_side)
    assert parse_run(text).theory.observables == Experiment.from_run(parse_run(text)).observables == ("wrong_side",)
    assert parse_run(run_text("gd")).replace(observables=["wrong_side"]).theory.observables == ("wrong_side",)


def the_run(**changes) -> Run:
    register_observable("wrong_side", wrong_side)
    register_observable("moment", moment)
    return parse_run("""
[problem]
alpha = 3.0
loss = "logistic"
data = "mixture"
clusters = [[1.0, 0.3, 1, 0.5], [-1.5, 0.7, -1, 1.5]]
bias = true
m0 = 0.4
[algorithm]
kind = "sgd"
batch_fraction = 0.5
learning_rate = 0.05
t_max = 0.2
[theory]
observables = ["wrong_side", "moment"]
""").replace(changes)


@pytest.mark.gpu
@pytest.mark.parametrize("changes", [{}, {"bias": False, "momentum": 0.6, "nesterov": True}], ids=["intercept", "nesterov"])
def test_the_curve_is_the_average_over_samples(card, changes):
    """By hand from the samples' own fields, on both; h0 is x.w0/sqrt(N), which k alone is not. With Nesterov's momentum the fields
    are those of the weights, as for the loss."""
    experiment = Experiment.from_run(the_run(**changes))
    found = []
    for gpu, get in ((None, np.array), (card, card.get)):
        march = march_of(experiment, None, np.float64, gpu, samples=64)
        for n in range(experiment.steps + 1):
            k, y, sd, weight = (get(getattr(march.samples.state, name)) for name in ("k", "y", "sd", "weight"))
            h, b = get(march.samples.at_weights.h if changes else march.samples.state.h), march.weights.b
            march.step()
            f, h0 = sd * (h + march.curves["m"][n] * k) + b, sd * k
            want = {"wrong_side": f * h0 < 0, "moment": np.where(y > 0, f * h0 + np.abs(y), np.tanh(f) * h0 - 0.5)}
            for name, values in want.items():
                assert march.curves[name][n] == pytest.approx(np.sum(weight * values), abs=1e-12)
            assert abs(march.curves["moment"][n] - np.sum(weight * np.where(y > 0, f * k + np.abs(y), np.tanh(f) * k - 0.5))) > 0.01
        found.append(march.curves)
    for name, curve in found[0].items():
        np.testing.assert_allclose(found[1][name], curve, rtol=1e-8, atol=5e-8, err_msg=name)


@pytest.mark.gpu
def test_lost_samples_count_with_zero(card):
    """As in the loss; a march with so many of them would end. Eq. [lost]."""
    experiment, found = Experiment.from_run(the_run()), []
    for gpu, get, fill in ((None, np.array, np.copyto), (card, card.get, card.fill)):
        march = march_of(experiment, None, np.float64, gpu, samples=64)
        state, m, b = march.samples.state, march.weights.m, march.weights.b
        s = get(state.s)
        s[:20] = GONE
        fill(state.s, s)
        found.append(march.terms_of([march])[1][0].sum(axis=0))
        k, sd, weight, h = (get(array) for array in (state.k, state.sd, state.weight, state.h))
        wrong = weight * ((sd * (h + m * k) + b) * k < 0)
        assert found[-1][0] == pytest.approx(wrong[20:].sum(), abs=1e-12) and wrong[:20].sum() > 0.01
    np.testing.assert_allclose(*found, rtol=1e-12)


def test_other_curves_do_not_notice():
    """The same bits with and without observables."""
    run = the_run()
    with_, without = (march_of(Experiment.from_run(each), None, np.float64, samples=64)
                      for each in (run, run.replace(observables=())))
    for march in (with_, without):
        while not march.done:
            march.step()
    assert set(with_.curves) - set(without.curves) == {"wrong_side", "moment"}
    for name, curve in without.curves.items():
        np.testing.assert_array_equal(with_.curves[name], curve, err_msg=name)


@pytest.mark.gpu
def test_what_has_no_counterpart_in_cuda_is_said(card):
    def sliced(f, y, h0):
        return np.array([f, y, h0]).max()

    register_observable("largest", sliced)
    with pytest.raises(RunError) as error:
        check_averages(card, averages(["largest"]), "theory")
    assert "the observable 'largest'" in str(error.value) and 'device = "cpu"' in str(error.value) and "\n" not in str(error.value)
    register_observable("fine", wrong_side)
    check_averages(card, averages(["fine"]), "theory")
