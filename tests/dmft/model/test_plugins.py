"""Physics from a user's file: the examples of docs/extending.md as plug-ins, in run files and Python, against exact answers."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import dmft
import sgd_sim
from dmft.core.command import load_plugin
from dmft.core.errors import RunError, UserError
from dmft.core.references import citation
from dmft.model import registry
from dmft.model.experiment import Experiment, theory_experiment
from dmft.model.losses import PHASE_OF_SQUARES
from dmft.model.minibatches import Bernoulli, Epochs, MiniBatch, Persistent, Poisson
from dmft.model.references import references_of
from dmft.model.runfile import parse_run
from dmft.statics.bayes import known_bayes
from dmft.statics.limit_averages import averages
from dmft.statics.limits import known_limits
from sgd_sim.cpu.trajectory import InstanceTrajectory
from sgd_sim.states import empty_states
from tests.dmft.equations.test_reference import PLAIN, SAMPLES, assert_same
from tests.dmft.equations.test_reference import solved as by_reference
from tests.dmft.samples.test_gpu_march import assert_same_curves, solved
from tests.exact import lin_volterra
from tests.exact.package import disagreements, march, solutions
from tests.exact.setting import Setting
from tests.solver_cases import make_march

PAGE = (Path(__file__).resolve().parents[3] / "docs/extending.md").read_text()
BALL, CUBIC = {"kind": "ball", "radius": 1.3}, {"kind": "cubic", "strength": (0.5 / 6) ** 0.5}


@pytest.fixture(autouse=True)
def plugins(tmp_path):
    """The examples of the page, each in a file of its own."""
    blocks = [block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "name=" in block]
    for i, block in enumerate(blocks):
        (tmp_path / f"plugin_{i}.py").write_text(block)
        load_plugin(str(tmp_path / f"plugin_{i}.py"))


def make(**settings) -> dmft.Run:
    return dmft.Experiment({"alpha": 2.0, "m0": 0.3, "kind": "gd", "learning_rate": 0.1, "t_max": 2.4, "loss": "linear"} | settings)


# --- the page ------------------------------------------------------------------------------------------------------------

def test_every_role_of_the_table_has_an_example():
    roles = re.findall(r"\| `dmft\.(\w+)` \|", PAGE)
    assert "DataModel" in roles and [role for role in roles if f"(dmft.{role}, name=" not in PAGE] == []


def test_the_example_in_python():
    block = next(block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "dmft.Experiment(" in block)
    names: dict = {}
    exec(block, names)
    assert names["run"] == parse_run(names["run"].to_toml()) and names["run"].problem.ridge == 0.5


def test_a_start():
    """The start of the page begins where a warm one of that overlap does, in theory and simulation. Twin: weights of another
    overlap than it says."""
    warm = make(m0=0.5, t_max=0.5, samples=64, replicas=1, dimension=30, instances=2)
    angle = warm.replace({"start": {"kind": "angle", "degrees": 60.0}})
    assert parse_run(angle.to_toml()) == angle
    for solve in (dmft.solve, sgd_sim.simulate):
        np.testing.assert_allclose(solve(angle).m, solve(warm).m, atol=1e-14)

    class Elsewhere(dmft.Start, name="elsewhere"):
        def weights(self, constraint, w0, z):
            return w0

    elsewhere = warm.replace({"start": "elsewhere"})
    assert dmft.solve(elsewhere).m[0] == 0.0 and np.allclose(sgd_sim.simulate(elsewhere).m[:, 0], 1.0)


def test_a_start_where_others_are_asked_for_m0():
    """A closed model, and the scatter of the start, ask for the overlap; a start without one is refused."""
    angle = {"kind": "angle", "degrees": 60.0}
    closed = dmft.Experiment(data="p_spin", powers=[[3, 1.0]], signal=[[2, 0.5]], m0=0.5, kind="gd", learning_rate=0.05, t_max=0.5)
    np.testing.assert_allclose(dmft.solve(closed.replace({"start": angle})).m, dmft.solve(closed).m, atol=1e-14)
    warm = make(m0=0.5, t_max=0.3, samples=64, replicas=2)
    own, law = (dmft.start_law(run, quiet=True) for run in (warm.replace({"start": angle}), warm))
    np.testing.assert_allclose([own.m, own.slope], [law.m, law.slope], atol=1e-9)
    with pytest.raises(UserError, match='start = "random": the scatter'):
        dmft.start_law(warm.replace(start="random", loss="phase_retrieval"))


@pytest.mark.statistical
def test_a_law_of_the_data():
    """Inputs of two scales: theory on simulation. Twin: a teacher, whose inputs have one scale."""
    run = make(data={"kind": "two_scales", "wide": 1.6}, learning_rate=0.02, t_max=0.5, samples=4000, replicas=4, dimension=300,
               instances=20, record=[0.5])
    assert parse_run(run.to_toml()) == run
    theory, wide = dmft.solve(run), sgd_sim.simulate(run)
    twin = sgd_sim.simulate(run.replace(data="teacher", labels="field"))
    for name in ("m", "mse", "loss"):
        z, wrong = (abs(getattr(sim.mean(), name)[-1] - getattr(theory, name)[-1])
                    / np.hypot(getattr(sim.error(), name)[-1], getattr(theory, f"{name}_error")[-1]) for sim in (wide, twin))
        assert z < 4.0 and wrong > 8.0, name
    fresh = wide.mean().mse_fresh[-1] - wide.mean().mse[-1]
    assert abs(fresh) < 4.0 * wide.error().mse_fresh[-1]


def test_mini_batches():
    """The chain of the page is that of persistent_sgd with eta/tau = (1 - stay) l, on both sides. Twin: a chain that is not
    stationary, which is refused."""
    small = {"batch_fraction": 0.5, "t_max": 1.0, "samples": 64, "replicas": 1, "dimension": 30, "instances": 2}
    sticky = make(kind="sgd", minibatch={"kind": "sticky", "stay": 0.8}, **small)
    chain = make(kind="persistent_sgd", persistence=1.0, **small)
    assert parse_run(sticky.to_toml()) == sticky
    for solve in (dmft.solve, sgd_sim.simulate):
        np.testing.assert_allclose(solve(sticky).m, solve(chain).m, rtol=1e-12)

    weights = []
    for stops in ((10,), (4, 10)):  # what a checkpoint holds is enough to continue, last mini-batch and all
        states = empty_states(sticky)
        for stop in stops:
            trajectory = InstanceTrajectory(sticky, 0, states, False)
            trajectory.advance(stop)
            trajectory.post(states)
        weights.append(states.w[0].copy())
    np.testing.assert_array_equal(*weights)

    class Drifting(dmft.Drawing, name="drifting"):
        def law(self, fraction):
            return Persistent(fraction, 0.1, 0.3)

    with pytest.raises(RunError, match=r"law\(0.5\) has p_on = 0.1, p_off = 0.3"):
        make(kind="sgd", minibatch="drifting", **small)


def test_mini_batches_of_fixed_size():
    """A class of its own name draws as the package's does; twin: independent rows."""
    class Handful(dmft.Drawing, name="handful"):
        def law(self, fraction):
            return Bernoulli(fraction, fixed_size=True)

    small = {"kind": "sgd", "batch_fraction": 0.5, "t_max": 1.0, "dimension": 30, "instances": 2}
    names = ("handful", "without_replacement", "bernoulli")
    own, same, twin = (sgd_sim.simulate(make(minibatch=name, **small)).m for name in names)
    np.testing.assert_array_equal(own, same)
    assert np.abs(own - twin)[:, 1:].min() > 1e-6


class OwnLaw(MiniBatch):
    """A law that no loop is compiled for."""


@pytest.mark.parametrize(("law", "fraction", "said"), [
    (OwnLaw, 0.5, r"law\(0.5\) must be one of FullBatch, .* loops draw these alone"),
    (lambda fraction: Bernoulli(0.3), 0.5, "with that fraction"),
    (Epochs, 0.3, r"law\(0.3\) needs 1/l to be a whole number"),
    (lambda fraction: Bernoulli(fraction) if fraction < 0.4 else Poisson(fraction), [[0.0, 0.25], [1.0, 0.5]], "of one kind"),
])
def test_mini_batches_that_are_refused(law, fraction, said):
    class Refused(dmft.Drawing, name="refused"):
        def law(self, fraction):
            return law(fraction)

    with pytest.raises(RunError, match=f'minibatch = "refused": .*{said}'):
        make(kind="sgd", minibatch="refused", batch_fraction=fraction)


def test_a_plugin_is_named_and_cited():
    """A title names its constraint, and `dmft cite` has the papers that its classes name, one of them of their own."""
    entry = "@article{me2026,\n  title = {Shells}\n}"

    class Shell(dmft.LinearUpdate, name="shell"):
        references = (("mignacco2021stochasticity", "rules"), (entry, "the rule of a shell"))

        def coefficients(self, n, beta):
            return 1.0, 0.0, 0.0

    run = make(constraint=BALL, update="shell")
    assert run.summary.endswith(", ball") and make(constraint=dmft.Ridge(0.5)).summary.endswith(", ridge 0.5")
    assert references_of(run) == [("mignacco2021stochasticity", "the theory, and rules"), (entry, "the rule of a shell")]
    assert entry in citation(references_of(run))


def test_the_table_of_a_run_file():
    table = re.search(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    head = '[problem]\nalpha = 2.0\nm0 = 0.3\nloss = "linear"\n'
    rest = '[algorithm]\nkind = "gd"\nlearning_rate = 0.1\nt_max = 1.0\n'
    run = parse_run(head + table[1] + rest)
    assert run.problem.constraint == {"kind": "ball", "radius": 1.2} and parse_run(run.to_toml()) == run
    assert Experiment.from_run(run).constraint.norm == pytest.approx(1.44)
    named = parse_run(head + 'constraint = "ball"\n' + rest)
    assert Experiment.from_run(named).constraint.radius == 1.0


# --- run files -----------------------------------------------------------------------------------------------------------

def test_objects_of_the_package_are_written_as_they_were():
    """As an object, as a table, and flat: one Run, and the text of old."""
    flat = make(constraint="ridge", ridge=0.5, start_variance=0.7)
    assert flat == make(constraint=dmft.Ridge(0.5, 0.7)) == make(constraint={"kind": "ridge", "ridge": 0.5, "start_variance": 0.7})
    assert 'constraint = "ridge"\nridge = 0.5\nstart_variance = 0.7\n' in flat.to_toml()
    clusters = [[1, 0.3, 1, 0.5], [-1, 0.7, -1, 2]]
    assert make(loss="logistic", data=dmft.Mixture(clusters, bias=True)) == make(
        loss="logistic", data="mixture", clusters=clusters, bias=True)
    assert make(data=dmft.Teacher("field", 0.2)) == make(labels=dmft.Field(), label_noise=0.2)
    first = {"alpha": 2.0, "learning_rate": 0.1, "t_max": 1.0}
    assert dmft.Experiment(first, start=dmft.Warm(0.3), kind=dmft.SGD(0.5)).problem.m0 == 0.3
    assert dmft.Experiment(first, start=dmft.Spectral(), kind=dmft.Langevin(0.1)).algorithm.temperature == 0.1


def test_a_run_is_changed_to_an_object_and_back():
    run = make().replace(constraint=dmft.Ridge(0.5))
    assert run.problem.ridge == 0.5 and run.replace(constraint=dmft.Sphere()) == make()
    ball = make().replace(constraint=BALL)
    assert ball == make(constraint=registry.find("constraint", "ball")(1.3)) and ball.replace(constraint="sphere") == make()


@pytest.mark.parametrize(("settings", "said"), [
    ({"constraint": {"kind": "ball", "radius": -1.0}}, "radius is a number > 0"),
    ({"constraint": {"kind": "ball", "radios": 1.0}}, "did you mean 'radius'"),
    ({"constraint": {"kind": "bal"}}, "did you mean 'ball'"),
    ({"constraint": {"radius": 1.0}}, "a name, or a table"),
    ({"constraint": 3}, "a name, or a table"),
    ({"constraint": "ball", "ridge": 0.5}, "'ridge' is not used with constraint = \"ball\""),
    ({"constraint": dmft.Ridge(0.5), "ridge": 0.3}, "'ridge' is given twice"),
    ({"constraint": {"kind": "ball", "radius": 0.2}}, "beyond \\|w\\| = 0.2 sqrt\\(N\\); take a smaller m0"),
    ({"labels": CUBIC, "start": "spectral", "m0": None}, "m0"),
    ({"labels": CUBIC, "flip": 0.1}, "have a sign to flip"),
    ({"labels": CUBIC, "loss": "phase_retrieval"}, "makes sense with labels abs or square"),
    ({"loss": {"kind": "pseudo_huber", "width": 0}}, "width is a number > 0"),
    ({"samplse": 10}, "did you mean 'samples'"),
])
def test_slips_are_one_line(settings, said):
    with pytest.raises(RunError, match=said) as caught:
        make(**settings)
    assert "\n" not in str(caught.value) and str(caught.value).startswith("Experiment: ")


def test_a_result_is_read_without_the_plugin(monkeypatch):
    run = make(constraint=BALL, labels=CUBIC, loss={"kind": "pseudo_huber", "width": 0.5})
    for role, name in (("constraint", "ball"), ("labels", "cubic"), ("loss", "pseudo_huber")):
        monkeypatch.delitem(registry.members[role], name)
    with pytest.raises(RunError, match="unknown"):
        parse_run(run.to_toml())
    read = parse_run(run.to_toml(), any_loss=True)
    assert read == run and not read.known and make().known


@pytest.mark.parametrize(("code", "said"), [
    ('class Sphere(dmft.Constraint, name="sphere"): pass', "built in"),
    ('class Ball(dmft.Constraint, name="a ball"): pass', "not a name"),
    ('class Ball(dmft.Constraint, name="ball"):\n    kind: str = dmft.option(dmft.choice("a"), "a")', "cannot be called 'kind'"),
])
def test_classes_that_cannot_be_registered(tmp_path, code, said):
    (tmp_path / "wrong.py").write_text(f"import dmft\n{code}\n")
    with pytest.raises(dmft.UserError, match=said):
        load_plugin(str(tmp_path / "wrong.py"))


def test_a_wrong_slope_is_refused():
    class Wrong(dmft.Channel, name="wrong"):
        def label(self, h0, zeta):
            return h0 + h0**3 + zeta

        def slope(self, h0, zeta):
            return 1.0 + h0**2

    with pytest.raises(RunError, match="not the derivative of label"):
        make(labels="wrong")


def test_an_object_says_what_it_is_not_meant_for():
    class Cold(dmft.Constraint, name="cold"):
        norm = 1.0

        def scale(self, q):
            return q**-0.5

        def supports(self, use):
            return "it has no theory; take sgd-sim run" if use.by == "theory" else super().supports(use)

    run = make(constraint="cold")
    with pytest.raises(RunError, match='^\\[problem\\] constraint = "cold": it has no theory'):
        theory_experiment(run)


# --- a loss --------------------------------------------------------------------------------------------------------------

def test_a_loss_with_a_key():
    """Wide, it is the square loss: v' = f - y up to (f - y)^3/(2 width^2)."""
    wide, narrow = (Experiment.from_run(make(loss={"kind": "pseudo_huber", "width": width})).losses[0] for width in (100.0, 0.5))
    assert wide.dv(1.0, -2.0) == pytest.approx(3.0, abs=27 / 2e4) and abs(narrow.dv(1.0, -2.0)) < 0.5
    assert Experiment.from_run(make(loss={"kind": "pseudo_huber", "width": 0.5})).losses[0] is narrow     # compiled once


# --- a channel -----------------------------------------------------------------------------------------------------------

def test_labels_of_the_simulator():
    """Rows are labelled by the function that the theory calls."""
    run = make(labels=CUBIC, dimension=40, instances=1)
    landscape = InstanceTrajectory(run, 0, empty_states(run), False).landscape
    fields = landscape.data[:80, :40] @ landscape.w0 / np.sqrt(40)
    np.testing.assert_allclose(landscape.h0, fields + CUBIC["strength"] * (fields**3 - 3 * fields), atol=1e-9)
    result = sgd_sim.simulate(run.replace(t_max=0.3), quiet=True)
    assert np.isfinite(result.m).all() and np.isfinite(result.mse_fresh).all()


def test_losses_ask_what_labels_resemble():
    """Labels like squares have the loss of squares, whatever their name; a convex loss of signs is looked at where signs are."""
    class Squares(dmft.Channel, name="own_squares"):
        like = "square"

        def label(self, h0, zeta):
            return h0**2 + zeta

    class Halves(dmft.Channel, name="own_signs"):
        classifies, like, control = True, "sign", "none"

        def label(self, h0, zeta):
            return np.where(h0 + zeta > 0, 1.0, -1.0)

    assert Experiment.from_run(make(labels="own_squares", loss="phase_retrieval")).losses == (PHASE_OF_SQUARES,)
    # convex where y = +-1 alone
    functions = (lambda f, y: 0.5 * y * y * f * f - 0.25 * (y * y - 1) * f * f * 40, lambda f, y: y * y * f - 20 * (y * y - 1) * f,
                 lambda f, y: y * y - 20 * (y * y - 1) + 0 * f)
    dmft.register_loss("of_signs", *functions, labels="own_signs", convex=True)
    with pytest.raises(UserError, match="d2v is negative somewhere"):
        dmft.register_loss("of_numbers", *functions, labels="own_squares", convex=True)


@pytest.mark.statistical
@pytest.mark.parametrize("per_level", [None, 4], ids=["full", "dyadic"])
def test_a_linear_model_sees_two_moments_of_the_labels(per_level):
    """<h0 y> = 1 and <y^2> = 1.5, as for labels h0 with noise of variance 0.5: [lin-volterra] has the exact answer, with the
    bounds of tests/exact. Its twin has noise of variance 0.3."""
    setting = Setting(alpha=2.0, eta=0.1, m0=0.3, steps=24, ridge=0.2, label_noise=0.5)
    found = solutions(make(labels=CUBIC, constraint=dmft.Ridge(0.2)), 16, 256, march(per_level))
    exact = 1e-9 if per_level is None else 2e-3
    assert disagreements(found, lin_volterra.solve(setting), exact) == []
    assert disagreements(found, lin_volterra.solve(setting._replace(label_noise=0.3)), exact)


def test_errors_and_limits_of_a_channel():
    """On new samples <(y - c(f))^2> with c(f) = f + s He_3(f), from <He_3(h0) He_3(f)> = 6 m^3 for q = 1; and the end of gradient
    descent on the square loss, by moments."""
    data, s, m = Experiment.from_run(make(labels=CUBIC)).data, CUBIC["strength"], 0.6
    assert data.errors(np.array(m), np.array(1.0))["mse"] == pytest.approx(2 * (1 - m) + s**2 * 12 * (1 - m**3), abs=1e-10)
    both = [averages(Experiment.from_run(make(**labels)).data, 0.4, 0.7, 1.3, 0.0) for labels in
            ({"labels": CUBIC}, {"label_noise": 0.5})]
    np.testing.assert_allclose(both[0][:6], both[1][:6], rtol=1e-10, atol=1e-12)
    with pytest.raises(RunError, match='labels = "cubic": Bayes-optimal learning is not built in'):
        dmft.bayes(make(labels=CUBIC))


def test_a_channel_can_tell_what_the_statics_ask():
    """y = 2 h0 + noise is the package's field with a quarter of the noise. Twin: the field with the same noise."""
    class Doubled(dmft.Channel, name="doubled"):
        def label(self, h0, zeta):
            return 2.0 * h0 + zeta

        def information(self, label_noise, flip):
            return lambda q: 1.0 / (1.0 - q + label_noise / 4.0)

        def least_errors(self, q, label_noise, flip):
            return {"mse": 4.0 * (1.0 - q) + label_noise}

    own, field, twin = (dmft.bayes(make(**settings)) for settings in (
        {"labels": "doubled", "label_noise": 0.8}, {"label_noise": 0.2}, {"label_noise": 0.8}))
    assert own.overlap == pytest.approx(field.overlap, rel=1e-12) and own.errors["mse"] == pytest.approx(4.0 * field.errors["mse"])
    assert abs(own.overlap - twin.overlap) > 0.1


def test_statics_of_a_law_of_the_data():
    """Neither the end of descent nor the Bayes optimum is known for it, and pictures that would draw them do without."""
    run = make(data={"kind": "two_scales", "wide": 1.6}, constraint=dmft.Ridge(0.2))
    with pytest.raises(RunError, match='data = "two_scales": where descent ends is known for a teacher'):
        dmft.fixed_point(run)
    with pytest.raises(RunError, match='data = "two_scales": Bayes-optimal learning is built in for a teacher'):
        dmft.bayes(run)
    assert known_limits(run) == known_bayes(run) == {}


# --- a constraint --------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize(("settings", "per_level"), [
    ({}, None), ({"kind": "langevin", "temperature": 0.3}, 2), ({"momentum": 0.6}, None),
    ({"kind": "sgd", "batch_fraction": 0.5, "momentum": 0.4, "nesterov": True}, 2)], ids=["gd", "langevin", "momentum", "nesterov"])
def test_a_ball_is_a_sphere_with_smaller_labels(settings, per_level):
    """With the square loss w of norm r and labels h0 is r times w of norm 1 and labels h0/r, at T/r^2: to rounding, sample by
    sample. Without [ibp], whose regularisation has a scale of its own. Twin: the sphere with the labels of another radius."""
    class Smaller(dmft.Channel, name="smaller"):
        times: float = dmft.option(dmft.number(), 1.0)

        def label(self, h0, zeta):
            return h0 / self.times + zeta

        def slope(self, h0, zeta):
            return np.full_like(h0, 1.0 / self.times)

    r, parts = BALL["radius"], ("sobol", "weights", "stein")
    heat = {"temperature": settings["temperature"] / r**2} if "temperature" in settings else {}
    ball = solved(Experiment.from_run(make(**settings, constraint=BALL, m0=0.3 * r)), per_level, np.float64, parts=parts)
    for times, same in ((r, True), (1.1 * r, False)):
        labels = {"kind": "smaller", "times": times}
        sphere = solved(Experiment.from_run(make(**{**settings, **heat}, labels=labels)), per_level, np.float64, parts=parts)
        powers = {"m": 1, "q": 2, "loss": 2, "mu": 1, "nu_hat": 0, "nu_hat_direct": 0, "nu_gap": 2, "delta_nu": 0}
        close = [np.allclose(ball.curves[name] / r**power, sphere.curves[name], rtol=0, atol=1e-7 if "nu" in name else 1e-9)
                 for name, power in powers.items()]
        assert all(close) == same, close


@pytest.mark.long
def test_a_ball_by_the_reference():
    """The march against the equations as they are written, for phase retrieval; twin: those of the sphere."""
    few = {"loss": "phase_retrieval", "learning_rate": 0.02, "t_max": 0.28, "kind": "sgd", "batch_fraction": 0.5}
    ball = make_march(make(**few, constraint=BALL), SAMPLES, parts=PLAIN)
    assert_same(ball, *by_reference(Experiment.from_run(make(**few, constraint=BALL)))[:2], 1e-9)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        assert_same(ball, *by_reference(Experiment.from_run(make(**few)))[:2], 1e-2)


@pytest.mark.gpu
@pytest.mark.parametrize("settings", [{"constraint": BALL, "loss": "phase_retrieval", "t_max": 0.8}, {"labels": CUBIC}],
                         ids=["ball", "cubic"])
def test_on_a_card(card, settings):
    """The same numbers as on the CPU, to rounding."""
    e = Experiment.from_run(make(**settings))
    assert_same_curves(solved(e, 2, np.float64), solved(e, 2, np.float64, card))


@pytest.mark.parametrize("landscape", ["fresh", "shared"])
def test_the_simulator_on_a_ball(landscape):
    """Its norm is kept exactly, and m follows the theory of the ball, with far smaller errors. Twin: the theory of the sphere."""
    run = make(constraint=BALL, landscape=landscape, dimension=400, instances=24, t_max=1.2, samples=2000, replicas=4)
    simulated = sgd_sim.simulate(run, quiet=True)
    np.testing.assert_allclose(simulated.q, 1.69, rtol=1e-12)
    mean, error = simulated.mean().m[-1], simulated.error().m[-1]
    # m moves by up to 1/N = 0.0025 with the dimension; on a shared landscape all starts have one draw of the data, 1/sqrt(N)
    allowed = 4 * error + (0.01 if landscape == "fresh" else 0.1)
    assert abs(mean - dmft.solve(run, quiet=True).m[-1]) < allowed
    assert abs(mean - dmft.solve(make(t_max=1.2, samples=2000, replicas=4), quiet=True).m[-1]) > allowed


def test_where_gradient_descent_ends_on_a_ball():
    """A ball of the norm that a ridge leaves has that ridge for its multiplier; another norm has not."""
    free = dmft.fixed_point(make(constraint=dmft.Ridge(0.4), label_noise=0.5))
    for norm, same in ((free.q, True), (1.2 * free.q, False)):
        held = dmft.fixed_point(make(constraint={"kind": "ball", "radius": norm**0.5}, label_noise=0.5))
        assert (abs(held.nu_hat - 0.4) < 1e-8 and abs(held.m - free.m) < 1e-8) == same


@pytest.mark.parametrize("scale", [lambda self, q: {"a": q}, lambda self, q: self.radius / q, None])
def test_a_constraint_without_a_number_is_refused(scale):
    wrong = type("Wrong", (dmft.Constraint,), {"scale": scale} if scale else {}, name="no_number")
    with pytest.raises(RunError, match="no_number.*scale") as caught:
        make(constraint=wrong())
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("label", [lambda self, h0, zeta: h0 / self.width, lambda self, h0, zeta: 1.0,
                                   lambda self, h0, zeta: np.where(h0 > 1, np.nan, h0)])
def test_labels_that_are_no_numbers_are_refused(label):
    wrong = type("Wrong", (dmft.Channel,), {"label": label}, name="no_labels")
    with pytest.raises(RunError, match=r"no_labels.*label\(h0, zeta\)") as caught:
        make(labels=wrong())
    assert "\n" not in str(caught.value)


def test_a_scale_that_does_not_compile_is_one_line():
    class Read(dmft.Constraint, name="read_from_text"):
        def scale(self, q):
            return float(json.loads("1.0")) / q**0.5

    with pytest.raises(dmft.UserError, match="read_from_text.*does not compile") as caught:
        sgd_sim.simulate(make(constraint=Read(), dimension=10, instances=1), quiet=True)
    assert "\n" not in str(caught.value)
