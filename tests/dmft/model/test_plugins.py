"""Physics from a user's file: the examples of docs/extending.md as plug-ins, in run files and Python."""

from __future__ import annotations

import re

import numpy as np
import pytest

import dmft
import sgd_sim
from dmft.core.command import load_plugin
from dmft.core.errors import RunError, UserError
from dmft.core.references import citation
from dmft.model import registry
from dmft.model.experiment import Experiment, theory_experiment
from dmft.model.minibatches import Bernoulli, Epochs, MiniBatch, Persistent, Poisson
from dmft.model.references import references_of
from dmft.model.runfile import parse_run
from sgd_sim.cpu.trajectory import InstanceTrajectory
from sgd_sim.states import empty_states
from tests.page_plugins import BALL, CUBIC, PAGE, make, plugins  # noqa: F401 (a fixture)

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


WARM_UP = {"kind": "warm_up", "first": 0.02, "peak": 0.1, "steps": 4}


def test_a_form_of_a_schedule():
    """The form of the page is a list of its values, in theory and simulation. Twin: another peak."""
    values = [0.02 + 0.02 * n if n < 4 else 0.1 / (n / 4) ** 0.5 for n in range(30)]
    small = {"momentum": 0.3, "t_max": 1.0, "samples": 64, "replicas": 1, "dimension": 30, "instances": 2}
    own, twin = (make(**small, learning_rate=WARM_UP | {"peak": peak}) for peak in (0.1, 0.11))
    same = make(**small, learning_rate={"kind": "steps", "points": [[n, value] for n, value in enumerate(values)]})
    form = registry.find("schedule", "warm_up")(0.02, 0.1, steps=4.0)
    assert parse_run(own.to_toml()) == own == make(**small, learning_rate=form)
    for solve in (dmft.solve, sgd_sim.simulate):
        of_own, of_same, of_twin = (solve(run).m for run in (own, same, twin))
        np.testing.assert_allclose(of_own, of_same, rtol=1e-12)
        assert np.abs(of_own[..., 5] - of_twin[..., 5]).max() > 1e-4


def test_a_form_of_a_schedule_in_phases_and_without_its_plugin(monkeypatch):
    cooled = make(kind="langevin", temperature=0.2, phase=[{"step": 8, "temperature": WARM_UP}])
    assert Experiment.from_run(cooled).temperature[7:14] == pytest.approx([0.2, 0.02, 0.04, 0.06, 0.08, 0.1, 0.1 / 1.25**0.5])
    paced = make(learning_rate=WARM_UP).to_toml()
    monkeypatch.delitem(registry.members["schedule"], "warm_up")
    assert parse_run(cooled.to_toml(), any_loss=True) == cooled and not cooled.known
    for text, any_loss in ((cooled.to_toml(), False), (paced, True)):
        with pytest.raises(RunError, match="unknown schedule 'warm_up'.*--plugin"):
            parse_run(text, any_loss=any_loss)


class Fading(dmft.ScheduleForm):
    """Leaves what a learning rate may be, and what has been said about it."""

    first: float = dmft.option(dmft.quantity)

    def value(self, x):
        return self.first - x

    def supports(self, use):
        return "it is for learning rates alone" if use.algorithm.temperature else ""


@pytest.mark.parametrize(("settings", "said"), [
    ({"learning_rate": WARM_UP | {"time": 1.0}}, "one of the keys 'time' and 'steps'"),
    ({"learning_rate": WARM_UP | {"peak": 0.0}}, "peak is a number > 0"),
    ({"momentum": WARM_UP | {"peak": 1.0}}, "peak is a number >= 0 and < 1"),
    ({"learning_rate": WARM_UP | {"peek": 0.1}}, "did you mean 'peak'"),
    ({"learning_rate": {"kind": "fading", "first": 0.1, "time": 9.0}}, r"value\(x\) is a number > 0 .*it is 0.0 at x = 0.1"),
    ({"kind": "langevin", "temperature": {"kind": "bare", "first": 0.1, "time": 9.0}}, "NotImplementedError"),
    ({"kind": "langevin", "temperature": {"kind": "alone", "first": 0.1, "time": 9.0}}, 'temperature = "alone": it is for'),
])
def test_schedules_that_are_refused(settings, said):
    type("Named", (Fading,), {}, name="fading")
    type("Named", (Fading,), {"value": dmft.ScheduleForm.value}, name="bare")
    type("Named", (Fading,), {"value": lambda self, x: self.first + 0.0 * x}, name="alone")
    with pytest.raises(RunError, match=said) as caught:
        make(**settings)
    assert "\n" not in str(caught.value)


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
