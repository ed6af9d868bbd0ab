"""Mini-batches on a GPU are those of the CPU, bit for bit; without a GPU the sources are compiled for the host."""

from __future__ import annotations

import numpy as np
import pytest

from sgd_sim.gpu.trajectories import LAUNCH_STEPS, RING, GpuTrajectories
from sgd_sim.states import empty_states
from tests.cards import Changed
from tests.sgd_sim.test_gpu_simulator import PERSISTENT, SGD, run_of
from tests.sgd_sim.test_simulator_reference import drawn

pytestmark = pytest.mark.gpu

LAWS = {
    "bernoulli": SGD,
    "persistent": PERSISTENT,
    "without_replacement": {**SGD, "minibatch": "without_replacement"},
    "with_replacement": {**SGD, "minibatch": "with_replacement"},
    "reshuffled": {**SGD, "batch_fraction": 0.2, "minibatch": "reshuffled"},
    "cyclic": {**SGD, "batch_fraction": 0.2, "minibatch": "cyclic"},
}


def batches(run, card) -> np.ndarray:
    """(steps, instances, M) mini-batches of all steps."""
    stepper, path = GpuTrajectories(run, np.arange(run.simulation.instances), empty_states(run), card), []
    for first in range(0, run.algorithm.steps, LAUNCH_STEPS):
        stepper._draw_ahead(first)
        s = card.get(stepper.s)
        path += [s[step % RING] for step in range(first, min(first + LAUNCH_STEPS, run.algorithm.steps))]
    return np.array(path)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("alpha", [6.5, 40.05])
def test_mini_batches_are_those_of_the_cpu(card, law, alpha):
    run = run_of(**LAWS[law], alpha=alpha, dimension=20)
    got = batches(run, card)
    for i in range(run.simulation.instances):
        np.testing.assert_array_equal(got[:, i], drawn(run, got.shape[2], i)[0])


def test_many_rows_are_drawn_beside_the_shared_memory(card):
    run = run_of(**LAWS["reshuffled"], dimension=20)
    want = batches(run, card)
    np.testing.assert_array_equal(batches(run, Changed(card, shared_bytes=256)), want)


def test_swaps_are_followed_to_their_end(card):
    """The twin takes the first place on the way back for the last."""
    run = run_of(**LAWS["without_replacement"], dimension=20)
    want = batches(run, card)
    assert set(want.sum(axis=2, dtype=int).flat) == {round(0.4 * want.shape[2])}
    assert np.any(batches(run, Changed(card, "while (met[row])", "if (met[row])")) != want)
