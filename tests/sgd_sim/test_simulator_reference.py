"""The simulator step by step against ten lines of float64 NumPy."""

from __future__ import annotations

import numba
import numpy as np
import pytest

import sgd_sim
from dmft.core import streams
from dmft.model.experiment import Experiment
from dmft.model.runfile import parse_run
from sgd_sim.cpu.by_rows import make_rows
from sgd_sim.cpu.dynamics import add_noise
from sgd_sim.cpu.starts import start_weights
from sgd_sim.kernels import minibatch
from sgd_sim.kernels.fast_normals import BLOCK, buffers
from sgd_sim.kernels.step_table import make_flags, make_table, settings_of
from sgd_sim.landscape import make_landscape
from tests.sgd_sim.simulator_reference import phase_dv, phase_loss, reference

BASE = """
[problem]
alpha = 3.0
m0 = 0.6
[algorithm]
kind = "gd"
learning_rate = 0.02
t_max = 0.8
[simulation]
dimension = 90
instances = 2
record = "linear"
seed = 5
"""

CASES = {
    "gd": {},
    "sgd bernoulli": {"kind": "sgd", "batch_fraction": 0.4},
    "sgd without replacement": {"kind": "sgd", "batch_fraction": 0.3, "minibatch": "without_replacement"},
    "sgd with replacement": {"kind": "sgd", "batch_fraction": 0.5, "minibatch": "with_replacement"},
    "persistent": {"kind": "persistent_sgd", "batch_fraction": 0.5, "persistence": 0.1},
    "persistent, not rescaled": {"kind": "persistent_sgd", "batch_fraction": 0.5, "persistence": 0.1,
                                 "rescale_gradient": False},
    "langevin, schedule": {"kind": "langevin", "temperature": [[0.0, 0.5], [0.4, 0.0]]},
    "both noises": {"kind": "persistent_sgd", "batch_fraction": 0.5, "persistence": 0.1, "temperature": 0.2},
    "ridge": {"constraint": "ridge", "ridge": 0.5},
    "ridge persistent": {"constraint": "ridge", "ridge": 0.1, "kind": "persistent_sgd", "batch_fraction": 0.5,
                         "persistence": 0.1},
    "random start": {"start": "random"},
    "linear loss": {"loss": "linear", "constraint": "ridge", "ridge": 0.2},
}


def drawn(run, samples, instance, noise=None):
    """(steps, M) mini-batches and (steps, N) normals of an instance, or of these streams."""
    streams_of = noise or [streams.key(run.simulation.seed, f"simulation/{kind}", instance) for kind in ("minibatch", "thermal")]
    batch, table = make_flags(run).batch, make_table(run, samples)
    s, path, order = np.ones(samples, np.uint8), [], minibatch.make_order(samples)
    words = minibatch.make_words(samples)
    stream, thermal = streams_of
    for step in range(run.algorithm.steps):
        now = settings_of(table, step)
        if batch in (minibatch.BERNOULLI, minibatch.PERSISTENT):
            minibatch.draw_rows(batch, s, 0, samples, stream, step, now.enter, now.switch_on, now.switch_off, words)
        elif batch != minibatch.FULL:
            minibatch.draw_fixed_size(batch, s, now.first_place, now.last_place, stream, now.order, order)
        path.append(s.copy())
    normals, scratch = np.zeros((run.algorithm.steps, run.simulation.dimension)), (np.empty(BLOCK), buffers())
    for step in range(run.algorithm.steps):
        add_noise(normals[step], 1.0, thermal, step, *scratch)
    return np.array(path), normals


def reference_curves(run, instance, landscape_index):
    """m, loss, q of the reference."""
    problem, algorithm, simulation = run.problem, run.algorithm, run.simulation
    landscape = make_landscape(simulation.seed, landscape_index, simulation.dimension, problem.alpha)
    n = simulation.dimension
    X, w0 = landscape.data[:landscape.h0.size, :n].astype(np.float64), landscape.w0
    experiment = Experiment.from_run(run)
    w = start_weights(problem, experiment.constraint, landscape, make_rows(landscape), simulation.seed, instance)
    s, normals = drawn(run, X.shape[0], instance)
    noise = np.sqrt(2.0 * experiment.temperature * algorithm.learning_rate)[:, None] * normals
    linear = problem.loss == "linear"
    path = reference(X, w0, w, algorithm.learning_rate, algorithm.steps, (lambda f, y: f - y) if linear else phase_dv, s,
                     1.0 / algorithm.batch_fraction if algorithm.rescale_gradient else 1.0,
                     problem.ridge if problem.constraint == "ridge" else None, noise)
    loss = np.mean((X @ (path - w0).T) ** 2, axis=0) / (2 * n) if linear else phase_loss(X, w0, path)
    return path @ w0 / n, loss, np.sum(path**2, axis=1) / n


def test_one_compiled_loop_serves_all_settings():
    """Code is compiled for types of arrays, writable or not among them: ten seconds more, were they not the same."""
    runs = [parse_run(BASE).replace(**CASES[case]) for case in ("gd", "persistent", "langevin, schedule", "sgd with replacement")]
    assert len({numba.typeof(make_table(run, 60)) for run in runs}) == 1


@pytest.mark.parametrize("landscape", ["fresh", "shared"])
@pytest.mark.parametrize("case", CASES)
def test_agrees_with_numpy(case, landscape):
    """Data and deviations are float32: 1.3e-7 in m and q, 4e-7 of the loss."""
    run = parse_run(BASE).replace(landscape=landscape, **CASES[case])
    result = sgd_sim.simulate(run)
    for instance in range(2):
        m, loss, q = reference_curves(run, instance, 0 if landscape == "shared" else instance)
        np.testing.assert_allclose(result.m[instance], m, atol=1e-6)
        np.testing.assert_allclose(result.loss[instance], loss, rtol=4e-6)
        np.testing.assert_allclose(result.q[instance], q, atol=1e-6)
    assert np.abs(result.m[0] - result.m[1]).max() > 1e-3


@pytest.mark.parametrize("landscape", ["fresh", "shared"])
@pytest.mark.parametrize("kind", [{}, {"kind": "persistent_sgd", "batch_fraction": 0.5, "persistence": 0.1}])
def test_small_losses_are_right(kind, landscape):
    """float32 data, but m and loss as in float64, down to a loss of 1e-12 and far below."""
    run = parse_run(BASE).replace(m0=0.8, alpha=4.0, t_max=20.0, instances=1, landscape=landscape, **kind)
    result = sgd_sim.simulate(run)
    m, loss, _ = (curve[result.states.record] for curve in reference_curves(run, 0, 0))
    assert loss[-1] < 1e-13
    seen = loss > 1e-16
    np.testing.assert_allclose(result.loss[0][seen], loss[seen], rtol=3e-6)
    np.testing.assert_allclose(result.m[0], m, atol=2e-8)
    late = loss < 1e-6
    np.testing.assert_allclose(result.m[0][late], m[late], atol=3e-12)
