"""A sample beyond the stability of the explicit step does not take over the response."""

from __future__ import annotations

import numpy as np

from dmft.equations.history import History
from dmft.equations.tuning import ESTIMATOR
from dmft.equations.weights import Drive
from dmft.model.experiment import Experiment
from dmft.samples.formulas import OVERSHOOT
from dmft.samples.process import Samples
from dmft.samples.sampling import Draws, Sampling
from tests.solver_cases import make_run

STEPS, ETA = 60, 0.04


def alone(h0: float, h: float) -> tuple[np.ndarray, np.ndarray]:
    """|h| and the largest |tangent| at each step of one sample left to itself: no memory, no noise, m = 0."""
    problem = Experiment.from_run(make_run({"kind": "gd"}, steps=STEPS, eta=ETA))
    history = History(STEPS)
    draws = Draws(batch_index=np.zeros(1, np.int64), noise_index=np.zeros(1, np.int64), sign=np.ones(1), k=np.full(1, h0),
                  y=np.full(1, h0), sd=np.ones(1), slope=np.ones(1), shift=np.zeros(1), stratum=np.zeros(1, np.int64),
                  jump=np.zeros(1), h=np.full(1, h), s=np.ones(1), weight=np.ones(1), carrier=np.ones(1, bool), z=np.zeros((1, 0)),
                  changes=np.zeros((1, 0), np.int64))
    samples = Samples(problem, history, draws, np.ones(1), 8, Sampling(1, 1, (0,), frozenset()))
    drive = Drive(1.0, 1.0, np.zeros(history.slots), np.zeros(history.slots), 0.0, 0.0)
    path, response = [], []
    for n in range(STEPS):
        samples.row_sums(0.0)
        samples.advance(drive, history.push(n))
        path.append(samples.state.h[0])
        response.append(np.abs(samples.tangents.row).max())
    return np.array(path), np.array(response)


def growth(path: np.ndarray, h0: float) -> float:
    """Product of |dh_{n+1}/dh_n| along a path."""
    return float(np.prod(np.abs(1 - ETA * (3 * path**2 - h0**2))))


def test_a_chaotic_sample_leaves_a_bounded_response():
    h0 = np.sqrt(1.4 / ETA)
    path, response = alone(h0, 3.0)
    assert np.abs(path).max() < 12 and (ETA * (3 * path**2 - h0**2) > OVERSHOOT).mean() > 0.3      # it stays, and overshoots often
    assert growth(path, h0) > 1e7                   # what its tangent would have grown to
    assert response.max() < 4 * ESTIMATOR.tangent_max


def test_a_sound_sample_is_not_touched():
    """Stable, after one overshoot at the start: tangents are the products of slopes."""
    path, response = alone(1.0, 4.9)
    slopes = 1 - ETA * (3 * np.append(4.9, path[:-1]) ** 2 - 1)
    assert slopes[0] < -1 and np.all(np.abs(slopes[1:]) < 1.05)
    exact = np.abs([max(abs((1 - slopes[k]) * np.prod(slopes[k + 1 : n + 1])) for k in range(n + 1)) for n in range(STEPS)])
    np.testing.assert_allclose(response, exact, rtol=1e-12)
