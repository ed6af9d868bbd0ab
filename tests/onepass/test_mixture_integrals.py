"""Gaussian integrals of the mixtures against brute force, closed forms and their infinite-SNR limits."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import norm

from dmft.model.activations import RELU
from onepass import BinaryMixture, XorMixture
from onepass.gaussian import normal_quantile
from onepass.mixtures.binary_integrals import binary_integrals, legendre_rule
from onepass.mixtures.mixture import limit_integrals
from onepass.mixtures.relu_integrals import relu_integrals, sobol_nodes

RULE = legendre_rule(48)
BINARY, XOR = BinaryMixture(1.0, 0.1).classes, XorMixture(1.0, 0.1).classes


def brute_force(v, m, R, snr):
    """The same integrals on a plain grid in (h_1, h_2): 10 Gauss-Legendre panels each side of the kinks."""
    A, Ap, B = np.zeros(2), np.zeros((2, 2)), np.zeros((2, 2))
    C = (np.outer(m, m) + R) / snr
    inverse = np.linalg.inv(C)
    conditional = np.vstack([m, R]) @ inverse / snr  # E[(X.mu, X.W_1, X.W_2) | h] - mean
    x, w = np.polynomial.legendre.leggauss(30)
    for s in (-1.0, 1.0):
        axes = []
        for d in range(2):
            low, high = s * m[d] - 9.5 * np.sqrt(C[d, d]), s * m[d] + 9.5 * np.sqrt(C[d, d])
            cuts = [low, 0.0, high] if low < 0.0 < high else [low, high]
            edges = np.concatenate([np.linspace(a, b, 11)[:-1] for a, b in zip(cuts, cuts[1:], strict=False)] + [[high]])
            half, mid = np.diff(edges) / 2, (edges[1:] + edges[:-1]) / 2
            axes.append(((mid[:, None] + half[:, None] * x).ravel(), (half[:, None] * w).ravel()))
        h = np.stack(np.meshgrid(axes[0][0], axes[1][0], indexing="ij"))
        d = h - s * np.asarray(m)[:, None, None]
        density = np.exp(-0.5 * np.einsum("iab,ij,jab->ab", d, inverse, d)) / (2 * np.pi * np.sqrt(np.linalg.det(C)))
        weight = 0.5 * np.outer(axes[0][1], axes[1][1]) * density
        e = expit(v[0] * np.maximum(h[0], 0) + v[1] * np.maximum(h[1], 0)) - 0.5 * (1 + s)
        fields = np.einsum("ki,iab->kab", conditional, d)
        fields[0] += s
        on = h > 0
        for i in range(2):
            A[i] += np.sum(weight * on[i] * e * fields[0])
            for j in range(2):
                Ap[i, j] += np.sum(weight * on[i] * e * fields[1 + j])
                B[i, j] += np.sum(weight * on[i] * on[j] * e**2)
    return A, Ap, B


@pytest.mark.parametrize("case", range(6))
def test_binary_integrals_equal_brute_force(case):
    rng = np.random.default_rng(case)
    v, m, root = 1.5 * rng.normal(size=2), rng.normal(size=2), rng.normal(size=(2, 2))
    R = root @ root.T
    if case == 4:  # nearly parallel neurons
        R = np.outer(root[0], root[0]) + 1e-3 * np.eye(2)
    snr = [0.5, 1.0, 4.0, 20.0, 8.0, 300.0][case]
    for ours, theirs in zip(binary_integrals(v, m, R, snr, RULE, BINARY), brute_force(v, m, R, snr), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-12)


def test_binary_integrals_of_parallel_neurons():
    """W_2 = W_1 / 2: one field, a one-dimensional integral; and the approach to it is continuous."""
    v, m, R, snr = np.array([1.1, -0.7]), np.array([0.8, 0.4]), 0.3 * np.array([[1.0, 0.5], [0.5, 0.25]]), 4.0
    c = (m[0] ** 2 + R[0, 0]) / snr

    def integrand(h, s):
        e = expit(v[0] * h + v[1] * h / 2) - 0.5 * (1 + s)
        return 0.5 * norm.pdf(h, s * m[0], np.sqrt(c)) * e * (s + m[0] / (snr * c) * (h - s * m[0]))

    exact = sum(quad(integrand, 0, 12, args=(s,), epsabs=1e-14, limit=200)[0] for s in (-1.0, 1.0))
    A, Ap, _ = binary_integrals(v, m, R, snr, RULE, BINARY)
    np.testing.assert_allclose(A, exact, atol=1e-12)
    near, near_p, _ = binary_integrals(v, m, R + 1e-9 * np.eye(2), snr, RULE, BINARY)
    np.testing.assert_allclose(near, A, atol=1e-8)
    np.testing.assert_allclose(near_p, Ap, atol=1e-8)


def half_space(mean, m, snr, c):
    """E[X 1(h > 0)] for X ~ N(mean, 1/snr) with h = m X + rest of variance c in all and mean m * mean."""
    ratio = m * mean / np.sqrt(c)
    return mean * norm.cdf(ratio) + m / (snr * np.sqrt(c)) * norm.pdf(ratio)


@pytest.mark.long
def test_silent_output_layer_has_closed_forms():
    """v = 0: sigma = 1/2, and every integral is a moment of a half space."""
    rng = np.random.default_rng(5)
    m, root, snr = rng.normal(size=2), rng.normal(size=(2, 2)), 3.0
    R = root @ root.T
    c = (m**2 + np.diag(R)) / snr
    expected = [0.5 * sum(-0.5 * s * half_space(s, m[i], snr, c[i]) for s in (1, -1)) for i in range(2)]
    np.testing.assert_allclose(binary_integrals(np.zeros(2), m, R, snr, RULE, BINARY)[0], expected, atol=1e-14)
    m4, root4 = rng.normal(size=(4, 2)), rng.normal(size=(4, 4))
    R4 = root4 @ root4.T
    A, _, B = relu_integrals(np.zeros(4), m4, R4, snr, sobol_nodes(4, 13), XOR)
    c4 = (np.sum(m4**2, 1) + np.diag(R4)) / snr
    for i in range(4):
        ratio, slope = m4[i] / np.sqrt(c4[i]), m4[i] / (snr * np.sqrt(c4[i]))
        for q in range(2):
            total = 0.0
            for comp in range(2):
                for s in (1, -1):
                    sign = -1.0 if comp == 0 else 1.0  # 2 (1/2 - y)
                    total += sign * ((s if comp == q else 0) * norm.cdf(s * ratio[comp]) + slope[q] * norm.pdf(s * ratio[comp]))
            assert A[i, q] == pytest.approx(total / 8, abs=3e-7)  # 2^13 quasi-random points: 3e-8
        np.testing.assert_allclose(B[i, i], 0.125, atol=1e-12)


def test_xor_integrals_of_one_speaking_neuron():
    """v = (v_1, 0, 0, 0): A_1 and A'_1j are one-dimensional."""
    rng = np.random.default_rng(6)
    m, root, snr, v = 0.7 * rng.normal(size=(4, 2)), rng.normal(size=(4, 4)), 5.0, np.array([1.7, 0.0, 0.0, 0.0])
    R = root @ root.T / 4
    c = (m[0] @ m[0] + R[0, 0]) / snr
    A, Ap, B = relu_integrals(v, m, R, snr, sobol_nodes(4, 13), XOR)

    def moment(power, comp, s):
        mean, y = s * m[0, comp], 1.0 - comp

        def f(h):
            e = expit(v[0] * h) - y
            return norm.pdf(h, mean, np.sqrt(c)) * (e * (h - mean) if power else e)

        return quad(f, 0, mean + 12 * np.sqrt(c), epsabs=1e-13)[0] if mean > -12 * np.sqrt(c) else 0.0

    for q in range(2):
        total = sum(
            0.25 * ((s if comp == q else 0) * moment(0, comp, s) + m[0, q] / (snr * c) * moment(1, comp, s))
            for comp in range(2)
            for s in (1, -1)
        )
        assert A[0, q] == pytest.approx(total, abs=1e-5)  # 2^13 quasi-random points: 3e-6
    across = sum(0.25 / (snr * c) * moment(1, comp, s) for comp in range(2) for s in (1, -1))
    np.testing.assert_allclose(Ap[0], R[0] * across, atol=1e-5)
    assert np.all(np.linalg.eigvalsh(B) > -1e-4)


def test_xor_rule_converges():
    """The error falls at least in proportion to the number of points: twofold per doubling, far better than 1/sqrt."""
    rng = np.random.default_rng(7)
    v, m, R = rng.normal(size=4), 0.5 * rng.normal(size=(4, 2)), np.eye(4)
    fine = relu_integrals(v, m, R, 4.0, sobol_nodes(4, 17), XOR)
    errors = [
        max(np.abs(a - b).max() for a, b in zip(relu_integrals(v, m, R, 4.0, sobol_nodes(4, k), XOR), fine, strict=True))
        for k in (9, 13)
    ]
    assert errors[1] < 1e-5 and errors[1] < errors[0] / 4


def test_binary_limit_is_proposition_4_2():
    rng = np.random.default_rng(8)
    for _ in range(20):
        v, m, alpha = rng.normal(size=2), rng.normal(size=2), 0.1
        model = BinaryMixture(np.inf, alpha)
        R = np.array([[0.2, 0.05], [0.05, 0.3]])
        drift = model.layout.unpack(model.drift(model.start({"v": v, "m": m, "R": R})))
        inner = v @ m if m[0] * m[1] > 0 else v * m
        pull = expit(-inner) / 2
        np.testing.assert_allclose(drift["m"], v * pull - alpha * m, atol=1e-15)
        np.testing.assert_allclose(drift["v"], m * pull - alpha * v, atol=1e-15)
        np.testing.assert_allclose(drift["R"], -2 * alpha * R, atol=1e-15)


@pytest.mark.parametrize("model", [BinaryMixture, XorMixture])
def test_large_snr_approaches_the_limit(model):
    rng = np.random.default_rng(9)
    p = model.neurons
    m = 0.5 + rng.random((p,) if p == 2 else (p, 2))
    m *= np.sign(rng.normal(size=m.shape))
    initial = {"v": rng.normal(size=p), "m": m, "R": np.eye(p)}
    limit = model(np.inf, 0.05)
    x = limit.start(initial)
    gaps = [np.abs(model(snr, 0.05).drift(x) - limit.drift(x)).max() for snr in (1e3, 1e5, 1e7)]
    assert gaps[2] < 2e-6 and gaps[1] < gaps[0] / 20 and gaps[2] < gaps[1] / 20  # Lipschitz in 1/snr


def test_limit_at_zero_overlap_is_half_active():
    """h = 0 in the limit of vanishing noise is positive half of the time: m_i' = v_i/4 from m = 0 in the binary mixture."""
    v = np.array([0.7, -1.3])
    _, A = limit_integrals(RELU.s, RELU.ds, True, v, np.zeros((2, 1)), BINARY, 0.0)
    np.testing.assert_allclose(A[:, 0], -0.25)
    still = limit_integrals(RELU.s, RELU.ds, True, np.ones(4), np.zeros((4, 2)), XOR, 1e-8)[1]
    assert np.all(still == 0.0)  # XOR: m = 0 is invariant


def test_normal_quantile():
    p = np.concatenate([np.logspace(-300, -1, 40), np.linspace(0.02, 0.98, 40), 1 - np.logspace(-15, -2, 20)])
    exact = norm.ppf(p)
    np.testing.assert_allclose([normal_quantile(x) for x in p], exact, rtol=2e-15, atol=1e-15)
