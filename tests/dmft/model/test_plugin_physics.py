"""Losses, channels and constraints from a user's file against exact answers and the simulator."""

from __future__ import annotations

import json

import numpy as np
import pytest

import dmft
import sgd_sim
from dmft.core.errors import RunError, UserError
from dmft.model.channels import Abs
from dmft.model.experiment import Experiment
from dmft.model.losses import PHASE_OF_SQUARES
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
from tests.page_plugins import BALL, CUBIC, PAGE, make, plugins  # noqa: F401 (a fixture)
from tests.solver_cases import make_march

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


def test_other_labels_do_not_inherit_the_errors_of_a_channel():
    """The closed form of magnitudes would be saved for squares; with errors of its own, or none, it is taken."""
    class Squares(Abs, name="squares_of_abs"):
        def label(self, h0, zeta):
            return h0**2 + zeta

    with pytest.raises(RunError, match=r"squares_of_abs.*errors on new samples.*derive it from dmft\.Channel"):
        make(labels=Squares(), loss="phase_retrieval")

    class Known(Squares, name="squares_with_errors"):
        slope = dmft.Channel.slope

        def errors(self, m, q, label_noise, flip):
            return {}

    make(labels=Known(), loss="phase_retrieval")


def test_a_scale_that_does_not_compile_is_one_line():
    class Read(dmft.Constraint, name="read_from_text"):
        def scale(self, q):
            return float(json.loads("1.0")) / q**0.5

    with pytest.raises(dmft.UserError, match="read_from_text.*does not compile") as caught:
        sgd_sim.simulate(make(constraint=Read(), dimension=10, instances=1), quiet=True)
    assert "\n" not in str(caught.value)
