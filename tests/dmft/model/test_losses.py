"""Losses: derivatives, and what register_loss accepts and refuses."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
from numba import njit

from dmft.core.errors import RunError, UserError
from dmft.model import registry
from dmft.model.channels import NO_CONTROL, SMOOTH
from dmft.model.experiment import theory_experiment
from dmft.model.loss_family import even_in_field
from dmft.model.losses import get_loss, register_loss
from dmft.model.mixture import Mixture
from dmft.model.teacher import Teacher
from tests.solver_cases import make_run

F, Y = np.meshgrid(np.linspace(-2, 2, 9), np.linspace(-2, 2, 9))
STEP = 1e-5


@pytest.mark.parametrize("name", ["phase_retrieval", "normalised_phase_retrieval", "linear"])
def test_derivatives_by_difference(name):
    loss = get_loss(name)
    for slope, base in ((loss.dv, loss.v), (loss.d2v, loss.dv)):
        np.testing.assert_allclose(slope(F, Y), (base(F + STEP, Y) - base(F - STEP, Y)) / (2 * STEP), atol=1e-7)
    mixed = (loss.dv(F, Y + STEP) - loss.dv(F, Y - STEP)) / (2 * STEP)
    np.testing.assert_allclose(loss.dv_dy(F, Y), mixed, atol=1e-7)


def test_phase_retrieval_by_hand():
    loss = get_loss("phase_retrieval")
    assert (loss.v(2.0, 1.0), loss.dv(2.0, 1.0), loss.d2v(2.0, 1.0), loss.dv_dy(2.0, 1.0)) == (2.25, 6.0, 11.0, -4.0)


def test_a_users_loss():
    loss = register_loss("quartic_for_tests", lambda f, y: (f - y) ** 4, lambda f, y: 4 * (f - y) ** 3,
                         lambda f, y: 12 * (f - y) ** 2)
    assert get_loss("quartic_for_tests") is loss
    assert loss.dv_dy(1.0, 2.0) == pytest.approx(-12.0, rel=1e-6)


@pytest.mark.parametrize("arguments, message", [
    (("linear", lambda f, y: f, lambda f, y: 1.0, lambda f, y: 0.0), "built in"),
    (("not a name", lambda f, y: f, lambda f, y: 1.0, lambda f, y: 0.0), "not a name"),
    (("wrong", lambda f, y: f**2, lambda f, y: f, lambda f, y: 1.0), "dv is not the derivative of v"),
    (("wrong", lambda f, y: f**2, lambda f, y: 2 * f, lambda f, y: 1.0), "d2v is not the derivative of dv"),
    (("wrong", lambda f, y: f**2 * y**2, lambda f, y: 2 * f * y * abs(y), lambda f, y: 2 * y**2),
     "dv is not the derivative of v in f"),       # wrong for y < 0 alone
    (("wrong", lambda f, y: 0.5 * (f - y) ** 2, lambda f, y: f - y, lambda f, y: 1.0, lambda f, y: 1.0),
     "dv_dy is not the derivative of dv in y"),
    (("wrong", lambda f, y: str(f).upper(), lambda f, y: f, lambda f, y: 1.0), "does not compile"),
    (("wrong", lambda f: f, lambda f, y: f, lambda f, y: 1.0), "does not compile"),
])
def test_slips_in_a_users_loss(arguments, message):
    known = registry.names("loss")
    with pytest.raises(UserError, match=message) as caught:
        register_loss(*arguments)
    assert "\n" not in str(caught.value)
    assert registry.names("loss") == known and "wrong" not in known


def test_losses_of_signs_are_checked_at_signs():
    """d2v may leave out y^2 where it is 1; elsewhere the same functions are refused, with the point and both numbers."""
    functions = (lambda f, y: np.log1p(np.exp(-y * f)), lambda f, y: -y / (1 + np.exp(y * f)),
                 lambda f, y: 1 / (2 + np.exp(f) + np.exp(-f)))
    assert register_loss("bare_logistic_for_tests", *functions, labels="sign", convex=True).d2v(0.0, 1.0) == 0.25
    with pytest.raises(UserError, match=r"at f = \S+, y = \S+ it is \S+, by differences \S+$"):
        register_loss("bare", *functions, labels="field")
    with pytest.raises(UserError, match="d2v is not the derivative"):
        register_loss("bare", *functions[:2], lambda f, y: 1 / (2 + np.exp(f) + np.exp(-f)) * (y > 0), labels="sign")


def test_labels_abs_need_a_loss_even_in_the_label():
    """Without noise y is h0 with its sign. With |y| for y, or with labels that have a sign, the same loss is taken."""
    def functions(of):
        return (lambda f, y: 0.5 * (np.sqrt(f * f + 0.01) - of(y)) ** 2,
                lambda f, y: f * (1 - of(y) / np.sqrt(f * f + 0.01)),
                lambda f, y: 1 - 0.01 * of(y) / np.sqrt(f * f + 0.01) ** 3)

    identity, magnitude = njit(lambda y: y), njit(lambda y: abs(y))
    with pytest.raises(UserError, match="v is not even in y") as caught:
        register_loss("amplitude", *functions(identity), labels="abs")
    assert "\n" not in str(caught.value) and "amplitude" not in registry.names("loss")
    assert register_loss("amplitude", *functions(magnitude), labels="abs").labels == "abs"
    assert register_loss("signed", *functions(identity), labels="field").labels == "field"


def test_jumps_forbid_the_stein_control_variate():
    """Gaussian integration by parts misses the delta function of a jump, in y (sign labels) or in f (|f - y|); a kink has none, nor
    does a jump at y = 0 matter to labels |h0|."""
    sign = register_loss("sign_for_tests", lambda f, y: np.log1p(np.exp(-f * np.sign(y))),
                         lambda f, y: -np.sign(y) / (1 + np.exp(f * np.sign(y))),
                         lambda f, y: 0.25 / np.cosh(f / 2) ** 2)
    gap = register_loss("gap_for_tests", lambda f, y: abs(f - y), lambda f, y: np.sign(f - y), lambda f, y: 0.0)
    kink = register_loss("kink_for_tests", lambda f, y: 0.5 * (f - abs(y)) ** 2, lambda f, y: f - abs(y),
                         lambda f, y: 1.0, lambda f, y: -np.sign(y))
    steep = register_loss("steep_for_tests", lambda f, y: 0.5 * f * f * np.tanh(2000 * (y - 2)),
                          lambda f, y: f * np.tanh(2000 * (y - 2)), lambda f, y: np.tanh(2000 * (y - 2)))
    assert not any(Teacher(loss=loss).by_parts(loss) for loss in (sign, gap, steep)) and Teacher(loss=kink).by_parts(kink)
    assert Teacher("abs", loss=sign).by_parts(sign) and not Teacher("abs", 0.1, loss=sign).by_parts(sign)
    assert Teacher(loss=sign).smooth(sign) and Teacher(loss=kink).smooth(kink) and not Teacher(loss=gap).smooth(gap)
    for name in ("phase_retrieval", "linear"):
        built_in = get_loss(name)
        own = register_loss(f"{name}_again", built_in.v, built_in.dv, built_in.d2v)
        assert all(Teacher(labels, noise, loss=loss).control == SMOOTH
                   for loss in (built_in, own) for labels in ("field", "square") for noise in (0.0, 3.0))


@pytest.mark.parametrize("edge, labels, noise, reached", [
    (5.0, "square", 0.0, True), (16.0, "square", 0.0, True), (40.0, "square", 0.0, False), (40.0, "square", 1.0, True),
    (7.5, "field", 0.0, False), (7.5, "field", 3.0, True), (7.5, "abs", 0.0, False), (7.5, "abs", 3.0, True),
])
def test_jumps_at_labels_that_a_run_reaches_forbid_it(edge, labels, noise, reached):
    """Samples with |y| beyond an edge are left out, so that v' jumps there. Labels reach 6 of h0 and 5 standard deviations of the
    noise; whether a jump counts depends on the run, not on the loss."""
    loss = register_loss("cut_for_tests", lambda f, y: 0.5 * (f - y) ** 2 if abs(y) < edge else 0.0,
                         lambda f, y: f - y if abs(y) < edge else 0.0, lambda f, y: 1.0 if abs(y) < edge else 0.0)
    assert Teacher(labels, noise, loss=loss).by_parts(loss) == (not reached)
    assert Teacher(labels, noise, loss=loss).control == (NO_CONTROL if reached else SMOOTH)


@pytest.mark.parametrize("labels, noise, reached", [
    ("field", 0.0, True), ("abs", 0.0, True), ("square", 0.0, True), ("sign", 0.0, False), ("sign", 1.0, False)])
def test_a_slope_that_jumps_at_some_labels_alone(labels, noise, reached):
    """|f| for y > 2.5, a parabola elsewhere: the theory refuses runs that get there, and no others."""
    loss = register_loss("torn_for_tests", lambda f, y: abs(f) if y > 2.5 else 0.5 * f * f,
                         lambda f, y: np.sign(f) if y > 2.5 else f, lambda f, y: 0.0 if y > 2.5 else 1.0)
    assert Teacher(labels, noise, loss=loss).smooth(loss) == (not reached)
    clusters = ((1.0, 0.5, 3.0, 1.0), (-1.0, 0.5, -1.0, 1.0))
    assert not Mixture(clusters, loss=loss).smooth(loss) and Mixture(clusters[1:], loss=loss).smooth(loss)
    run = make_run({"kind": "gd"}, {"loss": "torn_for_tests", "labels": labels, "label_noise": noise})
    with pytest.raises(RunError, match="derivative dv jumps") if reached else nullcontext():
        theory_experiment(run)


def test_evenness_is_looked_for_everywhere_and_to_rounding():
    """Samples in mirrored pairs would solve a loss wrongly that is even near 0 alone; one even up to rounding may have them."""
    near = register_loss("near_for_tests", lambda f, y: 0.5 * f * f if f < 2.0 else 2.0 * f - 2.0,
                         lambda f, y: f if f < 2.0 else 2.0, lambda f, y: 1.0 if f < 2.0 else 0.0)
    rounded = register_loss("rounded_for_tests", lambda f, y: f * f + 1e-15 * f, lambda f, y: 2.0 * f, lambda f, y: 2.0)
    assert all(near.v(f, y) == near.v(-f, y) for f, y in ((0.3, 0.7), (1.1, 0.4), (1.7, -1.3))) and not even_in_field(near)
    assert rounded.v(0.3, 0.0) != rounded.v(-0.3, 0.0) and even_in_field(rounded)
    assert [even_in_field(get_loss(name)) for name in ("phase_retrieval", "linear", "logistic", "smooth_hinge", "door")] == [
        True, False, False, False, True]


def test_unknown_names_get_a_hint():
    with pytest.raises(UserError, match="did you mean 'linear'"):
        get_loss("linaer")
