"""Losses: derivatives, and what register_loss accepts and refuses."""

from __future__ import annotations

import numpy as np
import pytest

from dmft.core.errors import UserError
from dmft.model.losses import get_loss, loss_names, register_loss

H, H0 = np.meshgrid(np.linspace(-2, 2, 9), np.linspace(-2, 2, 9))
STEP = 1e-5


@pytest.mark.parametrize("name", ["phase_retrieval", "linear"])
def test_derivatives_by_difference(name):
    loss = get_loss(name)
    for slope, base in ((loss.dv, loss.v), (loss.d2v, loss.dv)):
        np.testing.assert_allclose(slope(H, H0), (base(H + STEP, H0) - base(H - STEP, H0)) / (2 * STEP), atol=1e-7)
    mixed = (loss.dv(H, H0 + STEP) - loss.dv(H, H0 - STEP)) / (2 * STEP)
    np.testing.assert_allclose(loss.dv_dh0(H, H0), mixed, atol=1e-7)


def test_phase_retrieval_by_hand():
    loss = get_loss("phase_retrieval")
    assert (loss.v(2.0, 1.0), loss.dv(2.0, 1.0), loss.d2v(2.0, 1.0), loss.dv_dh0(2.0, 1.0)) == (2.25, 6.0, 11.0, -4.0)


def test_a_users_loss():
    loss = register_loss("quartic_for_tests", lambda h, h0: (h - h0) ** 4, lambda h, h0: 4 * (h - h0) ** 3,
                         lambda h, h0: 12 * (h - h0) ** 2)
    assert get_loss("quartic_for_tests") is loss
    assert loss.dv_dh0(1.0, 2.0) == pytest.approx(-12.0, rel=1e-6)


@pytest.mark.parametrize("arguments, message", [
    (("linear", lambda h, h0: h, lambda h, h0: 1.0, lambda h, h0: 0.0), "built in"),
    (("not a name", lambda h, h0: h, lambda h, h0: 1.0, lambda h, h0: 0.0), "not a name"),
    (("wrong", lambda h, h0: h**2, lambda h, h0: h, lambda h, h0: 1.0), "dv is not the derivative of v"),
    (("wrong", lambda h, h0: h**2, lambda h, h0: 2 * h, lambda h, h0: 1.0), "d2v is not the derivative of dv"),
    (("wrong", lambda h, h0: h**2 * h0**2, lambda h, h0: 2 * h * h0 * abs(h0), lambda h, h0: 2 * h0**2),
     "dv is not the derivative of v in h"),       # wrong for h0 < 0 alone
    (("wrong", lambda h, h0: 0.5 * (h - h0) ** 2, lambda h, h0: h - h0, lambda h, h0: 1.0, lambda h, h0: 1.0),
     "dv_dh0 is not the derivative of dv in h0"),
    (("wrong", lambda h, h0: str(h).upper(), lambda h, h0: h, lambda h, h0: 1.0), "does not compile"),
    (("wrong", lambda h: h, lambda h, h0: h, lambda h, h0: 1.0), "does not compile"),
])
def test_slips_in_a_users_loss(arguments, message):
    known = loss_names()
    with pytest.raises(UserError, match=message) as caught:
        register_loss(*arguments)
    assert "\n" not in str(caught.value)
    assert loss_names() == known and "wrong" not in known


def test_jumps_forbid_the_stein_control_variate():
    """Gaussian integration by parts misses the delta function of a jump, in h0 (sign labels) or in h (|h - h0|)."""
    sign = register_loss("sign_for_tests", lambda h, h0: np.log1p(np.exp(-h * np.sign(h0))),
                         lambda h, h0: -np.sign(h0) / (1 + np.exp(h * np.sign(h0))),
                         lambda h, h0: 0.25 / np.cosh(h / 2) ** 2)
    gap = register_loss("gap_for_tests", lambda h, h0: abs(h - h0), lambda h, h0: np.sign(h - h0), lambda h, h0: 0.0)
    kink = register_loss("kink_for_tests", lambda h, h0: 0.5 * (h - abs(h0)) ** 2, lambda h, h0: h - abs(h0),
                         lambda h, h0: 1.0, lambda h, h0: -np.sign(h0))
    assert not sign.stein and not gap.stein and kink.stein
    for name in ("phase_retrieval", "linear"):
        built_in = get_loss(name)
        own = register_loss(f"{name}_again", built_in.v, built_in.dv, built_in.d2v)
        assert built_in.stein and own.stein


def test_unknown_names_get_a_hint():
    with pytest.raises(UserError, match="did you mean 'linear'"):
        get_loss("linaer")
