"""Momentum and schedules on the linear loss: every mode of the Marchenko-Pastur law obeys a two-term recursion, exactly."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from dmft.core.parallel import Comm
from dmft.equations.kernels import Wanted
from dmft.model.experiment import Experiment
from dmft.model.runfile import parse_run
from dmft.model.updates import HeavyBall, LinearUpdate, Nesterov, Update
from dmft.samples.sampling import Sampling
from dmft.solvers.march import March
from tests.dmft.equations.test_linear_loss import spectrum
from tests.marks import with_slow
from tests.solver_cases import make_march

STEPS, ALPHA, M0, SEEDS = 60, 2.0, 0.3, 8
N = np.arange(STEPS)
DECAY, SWITCH = 0.08 / (1 + 0.05 * N), np.where(N < 31, 0.2, 0.5)


class Triple(LinearUpdate):
    """A rule as a user writes it: it looks ahead by another share than it keeps, and decays a little."""

    def coefficients(self, n, beta):
        return 1.0 + 0.2 * beta, 0.05 + 0.2 * beta, 0.5 * beta

    def cooling(self, n, beta):
        return 1.0 - 0.7 * beta


class Dampened(LinearUpdate):
    """Momentum with dampening: A and B of heavy ball, a smaller gradient."""

    def coefficients(self, n, beta):
        return 1.0 + beta, beta, 0.0

    def gain(self, n, beta):
        return 0.6


# name: eta, lambda, beta (steps,), rule, m and loss at n = 5, 20, 60 of an independent computation
CASES = {
    "plain, scheduled": (DECAY, SWITCH, 0.0 * N, HeavyBall(), (0.61319, 0.77213, 0.73905), (0.11475, 0.02295, 0.01994)),
    "heavy ball": (0.05 + 0 * N, 0.2 + 0 * N, 0.8 + 0 * N, HeavyBall(), (0.82162, 0.85903, 0.85166), (0.10100, 0.00911, 0.00569)),
    "heavy ball, scheduled": (DECAY, SWITCH, np.where(N < 31, 0.9, 0.5), HeavyBall(), None, None),
    "nesterov": (0.05 + 0 * N, 0.2 + 0 * N, 0.8 + 0 * N, Nesterov(), (0.75326, 0.85573, 0.85166), (0.05156, 0.00582, 0.00569)),
    "nesterov, growing": (0.05 + 0 * N, 0.1 + 0 * N, N / (N + 3), Nesterov(), (0.64049, 0.91741, 0.91493),
                          (0.10621, 0.00237, 0.00184)),
    "triple": (0.05 + 0 * N, 0.2 + 0 * N, np.where(N < 31, 0.9, 0.5), Triple(), None, None),
    "dampened": (0.05 + 0 * N, 0.2 + 0 * N, 0.8 + 0 * N, Dampened(), None, None),
}


# The same rules in another form: coefficients of w_n and w_{n-1}, the look-ahead, and the share of the gradient.
PLAINLY = {HeavyBall: lambda b: (1 + b, -b, 0, 1), Nesterov: lambda b: (1 + b, -b, b, 1), Dampened: lambda b: (1 + b, -b, 0, 0.6),
           Triple: lambda b: ((1 + 0.2 * b) * (1 + 0.5 * b), -(1 + 0.2 * b) * 0.5 * b - 0.05 - 0.2 * b, 0.5 * b, 1)}


def exact(eta, ridge, beta, rule):
    """m, loss (steps+1,), C and Gam (steps+1, steps+1) of the weights; Gam of the points y where gradients are taken."""
    x, rho = spectrum(ALPHA)
    share = [PLAINLY[type(rule)](b) for b in [0.0, *beta[1:], beta[-1]]]

    def path(start, push, kick=-1):
        now = before = np.full(len(x), float(start))
        found, looked = [now], [now]
        for n in range(STEPS):
            at_now, at_before, _, gain = share[n]
            force = (x + ridge[n]) * looked[-1] - x * push - (n == kick)
            before, now = now, at_now * now + at_before * before - eta[n] * gain * force
            found.append(now)
            looked.append(now + share[n + 1][2] * (now - before))
        return np.array(found), np.array(looked)

    P, U = path(1.0, 0.0)[0], path(0.0, 1.0)[0]
    signal = M0 * P + U
    Gam = np.array([path(0.0, 0.0, k)[1] @ rho for k in range(STEPS)]).T
    return {"m": signal @ rho, "C": (signal * rho) @ signal.T + (P * rho) @ P.T, "Gam": Gam,
            "loss": ((signal - 1) ** 2 + P**2) @ (x * rho) / (2 * ALPHA)}


def solutions(eta, ridge, beta, rule, seeds=SEEDS, samples=512, per_level=None):
    text = (f'[problem]\nalpha = {ALPHA}\nm0 = {M0}\nloss = "linear"\nconstraint = "ridge"\nridge = 0.2\n'
            f'[algorithm]\nkind = "gd"\nlearning_rate = 0.05\nt_max = {0.05 * STEPS}\n')
    update = Update.of(rule, beta)
    e = dataclasses.replace(Experiment.from_run(parse_run(text)), eta_n=eta * update.gain, ridge_n=ridge, update=update)
    for seed in range(seeds):
        march = March(e, Sampling(samples, seed, (0,), frozenset(("sobol",))), per_level, Wanted.plain(STEPS), Comm())
        while not march.done:
            march.step()
        yield march


@pytest.mark.long
@pytest.mark.parametrize("name", with_slow(CASES, "plain, scheduled", "heavy ball"))
def test_the_linear_loss_is_exact_under_momentum_and_schedules(name):
    *settings, m_known, loss_known = CASES[name]
    want, marches = exact(*settings), list(solutions(*settings))
    if m_known is not None:  # the oracle itself
        assert np.allclose(want["m"][[5, 20, 60]], m_known, atol=6e-6)
        assert np.allclose(want["loss"][[5, 20, 60]], loss_known, atol=6e-6)
    eta = settings[0] * Update.of(settings[3], settings[2]).gain
    for march in marches:  # the response of a linear system has no noise
        assert np.abs(march.kernels["R"][:, :-1] * eta - np.tril(want["Gam"], -1)).max() < 1e-12
    for curve in ("m", "loss"):
        found = np.array([march.curves[curve] for march in marches])[:, 1:]
        error = found.std(axis=0, ddof=1) / np.sqrt(SEEDS)
        assert np.all(np.abs(found.mean(axis=0) - want[curve][1:]) < 8 * error + 1e-9)  # Student with 7 degrees of freedom
        assert error.max() < 0.01
    if not isinstance(settings[3], Nesterov | Triple):
        C = np.array([march.kernels["C"] for march in marches])
        error = C.std(axis=0, ddof=1) / np.sqrt(SEEDS)
        assert np.all(np.abs(C.mean(axis=0) - want["C"]) < 12 * error + 1e-9)  # 1900 numbers, each beyond in 6e-6 of cases


def test_the_momentum_of_the_wrong_kind_is_seen():
    """Twin: Nesterov's rule taken for heavy ball."""
    eta, ridge, beta, *_ = CASES["nesterov"]
    march = next(iter(solutions(eta, ridge, beta, HeavyBall(), seeds=1)))
    assert np.abs(march.curves["m"] - exact(eta, ridge, beta, Nesterov())["m"]).max() > 0.05


def without_data(beta: float, nesterov: bool, eta: float, ridge: float, heat: float, q: float) -> np.ndarray:
    """q (steps+1,) of weights that heat and ridge alone move: the covariance of (w_n, w_{n-1}), step by step."""
    P, found = np.full((2, 2), q), [q]
    for n in range(STEPS):
        b = beta if n else 0.0
        shrink = 1 - eta * ridge
        A = np.array([[(1 + b) * shrink, -b * shrink] if nesterov else [b + shrink, -b], [1.0, 0.0]])
        P = A @ P @ A.T + np.diag([2 * heat * eta * (1 - b), 0.0])
        found.append(P[0, 0])
    return np.array(found)


@pytest.mark.parametrize("beta, nesterov", [(0.0, False), (0.8, False), (0.8, True)])
def test_heat_is_the_temperature_whatever_the_momentum(beta, nesterov):
    """Hardly any data: q follows the recursion, and ends at T/lambda up to O(eta) (0.59 to 1.11 of it here). Twin: noise of
    variance 2 T eta whatever the momentum would end five times as hot at beta = 0.8."""
    eta, ridge, heat = 0.2, 1.0, 0.5
    run = parse_run(f'[problem]\nalpha = 1e-12\nm0 = {M0}\nloss = "linear"\nconstraint = "ridge"\nridge = {ridge}\n'
                    f'[algorithm]\nkind = "langevin"\ntemperature = {heat}\nlearning_rate = {eta}\nt_max = {eta * STEPS}\n'
                    + (f"momentum = {beta}\nnesterov = {str(nesterov).lower()}\n" if beta else ""))
    march = make_march(run, samples=16)
    want = without_data(beta, nesterov, eta, ridge, heat, march.curves["q"][0])
    assert np.abs(march.curves["q"] - want).max() < 1e-9
    assert abs(want[-1] * ridge / heat - 1) < 0.5


def test_momentum_in_blocks():
    """A dyadic history: the step before is never in a block. Measured: 2.8e-6, 1.8e-6 and 4.6e-8."""
    for name in ("heavy ball", "nesterov", "triple"):
        settings = CASES[name][:4]
        full, blocks = (next(iter(solutions(*settings, seeds=1, per_level=level))).curves["m"] for level in (None, 16))
        assert 0 < np.abs(full - blocks).max() < 8e-6
