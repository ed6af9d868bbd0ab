"""Quadratic networks: moments, ODE and noise against quadrature, polynomials and the equations of the papers
as corrected in docs/notes/errata.md."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

import onepass
from dmft.core.errors import UserError
from onepass.networks import moments


def valid_start(p, k, seed, sphere=False, teacher=None):
    """Overlaps of random vectors."""
    rng = np.random.default_rng(seed)
    w = rng.normal(size=(p + k, 9)) / 3
    if sphere:
        w[:p] /= np.linalg.norm(w[:p], axis=1, keepdims=True)
    w[p:] = np.eye(9)[:k] if teacher is None else teacher
    return {"a": 1 + 0.3 * rng.normal(size=p), "M": w[:p] @ w[p:].T, "Q": w[:p] @ w[:p].T}


def gauss_hermite(om, nodes=8):
    """Nodes (n, m) and weights of a tensor rule for N(0, om)."""
    x, w = np.polynomial.hermite_e.hermegauss(nodes)
    m = len(om)
    grid = np.stack(np.meshgrid(*[x] * m, indexing="ij"), -1).reshape(-1, m)
    weight = np.prod(np.stack(np.meshgrid(*[w] * m, indexing="ij"), -1).reshape(-1, m), axis=1)
    return grid @ np.linalg.cholesky(om).T, weight / weight.sum()


def test_master_formula_against_gauss_hermite():
    rng = np.random.default_rng(1)
    r = rng.normal(size=(3, 3))
    om, c, noise = r @ r.T / 3, np.array([-0.5, -0.5, 1.0]), 0.3
    x, w = gauss_hermite(om)
    e = (x**2) @ c
    e1, e2, s2 = moments.error_moments(om, c, noise)
    assert_allclose(e1, np.einsum("n,n,ni,nj->ij", w, e, x, x), rtol=1e-12)
    assert_allclose(e2, np.einsum("n,n,ni,nj->ij", w, e**2 + noise, x, x), rtol=1e-12)
    assert_allclose(s2, w @ e**2 + noise, rtol=1e-12)


@pytest.mark.parametrize("order", [2, 3, 4])
def test_moments_of_order_twelve_against_gauss_hermite(order):
    rng = np.random.default_rng(2)
    r = rng.normal(size=(3, 3))
    om, c, noise = r @ r.T / 3, np.array([-0.5, -0.4, 1.0]), 0.3
    x, w = gauss_hermite(om)
    e = (x**2) @ c
    power = {2: e**2 + noise, 3: e**3 + 3 * noise * e, 4: e**4 + 6 * noise * e**2 + 3 * noise**2}[order]
    first, second = np.array([0, 1, 0]), np.array([2, 1, 1])
    pairs = x[:, first] * x[:, second]
    exact = np.einsum("n,n,ns,nt->st", w, power, pairs, pairs)
    assert_allclose(moments.pair_moments(om, c, noise, first, second, order), exact, rtol=1e-11)


def printed_noise_with(g, m, delta):
    """Var M, Cov(M, Q), Var Q at p = 1, q = rho = 1: eq. (62) of Arnaboldi et al. with its gamma doubled."""
    d = delta
    var_m = 48 + 4 * d + (144 + 8 * d) * m**2 - 192 * m**4
    cov = 480 * m - 480 * m**3 + 24 * d * m
    cov += g * (-2880 * m + 5760 * m**3 - 2880 * m**5 - 144 * d * m + 144 * d * m**3)
    var_q = 1280 - 1600 * m**2 + 320 * m**4 + 48 * d
    var_q += g * (-22272 + 44544 * m**2 - 22272 * m**4 - 1088 * d + 1088 * d * m**2)
    var_q += g**2 * (124416 - 294912 * m**2 + 216576 * m**4 - 46080 * m**6)
    var_q += g**2 * (7680 * d - 9984 * d * m**2 + 2304 * d * m**4 + 128 * d**2)
    return var_m, cov, var_q


def test_noise_of_one_unit_is_the_corrected_polynomial_and_not_the_printed_one():
    g, delta, m = 0.1, 0.5, 0.37
    net = onepass.QuadraticNetwork(width=1, gamma=g, noise=delta)
    c = net.covariance(net.start({"M": [[m]], "Q": [[1.0]]}))
    found = np.array([c[1, 1], c[1, 2], c[2, 2]])
    assert_allclose(found, printed_noise_with(g, m, delta), rtol=1e-12)
    printed = np.array(printed_noise_with(g / 2, m, delta))  # what the paper prints
    assert np.abs(printed[1:] / found[1:] - 1).min() > 0.1


def test_noise_on_the_sphere_is_the_polynomial():
    g, d, m = 0.1, 0.5, 0.61
    net = onepass.QuadraticNetwork(width=1, gamma=g, noise=d, constraint="sphere")
    c = net.covariance(net.start({"M": [[m]], "Q": [[1.0]]}))
    s = 48 - 16 * m**2 - 112 * m**4 + 80 * m**6 + 4 * d * (1 - m**2)
    s -= g * (2688 * m**2 * (1 - m**2) ** 2 + 128 * d * m**2 * (1 - m**2))
    s += g**2 * (31104 * m**2 - 73728 * m**4 + 54144 * m**6 - 11520 * m**8)
    s += g**2 * (d * (1920 * m**2 - 2496 * m**4 + 576 * m**6) + 32 * d**2 * m**2)
    assert_allclose(c[1, 1], s, rtol=1e-12)
    assert_allclose(c[2], 0.0, atol=1e-9)


@pytest.mark.parametrize(("layer", "constraint"), [("fixed", "none"), ("trained", "none"), ("trained", "sphere")])
def test_noise_covariance_for_every_width_against_quadrature(layer, constraint):
    p, k, g, delta = 2, 1, 0.4, 0.3
    net = onepass.QuadraticNetwork(p, k, g, delta, second_layer=layer, constraint=constraint)
    s = valid_start(p, k, 3, sphere=constraint == "sphere")
    x = net.start(s)
    om = np.block([[s["Q"], s["M"]], [s["M"].T, net.P]])
    fields, w = gauss_hermite(om)
    z, wz = np.polynomial.hermite_e.hermegauss(6)
    w = np.outer(w, wz / wz.sum()).ravel()
    fields = np.repeat(fields, len(z), axis=0)
    student, teacher = fields[:, :p], fields[:, p:]
    e = teacher[:, 0] ** 2 - (student**2) @ s["a"] / p + np.sqrt(delta) * np.tile(z, len(w) // len(z))
    a = s["a"]
    da = (layer == "trained") * e[:, None] * student**2
    dm = 2 * (a * student * e[:, None])[:, :, None] * teacher[:, None, :]
    pair = student[:, :, None] * student[:, None, :]
    dq = 2 * (a[:, None] + a) * e[:, None, None] * pair + 4 * g / p * np.outer(a, a) * (e**2)[:, None, None] * pair
    if constraint == "sphere":
        norm = 0.5 * np.einsum("njj->nj", dq)
        dm = dm - s["M"] * norm[:, :, None]
        dq = dq - s["Q"] * (norm[:, :, None] + norm[:, None, :])
    b = net.layout.pack({"a": da, "M": dm, "Q": dq})
    mean = w @ b
    assert_allclose(net.drift(x), mean, rtol=1e-10, atol=1e-10)
    assert_allclose(net.covariance(x), (b * w[:, None]).T @ b - np.outer(mean, mean), rtol=1e-9, atol=1e-8)


def test_ode_of_bocchi_under_the_mapping_and_the_printed_one_differs():
    p, k, eta = 4, 2, 0.2
    net = onepass.QuadraticNetwork.from_bocchi(p, k, eta)
    s = {**valid_start(p, k, 4), "a": np.ones(p)}
    q, rho = s["Q"], s["M"]
    rr, tr, one = rho @ rho.T, np.trace(q), np.eye(p)
    drho = 4 * eta / p * ((1 + 2 / k - tr / p) * rho - 2 / p * q @ rho)
    linear = 8 * eta / p * ((1 - tr / p) * q + 2 / k * rr - 2 / p * q @ q)
    scalar = 1 + 2 / k - 2 / p * tr + (tr**2 + 2 * np.trace(q @ q)) / p**2 - 4 / (p * k) * np.trace(rr)
    rest = (4 / k + 8 / k**2) * rr + 4 / p**2 * tr * q @ q + 8 / p**2 * q @ q @ q - 4 / p * q @ q
    rest += -4 / (p * k) * tr * rr - 8 / (p * k) * (rr @ q + q @ rr)
    dq = linear + 16 * eta**2 / p**2 * (scalar * q @ one + rest)
    found = net.layout.unpack(net.drift(net.start(s)))
    per_alpha = 2 * eta / p
    assert_allclose(found["M"] * per_alpha, drho, rtol=1e-12, atol=1e-14)
    assert_allclose(found["Q"] * per_alpha, dq, rtol=1e-12, atol=1e-14)
    printed = 1 + 2 / k - (2 * p - 1) / p**2 * tr**2 - np.sum(rho**2) / (p * k)
    assert np.abs(16 * eta**2 / p**2 * (printed - scalar) * q).max() > 1e-3
    risk = 1 + 2 / k + (tr**2 + 2 * np.trace(q @ q)) / p**2 - 2 * tr / p - 4 / (p * k) * np.trace(rr)
    assert_allclose(2 * net.observables({name: np.asarray(v) for name, v in s.items()})["risk"], risk, rtol=1e-12)


def test_one_unit_on_the_sphere_follows_its_exact_solution_to_1e10():
    g, delta, m0 = 0.05, 0.5, 0.1
    net = onepass.QuadraticNetwork(width=1, gamma=g, noise=delta, constraint="sphere")
    times = np.linspace(0.0, 6.0, 13)
    ode = net.solve({"M": [[m0]], "Q": [[1.0]]}, times, rtol=1e-12, atol=1e-14)
    slope = 4 * (1 - 6 * g)
    w = slope - 2 * g * delta
    m = np.sqrt(w / (slope + (w / m0**2 - slope) * np.exp(-2 * w * times)))
    assert_allclose(ode.M[:, 0, 0], m, rtol=1e-10)
    assert_allclose(ode.Q, 1.0, atol=1e-12)
    assert_allclose(ode.risk, delta / 2 + 2 * (1 - m**2), rtol=1e-9)


@pytest.mark.parametrize(("p", "k"), [(1, 1), (2, 2), (3, 3)])
def test_excess_risk_of_the_unconstrained_fixed_point(p, k):
    g, delta = 0.05 * p, 0.5
    net = onepass.QuadraticNetwork(p, k, g, delta)
    ode = net.solve({"M": 0.9 * np.eye(p), "Q": np.eye(p)}, [60.0 * p], method="LSODA")
    excess = g * delta / p / (1 - 2 * g / p * (1 + 2 / k))
    assert_allclose(ode.risk[0] - delta / 2, excess, rtol=1e-10)


def test_growth_rates_at_the_start_for_general_second_layer():
    p, g, delta = 3, 0.3, 0.2
    a = np.array([0.5, 1.0, 1.4])
    net = onepass.QuadraticNetwork(p, 1, g, delta, constraint="sphere")
    small = 1e-7
    x = net.start({"a": a, "M": np.full((p, 1), small), "Q": np.eye(p)})
    mean = a.mean()
    bracket = (1 - mean) ** 2 + 2 + 2 * a @ a / p**2 + delta - 4 * (1 - mean) * a / p + 8 * a**2 / p**2
    rates = 4 * a - 2 * g / p * a**2 * bracket
    assert_allclose(net.layout.unpack(net.drift(x))["M"][:, 0] / small, rates, rtol=1e-10)


def test_chain_runs_in_a_dimension_that_sgd_cannot_have():
    net = onepass.QuadraticNetwork(2, 1, 0.3, constraint="sphere")
    start = {"M": [[0.3], [0.1]], "Q": [[1.0, 0.1], [0.1, 1.0]]}
    t = net.time_step(10**9) * 10_000
    chain = net.chain(10**9, 2, start, [t])
    ode = net.solve(start, [t], rtol=1e-12)
    assert np.abs(chain.M - start["M"]).max() > 0 and np.abs(chain.M - ode.M).max() < 1e-6
    with pytest.raises(UserError, match="GiB of memory; chain"):
        net.simulate(10**12, 1, start, [1e-9])


def test_noise_covariance_against_monte_carlo():
    p, k, g, delta, n = 3, 2, 0.3, 0.2, 400_000
    net = onepass.QuadraticNetwork(p, k, g, delta)
    s = valid_start(p, k, 6)
    om = np.block([[s["Q"], s["M"]], [s["M"].T, np.eye(k)]])
    rng = np.random.default_rng(7)
    fields = rng.normal(size=(n, p + k)) @ np.linalg.cholesky(om).T
    l, ls, a = fields[:, :p], fields[:, p:], s["a"]
    e = (ls**2).mean(1) - (l**2) @ a / p + np.sqrt(delta) * rng.normal(size=n)
    b = 2 * a[0] * e * l[:, 0] * ls[:, 1]
    q = 2 * (a[0] + a[1]) * e * l[:, 0] * l[:, 1] + 4 * g / p * a[0] * a[1] * e**2 * l[:, 0] * l[:, 1]
    c = net.covariance(net.start(s))
    first_m, first_q = net.layout.slice("M").start, net.layout.slice("Q").start
    entries = {"m": (b, first_m + 1), "q": (q, first_q + 1)}
    for one, two in ("mm", "mq", "qq"):
        (x, i), (y, j) = entries[one], entries[two]
        exact = c[i, j]
        product = (x - x.mean()) * (y - y.mean())
        assert abs(product.mean() - exact) < 4.5 * product.std() / np.sqrt(n)


def test_bad_overlaps_are_refused_with_their_smallest_eigenvalue():
    net = onepass.QuadraticNetwork(width=1, gamma=0.1)
    with pytest.raises(UserError, match=r"smallest eigenvalue is -0\.2"):
        net.solve({"M": [[1.2]], "Q": [[1.0]]}, [1.0])
    with pytest.raises(UserError, match="diagonal 1"):
        onepass.QuadraticNetwork(1, constraint="sphere").solve({"M": [[0.2]], "Q": [[2.0]]}, [1.0])
    with pytest.raises(UserError, match="too small"):
        net.chain(1, 1, {"M": [[0.2]], "Q": [[1.0]]}, [1.0])
    with pytest.raises(UserError, match="teacher_overlaps"):
        onepass.QuadraticNetwork(2, 2, teacher_overlaps=((1.0, 2.0), (2.0, 1.0)))
    with pytest.raises(UserError, match="constraint"):
        onepass.QuadraticNetwork(2, constraint="ball")


def test_warnings_for_unstable_rate_and_for_a_start_the_ode_cannot_leave():
    with pytest.warns(UserWarning, match="stability limit 0.1666"):
        onepass.QuadraticNetwork(1, gamma=0.2).start({"M": [[0.1]], "Q": [[1.0]]})
    with pytest.warns(UserWarning, match="stays there"):
        path = onepass.QuadraticNetwork(1, gamma=0.1).solve({"M": [[0.0]], "Q": [[1.0]]}, [1.0])
    assert path.M[0, 0, 0] == 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        onepass.QuadraticNetwork(1, gamma=0.1).solve({"M": [[0.1]], "Q": [[1.0]]}, [1.0])
