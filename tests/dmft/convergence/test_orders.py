"""Distances, orders and Richardson's limit on families whose convergence is known."""

from __future__ import annotations

import numpy as np
import pytest

from dmft.convergence.fits import (
    Quantity,
    contraction,
    distances,
    order_by_distance,
    order_in_samples,
    order_in_step,
    richardson,
)

SHAPE = np.linspace(0.5, 1.5, 30)


def _family(truth: np.ndarray, noise: np.ndarray, replicas: int = 8, seed: int = 1) -> Quantity:
    """Points (k, entries) around the truth; all entries of a replica go up and down together."""
    rng = np.random.default_rng(seed)
    rows = [line + sigma * rng.standard_normal((replicas, 1)) * SHAPE for line, sigma in zip(truth, noise)]
    return Quantity(np.array([r.mean(axis=0) for r in rows]), np.array([r.std(axis=0, ddof=1) / np.sqrt(replicas) for r in rows]),
                    np.full(len(rows), replicas), rows)


def _samples_order(power: float, seed: int) -> tuple[float, float]:
    samples = np.array([250.0, 1000.0, 4000.0, 16000.0])
    quantity = _family(np.tile(SHAPE, (4, 1)), samples**-power, seed=seed)
    return order_in_samples(samples, distances(quantity, 3, False)["replica_distance"], quantity.counts)


def test_order_in_samples_is_found_within_its_error():
    """Twenty families: the order is 1/2 within its error bars, which are of the right size; a wrong law is seen."""
    found = np.array([_samples_order(0.5, seed) for seed in range(20)])
    z = (found[:, 0] - 0.5) / found[:, 1]
    assert np.abs(z).max() < 4 and 0.4 < z.std() < 1.6
    wrong = np.array([_samples_order(1.0, seed) for seed in range(20)])
    assert np.mean((wrong[:, 0] - 0.5) / wrong[:, 1]) > 3


@pytest.mark.parametrize("power", (1.0, 2.0))
def test_order_in_the_step(power):
    step = np.array([0.08, 0.04, 0.02, 0.01])
    truth = SHAPE + np.outer(step**power, 3.0 * SHAPE[::-1])
    quantity = _family(truth, np.full(4, 2e-5))
    order, error = order_in_step(step, quantity)
    assert abs(order - power) < 5 * error < 1.0
    bound = Quantity(quantity.mean, quantity.error, quantity.counts)       # without replicas: a bound on the error
    assert order_in_step(step, bound)[1] >= 0.9 * error
    assert np.isnan(order_in_step(step[:2], Quantity(quantity.mean[:2], quantity.error[:2], quantity.counts[:2]))[0])


def test_richardson_removes_the_first_order_and_knows_its_error():
    step = np.array([0.04, 0.02, 0.01])
    first = SHAPE + np.outer(step, SHAPE**2)
    limit, error = richardson(step, first, np.full(first.shape, 1e-12))
    assert limit == pytest.approx(SHAPE, abs=1e-9) and error.max() < 1e-6
    two, _ = richardson(step[1:], first[1:], np.full((2, 30), 1e-12))
    assert two == pytest.approx(2 * first[2] - first[1], abs=1e-9)
    second = first + np.outer(step**2, 5.0 * SHAPE)
    limit, error = richardson(step, second, np.full(first.shape, 1e-6))
    assert np.all(np.abs(limit - SHAPE) < 3.0 * error) and np.abs(limit - SHAPE).max() > 1e-4
    # Statistical error by propagation: 2 y(h) - y(2h) has the variance 4 s^2 + s^2.
    assert richardson(step[1:], first[1:], np.full((2, 30), 1e-3))[1] == pytest.approx(np.sqrt(5) * 1e-3, rel=1e-3)


def test_distances_in_norm_and_in_errors():
    mean = np.array([[1.0, 2.0], [1.0, 1.0]])
    error = np.array([[0.3, 0.3], [0.4, 0.4]])
    rows = distances(Quantity(mean, error, np.array([4, 4])), 1, False)
    assert rows["distance"] == pytest.approx([1 / np.sqrt(2), 0])
    assert rows["z_max"] == pytest.approx([2.0, 0]) and rows["z_rms"] == pytest.approx([np.sqrt(2.0), 0])
    assert rows["noise"] == pytest.approx([0.5, 0])
    paired = distances(Quantity(mean, error, np.array([4, 4])), 1, True)
    assert paired["z_max"][0] == pytest.approx(2.5) and paired["noise"][0] == 0
    nothing = distances(Quantity(mean, np.full((2, 2), np.nan), np.array([1, 1])), 1, False)
    assert np.isnan(nothing["z_rms"][0]) and nothing["distance"][0] > 0
    assert nothing["replica_distance"][0] == nothing["distance"][0]


def test_other_fits():
    values = np.array([2.0, 4.0, 8.0])
    order, error = order_by_distance(values, values**-2.0)
    assert order == pytest.approx(2.0) and error < 1e-6
    assert contraction(0.5 ** np.arange(20)) == pytest.approx(0.5) and np.isnan(contraction(np.ones(2)))


def test_the_distance_of_a_replica_is_free_of_the_error_of_the_finest_point():
    """Gap 1, spreads 4 * 0.3^2 and error 0.4 by hand: 1 + 0.36 * 3/4 - 0.16; with the same random numbers nothing is subtracted."""
    quantity = Quantity(np.array([[2.0], [1.0]]), np.array([[0.3], [0.4]]), np.array([4, 4]))
    for paired, expected in ((False, 1.11), (True, 1.27)):
        assert distances(quantity, 1, paired)["replica_distance"][0] == pytest.approx(np.sqrt(expected), rel=1e-12)


def test_noise_that_hides_the_order_leaves_a_dash():
    """y = 1 + step^1, with errors as large as what it moves by: no order; twin: with small ones it is 1."""
    step = np.array([0.04, 0.02, 0.01])
    mean, counts = 1.0 + step[:, None], np.full(3, 4)
    order, error = order_in_step(step, Quantity(mean, np.full((3, 1), 1e-4), counts))
    assert abs(order - 1.0) < 1e-3 and error < 0.1
    assert np.isnan(order_in_step(step, Quantity(mean, np.full((3, 1), 0.02), counts))).all()
