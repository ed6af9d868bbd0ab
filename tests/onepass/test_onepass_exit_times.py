"""Exit-time formulas against their tables, series, boundary-value problem and the ODE."""

from contextlib import nullcontext

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import solve_bvp
from scipy.special import gammaln

import onepass
from dmft.core.errors import UserError
from onepass.first_passage import measure_exit, ode_exit, overlap_measure, risk_measure
from onepass.networks import exit_times, scaling


def fewest_steps(p, d, noise, threshold):
    """Annealed number of steps at the optimal rate."""
    gamma = exit_times.optimal_gamma(p, noise)
    return exit_times.steps(exit_times.annealed(p, d, gamma, noise, threshold), p, d, gamma)


@pytest.mark.parametrize(  # three digits of independent calculations, hence the 6e-4 here and below
    ("p", "d", "gamma", "noise", "threshold", "annealed", "quenched"),
    [
        (1, 1000, 1 / 12, 0.0, 0.1, 1.154, 1.471),
        (1, 3000, 1 / 12, 0.0, 0.5, 1.828, 2.146),
        (1, 1000, 0.02, 0.5, 0.1, 0.659, 0.840),
        (3, 1000, 0.3, 0.2, 0.1, 0.648, 0.704),
        (8, 1000, 1.5, 0.2, 0.1, 0.666, 0.688),
    ],
)
def test_annealed_and_quenched_formulas(p, d, gamma, noise, threshold, annealed, quenched):
    assert_allclose(exit_times.annealed(p, d, gamma, noise, threshold), annealed, atol=6e-4)
    found = exit_times.quenched(p, d, gamma, noise, threshold, samples=4000)
    assert abs(found.mean - quenched) < 6e-4 + 4.5 * found.error


def test_one_unit_without_linearising_and_with_noise():
    assert_allclose(exit_times.one_unit_with_noise(1000, 1 / 12, 0.0, 0.1), 1.324, atol=6e-4)
    assert_allclose(exit_times.one_unit_with_noise(3000, 1 / 12, 0.0, 0.5), 2.146, atol=6e-4)
    assert_allclose(exit_times.one_unit_with_noise(1000, 0.02, 0.5, 0.1), 0.8365, atol=6e-4)
    net = onepass.QuadraticNetwork(1, 1, 0.05, 0.3, constraint="sphere")
    start = {"M": [[0.03]], "Q": [[1.0]]}
    found = ode_exit(net, start, risk_measure(net, 0.2))
    assert_allclose(found, exit_times.one_unit_exact(0.03, 0.05, 0.3, 0.2), rtol=1e-7)
    assert exit_times.one_unit_exact(0.03, 0.12, 1.0, 0.99) == np.inf


def test_linear_formula_is_the_limit_of_the_ode_for_small_overlaps():
    p, d, gamma, noise, threshold = 3, 10**12, 0.3, 0.2, 1e-4
    net = onepass.QuadraticNetwork(p, 1, gamma, noise, constraint="sphere")
    m = np.full((p, 1), 1.0 / np.sqrt(d))
    found = ode_exit(net, {"M": m, "Q": np.eye(p)}, risk_measure(net, threshold))
    expected = np.log(threshold * (p + 1) * d / (2 * p)) / (2 * exit_times.rates(p, gamma, noise)[0])
    assert_allclose(found, expected, rtol=3e-5)  # not linear in the threshold T = 1e-4: 9e-6


def test_hypergeometric_function_against_its_series():
    n = np.arange(80)
    for z in (1e-9, 0.3, 2.0, 9.0):
        log_ratio = 2 * gammaln(n + 1) - gammaln(n + 1.5) + gammaln(1.5) - gammaln(n + 2) - gammaln(n + 1)
        series = np.sum((-z) ** n * np.exp(log_ratio))
        assert_allclose(exit_times.hypergeometric_2f2(z), series, rtol=1e-9)


def test_ornstein_uhlenbeck_exit_against_boundary_value_problem_and_the_annealed_claim():
    d, gamma, noise, threshold = 1000, 0.05, 0.5, 0.1
    mu, variance = 4 * (1 - 6 * gamma) - 2 * gamma * noise, gamma / d * (48 + 4 * noise)
    x = np.linspace(0.0, np.sqrt(threshold), 400)
    u = solve_bvp(
        lambda s, y: np.stack([y[1], -2 / variance * (1 + mu * s * y[1])]),
        lambda a, b: np.array([a[1], b[0]]),
        x,
        np.zeros((2, x.size)),
        tol=1e-9,
        max_nodes=200000,
    )
    at = exit_times.ornstein_uhlenbeck
    assert_allclose(at(d, gamma, noise, threshold), u.sol(0.0)[0], rtol=1e-7)
    m0 = 1 / np.sqrt(d)
    assert_allclose(at(d, gamma, noise, threshold, m0), u.sol(m0)[0], rtol=1e-7)
    # the paper says that the exit time from m = 0 "coincides with the annealed version": it does not
    assert_allclose([at(d, gamma, noise, threshold), at(d, gamma, noise, threshold, m0)], [1.211, 0.923], atol=6e-4)


def test_optimal_rate_lies_above_the_recovery_limit_for_wide_networks():
    p = np.arange(1, 30)
    best = np.array([exit_times.optimal_gamma(int(n)) for n in p])
    limit = np.array([exit_times.recovery_limit(int(n)) for n in p])
    assert best[0] < limit[0] and np.all(best[1:] > limit[1:])
    for n in (2, 3, 5, 20):  # with noise up to 4 - 2/p - 8/p^2
        edge = 4.0 - 2.0 / n - 8.0 / n**2
        assert exit_times.optimal_gamma(n, edge - 1e-6) > exit_times.recovery_limit(n) > exit_times.optimal_gamma(n, edge + 1e-6)
    assert_allclose(exit_times.optimal_gamma(1, 0.5), 1 / 12.5)
    grid = np.linspace(0.6, 1.4, 81) * exit_times.optimal_gamma(5, 0.3)
    steps = [exit_times.steps(exit_times.annealed(5, 1000, g, 0.3, 0.1), 5, 1000, g) for g in grid]
    assert np.argmin(steps) == 40
    assert_allclose(fewest_steps(5, 1000, 0.3, 0.1), min(steps), rtol=1e-12)


def test_gain_formal_and_honest():
    """Wide networks at the optimal rate, which does not recover the teacher, and at one that does."""
    assert_allclose(exit_times.honest_gain(1 / 6), 10 / 3, rtol=1e-12)
    d, t, x, p = 10**9, 0.1, 0.15, 10**4
    for noise in (0.0, 0.5):        # 5 %: logarithms of d differ by a constant
        one = fewest_steps(1, d, noise, t)
        assert_allclose(one / fewest_steps(p, d, noise, t), (12 + noise) / (2 + noise), rtol=0.05)
        wide = exit_times.steps(exit_times.annealed(p, d, x * p, noise, t), p, d, x * p)
        assert_allclose(one / wide, exit_times.honest_gain(x, noise), rtol=0.05)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:gamma")
@pytest.mark.parametrize("noise", [0.0, 0.5, 2.0, 8.0])
def test_the_optimal_rate_does_not_recover_the_teacher_at_any_noise(noise):
    """Also where it lies below p/6 (p = 2: noise above 1); a tenth of the rate recovers it as far as the noise allows."""
    for p in (2, 3):
        w = np.random.default_rng(1).normal(size=(p, 200))
        w[:, 0] *= 3.0
        w /= np.linalg.norm(w, axis=1)[:, None]
        ends = []
        for gamma in (exit_times.optimal_gamma(p, noise), 0.02 * p):
            net = onepass.QuadraticNetwork(p, 1, gamma, noise, constraint="sphere")
            ends.append(net.solve({"M": w[:, :1], "Q": w @ w.T}, [60.0], rtol=1e-5).risk[0] - noise / 2.0)
        assert ends[0] > 0.8 and ends[1] < 0.2


def test_the_honest_gain_is_approached_from_above():
    gains = []
    for d in (10**3, 10**6, 10**12):
        wide = exit_times.steps(exit_times.annealed(10**5, d, 10**5 / 6, 0.0, 0.1), 10**5, d, 10**5 / 6)
        gains.append(fewest_steps(1, d, 0.0, 0.1) / wide)
    assert gains[0] > gains[1] > gains[2] > exit_times.honest_gain(1 / 6)
    assert_allclose(gains[0], 3.92, atol=5e-3)


def test_recovery_is_stable_just_below_the_limit_and_unstable_above():
    for k in (1, 2):
        limit = exit_times.recovery_limit(k, k)
        for factor, stable in ((0.97, True), (1.03, False)):
            net = onepass.QuadraticNetwork(k, k, factor * limit)
            with nullcontext() if stable else pytest.warns(UserWarning, match="gamma"):
                path = net.solve({"M": 0.999 * np.eye(k), "Q": np.eye(k)}, [0.0, 20.0 * k])
            assert (path.risk[1] < path.risk[0]) == stable


def test_bad_questions_are_refused():
    with pytest.raises(UserError, match="never exits"):
        exit_times.annealed(1, 1000, 0.2, 0.0, 0.1)
    with pytest.raises(UserError, match="between 0 and 1"):
        exit_times.annealed(1, 1000, 0.1, 0.0, 1.5)
    with pytest.raises(UserError, match="cannot be recovered"):
        exit_times.recovery_limit(1, 2)
    with pytest.raises(UserError, match="1/6"):
        exit_times.honest_gain(0.3)


def test_trained_second_layer_exits_by_its_largest_overlap():
    """By the overlap the two exit alike (11 % apart); by the risk the trained one exits before it knows the teacher."""
    start = {"M": np.full((4, 1), 0.01), "Q": np.eye(4)}
    by_overlap, by_risk = [], []
    for layer in ("fixed", "trained"):
        net = onepass.QuadraticNetwork(4, 1, 0.2, second_layer=layer, constraint="sphere")
        by_overlap.append(ode_exit(net, start, overlap_measure(0.1)))
        by_risk.append(ode_exit(net, start, risk_measure(net, 0.05)))
    assert_allclose(by_overlap[0], by_overlap[1], rtol=0.15)
    assert by_risk[0] > 1.2 * by_overlap[0] and by_risk[1] < 0.8 * by_overlap[1]


def test_power_fit_recovers_slope_and_error():
    x = np.array([1.0, 2.0, 4.0, 8.0])
    fit = scaling.fit_power(x, 3 * x**0.5, 0.01 * x**0.5)
    assert_allclose([fit.slope, np.exp(fit.intercept)], [0.5, 3.0])
    assert 0 < fit.slope_error < 0.01


@pytest.mark.slow
@pytest.mark.statistical
def test_quenched_exit_time_of_the_noisy_process():
    """Against draws of the start, and against the exact chain, from which it differs by its linear drift: 2 % at T = 0.02. Twin:
    the start at m0 = 0."""
    d, gamma, noise, threshold = 3000, 0.05, 0.5, 0.02
    value = exit_times.ornstein_uhlenbeck_quenched(d, gamma, noise, threshold)
    m0 = np.random.default_rng(3).standard_normal((400, 2)) / np.sqrt(d)
    drawn = np.array([exit_times.ornstein_uhlenbeck(d, gamma, noise, threshold, m) if m * m < threshold else 0.0
                      for m in np.abs(m0).ravel()])
    error = drawn.std() / np.sqrt(drawn.size)
    assert abs(drawn.mean() - value) < 4.5 * error
    assert exit_times.ornstein_uhlenbeck(d, gamma, noise, threshold) - value > 4.5 * error
    net = onepass.QuadraticNetwork(1, 1, gamma, noise, constraint="sphere")
    found = measure_exit(net, d, 300, overlap_measure(np.sqrt(threshold)), 6.0, resolution=5e-4)
    assert found.share == 1.0 and abs(found.mean - value) < 4.5 * found.error + 0.02 * value
    assert abs(found.mean - exit_times.ornstein_uhlenbeck(d, gamma, noise, threshold)) > 4.5 * found.error + 0.02 * value
