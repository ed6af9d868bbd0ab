"""Observables in the simulator: the same average in every loop that records, on CPU and GPU."""

from __future__ import annotations

import numpy as np
import pytest

from dmft.model.data import data_of
from dmft.model.runfile import Run
from dmft.model.sample_averages import register_observable
from sgd_sim.cpu.trajectory import SharedTrajectories
from sgd_sim.gpu.products import GpuProducts
from sgd_sim.landscape import make_landscape
from sgd_sim.recording import recorded_rows
from sgd_sim.states import States, empty_states
from tests.marks import with_slow
from tests.sgd_sim.test_gpu_simulator import on_cpu, on_gpu, run_of

MIXED = {"loss": "logistic", "data": "mixture", "clusters": ((1, 0.3, 1, 0.5), (-1, 0.7, -1, 1.5)), "bias": True}
CASES = {"anchored": {}, "clusters": MIXED, "flipped": {"loss": "logistic", "flip": 0.2, "momentum": 0.5, "nesterov": True}}
OBSERVED = ("wrong_again", "moment", "square")


@pytest.fixture(autouse=True)
def observables():
    register_observable("wrong_again", lambda f, y, h0: y * f < 0)
    register_observable("moment", lambda f, y, h0: f * h0 + 0.5 * y)
    register_observable("square", lambda f, y, h0: h0 * h0)


def the_run(case: str, **changes) -> Run:
    return run_of(**CASES[case], observables=OBSERVED, **changes)


def row(run: Run, states: States, name: str) -> np.ndarray:
    """(instances, times)"""
    return states.curves[:, recorded_rows(run).index(name)]


def by_hand(run: Run, states: States, instance: int) -> list[float]:
    """The observables at the end, from data and weights in double precision."""
    n = run.simulation.dimension
    index = 0 if run.simulation.landscape == "shared" else instance
    land = make_landscape(run.simulation.seed, index, n, run.problem.alpha, model=data_of(run.problem))
    x = land.data[:land.h0.size, :n].astype(float)
    f, h0, y = x @ states.w[instance] / np.sqrt(n) + states.b[instance], x @ land.w0 / np.sqrt(n), land.h0
    return [np.mean(y * f < 0), np.mean(f * h0 + 0.5 * y), np.mean(h0**2)]


@pytest.mark.parametrize("case", CASES)
def test_records_are_averages_over_the_training_set(case):
    run = the_run(case)
    states = on_cpu(run)
    for i in range(run.simulation.instances):
        found = [row(run, states, name)[i, -1] for name in OBSERVED]
        np.testing.assert_allclose(found, by_hand(run, states, i), rtol=2e-5)
    other = on_cpu(run.replace(observables=()))
    np.testing.assert_array_equal(states.curves[:, :-len(OBSERVED)], other.curves)
    np.testing.assert_array_equal(states.w, other.w)
    if case != "anchored":
        np.testing.assert_array_equal(row(run, states, "wrong_again"), row(run, states, "training_error"))
        assert np.abs(row(run, states, "square") - 1.0).max() > 0.01        # labels alone would give 1


def in_lanes(run: Run) -> States:
    states, simulation = empty_states(run), run.simulation
    land = make_landscape(simulation.seed, 0, simulation.dimension, run.problem.alpha, model=data_of(run.problem))
    stepper = SharedTrajectories(run, np.arange(simulation.instances), states, land)
    stepper.advance(run.algorithm.steps)
    stepper.post(states)
    return states


@pytest.mark.parametrize("case", ["anchored", "clusters"])
def test_many_starts_record_the_same(case):
    run = the_run(case, landscape="shared")
    states = in_lanes(run)
    for i in range(run.simulation.instances):
        found = [row(run, states, name)[i, -1] for name in OBSERVED]
        np.testing.assert_allclose(found, by_hand(run, states, i), rtol=2e-5)


@pytest.mark.gpu
@pytest.mark.parametrize("case", with_slow(CASES, "flipped"))
def test_the_gpu_records_the_same(card, case):
    run = the_run(case)
    np.testing.assert_allclose(on_gpu(run, card).curves, on_cpu(run).curves, rtol=3e-6)


@pytest.mark.gpu
def test_products_record_the_same(card):
    run = the_run("clusters", landscape="shared")
    np.testing.assert_allclose(on_gpu(run, card, kind=GpuProducts).curves, in_lanes(run).curves, rtol=3e-6)
