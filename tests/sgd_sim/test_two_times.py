"""Two-time quantities of the simulator: against float64 NumPy, on both devices, over ranks, stops and growth."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import sgd_sim
from dmft.core.driver import drive
from dmft.core.errors import RunError, Stopped, UserError
from dmft.model.experiment import Experiment
from dmft.model.runfile import Run, parse_run
from dmft.model.two_times import simulated_steps
from sgd_sim.archive import two_times
from sgd_sim.cpu.by_rows import make_rows
from sgd_sim.cpu.starts import start_weights
from sgd_sim.cpu.two_times import make_probes
from sgd_sim.gpu.products import GpuProducts
from sgd_sim.instances import Instances
from sgd_sim.landscape import make_landscape
from sgd_sim.recording import FORCE
from sgd_sim.simulation import SimulationJob
from tests.marks import with_slow
from tests.run_files import run_text
from tests.sgd_sim import test_gpu_products, test_gpu_simulator
from tests.sgd_sim.simulator_reference import phase_dv, reference
from tests.sgd_sim.test_simulator_reference import drawn
from tests.small_results import StopAfter

PERSISTENT = {"kind": "persistent_sgd", "batch_fraction": 0.5, "persistence": 0.1}
CASES = {
    "persistent": PERSISTENT,
    "langevin": {"kind": "langevin", "temperature": 0.5},
    "linear, ridge": {"loss": "linear", "constraint": "ridge", "ridge": 0.2},
    "with replacement": {"kind": "sgd", "batch_fraction": 0.5, "minibatch": "with_replacement"},
}


def run_of(**changes) -> Run:
    """16 steps; five of them are kept, the last among them."""
    text = run_text("gd", t_max=0.32, problem={"m0": 0.6}, theory={"waiting_times": [0.0, 0.04, 0.1], "kernel_points": [0.2, 0.32]},
                    simulation={"dimension": 90, "instances": 2, "kernels": True, "record": [0.06, 0.32], "seed": 5})
    return parse_run(text).replace(changes)


def by_numpy(run: Run, instance: int, landscape_index: int, force: float = FORCE) -> dict[str, np.ndarray]:
    """C, M_C and R (recorded times, kept times) from whole paths in float64, with the same mini-batches and heat."""
    simulation, problem, experiment, n = run.simulation, run.problem, Experiment.from_run(run), run.simulation.dimension
    landscape = make_landscape(simulation.seed, landscape_index, n, problem.alpha)
    X, w0 = landscape.data[:landscape.h0.size, :n].astype(np.float64), landscape.w0
    w = start_weights(problem, experiment.constraint, landscape, make_rows(landscape), simulation.seed, instance)
    s, normals = drawn(run, len(X), instance)
    noise = np.sqrt(2.0 * experiment.temperature * run.algorithm.learning_rate)[:, None] * normals
    kept, dv = simulated_steps(run), phase_dv if problem.loss != "linear" else lambda f, y: f - y
    probes, scale = make_probes(kept.size, n).astype(np.float64), 1.0 / run.algorithm.batch_fraction

    def path(size: float) -> np.ndarray:
        moved = noise.copy()
        moved[kept[:-1]] += size * probes[:-1]     # nothing comes after the last step
        return reference(X, w0, w, run.algorithm.learning_rate, run.algorithm.steps, dv, s, scale,
                         problem.ridge if problem.constraint == "ridge" else None, moved)

    plain, pushed = path(0.0), path(force)
    g = scale * dv(X @ plain[:-1].T / np.sqrt(n), (X @ w0 / np.sqrt(n))[:, None]).T * s
    M_C = np.pad(g @ g.T / n, (0, 1), constant_values=np.nan)    # the last step has no mini-batch
    R = (pushed - plain) @ probes.T / (force * np.sum(probes**2, axis=1))
    rows = sgd_sim.recording.record_steps(run)
    later = rows[:, None] >= kept
    return {name: np.where(later, values, np.nan) for name, values in (
        ("C", (plain @ plain.T / n)[np.ix_(rows, kept)]), ("M_C", M_C[np.ix_(rows, kept)]),
        ("R", np.where(rows[:, None] > kept, R[rows], 0.0)))}


@pytest.mark.parametrize("landscape", ["fresh", "shared"])
@pytest.mark.parametrize("case", CASES)
def test_agrees_with_numpy(case, landscape):
    """Up to the rounding of fields, for R over the force; the force is small enough for a derivative."""
    run = run_of(landscape=landscape, **CASES[case])
    columns = sgd_sim.simulate(run).columns
    for instance in range(2):
        want = by_numpy(run, instance, 0 if landscape == "shared" else instance)
        np.testing.assert_allclose(columns.C[instance], want["C"], atol=1e-6)
        np.testing.assert_allclose(columns.M_C[instance], want["M_C"], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(columns.R[instance], want["R"], atol=5e-5)
    derivative = by_numpy(run, 1, 0 if landscape == "shared" else 1, force=1e-6)["R"]
    np.testing.assert_allclose(columns.R[1], derivative, atol=5e-4)
    assert np.nanmax(np.abs(columns.M_C[0] - columns.M_C[1])) > 1e-2
    if run.problem.loss != "linear" or landscape == "fresh":    # a linear response is that of the data alone
        assert np.nanmax(np.abs(columns.R[0] - columns.R[1])) > 1e-2


def test_probes_are_orthogonal():
    probes = make_probes(5, 90)
    np.testing.assert_array_equal(probes @ probes.T, 88.0 * np.eye(5))
    assert make_probes(0, 7).shape == (0, 7)


ON_CARDS = {"persistent": PERSISTENT, "clusters": {**test_gpu_simulator.TWO, "bias": True, "kind": "sgd", "batch_fraction": 0.4},
            "heavy ball": {"momentum": 0.7, **PERSISTENT}, "products": {"landscape": "shared", **PERSISTENT}}


@pytest.mark.gpu
@pytest.mark.parametrize("case", with_slow(ON_CARDS, "clusters", "heavy ball"))
def test_the_gpu_does_what_the_cpu_does(card, case):
    run = test_gpu_simulator.run_of(kernels=True, **ON_CARDS[case])
    lines = np.arange(2 * run.simulation.instances)
    if case == "products":
        got, want = test_gpu_simulator.on_gpu(run, card, instances=lines, kind=GpuProducts), test_gpu_products.on_cpu(run)
    else:
        got, want = test_gpu_simulator.on_gpu(run, card, stops=(3,), instances=lines), test_gpu_simulator.on_cpu(run)
    test_gpu_simulator.assert_close(got, want)
    for name, column in two_times(run, want)["columns"].items():
        np.testing.assert_allclose(two_times(run, got)["columns"][name], column, rtol=1e-5, atol=2e-3 if name == "R" else 1e-5)


def test_instances_are_what_they_are_without():
    run = run_of(**PERSISTENT)
    with_pairs, plain = (sgd_sim.simulate(each) for each in (run, run.replace(kernels=False, record="linear")))
    at = np.searchsorted(plain.t, with_pairs.t - 1e-9)
    np.testing.assert_array_equal(with_pairs.m, plain.m[:, at])
    assert plain.kernels is None and plain.states.step.size == 2 and with_pairs.states.step.size == 4


def test_stops_growth_and_files_change_nothing(tmp_path):
    """Columns and kernels of a run in pieces, and of one with more instances, are those of a run in one go."""
    run, whole = run_of(dimension=100, t_max=12.0, instances=3, **PERSISTENT), tmp_path / "whole.h5"
    sgd_sim.simulate(run, output=whole)
    parts, smaller = tmp_path / "parts.h5", run.replace(instances=2)
    in_small_pieces = partial(Instances, slice_seconds=0.0, round_seconds=0.001)     # one step in every slice of work
    with pytest.raises(Stopped):
        drive(SimulationJob(smaller, in_small_pieces), parts, quiet=True, stop=StopAfter(1))
    for each in (smaller, run):
        sgd_sim.simulate(each, output=parts, resume=True)
    one, other = sgd_sim.load(whole), sgd_sim.load(parts)
    for name in ("C", "M_C", "R"):
        np.testing.assert_array_equal(getattr(one.columns, name), getattr(other.columns, name))
        np.testing.assert_array_equal(getattr(one.kernels, name), getattr(other.kernels, name))
    assert np.isfinite(one.kernels.R).all() and one.instances == 3
    with pytest.raises(RunError, match=r"t_max: 12.0 -> 13.0"):
        sgd_sim.simulate(run.replace(t_max=13.0), output=whole, resume=True)
    with pytest.raises(RunError, match="waiting_times"):
        sgd_sim.simulate(run.replace(waiting_times=[0.0]), output=whole, resume=True)


def test_a_push_in_every_direction_needs_dimensions():
    with pytest.raises(UserError, match=r"kernels = true: .* waiting times need a dimension of at least"):
        sgd_sim.simulate(run_of(dimension=4, waiting_times=[0.0, 0.02, 0.04, 0.06, 0.08]))


def test_force_is_a_power_of_two():
    """So that files give back the very numbers that a longer run continues with."""
    assert np.frexp(FORCE)[0] == 0.5
