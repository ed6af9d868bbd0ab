"""Critical points and Hessians: structured spectra against brute force, gradients against finite differences."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dmft.core.errors import UserError
from onepass.networks import landscape, landscape_single


def brute(h):
    return landscape.merge([(float(v), 1) for v in np.linalg.eigvalsh(h)], 1e-7)


def critical_point(p, p_star, n, s, r):
    """Student and teacher weights (p, N), (p*, N) at a critical point of the family (s, r)."""
    c = landscape.curvature(p_star, s, r)
    w = np.zeros((p, n))
    w[np.arange(s), np.arange(s)] = np.sqrt(p * (c / 2.0 + 1.0 / p_star))
    w[s + np.arange(r), p_star + np.arange(r)] = np.sqrt(p * c / 2.0)
    return w, np.eye(p_star, n)


@pytest.mark.parametrize(("p", "p_star"), [(4, 2), (3, 3), (2, 3)])
def test_every_family_is_critical_with_its_spectrum_at_n_12(p, p_star):
    n = 12
    for s in range(p_star + 1):
        for r in range(min(p - s, n - p_star) + 1):
            if s + r > p:
                continue
            w, w_star = critical_point(p, p_star, n, s, r)
            assert np.abs(landscape.gradient(w, w_star)).max() < 1e-14
            risk = landscape.curvature(p_star, s, r) * (1.0 - s / p_star) + 2.0 * (p_star - s) / p_star**2
            assert_allclose(landscape.risk(w, w_star), risk, atol=1e-13)
            formula = landscape.spectrum(p, p_star, n, s, r)
            found = brute(landscape.hessian(w, w_star))
            assert [count for _, count in formula] == [count for _, count in found], (s, r)
            assert_allclose([v for v, _ in formula], [v for v, _ in found], atol=1e-9)


def test_named_spectra_of_the_paper():
    """p = 4, p* = 2, N = 12: tabula rasa, plateau, solution, and one teacher direction only."""
    expected = {
        (0, 0): [(-2, 8), (-1, 40)],
        (0, 4): [(-1, 8), (0, 30), (2 / 3, 9), (2, 1)],
        (2, 0): [(0, 25), (1, 20), (2, 2), (4, 1)],
        (1, 0): [(-4 / 3, 3), (-1 / 3, 30), (0, 4), (1, 10), (4, 1)],
    }
    for (s, r), values in expected.items():
        found = landscape.spectrum(4, 2, 12, s, r)
        assert [c for _, c in found] == [c for _, c in values]
        assert_allclose([v for v, _ in found], [v for v, _ in values], atol=1e-12)


def test_mixed_saddles_exist_and_have_both_signs():
    values = [v for v, _ in landscape.spectrum(4, 2, 12, 1, 2)]
    assert min(values) < 0 < max(values)


def test_gradient_and_hessian_are_derivatives_of_the_risk():
    rng = np.random.default_rng(0)
    w, w_star = rng.normal(size=(3, 5)), np.eye(2, 5)
    d = rng.normal(size=w.shape)
    h = 1e-5
    slope = (landscape.risk(w + h * d, w_star) - landscape.risk(w - h * d, w_star)) / (2 * h)
    assert_allclose(np.sum(landscape.gradient(w, w_star) * d), slope, rtol=1e-8)
    bend = (landscape.gradient(w + h * d, w_star) - landscape.gradient(w - h * d, w_star)) / (2 * h)
    assert_allclose((landscape.hessian(w, w_star) @ d.ravel()).reshape(w.shape), bend, rtol=1e-8)


def test_dimensions_of_manifolds_and_outputs():
    assert landscape.manifold_dimension(6, 3, 100) == 6 * 3 - 3 * 4 // 2
    assert landscape.manifold_dimension(5, 1, 100) == 4
    zeros = dict(landscape.spectrum(4, 2, 12, 2, 0))[0.0]
    assert zeros == landscape.manifold_dimension(4, 2, 12) + (12 - 2) * (4 - 2)
    assert landscape.degrees_of_freedom(12, 12) == landscape.degrees_of_freedom(20, 12) == 78
    with pytest.raises(UserError, match="no zero-error solutions"):
        landscape.manifold_dimension(2, 3, 12)
    with pytest.raises(UserError, match="need p >= p"):
        landscape.spectrum(2, 3, 12, 3, 0)


@pytest.mark.parametrize("p_star", [1, 2, 4, 8])
def test_the_manifold_of_solutions_is_as_large_as_its_tangent_space(p_star):
    """Figure 6 of Bocchi et al.: the rank of the infinitesimal rotations that move a random solution, for every width."""
    rng, n = np.random.default_rng(1), 12
    for p in (p_star, p_star + 3, 12):
        w = np.sqrt(p / p_star) * np.linalg.qr(rng.standard_normal((p, p_star)))[0] @ np.eye(p_star, n)
        assert landscape.risk(w, np.eye(p_star, n)) < 1e-20
        pairs = [(i, j) for i in range(p) for j in range(i)]
        turned = np.zeros((len(pairs), p, n))
        for k, (i, j) in enumerate(pairs):
            turned[k, i], turned[k, j] = w[j], -w[i]
        rank = np.linalg.matrix_rank(turned.reshape(len(pairs), -1)) if pairs else 0
        assert rank == landscape.manifold_dimension(p, p_star, n)


def test_single_unit_landscape():
    w_star = np.array([1.2, -0.3, 0.5, 0.8, 0.1])
    rho = w_star @ w_star
    for point in landscape_single.critical_points(w_star):
        assert np.abs(landscape_single.gradient(point.w, w_star)).max() < 1e-12
        assert_allclose(landscape_single.risk(point.w, w_star), point.excess, atol=1e-12)
        assert_allclose(
            np.linalg.eigvalsh(landscape_single.hessian(point.w, w_star)),
            np.repeat(*zip(*point.spectrum, strict=True)),
            atol=1e-9 * rho,
        )
    # printed values that fail: risk 3 rho^2 at the origin, 10/3 rho^2 on the sphere of saddles
    origin, across = landscape_single.critical_points(w_star)[:2]
    assert abs(origin.excess - 3 * rho**2) > 1 and abs(across.excess - 10 / 3 * rho**2) > 1


def test_single_unit_gradient_and_hessian_are_derivatives():
    rng = np.random.default_rng(1)
    w, w_star, d = rng.normal(size=(3, 6))
    h = 1e-5
    f, g = landscape_single.risk, landscape_single.gradient
    assert_allclose(g(w, w_star) @ d, (f(w + h * d, w_star) - f(w - h * d, w_star)) / (2 * h), rtol=1e-8)
    bend = (g(w + h * d, w_star) - g(w - h * d, w_star)) / (2 * h)
    assert_allclose(landscape_single.hessian(w, w_star) @ d, bend, rtol=1e-7)


def test_single_unit_risk_is_the_expectation():
    x, weight = np.polynomial.hermite_e.hermegauss(6)
    w, w_star = np.array([0.7, 0.4]), np.array([0.2, -1.1])
    grid = np.stack(np.meshgrid(x, x, indexing="ij"), -1).reshape(-1, 2)
    weights = np.outer(weight, weight).ravel() / weight.sum() ** 2
    expected = weights @ ((grid @ w) ** 2 - (grid @ w_star) ** 2) ** 2 / 2
    assert_allclose(landscape_single.risk(w, w_star), expected, rtol=1e-12)


def test_sphere_hessian_is_riemannian_and_its_spectrum_right():
    """On the unit sphere the gradient is 4 m (m w - w*) and the Hessian 4 (m^2 P - P w* w*^T P), P = 1 - w w^T."""
    rng = np.random.default_rng(2)
    d = 7
    w, w_star = (v / np.linalg.norm(v) for v in rng.normal(size=(2, d)))
    m, p = w @ w_star, np.eye(d) - np.outer(w, w)
    h = 4.0 * (m**2 * p - p @ np.outer(w_star, w_star) @ p)
    tangent = np.linalg.svd(w[None])[2][1:]
    values = np.linalg.eigvalsh(tangent @ h @ tangent.T)
    assert_allclose(values, np.repeat(*zip(*landscape_single.sphere_spectrum(d, m), strict=True)), atol=1e-12)
    v = tangent[0]
    step = 1e-4

    def along(s):
        return landscape_single.sphere_risk((np.cos(s) * w + np.sin(s) * v) @ w_star)

    assert_allclose(v @ h @ v, (along(step) - 2 * along(0.0) + along(-step)) / step**2, rtol=1e-7)
    assert_allclose(4.0 * m * (m * w - w_star) @ v, (along(step) - along(-step)) / (2 * step), rtol=1e-6)
    assert landscape_single.sphere_spectrum(d, 0.0) == [(-4.0, 1), (0.0, d - 2)]


@pytest.mark.parametrize(("p", "p_star", "n", "s", "r"), [(4, 2, 9, 2, 0), (2, 2, 7, 2, 0), (3, 2, 9, 0, 3), (4, 3, 9, 1, 2),
                                                           (4, 3, 8, 1, 0)])
def test_null_directions_are_tangent_or_merely_flat(p, p_star, n, s, r):
    """Counted from the Hessian, and from the generators of all rotations that leave the risk as it is."""
    w, w_star = critical_point(p, p_star, n, s, r)
    values, vectors = np.linalg.eigh(landscape.hessian(w, w_star))
    null = vectors[:, np.abs(values) < 1e-9]

    def rotations(size, blocks):
        for block in blocks:
            for i in range(len(block)):
                for j in range(i):
                    generator = np.zeros((size, size))
                    generator[block[i], block[j]], generator[block[j], block[i]] = 1.0, -1.0
                    yield generator

    moved = [(a @ w).ravel() for a in rotations(p, [range(p)])]
    moved += [(w @ b).ravel() for b in rotations(n, [range(p_star), range(p_star, n)])]
    tangent = np.linalg.matrix_rank(np.array(moved), tol=1e-9)
    found = landscape.null_directions(p, p_star, n, s, r)
    assert (found.tangent, found.flat) == (tangent, null.shape[1] - tangent)
    assert np.linalg.norm(null @ null.T @ np.array(moved).T - np.array(moved).T) < 1e-9     # all of them are null
    assert landscape.negative_to_null(p, p_star, n, s, r) == np.sum(values < -1e-9) / null.shape[1]
    if (s, r) == (p_star, 0):
        assert found.flat == (p - p_star) * (n - p_star) and found.tangent == landscape.manifold_dimension(p, p_star, n)
        _, sizes, rows = np.linalg.svd(np.array(moved))
        across = null - rows[:tangent].T @ (rows[:tangent] @ null)
        for direction in np.linalg.svd(across)[0][:, : found.flat].T:
            rises = [landscape.risk(w + h * direction.reshape(p, n), w_star) for h in (0.1, 0.2)]
            assert abs(np.log2(rises[1] / rises[0]) - 4.0) < 1e-6       # of fourth order


def test_eq_29_of_bocchi():
    for p, p_star, n in ((4, 2, 30), (7, 3, 50)):
        assert abs(landscape.negative_to_null(p, p_star, n, 0, p) - p_star / (n - p_star - p / 2 - 0.5)) < 1e-12
    with pytest.raises(UserError, match="no direction without curvature"):
        landscape.negative_to_null(3, 2, 9, 0, 0)
