"""The simulator of networks on a GPU against that on the CPU: the same data, mini-batches and heat, so the same curves up to
rounding. Without a GPU its sources are compiled for the host and tested all the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sgd_sim
from dmft.core.errors import RunError
from dmft.model.runfile import Run
from sgd_sim.cpu.network import NetworkTrajectory
from sgd_sim.gpu.networks import GpuNetworks
from sgd_sim.recording import recorded_rows
from sgd_sim.states import States, empty_states
from tests.cards import Changed
from tests.emulate import COMPILER, HostGpu
from tests.marks import slow
from tests.network_cases import PAIR, SPHERES, UNEQUAL, network_run, observed

pytestmark = pytest.mark.gpu

SMALL = {"dimension": 60, "instances": 2, "record": [0.0, 0.2, 0.8], "t_max": 0.8}
CASES: dict[str, dict[str, Any]] = {
    "pair": {**PAIR, "alpha": 4.0},
    "unequal": {**UNEQUAL, "label_noise": 0.2, "activation": "tanh"},
    "three units": {**SPHERES, "units": 3, "m0": [[0.4, 0.1], [0.05, 0.3], [0.1, -0.2]], "kind": "sgd", "batch_fraction": 0.4,
                    "minibatch": "with_replacement", "second_layer": [0.8, -0.5, 1.1], "constraint": "frobenius", "train": 0.05,
                    "train_intercepts": 0.03, "temperature": 0.1, "momentum": 0.4},
    "nesterov": {**PAIR, "momentum": 0.5, "nesterov": True, "train": 0.05},
    "float16, several warps": {**SPHERES, "kind": "gd", "activation": "relu", "dimension": 700, "alpha": 0.3,
                               "precision": "float16"},
    "one unit": {**SPHERES, "kind": "gd", "units": 1, "m0": [[0.4, 0.1]], "activation": "smooth_relu", "label": "parity"},
}


def run_of(name: str, **more: Any) -> Run:
    return network_run({**SMALL, **CASES[name], "t_max": 0.8, **more})


def stepped(run: Run, card: Any = None, stops: tuple[int, ...] = ()) -> States:
    """All instances to the end, on a card in one batch; with a fresh batch from what was posted at every stop."""
    states = empty_states(run)
    for last in (*stops, run.algorithm.steps):
        instances = np.arange(run.simulation.instances)
        alone = [] if card else [NetworkTrajectory(run, i, states, False) for i in instances]
        for stepper in alone or [GpuNetworks(run, instances, states, card)]:
            stepper.advance(last)
            stepper.post(states)
    return states


def assert_close(got: States, want: States, rounding: float = 1e-5) -> None:
    np.testing.assert_array_equal(got.s, want.s)
    np.testing.assert_array_equal((got.step, got.diverged_at), (want.step, want.diverged_at))
    for name in ("w", "before"):
        np.testing.assert_allclose(getattr(got, name), getattr(want, name), rtol=0.0, atol=rounding, err_msg=name)
    np.testing.assert_allclose(got.curves, want.curves, rtol=rounding, atol=rounding)


@pytest.mark.parametrize("name", [slow(name) if name in ("float16, several warps", "nesterov") else name for name in CASES])
def test_networks_on_a_gpu_are_those_on_the_cpu(card, name):
    run = run_of(name)
    want = stepped(run)
    assert np.isfinite(want.curves).all() and np.abs(np.diff(want.curves[:, 0])).max() > 0.01
    assert_close(stepped(run, card), want)


@pytest.mark.parametrize("name", ["pair", slow("nesterov")])
def test_observables_are_averaged_on_the_card(card, name):
    """Twin: with the field of the second direction in place of the first."""
    with observed() as names:
        run = run_of(name, observables=names)
        want, got = stepped(run), stepped(run, card)
        assert_close(got, want)
        misfit, along, loss = (recorded_rows(run).index(name) for name in (*names, "loss"))
        np.testing.assert_allclose(got.curves[:, misfit], got.curves[:, loss], rtol=1e-6)
        broken = stepped(run, Changed(card, "kappa[i * DIRECTIONS]", "kappa[i * DIRECTIONS + 1]"))
        assert np.abs(broken.curves[:, along] - want.curves[:, along]).min() > 1e-3


def test_a_stopped_network_goes_on_to_the_last_bit(card):
    run = run_of("pair", temperature=0.1, momentum=0.3)
    whole, parts = stepped(run, card), stepped(run, card, stops=(3, 5))
    for name in ("w", "before", "s", "curves"):
        np.testing.assert_array_equal(getattr(parts, name), getattr(whole, name), err_msg=name)


def test_an_instance_that_diverges_ends_as_on_the_cpu(card):
    run = run_of("unequal", activation="square", learning_rate=2.0, t_max=20.0, record=[0.0, 2.0, 20.0])
    want, got = stepped(run), stepped(run, card)
    assert (want.diverged_at > 0).all()
    np.testing.assert_array_equal(got.diverged_at, want.diverged_at)
    np.testing.assert_array_equal(np.isnan(got.curves), np.isnan(want.curves))


RIGHT = "push = c * a * activation_ds<double>(field);"
ONE_FIELD = "push = c * a * activation_ds<double>(ROOT * sums[(lane - unit) * TEAM]);"  # every unit moves by the first one's field


@pytest.mark.skipif(COMPILER is None, reason="no C++ compiler to run CUDA sources on the host")
def test_broken_physics_is_seen():
    run = run_of("pair")
    assert np.abs(stepped(run, Changed(HostGpu(), RIGHT, ONE_FIELD)).curves - stepped(run).curves).max() > 1e-3


@pytest.mark.usefixtures("on_this_card")
def test_a_network_is_simulated_on_a_gpu():
    """Through the driver; and what is refused, in one line."""
    run = run_of("pair", t_max=0.2, record=[0.0, 0.2])
    got, want = (sgd_sim.simulate(run.replace({"simulation.device": device})) for device in ("gpu", "cpu"))
    np.testing.assert_allclose(got.C, want.C, atol=1e-6)
    np.testing.assert_allclose(got.curves["mse_fresh"], want.curves["mse_fresh"], rtol=1e-5)
    with pytest.raises(RunError, match='constraint = "orthonormal": not on a card so far; take'):
        orthonormal = network_run({**SMALL, **SPHERES, "kind": "gd", "constraint": "orthonormal"})
        sgd_sim.simulate(orthonormal.replace({"simulation.device": "gpu"}))
