"""An instance depends on (seed, index) alone: not on threads, slices, neighbours, nor on how often the run was resumed."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial

import numpy as np
import pytest

import sgd_sim
from dmft.core import store
from dmft.core.driver import drive
from dmft.core.errors import Stopped
from dmft.model.runfile import parse_run
from sgd_sim.cpu.trajectory import InstanceTrajectory, SharedTrajectories
from sgd_sim.instances import Instances
from sgd_sim.landscape import make_landscape
from sgd_sim.simulation import SimulationJob
from sgd_sim.states import empty_states
from tests.small_results import StopAfter

KINDS = {
    "gd": {"kind": "gd"},
    "persistent": {},
    "without replacement, thermal": {"kind": "sgd", "batch_fraction": 0.3, "minibatch": "without_replacement",
                                     "temperature": 0.1},
    "ridge": {"constraint": "ridge", "ridge": 0.3},
    "heavy ball, epochs": {"kind": "sgd", "batch_fraction": 0.25, "minibatch": "reshuffled", "momentum": 0.5},
    "nesterov, schedule": {"momentum": 0.5, "nesterov": True, "learning_rate": ((0.0, 0.01), (0.3, 0.02))},
}


@pytest.fixture
def run(demo_text):
    return parse_run(demo_text).replace(dimension=110, instances=3, t_max=1.0)


def assert_same(a, b, instances=slice(None)):
    for name in ("m", "loss", "q", "mse", "mse_fresh"):
        np.testing.assert_array_equal(getattr(a, name)[instances], getattr(b, name)[instances])


@pytest.mark.long
@pytest.mark.parametrize("landscape", ["fresh", "shared"])
@pytest.mark.parametrize("kind", KINDS)
def test_growing_is_the_same_as_running_at_once(run, kind, landscape, tmp_path):
    """In t_max and in instances, from the file of the shorter run."""
    run = run.replace(landscape=landscape, **KINDS[kind])
    short = sgd_sim.simulate(run, tmp_path / "a.h5")
    longer = run.replace(t_max=1.7, instances=20)
    grown, whole = sgd_sim.simulate(longer, tmp_path / "a.h5", resume=True), sgd_sim.simulate(longer)
    np.testing.assert_array_equal(grown.states.curves, whole.states.curves)
    np.testing.assert_array_equal(grown.states.w, whole.states.w)
    assert_same(sgd_sim.simulate(run.replace(instances=1)), short, slice(0, 1))


@pytest.mark.long
@pytest.mark.parametrize("landscape", ["fresh", "shared"])
def test_stopping_in_the_middle_of_an_instance(run, landscape, tmp_path):
    """Again and again, less and less often, with more instances and a later end from the first checkpoint on; one step in every
    slice of work."""
    in_small_pieces = partial(Instances, slice_seconds=0.0, round_seconds=0.001)
    run = run.replace(landscape=landscape, t_max=3.0)
    shorter, reached = run.replace(t_max=2.0, instances=2), []
    while True:
        try:
            job = SimulationJob(run if reached else shorter, in_small_pieces)
            result = drive(job, tmp_path / "a.h5", resume=True, quiet=True, stop=StopAfter(3 + len(reached) // 12)).result
            break
        except Stopped:
            reached += sgd_sim.load(store.checkpoint_path(tmp_path / "a.h5")).states.step.tolist()
    assert any(0 < step < run.algorithm.steps for step in reached), reached
    np.testing.assert_array_equal(result.states.curves, sgd_sim.simulate(run).states.curves)


@pytest.mark.parametrize("kind", KINDS)
def test_slices_rows_in_threads_and_records_change_nothing(run, kind):
    run = run.replace(dimension=300, t_max=0.6, instances=1, **KINDS[kind])
    found = []
    for threads, cuts, record in ((False, [0, 30], [0, 30]), (True, [0, 1, 8, 30], [0, 30]), (False, [0, 30], range(31))):
        states = empty_states(run)
        states.record, states.curves = np.array(record), np.zeros((1, 4, len(record)))
        trajectory = InstanceTrajectory(run, 0, states, threads)
        for last in cuts[1:]:
            trajectory.advance(last)
        trajectory.post(states)
        found.append((states.w[0], states.curves[0][:, [0, -1]]))
    for w, curves in found[1:]:
        np.testing.assert_array_equal(w, found[0][0])
        np.testing.assert_array_equal(curves, found[0][1])


@pytest.mark.parametrize("width", [16, 32, 64])
def test_width_of_a_batch_of_starts_changes_nothing(run, width):
    run = run.replace(landscape="shared", instances=40, temperature=0.1)
    states, landscape = empty_states(run), make_landscape(run.simulation.seed, 0, 110, run.problem.alpha)
    for first in range(0, 40, width):
        batch = SharedTrajectories(run, np.arange(40)[first:first + width], states, landscape)
        assert batch.lanes.w.shape[1] == min(width, 16 if first == 32 else 64)
        batch.advance(run.algorithm.steps)
        batch.post(states)
    np.testing.assert_array_equal(states.curves, sgd_sim.simulate(run).states.curves)


SCRIPT = """
import sys, numpy as np
from functools import partial
from dmft.core.driver import drive
from dmft.model.runfile import parse_run
from sgd_sim.instances import Instances
from sgd_sim.simulation import SimulationJob
run = parse_run(sys.stdin.read())
jobs = [SimulationJob(run.replace(landscape=l), partial(Instances, small=0)) for l in ("fresh", "shared")]
np.save(sys.argv[1], np.stack([drive(job, None, quiet=True).result.states.curves for job in jobs]))
"""


@pytest.mark.long
def test_threads_change_nothing(run, tmp_path):
    """Three instances: two side by side, then one with its rows in two threads."""
    text = run.to_toml()
    here = [sgd_sim.simulate(run.replace(landscape=landscape)).states.curves for landscape in ("fresh", "shared")]
    environment = {**os.environ, "NUMBA_NUM_THREADS": "2"}
    subprocess.run([sys.executable, "-c", SCRIPT, str(tmp_path / "two.npy")], input=text, text=True, check=True,
                   env=environment, timeout=240)
    np.testing.assert_array_equal(np.load(tmp_path / "two.npy"), np.stack(here))


def test_instances_are_independent_of_each_other(run):
    result = sgd_sim.simulate(run)
    assert len(np.unique(result.loss[:, 0])) == 3
    starts = sgd_sim.simulate(run.replace(landscape="shared", start="random")).m[:, 0]
    assert len(np.unique(starts)) == 3
    other = sgd_sim.simulate(run.replace(seed=2))
    assert not np.any(other.loss == result.loss)
