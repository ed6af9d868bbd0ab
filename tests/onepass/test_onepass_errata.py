"""Printed formulas of the companion papers that are wrong, each beside its correct form (docs/notes/errata.md)."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import onepass
from dmft.core.errors import UserError
from dmft.model.activations import activation
from onepass.networks import exit_times, landscape
from sgd_sim.models.networks import NetworkSGD

START = {"a": np.array([0.8, 1.3]), "M": np.array([[0.4], [-0.2]]), "Q": np.array([[1.1, 0.3], [0.3, 0.9]])}


def fields(seed=0, n=400_000):
    """Samples of (l1, l2, ls) at START."""
    om = np.block([[START["Q"], START["M"]], [START["M"].T, np.eye(1)]])
    return np.random.default_rng(seed).normal(size=(n, 3)) @ np.linalg.cholesky(om).T


def test_displacement_is_y_minus_f():
    """Arnaboldi (10), (29) print E = f - y; with the plus signs of (7)-(9), (11) the overlap would then run away."""
    l, ls = fields()[:, :2], fields()[:, 2]
    e = ls**2 - (l**2) @ START["a"] / 2
    net = onepass.QuadraticNetwork(2, 1, 0.3, second_layer="trained")
    drift = net.layout.unpack(net.drift(net.start(START)))
    bracket = 2 * START["a"] * l * (e * ls)[:, None]
    z = (bracket.mean(0) - drift["M"][:, 0]) / (bracket.std(0) / np.sqrt(len(e)))
    assert np.abs(z).max() < 4.5
    assert np.abs((-bracket.mean(0) - drift["M"][:, 0]) / (bracket.std(0) / np.sqrt(len(e)))).max() > 20
    da = e[:, None] * l**2
    assert np.abs((da.mean(0) - drift["a"]) / (da.std(0) / np.sqrt(len(e)))).max() < 4.5


def test_prefactor_of_the_quadratic_term_and_place_of_the_noise():
    """Arnaboldi A.2 prints 16 gamma/p and Delta inside (1/p^2) sum_{s,t}; it is 4 gamma/p and Delta outside. Of the
    printed variants only the correct one is linear in gamma with the slope of the exact ODE."""
    g, p, delta = 0.3, 2, 0.7
    with_noise, without = (
        onepass.QuadraticNetwork(p, 1, g, d).bracket_means(onepass.QuadraticNetwork(p).start(START)) for d in (delta, 0.0)
    )
    a, q = START["a"], START["Q"]
    assert_allclose(with_noise["Q"] - without["Q"], 4 * g / p * np.outer(a, a) * delta * q, rtol=1e-12)
    l, ls = fields(1)[:, :2], fields(1)[:, 2]
    e2 = (ls**2 - (l**2) @ a / p) ** 2
    double = without["Q"] - onepass.QuadraticNetwork(p, 1, g / 2).bracket_means(onepass.QuadraticNetwork(p).start(START))["Q"]
    sample = 4 * (g / 2) / p * a[0] * a[1] * e2 * l[:, 0] * l[:, 1]
    error = sample.std() / np.sqrt(len(e2))
    assert abs(double[0, 1] - sample.mean()) < 4.5 * error < abs(4 * sample.mean() - double[0, 1])


def test_risk_with_teacher_norm():
    """Arnaboldi (34) prints (3 + Delta)/2; with |w*|^2 = rho d it is (3 rho^2 + Delta)/2."""
    rho, delta, p = 1.7, 0.4, 2
    net = onepass.QuadraticNetwork(p, 1, 0.1, delta, teacher_overlaps=((rho,),))
    s = {**START, "a": np.ones(p)}
    q, m = s["Q"], s["M"]
    rest = -(rho * np.trace(q) + 2 * np.sum(m**2)) / p + (np.trace(q) ** 2 + 2 * np.trace(q @ q)) / (2 * p**2)
    assert_allclose(net.observables(s)["risk"], (3 * rho**2 + delta) / 2 + rest, rtol=1e-12)
    assert abs((3 + delta) / 2 + rest - net.observables(s)["risk"]) > 1


def test_risk_near_the_start_has_overlaps_over_d():
    """Arnaboldi (51) prints d tau0/p^2 and 2 d mu0/p; by (50) they are tau0/(d p^2) and 2 mu0/(d p)."""
    p, d = 3, 1000
    net = onepass.QuadraticNetwork(p, 1, 0.1, constraint="sphere")
    s = {n: v if n == "a" else v[0] for n, v in net.random_start(d, 1).items()}
    mu, tau = d * np.sum(s["M"] ** 2), d * (np.sum(s["Q"] ** 2) - p)
    assert_allclose(net.observables(s)["risk"], 1 + 1 / p + tau / (d * p**2) - 2 * mu / (d * p), rtol=1e-12)


def test_orthogonal_students_are_no_global_maximum_for_wide_networks():
    """Arnaboldi, section 2: m = 0, Q = 1 has risk 1 + 1/p; equal students orthogonal to the teacher have 2."""
    p = 3
    net = onepass.QuadraticNetwork(p, 1, 0.1, constraint="sphere")
    zero = np.zeros((p, 1))
    apart = net.observables({"a": np.ones(p), "M": zero, "Q": np.eye(p)})["risk"]
    together = net.observables({"a": np.ones(p), "M": zero, "Q": np.ones((p, p))})["risk"]
    assert_allclose([apart, together], [1 + 1 / p, 2.0])


def test_instability_of_the_start_needs_more_than_gamma_below_one_sixth():
    """Arnaboldi (19): m = 0 repels for gamma < 2/(12 + Delta), not for all gamma < 1/6."""
    net = onepass.QuadraticNetwork(1, 1, 0.15, 2.0, constraint="sphere")
    drift = net.layout.unpack(net.drift(net.start({"M": [[1e-3]], "Q": [[1.0]]})))["M"][0, 0]
    assert drift < 0 and 2 / (12 + 2.0) < 0.15 < 1 / 6
    assert_allclose(drift / 1e-3, exit_times.rates(1, 0.15, 2.0)[0], rtol=1e-5)


def test_unconstrained_unit_is_as_printed():
    """Arnaboldi (84), (85) stand: dm = 6 m (rho - q), dq with its gamma term."""
    rho, q, m, g = 1.3, 0.8, 0.5, 0.07
    net = onepass.QuadraticNetwork(1, 1, g, teacher_overlaps=((rho,),))
    d = net.layout.unpack(net.drift(net.start({"M": [[m]], "Q": [[q]]})))
    assert_allclose(d["M"][0, 0], 6 * m * (rho - q), rtol=1e-12)
    expected = 4 * (q * (rho - 3 * q) + 2 * m**2)
    expected += 12 * g * (q * (rho**2 + 5 * q**2 - 2 * rho * q) + 4 * m**2 * (rho - 2 * q))
    assert_allclose(d["Q"][0, 0], expected, rtol=1e-12)


@pytest.mark.long
def test_noise_of_wide_networks_carries_the_width():
    """Arnaboldi (25), (27), (39), (41), written for p = 1, have sqrt(gamma/d); for general p it is sqrt(gamma/(p d))."""
    p, d, n, t = 2, 2000, 1500, 0.02
    net = onepass.QuadraticNetwork(p, 1, 0.2, constraint="sphere")
    start = {"M": np.array([[0.5], [0.2]]), "Q": np.array([[1.0, 0.3], [0.3, 1.0]])}
    found = net.chain(d, n, start, [t]).variance().M[0, :, 0]
    c = np.diagonal(net.covariance(net.start(start)))[2:4]
    expected = net.gamma / (p * d) * c * t
    assert np.abs(found / expected - 1).max() < 4.5 * np.sqrt(2 / n) + 0.1  # drift changes c by some per cent
    assert np.abs(found / (p * expected) - 1).min() > 5 * np.sqrt(2 / n) + 0.1


def test_second_layer_rate_is_gamma_over_d():
    """Arnaboldi A.1 says gamma/p for the second layer; (32) and the ODE use gamma/d: one literal step."""
    d, p, g = 50, 2, 0.3
    quadratic = activation("quadratic")
    w, w_star = np.random.default_rng(3).normal(size=(p, d)), np.sqrt(d) * np.eye(1, d)
    sgd = NetworkSGD(w, w_star, np.ones(p), np.ones(1), quadratic, quadratic, gamma=g, noise=0.0, rate=1.0, sphere=False,
                     seed=1, instance=0)  # fmt: skip
    sgd.advance(1)
    delta_w = sgd.layers.w - w
    x = delta_w[0] / np.linalg.norm(delta_w[0])  # the sample, up to scale
    along = delta_w @ x
    # w_j += (2 gamma/p) E l_j x and a_j += (gamma/(p d)) E l_j^2, so delta a_j/(delta w_j.x) = l_j |x|/(2 d)
    ratio = (sgd.layers.a - 1) / along
    assert np.isfinite(ratio).all()
    assert_allclose(ratio[1] / ratio[0], (w @ x)[1] / (w @ x)[0], rtol=1e-8)
    assert_allclose(np.abs(ratio), np.abs(w @ x) / (2 * d), rtol=1e-8)  # l_j |x|^-1 times |x| cancels


def test_scaling_of_the_slides():
    """Loureiro: gradient of (y - f)^2 at rate gamma_s with x ~ N(0, I) is this code's step for gamma_s = gamma/(2 d)."""
    gamma, d, p = 0.4, 30, 1
    erf = activation("erf")
    rng = np.random.default_rng(4)
    w, w_star = rng.normal(size=(1, d)), rng.normal(size=(1, d))
    sgd = NetworkSGD(np.sqrt(d) * w, np.sqrt(d) * w_star, np.ones(1), np.ones(1), erf, erf, gamma=gamma, noise=0.0, rate=0.0,
                     sphere=False, seed=2, instance=0)  # fmt: skip
    sgd.advance(1)
    step = sgd.layers.w / np.sqrt(d) - w
    x = max((drawn[:d] for drawn in sgd.samples[:2]), key=lambda drawn: abs(step[0] @ drawn))
    l, ls = float(w[0] @ x), float(w_star[0] @ x)
    e = math.erf(ls / math.sqrt(2)) - math.erf(l / math.sqrt(2))
    gradient = -2 * e * math.sqrt(2 / math.pi) * math.exp(-l * l / 2) * x / p
    assert_allclose(step[0], -gamma / (2 * d) * gradient, rtol=1e-9, atol=1e-15)


def test_plateau_count_needs_room_for_the_students():
    """Bocchi (29) (negative over null directions) is right where the plateau exists, p <= N - p*."""
    for p, k, n in ((4, 2, 12), (6, 3, 12)):
        values = landscape.spectrum(p, k, n, 0, p)
        negative = sum(c for v, c in values if v < -1e-9)
        null = sum(c for v, c in values if abs(v) < 1e-9)
        assert_allclose(negative / null, k / (n - k - p / 2 - 1 / 2), rtol=1e-12)
    with pytest.raises(UserError, match="r = 12"):
        landscape.spectrum(12, 2, 12, 0, 12)


def test_every_test_that_the_errata_name_exists():
    root = Path(__file__).resolve().parents[2]
    named = set(re.findall(r"`(test_[a-z0-9_]+)`", (root / "docs" / "notes" / "errata.md").read_text()))
    written = set(re.findall(r"def (test_\w+)", "".join(p.read_text() for p in (root / "tests").rglob("test_*.py"))))
    assert named and named <= written, sorted(named - written)
