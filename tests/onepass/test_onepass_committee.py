"""Committees: closed erf integrals against quadrature, the tensor rule against closed forms, the reductions."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

import onepass
from dmft.core.errors import UserError
from dmft.model.activations import activation
from onepass.networks.field_moments import erf_covariance, erf_moments, tensor_moments


def erf(x):
    return math.erf(x / math.sqrt(2.0))


def d_erf(x):
    return math.sqrt(2.0 / math.pi) * math.exp(-0.5 * x * x)


def start(p, k, seed=0, duplicate=False):
    w = np.random.default_rng(seed).normal(size=(p + k, 9)) / 3
    w[p:] = np.eye(9)[:k]
    if duplicate:
        w[1] = w[0]
    return {"a": 1 + 0.3 * np.arange(p), "M": w[:p] @ w[p:].T, "Q": w[:p] @ w[:p].T}


@pytest.mark.parametrize("duplicate", [False, True])
def test_erf_integrals_against_quadrature_with_equal_and_degenerate_indices(duplicate):
    s = start(2, 1, duplicate=duplicate)
    om = np.block([[s["Q"], s["M"]], [s["M"].T, np.eye(1)]])
    c = np.array([-0.5, -0.65, 1.0])
    student = activation((erf, d_erf))
    exact = tensor_moments(student, student, om, c, 2, 57)
    for closed, tensor in zip(erf_moments(om, c, 2, False), exact, strict=True):
        assert_allclose(closed, tensor, rtol=1e-11, atol=1e-12)
    assert_allclose(c @ erf_covariance(om) @ c, exact[-1], rtol=1e-12)


def test_single_erf_integrals_against_quadrature():
    """I3 and I4 at given indices: c picks one term of the error at a time."""
    rng = np.random.default_rng(5)
    r = rng.normal(size=(3, 3))
    om = r @ r.T / 3
    student = activation("erf")
    for q in range(3):
        c = np.eye(3)[q]
        for closed, tensor in zip(erf_moments(om, c, 2, False), tensor_moments(student, student, om, c, 2, 57),
                                  strict=True):  # fmt: skip
            assert_allclose(closed, tensor, rtol=1e-9, atol=1e-11)


def test_quadratic_committee_is_the_quadratic_network():
    s = start(2, 1)
    one = onepass.QuadraticNetwork(2, 1, 0.3, 0.2, second_layer="trained")
    other = onepass.Committee("quadratic", 2, 1, 0.3, 0.2, second_layer="trained")
    x = one.start(s)
    assert_allclose(other.drift(x), one.drift(x), rtol=1e-10)
    assert_allclose(other.observables(s)["risk"], one.observables(s)["risk"], rtol=1e-12)


def test_tanh_rule_converges_in_its_nodes_and_refuses_what_is_hopeless():
    s = start(2, 1)
    values = [onepass.Committee("tanh", 2, 1, 0.3, nodes=n) for n in (41, 57, 81)]
    drifts = [net.drift(net.start(s)) for net in values]
    assert np.abs(drifts[0] - drifts[2]).max() < 2e-7
    assert np.abs(drifts[1] - drifts[2]).max() < 1e-10
    with pytest.raises(UserError, match="an evaluation would take about .* s"):
        onepass.Committee("tanh", 60, 2, 0.3).solve(start(60, 2), [1.0])


def test_other_teacher_activation_and_user_functions():
    s = start(1, 1)
    net = onepass.Committee((erf, d_erf), 1, 1, 0.3, 0.1, teacher_activation="tanh", nodes=57)
    builtin = onepass.Committee("erf", 1, 1, 0.3, 0.1, teacher_activation="tanh", nodes=57)
    assert_allclose(net.drift(net.start(s)), builtin.drift(builtin.start(s)), rtol=1e-12)
    same = onepass.Committee("erf", 1, 1, 0.3, 0.1)
    assert np.abs(same.drift(same.start(s)) - builtin.drift(builtin.start(s))).max() > 1e-3
    apart = onepass.Committee(np.tanh, 1, 1, 0.3, 0.1, derivative=lambda x: 1.0 - np.tanh(x) ** 2)
    assert_allclose(apart.drift(apart.start(s)), onepass.Committee("tanh", 1, 1, 0.3, 0.1).drift(apart.start(s)), rtol=1e-12)
    with pytest.raises(UserError, match="give its derivative"):
        onepass.Committee(erf, 1)
    with pytest.raises(UserError, match="not the derivative"):
        onepass.Committee((erf, erf), 1)
    with pytest.raises(UserError, match="allowed: quadratic, erf, tanh, relu"):
        onepass.Committee("gelu", 1)


def test_noise_covariance_against_the_tensor_rule():
    """Of M against E[(a s' ls E)^2] from a fine product rule."""
    s = start(1, 1)
    net = onepass.Committee("erf", 1, 1, 0.3, 0.0)
    found = net.covariance(net.start(s))[1, 1]
    x, w = np.polynomial.hermite_e.hermegauss(60)
    z = np.stack(np.meshgrid(x, x, indexing="ij"), -1).reshape(-1, 2)
    weight = np.outer(w, w).ravel() / w.sum() ** 2
    om = np.block([[s["Q"], s["M"]], [s["M"].T, np.eye(1)]])
    u = z @ np.linalg.cholesky(om).T
    s_of, ds_of = np.vectorize(erf), np.vectorize(d_erf)
    b = s["a"][0] * ds_of(u[:, 0]) * u[:, 1] * (s_of(u[:, 1]) - s["a"][0] * s_of(u[:, 0]))
    assert_allclose(found, weight @ b**2 - (weight @ b) ** 2, rtol=1e-11)


@pytest.mark.slow
def test_mean_field_reduction_approaches_the_full_ode_as_the_width_grows():
    """Random students in d = 10^4 at gamma = 0.5: the deviation of M falls as 1/p, that of Q off its diagonal
    towards the initial d^-1/2."""
    errors = []
    for p in (4, 16, 64):
        net = onepass.Committee("erf", p, 2, 0.5, 0.001)
        s = {name: v if name == "a" else v[0] for name, v in net.random_start(10**4, 1, seed=3).items()}
        full = net.solve(s, [2.0], rtol=1e-6)
        reduced = net.reduced().solve(s, [2.0], rtol=1e-6)
        off = ~np.eye(p, dtype=bool)
        errors.append((np.abs(full.M - reduced.M).mean(), np.abs(full.Q - reduced.Q)[0][off].max()))
    errors = np.array(errors)
    slope = np.polyfit(np.log([4, 16, 64]), np.log(errors[:, 0]), 1)[0]
    assert -1.2 < slope < -0.8
    assert np.all(errors[1:, 1] < errors[:-1, 1]) and errors[2, 1] < 0.05
