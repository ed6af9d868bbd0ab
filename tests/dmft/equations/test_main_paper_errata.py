"""Mignacco, Urbani, Zdeborova 2021: the printed formulas listed in docs/notes/errata.md, from scratch (no solver code)."""

import numpy as np


def test_response_kernel_carries_one_over_the_batch_fraction_once():
    """(A.21) prints alpha/l^2 <s v'' T>; since the source of T in (A.22) already carries s v''/l, it is alpha/l. Compared
    with the response of g = (s/l) v' to a perturbation of its argument, by finite differences on one sample."""
    rng = np.random.default_rng(1)
    n, ell, eta, nu, paths = 8, 0.5, 0.05, 0.7, 4000
    h0 = rng.normal(size=paths)
    s = (rng.random((n + 1, paths)) < ell).astype(float)
    first = 0.6 * rng.normal(size=paths)

    def run(k=None, push=0.0):
        h, g = first.copy(), []
        for step in range(n + 1):
            argument = h + (push if step == k else 0.0)
            g.append(s[step] / ell * argument * (argument**2 - h0**2))  # v = (h^2 - h0^2)^2/4
            h = (1 - eta * nu) * h - eta * g[-1]
        return np.array(g)

    k, small = 2, 1e-5
    response = (run(k, small)[n] - run(k, -small)[n]) / (2 * small)  # d g_n / d P_k = g'_n T_nk
    h, tangent = first.copy(), np.zeros(paths)
    for step in range(n):
        second = 3 * h**2 - h0**2
        tangent = (1 - eta * nu) * tangent - eta * s[step] / ell * second * (tangent + (1.0 if step == k else 0.0))
        h = (1 - eta * nu) * h - eta * s[step] / ell * h * (h**2 - h0**2)
    correct = np.mean(s[n] * (3 * h**2 - h0**2) * tangent) / ell
    np.testing.assert_allclose(response.mean(), correct, rtol=1e-6)
    assert abs(correct / ell / response.mean() - 1) > 0.9  # as printed


def test_overlap_equation_has_the_multiplier_alone():
    """(A.23) prints nu~ = nu^ + delta nu in the equation of m; (14) has nu^. One small step of projected gradient descent."""
    rng = np.random.default_rng(2)
    n, alpha, eta = 400, 3.0, 1e-6
    xi = rng.normal(size=(int(alpha * n), n))
    w0, w = rng.normal(size=(2, n))
    w0 *= np.sqrt(n) / np.linalg.norm(w0)
    w += 0.5 * w0
    w *= np.sqrt(n) / np.linalg.norm(w)
    h, h0 = xi @ w / np.sqrt(n), xi @ w0 / np.sqrt(n)
    gradient = xi.T @ (h * (h**2 - h0**2)) / np.sqrt(n)
    new = w - eta * gradient
    new *= np.sqrt(n) / np.linalg.norm(new)
    m, speed = w @ w0 / n, (new - w) @ w0 / (n * eta)
    nu_hat, mu = -(w @ gradient) / n, gradient @ w0 / n
    delta_nu = np.sum(3 * h**2 - h0**2) / n
    # mu in the paper is alpha <h0 v'>, the whole projection of the gradient on the teacher
    np.testing.assert_allclose(speed, -nu_hat * m - mu, rtol=1e-4)
    assert abs(-(nu_hat + delta_nu) * m - mu - speed) > 0.5


def test_sampling_with_replacement_is_noisier_than_the_bernoulli_law():
    """The text says "with replacement", eq. (6) is Bernoulli: the variances of s are l and l (1 - l)."""
    rng = np.random.default_rng(3)
    samples, ell = 20000, 0.5
    counts = np.bincount(rng.integers(0, samples, int(ell * samples)), minlength=samples)
    bernoulli = rng.random(samples) < ell
    ratio = counts.var() / bernoulli.var()
    # The variance of 20 000 Poisson numbers of mean 1/2 is known to 1.4 %, that of the Bernoulli law is exact: 0.028 in the ratio.
    assert abs(ratio - 1 / (1 - ell)) < 4 * 0.028
