"""Cases in which two different settings must give the same digits, or a known value."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import sgd_sim
from dmft.equations.history import History, Plan
from dmft.equations.weights import Drive
from dmft.model.experiment import Experiment
from dmft.samples.process import SCALARS, Samples
from dmft.samples.sampling import Sampling, draw
from tests.solver_cases import ALGORITHMS, CONSTRAINTS, make_march, make_run


def same(a, b):
    for name in a.curves:
        assert_array_equal(a.curves[name], b.curves[name], err_msg=name)
    for name in a.kernels:
        assert_array_equal(a.kernels[name], b.kernels[name], err_msg=name)


@pytest.mark.parametrize("algorithm", [
    {"kind": "sgd", "batch_fraction": 1.0},
    {"kind": "sgd", "batch_fraction": 1.0, "minibatch": "without_replacement"},
    {"kind": "persistent_sgd", "batch_fraction": 1.0, "persistence": 0.5},
    {"kind": "langevin", "temperature": 0.0},
])
def test_full_batch_and_no_heat_are_gradient_descent(algorithm):
    same(make_march(make_run(algorithm)), make_march(make_run({"kind": "gd"})))


def test_with_replacement_is_not_gradient_descent_at_full_batch():
    poisson = make_march(make_run({"kind": "sgd", "batch_fraction": 1.0, "minibatch": "with_replacement"}))
    assert np.abs(poisson.curves["m"] - make_march(make_run({"kind": "gd"})).curves["m"]).max() > 1e-3


def test_shortest_persistence_is_bernoulli():
    eta, fraction = 0.02, 0.4
    persistent = {"kind": "persistent_sgd", "batch_fraction": fraction, "persistence": eta / fraction}
    same(make_march(make_run(persistent)), make_march(make_run({"kind": "sgd", "batch_fraction": fraction})))


def test_mini_batches_of_fixed_size_have_the_limit_of_bernoulli():
    """Two samples drawn without replacement are correlated by -1/(M - 1), which vanishes in the limit: theory takes them as
    independent. The simulator, which draws them in its own way, must agree with that and not with the law of repeated draws."""
    run = make_run({"kind": "sgd", "batch_fraction": 0.3}, {"m0": 0.5, "loss": "linear", "constraint": "ridge", "ridge": 0.0},
                   steps=20, eta=0.15).replace(dimension=300, instances=40, record="linear")
    ends = np.array([make_march(run.replace(minibatch="without_replacement"), 2000, seed=seed, tangents=1.0).curves["loss"][-1]
                     for seed in range(1, 5)])

    def z(minibatch):
        simulated = sgd_sim.simulate(run.replace(minibatch=minibatch))
        return abs(ends.mean() - simulated.mean().loss[-1]) / np.hypot(simulated.error().loss[-1], ends.std(ddof=1) / 2)

    # Measured 0.1, 0.7 and 8.7.
    assert z("bernoulli") < 4 and z("without_replacement") < 4 < z("with_replacement")


def test_a_longer_run_keeps_the_shorter_one():
    short, long = make_march(make_run(ALGORITHMS["persistent"], steps=6)), make_march(make_run(ALGORITHMS["persistent"], steps=25))
    for name in short.curves:
        assert_array_equal(short.curves[name][:6], long.curves[name][:6], err_msg=name)


@pytest.mark.parametrize("constraint", CONSTRAINTS)
def test_shapes_of_the_kernels(constraint):
    march = make_march(make_run(ALGORITHMS["persistent"], CONSTRAINTS[constraint]))
    k, n = march.kernels, march.experiment.steps
    assert_array_equal(k["M_C"], k["M_C"].T)
    assert np.linalg.eigvalsh(k["M_C"]).min() > -1e-12 * k["M_C"].max()
    for name in ("M_R", "R"):
        assert_array_equal(k[name], np.tril(k[name], -1))
        assert np.all(np.diag(k[name], -1) != 0)
    if constraint == "sphere":
        assert_allclose(np.diag(k["C"]), 1, rtol=0, atol=1e-12)
        a = 1 / (1 + march.experiment.eta_0 * march.curves["nu_hat"][:n])
        assert_allclose(np.diag(k["R"], -1), a, rtol=1e-12)              # R(n+1, n) = a_n
    else:
        assert_allclose(np.diag(k["C"])[0], 1 + march.experiment.m0**2, rtol=1e-14)
        assert_allclose(np.diag(k["R"], -1), 1, rtol=1e-12)


def test_sign_of_the_fields_does_not_matter():
    """(h, h0, noise) -> -(h, h0, noise) leaves every sum as it is, to the last bit."""
    problem = Experiment.from_run(make_run(ALGORITHMS["persistent and hot"]))
    sampling = Sampling(64, 1, (0,), frozenset({"sobol", "stein"}))
    draws = draw(problem, sampling, np.arange(64))
    mirrored = draws._replace(k=-draws.k, y=-draws.y, h=-draws.h, z=-draws.z, sign=-draws.sign)
    sums = []
    for start in (draws, mirrored):
        history = History(problem.steps)
        samples = Samples(problem, history, start, np.full(64, 1 / 64), 8, sampling)
        slots = history.slots
        rng = np.random.default_rng(0)
        for n in range(12):
            line = samples.row_sums(0.3)
            memory, weights = np.zeros(slots), np.zeros(slots)
            memory[:n], weights[:n] = 0.1 * rng.standard_normal(n), 0.3 * rng.standard_normal(n)
            samples.advance(Drive(0.98, 0.9, memory, weights, 0.5, 0.1), Plan(np.zeros((0, 3), np.int64), n, 0))
        sums.append(line.copy())
    assert_array_equal(sums[0], sums[1])


def test_tangents_are_derivatives():
    """T_{nk} and the response to the label against differences of paths with the kernels held fixed."""
    problem = Experiment.from_run(make_run(ALGORITHMS["persistent and hot"]))
    sampling = Sampling(16, 3, (0,), frozenset({"stein"}))
    start, n_end, k, step = draw(problem, sampling, np.arange(16)), 9, 4, 1e-6
    rng = np.random.default_rng(1)
    kernels = [(0.3 * rng.standard_normal(n), 0.3 * rng.standard_normal(n)) for n in range(n_end)]

    def path(shift: float = 0.0, shift_label: float = 0.0) -> Samples:
        history = History(problem.steps)
        draws = start._replace(y=start.y + shift_label)
        samples = Samples(problem, history, draws, np.full(16, 1 / 16), 8, sampling)
        for n, (memory, weights) in enumerate(kernels):
            kept = samples.state.h.copy()
            samples.state.h[:] += shift * (n == k)          # enters g alone: the perturbation P_k
            samples.row_sums(0.3)
            samples.state.h[:] = kept
            full = [np.zeros(history.slots) for _ in range(2)]
            full[0][:n], full[1][:n] = memory, weights
            samples.advance(Drive(0.98, 0.9, full[0], full[1], 0.5, 0.1), Plan(np.zeros((0, 3), np.int64), n, 0))
        return samples

    base = path()
    response = (path(step).state.h - path(-step).state.h) / (2 * step)
    assert np.abs(response).max() > 1e-3
    assert_allclose(base.tangents.row[:, k], response, rtol=1e-6, atol=1e-9)
    stein = (path(0, step).state.h - path(0, -step).state.h) / (2 * step)
    assert_allclose(base.state.Y, stein, rtol=1e-6, atol=1e-9)


def test_zero_overlap_stays_zero():
    march = make_march(make_run(ALGORITHMS["persistent"], {"m0": 0.0}), samples=64)
    assert march.experiment.mirrored
    assert_array_equal(march.curves["m"], 0)
    assert_array_equal(march.samples.state.h[::2], -march.samples.state.h[1::2])
    sums = march.samples.row_sums(0.0)
    assert np.all(sums[:, 1] == 0) and sums.shape[1] > SCALARS            # <g h0>: pairs cancel
