"""M_R of several units against a response that is measured: fields of samples are shifted at one step, gradients watched."""

from __future__ import annotations

import numpy as np
import pytest

from dmft.model.activations import apply
from dmft.model.experiment import Experiment
from tests.network_cases import estimates, marched, network_run

RUN = {"units": 2, "directions": 2, "alpha": 2.0, "m0": [[0.5, 0.1], [-0.1, 0.4]], "Q0": [[1.0, 0.4], [0.4, 0.7]], "ridge": 0.1,
       "second_layer": [1.4, -0.6], "teacher_weights": [1.0, 0.7], "constraint": "none", "kind": "gd", "learning_rate": 0.25,
       "t_max": 2.0}
N, INSTANCES, SHIFT, SHIFTED, WATCHED = 1500, 24, 1e-4, (0, 3), (1, 2, 4, 8)


def _gradients(experiment, X, y, W, at: int, shift: np.ndarray) -> dict[int, np.ndarray]:
    """g (M, p) of gradient descent in plain NumPy at the watched steps; at step `at` fields are shifted by shift (M, p)."""
    network, eta, ridge, found = experiment.network, experiment.eta_0, experiment.ridge_n[0], {}
    for n in range(max(WATCHED) + 1):
        h = X @ W.T / np.sqrt(N) + (shift if n == at else 0.0)
        g = (apply(network.activation.s, h) @ network.a - y)[:, None] * network.a * apply(network.activation.ds, h)
        found[n] = g
        W = (1 - eta * ridge) * W - eta * g.T @ X / np.sqrt(N)
    return found


def _measured(experiment, instance: int) -> np.ndarray:
    """-alpha <dg_n/dP_j> (shifted, watched, p, p) of one instance: shifts have a sign for every sample, so that what others' shifts
    do to a sample averages out."""
    network, alpha, rng = experiment.network, experiment.alpha, np.random.default_rng([5, instance])
    M = round(alpha * N)
    basis = np.sqrt(N) * np.linalg.qr(rng.standard_normal((N, 4)))[0].T
    W = network.m0 @ basis[:2] + np.linalg.cholesky(network.Q0) @ basis[2:]
    X = rng.standard_normal((M, N))
    y, K_R = network.label(X @ basis[:2].T / np.sqrt(N)), np.zeros((len(SHIFTED), len(WATCHED), 2, 2))
    for i, q in np.ndindex(len(SHIFTED), 2):
        sign = rng.choice([-1.0, 1.0], M)
        up, down = (_gradients(experiment, X, y, W, SHIFTED[i], side * SHIFT * np.outer(sign, np.eye(2)[q])) for side in (1, -1))
        for j, n in enumerate(WATCHED):
            K_R[i, j, :, q] = -alpha * sign @ (up[n] - down[n]) / (2 * SHIFT * M)
    return K_R


@pytest.mark.slow
@pytest.mark.statistical
def test_the_response_is_that_of_a_simulation(capsys):
    """24 instances of N = 1500 against tangents on all samples, and against the identity with sign vectors on some, which scatters
    more: 24 replicas. The twin is the transpose, which is what T g' in place of g' T comes close to."""
    run = network_run(RUN)
    experiment = Experiment.from_run(run)
    values = np.array([_measured(experiment, i) for i in range(INSTANCES)])
    mean, bar = values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(INSTANCES)
    later, rows = np.array([[n > j for n in WATCHED] for j in SHIFTED]), np.ix_(WATCHED, SHIFTED)
    for replicas, how in ((8, {"parts": ("sobol",), "tangents": 1.0, "full_tangents": True}), (24, {"parts": ("sobol", "ibp")})):
        marches = [marched(run, 8192, i, **how) for i in range(replicas)]
        theory, error = (x[later] for x in estimates(
            marches, lambda march: experiment.eta_0 * march.kernels["M_R"][rows].swapaxes(0, 1)))
        z, turned = ((mean[later] - of) / np.hypot(bar[later], error) for of in (theory, theory.swapaxes(1, 2)))
        with capsys.disabled():
            print(f"K_R up to {np.abs(theory).max():.3f}, errors up to {bar.max():.4f} and {error.max():.4f}; {z.size} numbers, "
                  f"rms z {np.sqrt(np.mean(z**2)):.2f}, largest {np.abs(z).max():.2f}; transposed {np.abs(turned).max():.1f}")
        assert np.abs(z).max() < 4.5 and np.abs(turned).max() > 8.0
