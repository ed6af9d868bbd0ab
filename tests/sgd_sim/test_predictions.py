"""The error on fresh samples with a user's channel (tests/own_physics.py), whose `predict` is NumPy code."""

from __future__ import annotations

import numpy as np
import pytest
from test_gpu_simulator import on_gpu

import sgd_sim
from dmft.core.errors import ResultWarning
from dmft.model.runfile import Run, parse_run
from sgd_sim.cpu.trajectory import InstanceTrajectory, SharedTrajectories
from sgd_sim.gpu.products import GpuProducts
from sgd_sim.gpu.trajectories import GpuTrajectories
from sgd_sim.landscape import make_landscape
from sgd_sim.recording import MSE_FRESH
from sgd_sim.states import States, empty_states
from tests.own_physics import Bent

N, STEPS = 50, 12
RUN = f"""
[problem]
alpha = 2.0
m0 = 0.3
loss = "linear"
labels = "bent"
label_noise = 0.1
[algorithm]
kind = "sgd"
batch_fraction = 0.5
learning_rate = 0.1
t_max = {0.1 * STEPS}
[simulation]
dimension = {N}
instances = 2
record = [0.0, 0.3, 0.4, 0.9, 1.2]
seed = 5
"""


def on_cpu(run: Run, stops: tuple[int, ...] = (STEPS,)) -> tuple[States, np.ndarray]:
    """The states at the end, with stops on the way, and the error on fresh samples of the first instance at the end by NumPy."""
    states = empty_states(run)
    landscape = make_landscape(5, 0, N, 2.0, model=InstanceTrajectory(run, 0, states, False).data)
    for stop in stops:
        steppers = [SharedTrajectories(run, np.arange(2), states, landscape)] if run.simulation.landscape == "shared" else [
            InstanceTrajectory(run, i, states, False, landscape) for i in range(2)]
        for stepper in steppers:
            stepper.advance(stop)
            stepper.post(states)
    f = landscape.test[:landscape.test_h0.size, :N] @ states.w[0] / np.sqrt(N)
    return states, np.mean((landscape.test_h0 - Bent().predict(f)) ** 2)


@pytest.mark.parametrize("landscape", ["fresh", "shared"])
def test_it_is_that_of_the_channel(landscape):
    """At the end it is known from the weights, and stops, on records and between them, change nothing."""
    run = parse_run(RUN).replace(landscape=landscape)
    states, want = on_cpu(run)
    assert states.curves[0, MSE_FRESH, -1] == pytest.approx(want, rel=1e-5)
    np.testing.assert_array_equal(on_cpu(run, (3, 4, 7, STEPS))[0].curves, states.curves)
    assert np.isfinite(states.curves[:, MSE_FRESH]).all()


@pytest.mark.statistical
def test_it_is_that_of_the_theory():
    """<(y - 0.7 f - 0.2)^2> from the moments of h0 and f, as the theory has it from m and q. Twin: f itself as the prediction."""
    result = sgd_sim.simulate(parse_run(RUN).replace(dimension=300, instances=30))
    own = 1.18 - 1.4 * result.m + 0.49 * result.q + 0.04 + 0.1
    np.testing.assert_allclose(result.mse, own, rtol=1e-9)

    def apart(closed: np.ndarray) -> float:
        difference = result.mse_fresh - closed
        return float(np.abs(difference.mean(axis=0) / (difference.std(axis=0) / np.sqrt(30))).max())

    assert apart(own) < 4.0 and apart(1.18 - 2.0 * result.m + result.q + 0.1) > 8.0


def test_an_instance_that_diverges_has_none():
    run = parse_run(RUN).replace(learning_rate=40.0, t_max=8000.0, record="linear", constraint="ridge", ridge=0.1)
    with pytest.warns(ResultWarning, match="2 of 2 instances diverged"):
        result = sgd_sim.simulate(run)
    assert result.diverged.all() and np.isfinite(result.mse_fresh[:, 0]).all()
    np.testing.assert_array_equal(np.isfinite(result.mse_fresh), np.isfinite(result.m))


@pytest.mark.gpu
@pytest.mark.parametrize("kind, landscape", [(GpuTrajectories, "fresh"), (GpuProducts, "shared")])
def test_on_a_card(card, kind, landscape):
    run = parse_run(RUN).replace(landscape="shared")
    got = on_gpu(run, card, kind=kind).curves[:, MSE_FRESH]
    np.testing.assert_allclose(got, on_cpu(run.replace(landscape=landscape))[0].curves[:, MSE_FRESH], rtol=1e-5)
