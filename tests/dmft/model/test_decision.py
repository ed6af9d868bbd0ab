"""Which label a loss predicts is asked of the loss of the step, in theory and simulator, on CPU and GPU: three clusters, first with
the logistic loss, which predicts sign(f), then with the door, which predicts sign(f^2 - L^2)."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from dmft.model.classification import LOGISTIC, SMOOTH_HINGE, door
from dmft.model.data import data_of
from dmft.model.experiment import Experiment, known_errors
from dmft.model.losses import get_loss
from dmft.model.runfile import Run, parse_run
from sgd_sim.cpu.trajectory import InstanceTrajectory, SharedTrajectories
from sgd_sim.gpu.products import GpuProducts
from sgd_sim.gpu.trajectories import GpuTrajectories
from sgd_sim.result import make_result
from sgd_sim.states import empty_states
from tests.dmft.samples.test_gpu_march import march_of

DOOR = get_loss("door")
PHASE = 4  # the first step with the door
STEPS = 8
TEXT = f"""
[problem]
alpha = 4.0
loss = "logistic"
data = "mixture"
clusters = [[0, 0.5, -1, 0.25], [1, 0.25, 1, 0.25], [-1, 0.25, 1, 0.25]]
m0 = 0.8
[algorithm]
kind = "sgd"
batch_fraction = 0.5
learning_rate = 1e-4
t_max = {1e-4 * STEPS}
[[phase]]
step = {PHASE}
loss = "door"
[simulation]
dimension = 60
instances = 2
record = "linear"
"""


def the_run(**changes) -> Run:
    return parse_run(TEXT).replace(changes)


def wrong(f: np.ndarray, y: np.ndarray, L: float) -> np.ndarray:
    return np.sign(f**2 - L**2 if L else f) != y


@pytest.mark.parametrize("loss", [LOGISTIC, SMOOTH_HINGE, DOOR, door(0.3)], ids=lambda loss: f"{loss.name} {loss.threshold}")
def test_the_rule_of_a_loss(loss):
    f, y = (axis.ravel() for axis in np.meshgrid(np.linspace(-2.0, 2.1, 42), (-1.0, 1.0)))
    np.testing.assert_array_equal(loss.is_wrong(f, y), wrong(f, y, loss.threshold))


@pytest.mark.gpu
def test_the_theory_asks_the_loss_of_the_step(card):
    """The curve is that of the samples' own fields, on both; by the rule of the first loss it would not be."""
    experiment = Experiment.from_run(the_run())
    for gpu, get in ((None, np.array), (card, card.get)):
        march = march_of(experiment, None, np.float64, gpu, samples=64)
        by_first = []
        for n in range(STEPS + 1):
            h, k, y, sd, weight = (get(getattr(march.samples.state, name)) for name in ("h", "k", "y", "sd", "weight"))
            march.step()
            f, L = sd * (h + march.curves["m"][n] * k), DOOR.threshold if n >= PHASE else 0.0
            assert march.curves["training_error"][n] == pytest.approx(np.sum(weight * wrong(f, y, L)), abs=1e-12)
            by_first.append(np.sum(weight * wrong(f, y, 0.0)))
        assert np.all(np.abs(march.curves["training_error"] - by_first)[PHASE:] > 0.05)


def stepped(kind: str, run: Run, card=None):
    """States at the end of a run by one of the simulator's loops, and the landscape of its first instance."""
    states, both = empty_states(run), np.arange(2)
    landscape = InstanceTrajectory(run, 0, empty_states(run), False).landscape
    steppers = {"cpu": lambda: [InstanceTrajectory(run, i, states, False) for i in both],
                "shared": lambda: [SharedTrajectories(run, both, states, landscape)],
                "gpu": lambda: [GpuTrajectories(run, both, states, card)],
                "products": lambda: [GpuProducts(run, both, states, card)]}
    for stepper in steppers[kind]():
        stepper.advance(run.algorithm.steps)
        stepper.post(states)
    return states, landscape


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["cpu", "shared", "gpu", "products"])
def test_the_simulator_asks_the_loss_of_the_step(card, kind):
    """Shares of wrong labels at the end, from the weights; by the rule of the first loss they would be others."""
    run = the_run(landscape="shared") if kind in ("shared", "products") else the_run()
    states, landscape = stepped(kind, run, card)
    curves = make_result(run, states)
    for found, data, labels in ((curves.training_error, landscape.data, landscape.h0),
                                (curves.error_fresh, landscape.test, landscape.test_h0)):
        f = data[: labels.size, :60] @ states.w[0] / np.sqrt(60)
        assert found[0, -1] == pytest.approx(np.mean(wrong(f, labels, DOOR.threshold)), abs=1e-12)
        assert abs(found[0, -1] - np.mean(wrong(f, labels, 0.0))) > 0.05


def test_theory_simulator_and_closed_form_agree():
    """Weights that hardly move: the training error is that of new samples, by the rule of the phase, within 4.5 standard errors."""
    run = the_run(dimension=200, instances=6)
    data = data_of(run.problem)
    want = [float(dataclasses.replace(data, loss=loss).errors(np.array(0.8), np.array(1.0))["error"]) for loss in (LOGISTIC, DOOR)]
    assert abs(want[0] - want[1]) > 0.1
    march = march_of(Experiment.from_run(run), None, np.float64, samples=2048)
    weight = np.array(march.samples.state.weight)
    while not march.done:
        march.step()
    states = empty_states(run)
    for i in range(6):
        trajectory = InstanceTrajectory(run, i, states, False)
        trajectory.advance(STEPS)
        trajectory.post(states)
    result = make_result(run, states)
    for n, error in ((0, want[0]), (PHASE - 1, want[0]), (PHASE, want[1]), (STEPS, want[1])):
        sd = np.sqrt(error * (1.0 - error))
        assert abs(march.curves["training_error"][n] - error) < 4.5 * sd * np.sqrt(np.sum(weight**2))
        assert abs(result.training_error[:, n].mean() - error) < 4.5 * sd / np.sqrt(6 * 800)
        np.testing.assert_allclose(result.error_from_overlaps[:, n], error, atol=2e-3)
        assert known_errors(run, march.curves)["error"][n] == pytest.approx(error, abs=2e-3)
