"""Details of the one-pass processes that shift results by little: noise of the SDE, random starts, rounding of times."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from onepass.mixtures.binary_mixture import BinaryMixture
from onepass.spiked.tensor import SpikedTensor


def _linear_noise(model, dimension: int, x0: np.ndarray, t: float) -> np.ndarray:
    """Covariance (size, size) of the SDE at time t to leading order in the noise: V' = J V + V J^T + tau c(x) along the ODE."""
    size, step = x0.size, 1e-6

    def rhs(_, y):
        x, V = y[:size], y[size:].reshape(size, size)
        J = np.stack([(model.drift(x + step * e) - model.drift(x - step * e)) / (2 * step) for e in np.eye(size)], axis=-1)
        return np.concatenate([model.drift(x), (J @ V + V @ J.T + model.time_step(dimension) * model.covariance(x)).ravel()])

    end = solve_ivp(rhs, (0.0, t), np.concatenate([x0, np.zeros(size * size)]), rtol=1e-8, atol=1e-14)
    return end.y[size:, -1].reshape(size, size)


def test_the_noise_of_the_sde_is_that_of_the_middle_of_a_step():
    """Variances after two coarse steps against the linear-noise equation. The scheme is of second order, and 2 % off here; the
    covariance of the start of each step is of first order, and 14 and 24 % off."""
    model, dimension, instances = SpikedTensor(order=2, signal=1.0), 10**8, 8000
    start = {"m": np.array(2.0), "r2": np.array(2.0)}
    exact = np.diag(_linear_noise(model, dimension, model.start(start, dimension), 0.02))
    paths = model.diffuse(dimension, instances, start, [0.0, 0.02], step=0.01)
    found = np.array([paths["m"][:, -1].var(ddof=1), paths["r2"][:, -1].var(ddof=1)])
    statistical = 5 * np.sqrt(2 / instances)
    assert np.all(np.abs(found / exact - 1) < statistical)


@pytest.mark.parametrize("dimension", [2, 3, 10])
def test_the_random_start_of_a_spiked_model_has_its_degrees_of_freedom(dimension):
    """|x|^2 of x ~ N(0, I/n) is 1 on average: 1/n along v, (n - 1)/n across it."""
    start = SpikedTensor(order=3, signal=1.0).random_start(dimension, 4000)
    for name, mean, variance in (("m", 0.0, 1 / dimension), ("r2", 1 - 1 / dimension, 2 * (dimension - 1) / dimension**2)):
        assert abs(start[name].mean() - mean) < 5 * np.sqrt(variance / 4000), name
    assert np.mean(start["m"] ** 2) == pytest.approx(1 / dimension, rel=5 * np.sqrt(2 / 4000))


def test_overlaps_of_a_mixture_are_cut_to_covariances():
    """Noise can make an eigenvalue of R negative: it becomes 0, the other and everything else stays. A covariance is kept."""
    model = BinaryMixture(snr=4.0, ridge=0.1)
    angle = 0.3
    frame = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    v, m = np.array([0.3, -0.4]), np.array([[0.5], [0.6]])
    bad = model.join(v, m, frame @ np.diag([-0.2, 0.7]) @ frame.T)
    good = model.join(v, m, frame @ np.diag([0.2, 0.7]) @ frame.T)
    cut = model.retract(np.stack([bad, good]))
    np.testing.assert_allclose(cut[0], model.join(v, m, frame @ np.diag([0.0, 0.7]) @ frame.T), atol=1e-14)
    np.testing.assert_array_equal(cut[1], good)


def test_the_sde_of_a_mixture_stays_with_covariances():
    """The same in its use: paths from R near 0 in a small dimension."""
    model = BinaryMixture(snr=4.0, ridge=0.1)
    start = {"v": np.array([1.0, -1.0]), "m": np.array([0.5, -0.5]), "R": 1e-4 * np.eye(2)}
    R = model.diffuse(20, 8, start, [0.0, 0.1, 0.2], step=0.05)["R"]
    assert np.linalg.eigvalsh(R).min() > -1e-14


def test_recording_times_are_rounded_to_the_nearest_step():
    model, dimension = SpikedTensor(order=2, signal=2.0), 50
    tau = model.time_step(dimension)
    start = {"m": np.array(0.3), "r2": np.array(0.7)}
    whole = model.chain(dimension, 2, start, tau * np.arange(4))["m"]
    shifted = model.chain(dimension, 2, start, tau * np.array([0.4, 0.6, 1.7, 3.49]))["m"]
    np.testing.assert_array_equal(shifted, whole)
    assert len(np.unique(whole[0])) == 4
