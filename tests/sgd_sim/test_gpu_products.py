"""Many starts on one landscape on a GPU, by matrix products, against the CPU and against passes over rows. Without a GPU the same
sources are compiled for the host; tensor cores are only tested where there are any."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from dmft.model.experiment import Experiment
from dmft.model.runfile import Run
from sgd_sim.cpu.trajectory import SharedTrajectories
from sgd_sim.gpu.layout import PRODUCT_TILE
from sgd_sim.gpu.products import MANY, GpuProducts, make_trajectories
from sgd_sim.gpu.trajectories import ALL, GpuTrajectories
from sgd_sim.landscape import make_landscape
from sgd_sim.states import States, empty_states
from tests.cards import Changed
from tests.marks import with_slow
from tests.sgd_sim.test_gpu_simulator import DOOR, PERSISTENT, SGD, TWO, assert_close, on_gpu, run_of

pytestmark = pytest.mark.gpu

CASES = {
    "gd": {"temperature": 0.3, "kind": "langevin"},
    "bernoulli": SGD,
    "without_replacement": {**SGD, "minibatch": "without_replacement"},
    "with_replacement, door": {**DOOR, **SGD, "minibatch": "with_replacement"},
    "reshuffled": {**SGD, "batch_fraction": 0.2, "minibatch": "reshuffled", "precision": "float16"},
    "persistent": PERSISTENT,
    "persistent in float16": {**PERSISTENT, "precision": "float16"},
    "intercept": {**TWO, "bias": True, "constraint": "ridge", "ridge": 0.3, **PERSISTENT},
    "nesterov": {"momentum": 0.7, "nesterov": True, **PERSISTENT},
    "wide": {"dimension": 1030, "alpha": 0.1, "t_max": 0.06, "record": [0.04]},
    "wide in float16": {"dimension": 1030, "alpha": 0.1, "t_max": 0.06, "record": [0.04], "precision": "float16"},
    "phases": {**TWO, "bias": True, "phase": ({"step": 3, "loss": "smooth_hinge"}, {"step": 9, "loss": "logistic"})},
}


def shared_run(**changes) -> Run:
    return run_of(landscape="shared", **changes)


by_products = partial(on_gpu, kind=GpuProducts)


def on_cpu(run: Run) -> States:
    simulation, states = run.simulation, empty_states(run)
    landscape = make_landscape(simulation.seed, 0, simulation.dimension, run.problem.alpha, False, simulation.precision,
                               Experiment.from_run(run).data)
    stepper = SharedTrajectories(run, np.arange(states.step.size), states, landscape)
    stepper.advance(run.algorithm.steps)
    stepper.post(states)
    return states


@pytest.mark.parametrize("case", with_slow(CASES, "bernoulli", "persistent", "wide"))
def test_products_do_what_the_cpu_does(card, case):
    run = shared_run(**CASES[case])
    assert_close(by_products(run, card), on_cpu(run))


def test_spectral_start(card):
    run = shared_run(start="spectral", t_max=0.02, record=[0.02])
    assert_close(by_products(run, card), on_gpu(run, card), 1e-5)


def test_a_start_depends_on_itself_alone(card):
    """The same bits alone, in a batch of more than a tile, and after a stop."""
    run = shared_run(**PERSISTENT, alpha=1.0, instances=PRODUCT_TILE + 2)
    states, last = by_products(run, card), PRODUCT_TILE + 1
    for other in (by_products(run, card, stops=(2, 3)), by_products(run, card, instances=[last])):
        for name in ("w", "s", "curves"):
            np.testing.assert_array_equal(getattr(other, name)[last], getattr(states, name)[last])
    assert np.any(states.w[last] != states.w[0])     # another start has other numbers


def fields_of(run: Run, card) -> tuple[np.ndarray, np.ndarray]:
    """Fields at the start, and the same from the data on the card in float64."""
    stepper = GpuProducts(run, np.arange(run.simulation.instances), empty_states(run), card)
    stepper._pass(ALL, 0, stepper.data, stepper.sign, stepper.live)
    data, h0, *_, fields = (card.get(each) for each in stepper.data)
    e, sign, n = card.get(stepper.e), card.get(stepper.sign), run.simulation.dimension
    return card.get(fields), sign[:, None] * h0 + e[:, :n].astype(float) @ data[0, :, :n].T.astype(float) / np.sqrt(n)


@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_products_have_all_digits(card, precision):
    """Sums of 600 products to within float32's rounding: 3.2e-7 on an H200, 1.7e-7 on the host. Without the low parts of the
    numbers tensor cores lose two digits more."""
    run = shared_run(dimension=600, alpha=0.5, precision=precision, t_max=0.02, record=[0.02])
    got, want = fields_of(run, card)
    assert np.sqrt(np.mean((got - want) ** 2)) < 5e-7
    if card.name == "emulated":
        return
    got, want = fields_of(run, Changed(card, "x - __uint_as_float(high)", "0.0f * x"))
    assert np.sqrt(np.mean((got - want) ** 2)) > 3e-5


def test_many_starts_of_a_run_take_products(card):
    for changes, kind in (({"landscape": "shared"}, GpuProducts), ({"landscape": "shared", "instances": MANY - 1}, GpuTrajectories),
                          ({}, GpuTrajectories)):
        run = run_of(**{"instances": MANY, **changes}, dimension=20)
        assert type(make_trajectories(run, np.arange(2), empty_states(run), card)) is kind


def test_divergence_ends_one_start(card):
    run = shared_run(learning_rate=1.2, t_max=14.4, record=[0.0, 1.2, 6.0, 14.4], alpha=1.0, constraint="ridge", ridge=0.1,
                     instances=4, **{**PERSISTENT, "persistence": 1.2})
    want, got = on_gpu(run, card), by_products(run, card)
    assert np.any(want.diverged_at > 0)
    for name in ("diverged_at", "step", "s"):
        np.testing.assert_array_equal(getattr(got, name), getattr(want, name))
    np.testing.assert_array_equal(np.isnan(got.curves), np.isnan(want.curves))
