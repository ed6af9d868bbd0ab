"""Schedules, phases, momentum and epochs in the simulator: against plain NumPy, closed forms and the laws they must have."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from simulator_reference import phase_dv, phase_loss, reference
from test_simulator_reference import drawn

import sgd_sim
from dmft.model.experiment import Experiment
from dmft.model.losses import register_loss
from dmft.model.preprocessing import spectral_loss
from dmft.model.runfile import Run, parse_run
from sgd_sim.cpu.by_rows import make_rows
from sgd_sim.cpu.starts import start_weights
from sgd_sim.landscape import make_landscape
from tests.marks import with_slow

STEPS = 40
BASE = f"""
[problem]
alpha = 3.05
m0 = 0.5
[algorithm]
kind = "gd"
learning_rate = 0.02
t_max = {0.02 * STEPS}
[simulation]
dimension = 80
instances = 2
record = "linear"
seed = 5
"""
n = np.arange(STEPS)
POWER = {"kind": "power", "start": 0.02, "exponent": 1.0, "steps": 20.0}
SGD = {"kind": "sgd", "batch_fraction": 0.25}
PERSISTENT = {"kind": "persistent_sgd", "batch_fraction": ((0.0, 0.5), (0.2, 0.25), (0.5, 0.7)), "persistence": 0.1}


def linear_dv(h, h0):
    return h - h0


# changes of the run, what the reference is told, by hand
CASES = {
    "eta, T": ({"learning_rate": POWER, "kind": "langevin", "temperature": ((0.0, 0.5), (0.3, 0.0))}, {"eta": 0.02 / (1 + n / 20)}),
    "l": ({"kind": "sgd", "batch_fraction": ((0.0, 0.3), (0.2, 0.8), (0.5, 1.0))},
          {"scale": 1 / np.where(n < 10, 0.3, np.where(n < 25, 0.8, 1.0))}),
    "l without replacement": ({"kind": "sgd", "batch_fraction": ((0.0, 0.3), (0.2, 0.8)), "minibatch": "without_replacement"},
                              {"scale": 1 / np.where(n < 10, 0.3, 0.8)}),
    "jump": (PERSISTENT, {"scale": 1 / np.where(n < 10, 0.5, np.where(n < 25, 0.25, 0.7))}),
    "jump and back": ({**PERSISTENT, "batch_fraction": ((0.0, 0.5), (0.02, 0.25), (0.2, 0.5))},
                      {"scale": 1 / np.where((n < 1) | (n >= 10), 0.5, 0.25)}),
    "relax": ({**PERSISTENT, "batch_change": "relax"}, {"scale": 1 / np.where(n < 10, 0.5, np.where(n < 25, 0.25, 0.7))}),
    "ridge": ({"constraint": "ridge", "ridge": ((0.0, 1.0), (0.5, 0.2))}, {"ridge": np.where(n < 25, 1.0, 0.2)}),
    "heavy ball": ({"momentum": 0.8, "learning_rate": 0.005, "t_max": 0.2}, {"beta": np.where(n < 1, 0.0, 0.8), "eta": 0.005}),
    "heavy ball, ridge, sgd": ({"momentum": ((0.0, 0.7), (0.1, 0.3)), "constraint": "ridge", "ridge": 0.2,
                                "learning_rate": 0.005, "t_max": 0.2, **SGD},
                               {"beta": np.where(n < 1, 0.0, np.where(n < 20, 0.7, 0.3)), "ridge": 0.2, "scale": 4.0,
                                "eta": 0.005}),
    "nesterov": ({"momentum": 0.8, "nesterov": True, "learning_rate": 0.005, "t_max": 0.2},
                 {"beta": np.where(n < 1, 0.0, 0.8), "nesterov": True, "eta": 0.005}),
    "nesterov, both noises": ({"momentum": 0.6, "nesterov": True, "temperature": 0.3, "kind": "persistent_sgd",
                               "batch_fraction": 0.5, "persistence": 0.1},
                              {"beta": np.where(n < 1, 0.0, 0.6), "nesterov": True, "scale": 2.0}),
    "nesterov, epochs, ridge": ({"momentum": 0.6, "nesterov": True, "constraint": "ridge", "ridge": 0.3, **SGD,
                                 "minibatch": "reshuffled"},
                                {"beta": np.where(n < 1, 0.0, 0.6), "nesterov": True, "scale": 4.0, "ridge": 0.3}),
    "reshuffled": ({**SGD, "minibatch": "reshuffled"}, {"scale": 4.0}),
    "cyclic": ({**SGD, "minibatch": "cyclic"}, {"scale": 4.0}),
    "phases": ({"loss": "linear", "labels": "field", "constraint": "ridge", "ridge": 0.1,
                "phase": ({"step": 15, "loss": "phase_field", "learning_rate": 0.01}, {"begin": 0.4, "ridge": 0.4})},
               {"eta": np.where(n < 15, 0.02, 0.01), "ridge": np.where(n < 25, 0.1, 0.4),
                "dv": [linear_dv] * 15 + [phase_dv] * (STEPS - 15)}),
}


@pytest.fixture(scope="module", autouse=True)
def phase_field():
    """Phase retrieval that is told the field itself, so that it may follow a linear loss."""
    register_loss("phase_field", lambda f, y: 0.25 * (f * f - y * y)**2, phase_dv, lambda f, y: 3 * f * f - y * y,
                  labels="field")


def run_of(changes) -> Run:
    steps = parse_run(BASE).replace(**changes)
    end = float(steps.algorithm.clock.t[min(STEPS, steps.algorithm.steps)]) if steps.algorithm.steps > STEPS else None
    if end is None and steps.algorithm.steps < STEPS:     # smaller steps later: as much longer as it takes
        steps = parse_run(BASE).replace(**{**changes, "t_max": 10.0})
        end = float(steps.algorithm.clock.t[STEPS])
    return steps if end is None else parse_run(BASE).replace(**{**changes, "t_max": end})


def expected(run: Run, told: dict, instance: int, landscape_index: int):
    """m, loss, q of the reference."""
    problem, simulation, size = run.problem, run.simulation, run.simulation.dimension
    landscape = make_landscape(simulation.seed, landscape_index, size, problem.alpha)
    X, w0 = landscape.data[:landscape.h0.size, :size].astype(np.float64), landscape.w0
    w = start_weights(problem, Experiment.from_run(run).constraint, landscape, make_rows(landscape), simulation.seed, instance)
    s, normals = drawn(run, X.shape[0], instance)
    temperature = np.zeros(STEPS)
    if run.algorithm.temperature != 0.0:
        temperature[:] = 0.3 if run.algorithm.temperature == 0.3 else np.where(run.algorithm.clock.t[:-1] < 0.3 - 1e-9, 0.5, 0.0)
    eta, beta = told.get("eta", 0.02), told.get("beta", 0.0)
    noise = np.sqrt(2.0 * temperature * eta * (1.0 - beta))[:, None] * normals
    path = reference(X, w0, w, steps=STEPS, s=s, noise=noise, **{"eta": eta, "dv": phase_dv, **told})
    loss = phase_loss(X, w0, path)
    if "dv" in told:
        linear = np.mean((X @ (path - w0).T) ** 2, axis=0) / (2 * size)
        loss = np.where(np.arange(STEPS + 1) < 15, linear, loss)
    return path @ w0 / size, loss, np.sum(path**2, axis=1) / size


@pytest.mark.parametrize("case, landscape", with_slow(list(product(CASES, ("fresh", "shared"))), ("eta, T", "shared")))
def test_agrees_with_numpy(case, landscape):
    """Data and deviations are float32: up to 9e-7 in m and q, 7e-6 of the loss."""
    changes, told = CASES[case]
    run = run_of(changes).replace(landscape=landscape)
    assert run.algorithm.steps == STEPS
    result = sgd_sim.simulate(run)
    for instance in range(2):
        m, loss, q = expected(run, told, instance, 0 if landscape == "shared" else instance)
        np.testing.assert_allclose(result.m[instance], m, atol=2e-6)
        np.testing.assert_allclose(result.loss[instance], loss, rtol=2e-5)
        np.testing.assert_allclose(result.q[instance], q, atol=2e-6)
    wrong = {**told, "eta": told.get("eta", 0.02) * np.where(n == 7, 1.01, 1.0)}     # a twin: one step a little longer
    assert np.abs(result.m[0] - expected(run, wrong, 0, 0)[0]).max() > 2e-5


def test_constant_schedules_give_the_bits_of_numbers():
    changes = {"kind": "persistent_sgd", "batch_fraction": 0.5, "persistence": 0.1, "temperature": 0.2, "constraint": "ridge",
               "ridge": 0.3}
    for landscape in ("fresh", "shared"):
        plain = sgd_sim.simulate(parse_run(BASE).replace(landscape=landscape, **changes))
        points = {key: ((0.0, value),) for key, value in changes.items() if isinstance(value, float)}
        points |= {"momentum": ((0.0, 0.0),), "learning_rate": ((0.0, 0.02),), "landscape": landscape}
        scheduled = sgd_sim.simulate(parse_run(BASE).replace(**{**changes, **points}))
        np.testing.assert_array_equal(scheduled.states.curves, plain.states.curves)
        warmer = sgd_sim.simulate(plain.run.replace(temperature=((0.0, 0.2), (0.5, 0.21))))
        assert np.any(warmer.states.curves != plain.states.curves)


@pytest.mark.parametrize("samples", [244, 243])
@pytest.mark.parametrize("kind", ["reshuffled", "cyclic"])
def test_epochs_visit_every_sample_once(kind, samples):
    run = run_of({**SGD, "minibatch": kind, "alpha": samples / 80})
    s = drawn(run, samples, 0)[0].reshape(-1, 4, samples).astype(int)
    assert np.all(s.sum(axis=1) == 1)
    assert set(s.sum(axis=2).ravel()) <= {samples // 4, -(-samples // 4)}
    positions = s.argmax(axis=1)
    assert np.all(positions == positions[0]) == (kind == "cyclic")
    other = drawn(run.replace({"simulation.seed": 6}), samples, 0)[0].reshape(-1, 4, samples).argmax(axis=1)
    assert abs(np.mean(other == positions) - 0.25) < 5 * np.sqrt(0.19 / (samples if kind == "cyclic" else positions.size))
    if kind == "reshuffled":
        assert abs(np.mean(positions[1:] == positions[:-1]) - 0.25) < 5 * np.sqrt(0.19 / positions[1:].size)


def test_a_chain_jumps_or_relaxes():
    """Share of samples in the mini-batch when l = .5, .25, .7: at once, or by the rates alone; neither is the other."""
    samples, shares = 20000, {}
    p, l_n = [0.5], np.where(n < 10, 0.5, np.where(n < 25, 0.25, 0.7))
    for k in range(STEPS - 1):
        on = 0.02 / 0.1
        p.append(p[-1] * (1 - (1 - l_n[k]) * on / l_n[k]) + (1 - p[-1]) * on)
    for change, want in (("jump", l_n), ("relax", np.array(p))):
        s = drawn(run_of({**PERSISTENT, "batch_change": change}), samples, 0)[0]
        shares[change] = s.mean(axis=1)
        assert np.abs(shares[change] - want).max() < 4.5 * np.sqrt(0.25 / samples)
        stays = np.mean(s[1:] == s[:-1], axis=1)
        assert np.abs(stays[:9] - 0.8).max() < 4.5 * np.sqrt(0.25 / samples)
        if change == "jump":     # from l = 1/4, move and then fill: .6 * .4 + .1 + .15 * .6; afresh .25 * .7 + .75 * .3
            assert abs(stays[24] - 0.43) < 4.5 * np.sqrt(0.25 / samples)
    assert np.abs(shares["jump"] - shares["relax"]).max() > 0.1
    back = drawn(run_of(CASES["jump and back"][0]), samples, 0)[0]
    want = np.where((n < 1) | (n >= 10), 0.5, 0.25)
    assert np.abs(back.mean(axis=1) - want).max() < 4.5 * np.sqrt(0.25 / samples)


def test_epochs_of_another_length_begin_anew():
    """Halves, then quarters from step 10 on: every sample is taken once in each."""
    run = run_of({"kind": "sgd", "batch_fraction": {"kind": "steps", "points": ((0, 0.5), (10, 0.25))}, "minibatch": "reshuffled"})
    s = drawn(run, 244, 0)[0].astype(int)
    assert np.all(s[:10].reshape(5, 2, 244).sum(axis=1) == 1) and np.all(s[10:38].reshape(7, 4, 244).sum(axis=1) == 1)
    assert np.all(s[:10].sum(axis=1) == 122) and np.all(s[10:].sum(axis=1) == 61)


def marchenko_pastur(alpha: float, nodes: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of the spectrum of X^T X/N for alpha > 1: Gauss's rule for the half circle."""
    theta = np.pi * np.arange(1, nodes + 1) / (nodes + 1)
    x = 1 + alpha + 2 * np.sqrt(alpha) * np.cos(theta)
    weight = np.sin(theta) ** 2 / x
    return x, weight / weight.sum()


def linear_curves(alpha, m0, eta, ridge, beta, nesterov):
    """m and q of the linear loss with a ridge, eigenvalue by eigenvalue."""
    x, weight = marchenko_pastur(alpha)
    P = before_P = np.ones_like(x)
    U = before_U = np.zeros_like(x)
    m, q = [], []
    for k in range(len(eta) + 1):
        m.append(weight @ (m0 * P + U))
        q.append(weight @ ((m0 * P + U) ** 2 + P**2))
        if k == len(eta):
            return np.array(m), np.array(q)
        yP, yU = P + beta[k] * (P - before_P), U + beta[k] * (U - before_U)
        atP, atU = (yP, yU) if nesterov else (P, U)
        before_P, before_U = P, U
        P = yP - eta[k] * (x + ridge[k]) * atP
        U = yU - eta[k] * ((x + ridge[k]) * atU - x)


@pytest.mark.parametrize("nesterov", [False, True], ids=["heavy ball", "nesterov"])
def test_linear_loss_against_marchenko_pastur(nesterov):
    """alpha = 2, eta, lambda and beta scheduled; a beta of the wrong step fails."""
    steps, dimension = 30, 1000
    run = parse_run(BASE).replace(
        loss="linear", alpha=2.0, m0=0.3, constraint="ridge", dimension=dimension, instances=12, record="linear", nesterov=nesterov,
        learning_rate={"kind": "power", "start": 0.05, "exponent": 1.0, "steps": 20.0},
        ridge={"kind": "steps", "points": ((0, 0.2), (15, 0.5))}, momentum={"kind": "steps", "points": ((0, 0.8), (15, 0.5))})
    run = run.replace(t_max=float(np.sum(0.05 / (1 + np.arange(steps) / 20))))
    assert run.algorithm.steps == steps
    result = sgd_sim.simulate(run)
    k = np.arange(steps)
    eta, ridge, beta = 0.05 / (1 + k / 20), np.where(k < 15, 0.2, 0.5), np.where(k < 15, 0.8, 0.5)

    def worst(kept):
        m, q = linear_curves(2.0, 0.3, eta, ridge, kept, nesterov)
        error = result.error()
        return max(np.abs((result.mean().m - m) / (error.m + 1 / dimension)).max(),
                   np.abs((result.mean().q - q) / (error.q + 1 / dimension)).max())

    right = np.where(k < 1, 0.0, beta)
    assert worst(right) < 4
    assert worst(np.roll(right, 3)) > 8


def test_power_iteration_is_descent_on_the_spectral_loss():
    """w <- a (w + D w) at alpha = 3 from m0 = .2: the overlaps of the first steps are known in closed form for N to infinity.
    Another step size c would give others."""
    loss = spectral_loss("mondelli_montanari", 3.0)
    register_loss("power", loss.v, loss.dv, loss.d2v, labels="abs")
    run = parse_run(BASE).replace(loss="power", alpha=3.0, m0=0.2, learning_rate=1.0, t_max=5.0, dimension=800, instances=12)
    m, error = (getattr(sgd_sim.simulate(run), name)().m[[1, 2, 5]] for name in ("mean", "error"))
    want, other = np.array([0.395993, 0.577883, 0.776060]), np.array([0.34439, 0.47711, 0.72603])
    assert np.all(np.abs(m - want) < 4 * error + 2 / 800) and np.all(np.abs(m - other) > 2 * error + 2 / 800)


def test_momentum_keeps_the_temperature():
    """One sample in 400 dimensions leaves a free particle in the ridge: q = T/(lambda (1 - eta lambda/(2 (1 + beta)))) exactly;
    noise that is not scaled by 1 - beta would give 2.5 times as much."""
    run = parse_run(BASE).replace(loss="linear", alpha=1 / 400, m0=0.0, constraint="ridge", ridge=1.0, kind="langevin",
                                  temperature=0.5, momentum=0.6, learning_rate=0.2, t_max=60.0, dimension=400, instances=10,
                                  record=tuple(np.arange(20.0, 61.0, 4.0)))
    q = sgd_sim.simulate(run).q
    error = q.mean(axis=1).std(ddof=1) / np.sqrt(10)
    want = 0.5 / (1 - 0.2 / 3.2)
    assert abs(q.mean() - want) < 4.5 * error + 2 * want / 400 and error < 0.05 * want
