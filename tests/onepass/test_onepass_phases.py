"""Phases of wide quadratic networks: closed forms against the ODE."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import onepass
from onepass.networks import phases
from tests.onepass import phase_formulas


def solve(p, k, eta, start, t, **options):
    """Along t = eta alpha."""
    net = onepass.QuadraticNetwork.from_bocchi(p, k, eta)
    return net.solve(start, 2.0 * np.asarray(t) / p, **options)


def test_plateau_norm_at_finite_learning_rate_is_a_fixed_point():
    for eta in (0.0, 0.1, 0.3):
        p, k = 4, 2
        q = phase_formulas.plateau_norm(p, k, eta)
        net = onepass.QuadraticNetwork.from_bocchi(p, k, max(eta, 1e-12))
        drift = net.layout.unpack(net.drift(net.start({"M": np.zeros((p, k)), "Q": q * np.eye(p)})))
        assert_allclose(drift["Q"], 0.0, atol=1e-9)
    with pytest.raises(ValueError, match="diverge"):
        phase_formulas.plateau_norm(4, 2, 3.0)


def test_plateau_rates_have_the_right_signs():
    p, k, small = 4, 2, 1e-6
    net = onepass.QuadraticNetwork.from_bocchi(p, k, 1e-12)
    q = phase_formulas.plateau_norm(p, k) * np.eye(p)
    q[0, 1] = q[1, 0] = small
    m = np.full((p, k), small)
    d = net.layout.unpack(net.drift(net.start({"M": m, "Q": q})))
    rates = phase_formulas.plateau_rates(p, k)
    per_t = 2.0 / p  # t_A = 2 t/p
    assert_allclose(d["M"][2, 0] / small * per_t, rates.rho, rtol=1e-10)
    assert_allclose(d["Q"][0, 1] / small * per_t, rates.q, rtol=2e-5)  # terms of second order in the overlaps: 6e-6
    assert rates.q < 0  # printed positive


def test_norm_learning_law():
    p, k = 5, 2
    rho0 = 1e-6 * np.arange(1.0, 11.0).reshape(p, k)
    t = np.array([0.5, 1.0, 3.0])
    path = solve(p, k, 1e-9, {"M": rho0, "Q": np.eye(p)}, t, rtol=1e-10, atol=1e-16)
    q, rho = phase_formulas.norm_learning(t, p, k, rho0)
    assert_allclose(path.Q[:, 0, 0], q, rtol=1e-7)
    assert_allclose(path.M, rho, rtol=1e-7)


def test_loss_reduction_from_the_plateau_and_from_unit_norms():
    p, k, eps = 6, 3, 1e-4
    t = 6.0
    falls = []
    for i in range(25):
        start = phases.random_orthogonal_start(p, k, eps, 1, i)
        path = solve(p, k, 1e-9, start, [t], rtol=1e-9, atol=1e-16)
        falls.append(1 - 2 * path.risk[0] / phases.plateau_risk(p, k))
    falls = np.array(falls)
    expected = phase_formulas.loss_reduction(t / p, eps, p, k, from_unit_norms=True)
    # the norms still relax: compare the growth between two plateau times with the same starts
    error = falls.std() / np.sqrt(len(falls))
    relax = 1 - 2 * solve(p, k, 1e-9, {"M": np.full((p, k), 1e-12), "Q": np.eye(p)}, [t]).risk[0] / phases.plateau_risk(
        p, k
    )
    assert abs(falls.mean() - relax - expected) < 4.5 * error + 1e-3 * expected


@pytest.mark.long
def test_loss_reduction_counted_from_the_plateau():
    """(13) as the paper counts it: norms on the plateau, overlaps N(0, eps^2) there; growth as exp(16 t/p*)."""
    p, k, eps, t = 6, 3, 1e-4, 6.0
    falls = []
    for i in range(150):
        start = phases.random_orthogonal_start(p, k, eps, 3, i)
        start["Q"] = p / (p + 2.0) * np.eye(p)
        falls.append(1 - 2 * solve(p, k, 1e-9, start, [t], rtol=1e-7, atol=1e-14).risk[0] / phases.plateau_risk(p, k))
    falls, expected = np.array(falls), phase_formulas.loss_reduction(t / p, eps, p, k)
    error = falls.std() / np.sqrt(len(falls))
    assert abs(falls.mean() - expected) < 4.5 * error + 1e-3 * expected
    from_unit_norms = phase_formulas.loss_reduction(t / p, eps, p, k, from_unit_norms=True)
    assert abs(falls.mean() - from_unit_norms) > 5 * error


@pytest.mark.parametrize("eta", [1e-3, 0.2])
def test_s_is_conserved_from_orthonormal_students_and_selects_the_solution(eta):
    p, k = 6, 3
    start = phases.random_orthogonal_start(p, k, 0.05, 2)
    path = solve(p, k, eta, start, [0.0, 3.0, 10.0, 200.0], rtol=1e-11, atol=1e-13)
    s = phases.polar(path.M)
    assert np.abs(s - s[0]).max() < 1e-8
    rho, q = phases.selected_solution(start["M"])
    assert np.abs(path.M[-1] - rho).max() < 0.05  # the approach is slow, as 1/t
    assert np.abs(path.M[-1] - rho).max() < 0.2 * np.abs(path.M[1] - rho).max()
    assert_allclose(q, rho @ rho.T)


def test_s_is_not_conserved_from_other_norms_and_the_selected_solution_is_the_corrected_one():
    p, k, eps = 6, 3, 1e-4
    m = phases.random_orthogonal_start(p, k, eps, 3)["M"]
    q0 = np.diag(np.linspace(0.3, 2.0, p))
    path = solve(p, k, 1e-6, {"M": m, "Q": q0}, [400.0], rtol=1e-10, atol=1e-14)
    end = phases.polar(path.M[-1])
    right = phases.polar(phases.selected_solution(m, q0)[0])
    wrong = phases.polar(m)
    assert np.abs(end - right).max() < 5e-3
    assert np.abs(end - wrong).max() > 0.05


def test_risk_ends_as_inverse_square_of_time_for_wider_students():
    p, k = 4, 2
    start = phases.random_orthogonal_start(p, k, 0.3, 4)
    for eta in (1e-9, 0.1):
        t = np.array([2000.0, 4000.0])
        path = solve(p, k, eta, start, t, rtol=1e-10, atol=1e-14, method="LSODA")
        constant = phase_formulas.decay_constant(p, k, eta)
        assert_allclose(2 * path.risk * t**2, constant, rtol=0.005)  # corrections O(1/t): 0.2 % here


def test_risk_ends_exponentially_for_equal_widths():
    p = k = 3
    start = phases.random_orthogonal_start(p, k, 0.3, 5)
    t = np.array([10.0, 13.0])
    path = solve(p, k, 1e-9, start, t, rtol=1e-11, atol=1e-15)
    assert_allclose(np.diff(np.log(path.risk)) / 3.0, -16.0 / (p * k), rtol=0.003)  # faster modes have decayed to 0.14 %
    with pytest.raises(ValueError, match="exponentially"):
        phase_formulas.decay_constant(p, k)


def test_learning_rate_scan_finds_an_interior_best_value():
    limit = phases.stability_limit(2, 2)
    assert_allclose(limit, 2 * 2 / 16)
    with pytest.warns(UserWarning, match="stability limit"):
        scan = phases.scan_learning_rate(2, 2, np.array([0.1, 0.5, 1.6]) * limit, starts=2)
    assert 0.1 * limit < scan.best < 1.6 * limit
