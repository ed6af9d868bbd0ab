"""The exact references against digits of an earlier computation, and against one another, before the package meets them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tests.exact import cubature, laws, lin_volterra, quadratic
from tests.exact.setting import Setting

DIGITS = json.loads((Path(__file__).parents[1] / "data" / "exact.json").read_text())
LINEAR = Setting(alpha=2.0, eta=0.1, m0=0.3, steps=10, ridge=0.2, label_noise=0.5)


def test_lin_volterra():
    found, want = lin_volterra.solve(LINEAR._replace(steps=30), "bernoulli", 0.5), DIGITS["lin-volterra bernoulli"]
    n = np.array(want["n"])
    pairs = (("m", found.m), ("q", found.q), ("loss", found.loss), ("C_n0", found.C[:, 0]), ("M_C_nn", found.M_C.diagonal()))
    for name, curve in pairs:
        assert_allclose(curve[n], want[name], rtol=1e-11, err_msg=name)
    assert_allclose(found.C[30, 10], want["C_30_10"], rtol=1e-14)


def test_lin_enumerate():
    found, want = quadratic.linear(LINEAR, laws.persistent(0.5, 0.1, 0.5, 11)), DIGITS["lin-enumerate persistent"]
    n = np.array(want["n"])
    pairs = (("m", found.m), ("q", found.q), ("loss", found.loss), ("C_n0", found.C[:, 0]), ("M_C_n0", found.M_C[:, 0]),
             ("M_C_nn", found.M_C.diagonal()), ("M_R_n0", found.M_R[:, 0]), ("R_n0", found.R[:, 0]))
    for name, curve in pairs:
        assert_allclose(curve[n], want[name], rtol=1e-11, err_msg=name)
    assert_allclose(found.M_R[10, :10], want["M_R_last_row"], rtol=1e-11)


def test_cubature():
    found, want = cubature.solve(Setting(3.0, 0.01, 0.5, 3), laws.full_batch(3)), DIGITS["cubature phase retrieval gd"]
    assert_allclose(found.m, want["m"], rtol=2e-12)
    assert_allclose(found.R.diagonal(-1), want["a"], rtol=1e-11)
    assert_allclose(found.delta_nu[:3], want["delta_nu"], rtol=1e-11)
    assert_allclose(found.mu[:3], want["mu"], rtol=1e-11, atol=1e-14)
    for name in ("M_C", "M_R", "C"):
        for place, value in want[name].items():
            assert_allclose(getattr(found, name)[tuple(map(int, place.split(",")))], value, rtol=1e-10, err_msg=name)


def test_more_nodes_change_nothing():
    """The rules are exact for the polynomials that they are given; shorter ones are not."""
    setting, paths = Setting(3.0, 0.05, 0.5, 3, temperature=0.5), laws.persistent(0.5, 0.05, 0.2, 3)
    few, many, short = (cubature.solve(setting, paths, nodes) for nodes in (cubature.NODES, (32, 32, 12, 6), (10, 10, 10, 4)))
    for name in few._fields:
        scale = np.nanmax(np.abs(getattr(few, name)))
        assert_allclose(getattr(many, name), getattr(few, name), rtol=0, atol=1e-13 * scale, err_msg=name)
    assert np.nanmax(np.abs(short.M_C - few.M_C)) > 1e-3


@pytest.mark.parametrize("temperature", [0.0, 0.3])
def test_two_ways_to_the_linear_loss(temperature):
    """Spectrum of the data and paths of the effective process know nothing of each other, and agree to 1e-13 of the largest
    entry. Twin: another noise of the mini-batches."""
    setting = LINEAR._replace(temperature=temperature)
    paths = quadratic.linear(setting, laws.bernoulli(0.5, 11))
    modes, others = (lin_volterra.solve(setting, law, 0.5) for law in ("bernoulli", "with_replacement"))
    for name in modes._fields:
        want = getattr(modes, name)
        assert_allclose(getattr(paths, name), want, rtol=0, atol=1e-13 * np.abs(want).max(), err_msg=name)
    assert np.abs(others.C - paths.C).max() > 1e-2


def test_fewer_samples_than_dimensions():
    """alpha < 1: modes without data."""
    setting = Setting(alpha=0.6, eta=0.1, m0=0.3, steps=20, ridge=0.0)
    modes, paths = lin_volterra.solve(setting), quadratic.linear(setting, laws.full_batch(21))
    for name in modes._fields:
        assert_allclose(getattr(paths, name), getattr(modes, name), rtol=0, atol=1e-13, err_msg=name)


def test_the_linear_loss_among_those_with_coefficients():
    """a = 1, b = y by the trapezoid rule in y is the linear loss, but for the constant of v."""
    labels = quadratic.smooth_labels(np.ones_like, lambda y: y)
    setting = Setting(alpha=2.0, eta=0.1, m0=0.3, steps=8)
    wide, two = quadratic.solve(setting, labels, laws.full_batch(9)), quadratic.linear(setting, laws.full_batch(9))
    for name in wide._fields:
        shift = 0.5 if name == "loss" else 0.0
        assert_allclose(getattr(wide, name) + shift, getattr(two, name), rtol=0, atol=1e-12, err_msg=name)


def test_laws_of_the_mini_batches():
    for paths, fraction in ((laws.bernoulli(0.3, 6), 0.3), (laws.persistent(0.4, 0.1, 0.5, 6), 0.4), (laws.epochs(3, 8), 1 / 3),
                            (laws.epochs(4, 9, cyclic=True), 0.25)):
        assert_allclose(paths.probability.sum(), 1, rtol=1e-14)
        assert_allclose(paths.probability @ paths.weight, 1, rtol=1e-13)
        assert_allclose(paths.probability @ paths.weight**2, 1 / fraction, rtol=1e-13)
    within = laws.epochs(3, 9).weight.reshape(-1, 3, 3)
    assert (within.sum(axis=2) == 3).all() and len(within) == 27
