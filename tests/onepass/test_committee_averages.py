"""Averages of committees beyond the closed erf: ReLU and its kin, smooth activations of any width, the noise, kinks."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

import onepass
from dmft.core.errors import UserError
from dmft.model.activations import activation
from onepass.networks.activation_kinds import kinks, two_slopes
from onepass.networks.field_moments import tensor_moments
from onepass.networks.kinked_moments import kinked_moments
from onepass.networks.smooth_moments import smooth_moments
from onepass.networks.two_slope_moments import two_slope_moments, two_slope_square
from tests.marks import slow

RELU, LEAKY = (0.0, 1.0), (-0.3, 1.2)


def relu(x):
    return max(x, 0.0)


def step(x):
    return 1.0 if x > 0.0 else 0.0


def clip(x):
    return min(max(x, -1.0), 1.0)


def d_clip(x):
    return 1.0 if -1.0 < x < 1.0 else 0.0


def softplus(x):
    return math.log1p(math.exp(-abs(x))) + max(x, 0.0)


def d_softplus(x):
    return 1.0 / (1.0 + math.exp(-x))


def hermite3(x):
    return (x * x * x - 3.0 * x) / math.sqrt(6.0)


def d_hermite3(x):
    return (3.0 * x * x - 3.0) / math.sqrt(6.0)


def start(p, k, seed=0):
    w = np.random.default_rng(seed).normal(size=(p + k, 9)) / 3
    w[p:] = np.eye(9)[:k]
    return {"a": 1 + 0.3 * np.arange(p), "M": w[:p] @ w[p:].T, "Q": w[:p] @ w[:p].T}


def in_the_plane(vectors, c, p, student, teacher):
    """es, f, g, j2, square for fields v_i.(x, y) with (x, y) normal in the plane: all integrands are homogeneous, so the
    average is E[r^2] = 2 (or 1) times one over the angle, piecewise smooth between the kinks."""
    own = np.arctan2(vectors[:, 1], vectors[:, 0])
    kinks = np.sort(np.concatenate([own - np.pi / 2, own + np.pi / 2]) % (2 * np.pi))
    edges = np.concatenate([kinks, [kinks[0] + 2 * np.pi]])
    x, w = np.polynomial.legendre.leggauss(24)
    angle = (edges[:-1, None] + np.diff(edges)[:, None] * (x + 1) / 2).ravel()
    weight = (np.diff(edges)[:, None] * w / 2).ravel() / (2 * np.pi)
    u = np.stack([np.cos(angle), np.sin(angle)], 1) @ vectors.T
    low, high = (np.array([student[side]] * p + [teacher[side]] * (len(vectors) - p)) for side in (0, 1))
    d = np.where(u > 0, high, low)
    s, error = d * u, (d * u) @ c
    d = d[:, :p]
    f, g = np.einsum("n,ni,nq->iq", weight * error, d, u), np.einsum("n,ni,nj->ij", weight * error**2, d, d)
    return 2 * (weight * error) @ s[:, :p], 2 * f, 2 * g, np.einsum("n,ni,nj->ij", weight, d, d), 2 * weight @ error**2


@pytest.mark.parametrize("slopes", [slow((RELU, RELU)), slow((LEAKY, RELU)), ((-1.0, 1.0), LEAKY)])
def test_two_slopes_against_the_angle_in_the_plane(slopes):
    """Two fields, and four fields of one plane, where the covariance is singular."""
    vectors = np.array([[0.6, 0.5], [1.0, 0.1], [0.3, -0.9], [0.0, 1.0]])
    for fields, p, accuracy in ((2, 1, 1e-12), (4, 2, 1e-8)):
        v, c = vectors[:fields], np.array([-0.7, 0.4, 1.1, 0.6])[:fields]
        found = two_slope_moments(v @ v.T, c, p, *slopes, False)
        for closed, exact in zip(found, in_the_plane(v, c, p, *slopes), strict=True):
            assert_allclose(closed, exact, atol=accuracy)
        assert_allclose(two_slope_square(v @ v.T, c, p, *slopes), found[-1], rtol=1e-13)


def test_equal_and_opposite_fields():
    """A student that is the teacher, and one that is its mirror image: no singularity, and E = 0 where it must be."""
    v = np.array([[1.0, 0.0], [-1.0, 0.0], [1.0, 0.0]])
    _, f, g, _, square = two_slope_moments(v @ v.T, np.array([-1.0, 0.0, 1.0]), 2, RELU, RELU, False)
    assert max(np.abs(f).max(), np.abs(g).max(), abs(square)) < 1e-14
    exact = in_the_plane(v, np.array([0.5, -0.3, 1.0]), 2, RELU, RELU)
    for closed, wanted in zip(two_slope_moments(v @ v.T, np.array([0.5, -0.3, 1.0]), 2, RELU, RELU, False), exact, strict=True):
        assert_allclose(closed, wanted, atol=1e-12)


@pytest.mark.statistical
def test_four_relu_fields_against_sampling():
    rng = np.random.default_rng(2)
    root = rng.normal(size=(4, 7)) / 2.5
    om, c, n = root @ root.T, np.array([-0.5, -0.8, 1.0, 0.7]), 400_000
    u = rng.standard_normal((n, 4)) @ np.linalg.cholesky(om).T
    d, error = (u[:, :2] > 0).astype(float), np.maximum(u, 0.0) @ c

    def worst(covariance):
        _, f, g, _, _ = two_slope_moments(covariance, c, 2, RELU, RELU, False)
        samples = [(error * d[:, i] * u[:, q], f[i, q]) for i in range(2) for q in range(4)]
        samples += [(error**2 * d[:, i] * d[:, j], g[i, j]) for i in range(2) for j in range(i + 1)]
        return max(abs(x.mean() - value) / x.std() * np.sqrt(n) for x, value in samples)

    assert worst(om) < 4.5
    flipped = om.copy()
    flipped[0, 3] = flipped[3, 0] = -om[0, 3]
    assert worst(flipped) > 10


def test_relu_by_name_and_as_a_pair_and_the_smooth_rule_that_missed_it():
    s = start(2, 1)
    named, pair = onepass.Committee("relu", 2, 1, 0.3, 0.1), onepass.Committee((relu, step), 2, 1, 0.3, 0.1)
    x = named.start(s)
    assert_allclose(pair.drift(x), named.drift(x), rtol=1e-14)
    om, c = named.averages.omega_and_c(s)
    exact, one = two_slope_moments(om, c, 2, RELU, RELU, False), activation((relu, step))
    errors = [np.abs(tensor_moments(one, one, om, c, 2, nodes)[2] - exact[2]).max() for nodes in (41, 81)]
    assert min(errors) > 1e-4  # what users got, whatever their nodes
    assert two_slopes(activation("tanh")) is None and two_slopes(one) == RELU


def hat(x):
    return max(0.0, 1.0 - abs(x - 0.5))


def d_hat(x):
    return 0.0 if abs(x - 0.5) > 1.0 else (1.0 if x < 0.5 else -1.0)


@pytest.mark.slow
def test_kinks_are_found():
    assert all(kinks(activation(name)) == () for name in ("tanh", "erf", "quadratic"))
    assert_allclose(kinks(activation((clip, d_clip))), [-1.0, 1.0], atol=1e-10)
    assert_allclose(kinks(activation((hat, d_hat))), [-0.5, 0.5, 1.5], atol=1e-10)
    stairs = onepass.Committee((lambda x: 0.1 * math.floor(4 * x), lambda x: 0.0), 1)
    with pytest.raises(UserError, match="jumps at .* places"):
        stairs.solve(start(1, 1), [0.1])
    assert np.isfinite(stairs.chain(50, 2, start(1, 1), [0.1]).M).all()


@pytest.mark.parametrize("parallel", [None, slow(0.05), 0.0])
def test_rules_cut_at_kinks_converge_to_the_closed_form_of_relu(parallel):
    """Random fields: exponential convergence in the nodes; a student (nearly) parallel to the teacher: to the tail of the series
    in g alone. The rule for smooth functions is off by 1e-3 at any number of nodes (test above)."""
    w = np.random.default_rng(0).normal(size=(4, 9)) / 3
    if parallel is not None:
        w[0] = w[2] + parallel * w[0]
    om, c, one = w @ w.T, np.array([-0.5, -0.5, 0.6, 0.4]), activation("relu")
    exact = two_slope_moments(om, c, 2, RELU, RELU, False)
    errors = []
    for nodes in (16, 28, 41):
        found = kinked_moments(one, one, ((0.0,), (0.0,)), om, c, 2, nodes)
        errors.append([np.abs(a - b).max() for a, b in zip(found, exact, strict=True)])
    es, f, g, j2, square = np.array(errors).T
    for part in (es, f, j2, square) if parallel is not None else (es, f, g, j2, square):
        assert part[0] > 1e-6 and part[1] < 1e-2 * part[0] and part[2] < 1e-10
    assert g[2] < 3e-5
    missed = kinked_moments(one, one, ((0.3,), (0.3,)), om, c, 2, 41)      # cut at the wrong place
    assert np.abs(missed[1] - exact[1]).max() > 1e-4


def test_a_hard_tanh_against_panels_written_out():
    """One unit, one teacher: every average over (u, v) on a grid of Gauss-Legendre panels between the kinks of both."""
    s = start(1, 1)
    net = onepass.Committee((clip, d_clip), 1, 1, 0.3, 0.1, "trained", teacher_activation=(hat, d_hat))
    x, w = np.polynomial.legendre.leggauss(40)
    q, m = s["Q"][0, 0], s["M"][0, 0]

    def axis(edges):
        edges = np.array(edges)
        half = np.diff(edges) / 2
        return (edges[:-1, None] + half[:, None] * (x + 1)).ravel(), (half[:, None] * w).ravel()

    (u, wu), (v, wv) = axis([-9.0, -1.0, 1.0, 9.0]), axis([-9.0, -4.0, -0.5, 0.5, 1.5, 5.0, 9.0])
    u, v = np.meshgrid(u, v, indexing="ij")
    det = q - m * m
    weight = np.outer(wu, wv) * np.exp(-0.5 * (u * u - 2 * m * u * v + q * v * v) / det) / (2 * np.pi * np.sqrt(det))
    error = np.vectorize(hat)(v) - s["a"] * np.clip(u, -1, 1)
    slope = s["a"] * (np.abs(u) < 1)
    exact = [np.sum(weight * error * np.clip(u, -1, 1)), np.sum(weight * error * slope * v),
             np.sum(weight * (2 * error * slope * u + 0.3 * slope**2 * (error**2 + 0.1)))]
    assert_allclose(net.drift(net.start(s)), exact, atol=1e-9)
    assert_allclose(net.solve(s, [0.0]).risk, 0.5 * np.sum(weight * error**2) + 0.05, rtol=1e-9)


@pytest.mark.statistical
def test_chain_and_sgd_follow_the_ode_with_kinks():
    """A ReLU student of an erf teacher, which had no ODE before."""
    net, s, times = onepass.Committee("relu", 2, 1, 1.0, 0.1, teacher_activation="erf"), start(2, 1), [0.5, 1.5]
    ode = net.solve(s, times, rtol=1e-6)
    chain, sgd = net.chain(10**4, 40, s, times), net.simulate(500, 40, s, times)

    def worst(paths, other):
        return max(np.abs((paths.mean()[n] - other[n]) / paths.error()[n]).max() for n in ("M", "Q"))

    assert worst(chain, ode) < 4.5 and worst(sgd, ode) < 5
    assert worst(chain, onepass.Committee("relu", 2, 1, 1e-9, 0.1, teacher_activation="erf").solve(s, times, rtol=1e-6)) > 20


def test_too_few_nodes_are_told():
    with pytest.warns(UserWarning, match="more nodes"):
        onepass.Committee("tanh", 1, 1, 0.3, nodes=15).solve(start(1, 1), [0.1])
    with pytest.warns(UserWarning, match="take at least 24"):
        onepass.Committee((clip, d_clip), 1, 1, 0.3, nodes=15).solve(start(1, 1), [0.0])


def test_an_activation_that_grows_too_fast_is_refused():
    with pytest.raises(UserError, match="not integrable"):
        onepass.Committee((lambda x: math.exp(x * x / 3.0), lambda x: 2.0 * x / 3.0 * math.exp(x * x / 3.0)), 1)


@pytest.mark.parametrize(("p", "k"), [(2, 1), (1, 2)])
def test_pairs_of_fields_give_what_the_product_rule_gives(p, k):
    w = np.random.default_rng(3).normal(size=(p + k, 6)) / 2.5
    om, c = w @ w.T, np.array([-0.6, 0.9, 0.4])
    for names in (("tanh", "erf"), ((softplus, d_softplus), (hermite3, d_hermite3))):
        arguments = (activation(names[0]), activation(names[1]), om, c, p, 57)
        for pairs, product in zip(smooth_moments(*arguments), tensor_moments(*arguments), strict=True):
            assert_allclose(pairs, product, atol=1e-7)  # two rules of a finite number of nodes: 1e-8 apart


def test_pairs_of_fields_at_any_width_against_closed_forms():
    """erf and ReLU have closed forms at every width; erf through the rule must agree, equal students included."""
    def erf(x):
        return math.erf(x / math.sqrt(2.0))

    def d_erf(x):
        return math.sqrt(2.0 / math.pi) * math.exp(-0.5 * x * x)

    s = start(4, 2)
    s["Q"][:, 1], s["M"][1] = s["Q"][:, 0], s["M"][0]
    s["Q"][1] = s["Q"][0]
    s["Q"][1, 1] = s["Q"][0, 0]
    closed, rule = onepass.Committee("erf", 4, 2, 0.5, 0.1, "trained"), onepass.Committee((erf, d_erf), 4, 2, 0.5, 0.1, "trained")
    x = closed.start(s)
    assert_allclose(rule.drift(x), closed.drift(x), atol=1e-9)
    assert_allclose(rule.reduced().drift(rule.reduced().start(s)), closed.reduced().drift(closed.reduced().start(s)), atol=1e-9)


@pytest.mark.statistical
@pytest.mark.parametrize("name", [slow("tanh"), "relu"])
def test_chain_and_sgd_follow_the_ode_of_wide_committees(name):
    net, s, times = onepass.Committee(name, 3, 2, 1.0, 0.1), start(3, 2), [0.5, 1.5]
    ode = net.solve(s, times, rtol=1e-6)
    chain, sgd = net.chain(10**4, 40, s, times), net.simulate(500, 40, s, times)

    def worst(paths, other):
        return max(np.abs((paths.mean()[n] - other[n]) / paths.error()[n]).max() for n in ("M", "Q"))

    assert worst(chain, ode) < 4.5
    assert worst(sgd, ode) < 5
    without_noise_term = onepass.Committee(name, 3, 2, 1e-9, 0.1).solve(s, times, rtol=1e-6)
    assert worst(chain, without_noise_term) > 20


# --- the noise


def test_noise_covariance_of_a_quadratic_committee_is_exact():
    """Quasi-random points gave 0.74 to 0.92 of it."""
    s = start(3, 2)
    general, own = onepass.Committee("quadratic", 3, 2, 0.3, 0.1), onepass.QuadraticNetwork(3, 2, 0.3, 0.1)
    assert_allclose(general.covariance(general.start(s, 99)), own.covariance(own.start(s)), rtol=1e-12)


@pytest.mark.parametrize("noise", [0.0, 0.4])
def test_noise_covariance_of_softplus_with_a_cubic_teacher(noise):
    """Against Gauss-Hermite, written out for one unit."""
    net, s = onepass.Committee((softplus, d_softplus), 1, 1, 0.3, noise, teacher_activation=(hermite3, d_hermite3)), start(1, 1)
    x, w = np.polynomial.hermite_e.hermegauss(50)
    x3, w3 = np.polynomial.hermite_e.hermegauss(8)
    z = np.stack(np.meshgrid(x, x, x3, indexing="ij"), -1).reshape(-1, 3)
    weight = np.einsum("i,j,k->ijk", w, w, w3).ravel()
    weight /= weight.sum()
    om = np.block([[s["Q"], s["M"]], [s["M"].T, np.eye(1)]])
    u = z[:, :2] @ np.linalg.cholesky(om).T
    value, slope = np.vectorize(softplus)(u[:, 0]), np.vectorize(d_softplus)(u[:, 0])
    error = hermite3(u[:, 1]) - value + math.sqrt(noise) * z[:, 2]
    b = np.stack([error * slope * u[:, 1], 2 * error * slope * u[:, 0] + 0.3 * (error * slope) ** 2])
    exact = np.cov(b, aweights=weight, bias=True)
    assert_allclose(net.covariance(net.start(s, 99))[1:, 1:], exact, rtol=2e-8)  # 41 nodes: 2e-9


def test_noise_that_quasi_random_points_cannot_give_is_refused():
    wide = onepass.Committee((softplus, d_softplus), 3, 2, 0.3, teacher_activation=(hermite3, d_hermite3))
    with pytest.raises(UserError, match="known to .* % only"):
        wide.covariance(wide.start(start(3, 2), 99))
    bounded = onepass.Committee("erf", 3, 2, 0.3, 0.1)
    assert np.linalg.eigvalsh(bounded.covariance(bounded.start(start(3, 2), 99))).min() > -1e-9


@pytest.mark.statistical
def test_noise_covariance_of_relu_against_sampling():
    net, s, n = onepass.Committee("relu", 2, 1, 0.4, 0.1), start(2, 1), 400_000
    rng = np.random.default_rng(4)
    u = rng.standard_normal((n, 3)) @ np.linalg.cholesky(np.block([[s["Q"], s["M"]], [s["M"].T, np.eye(1)]])).T
    error = np.maximum(u[:, 2], 0) - np.maximum(u[:, :2], 0) @ s["a"] / 2 + math.sqrt(0.1) * rng.standard_normal(n)
    kick = s["a"] * error[:, None] * (u[:, :2] > 0)
    columns = [kick[:, 0] * u[:, 2], kick[:, 1] * u[:, 2]]
    columns += [kick[:, i] * u[:, j] + kick[:, j] * u[:, i] + 0.2 * kick[:, i] * kick[:, j] for i, j in ((0, 0), (0, 1), (1, 1))]
    exact = np.cov(np.stack(columns))
    found = net.covariance(net.start(s, 99))[2:, 2:]
    scale = np.sqrt(np.outer(np.diag(exact), np.diag(exact)))
    assert (np.abs(found - exact) / scale).max() < 0.04  # two errors of at most two per cent
    assert (np.abs(0.5 * found - exact) / scale).max() > 0.4
