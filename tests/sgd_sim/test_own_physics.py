"""An update rule and a constraint as users write them (tests/own_physics.py), in every loop of the simulator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from simulator_reference import phase_dv, phase_loss, reference
from test_gpu_simulator import assert_close, on_gpu
from test_simulator_reference import drawn

import dmft
import sgd_sim
from dmft.core.errors import RunError
from dmft.core.syntax import bound
from dmft.model import experiment
from dmft.model.constraints import Sphere
from dmft.model.runfile import Run, parse_run
from sgd_sim.cpu.by_rows import make_rows
from sgd_sim.cpu.starts import start_weights
from sgd_sim.cpu.trajectory import InstanceTrajectory, SharedTrajectories
from sgd_sim.gpu.products import GpuProducts
from sgd_sim.gpu.trajectories import GpuTrajectories
from sgd_sim.landscape import make_landscape
from sgd_sim.states import States, empty_states
from tests.own_physics import Radius

ETA, STEPS, BETA = 0.02, 24, 0.5
RUN = f"""
[problem]
alpha = 3.0
m0 = 0.6
[algorithm]
kind = "persistent_sgd"
batch_fraction = 0.5
persistence = 0.1
learning_rate = {ETA}
t_max = {STEPS * ETA}
momentum = {BETA}
[simulation]
dimension = 60
instances = 2
record = "linear"
seed = 5
"""


def of_radius(run: Run, radius: float) -> Run:
    return run.replace(constraint=Radius(radius))


def on_cpu(run: Run) -> States:
    """All instances to the end on one landscape: as a batch, or each by rows."""
    states = empty_states(run)
    landscape = make_landscape(5, 0, 60, 3.0)
    steppers = [SharedTrajectories(run, np.arange(2), states, landscape)] if run.simulation.landscape == "shared" else [
        InstanceTrajectory(run, i, states, False, landscape) for i in range(2)]
    for stepper in steppers:
        stepper.advance(STEPS)
        stepper.post(states)
    return states


def expected(run: Run, constraint, **told) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """m, loss and q of the first instance by NumPy."""
    landscape = make_landscape(5, 0, 60, 3.0)
    X, w0 = landscape.data[:180, :60].astype(float), landscape.w0
    w = start_weights(run.problem, constraint, landscape, make_rows(landscape), 5, 0)
    path = reference(X, w0, w, ETA, STEPS, phase_dv, drawn(run, 180, 0)[0], 2.0, **told)
    return path @ w0 / 60, phase_loss(X, w0, path), np.sum(path**2, axis=1) / 60


def assert_curves(states: States, want, apart: bool = False) -> None:
    """Curves of the first instance are those of NumPy, or (a twin) are not."""
    m, loss, q = states.curves[0, :3]
    same = np.allclose(m, want[0], atol=2e-6) and np.allclose(loss, want[1], rtol=1e-5) and np.allclose(q, want[2], atol=2e-6)
    assert same != apart


@pytest.mark.parametrize("landscape", ["fresh", "shared"])
def test_a_rule_in_the_loops_of_the_cpu(landscape):
    run = parse_run(RUN).replace(landscape=landscape, update="two_shares")
    want = expected(run, Sphere(), beta=np.append(0.0, np.full(STEPS - 1, BETA)), nesterov=True, more=0.25)
    assert_curves(on_cpu(run), want)
    assert_curves(on_cpu(run.replace(update="nesterov")), want, apart=True)


@pytest.mark.parametrize("landscape", ["fresh", "shared"])
def test_a_constraint_with_a_parameter_in_the_loops_of_the_cpu(landscape):
    run = of_radius(parse_run(RUN).replace(landscape=landscape), 1.3)
    want = expected(run, Radius(1.3), beta=np.append(0.0, np.full(STEPS - 1, BETA)), radius=1.3)
    states = on_cpu(run)
    assert_curves(states, want)
    assert states.curves[0, 2] == pytest.approx(1.3**2, abs=1e-12)
    assert_curves(on_cpu(of_radius(run, 1.2)), want, apart=True)


@pytest.mark.gpu
@pytest.mark.parametrize("kind, landscape", [(GpuTrajectories, "fresh"), (GpuProducts, "shared")])
def test_both_on_a_card(card, kind, landscape):
    run = of_radius(parse_run(RUN).replace(landscape="shared", update="two_shares"), 1.3)
    got = on_gpu(run, card, kind=kind)
    assert_close(got, on_cpu(run.replace(landscape=landscape)), 1e-5)    # measured: 3.4e-6, as momentum adds up rounding
    assert np.abs(got.curves[0, 2] - 1.3**2).max() < 1e-12


def test_a_method_for_numba():
    """Fields are written in; what they are later does not matter."""
    assert bound(Radius(1.3).scale)(4.0) == 0.65 and np.isnan(bound(Radius(1.3).scale)(0.0))


def test_rules_that_nobody_knows():
    with pytest.raises(RunError, match='update = "two_share".*two_shares'):
        parse_run(RUN).replace(update="two_share")
    with pytest.raises(RunError, match="'nesterov' is not used with update = .heavy_ball"):
        parse_run(RUN).replace(update="heavy_ball", nesterov=True)


def worst(theory: dmft.Theory, simulation: sgd_sim.SimulationResult) -> float:
    """The largest distance of m and of the loss, in standard errors; 1e-4 for terms of order 1/N."""
    steps = np.rint(simulation.t / ETA).astype(int)
    mean, error = simulation.mean(), simulation.error()
    bars = {name: np.hypot(theory.curves[f"{name}_error"][steps], error[name]) + 1e-4 for name in ("m", "loss")}
    return max(float(np.abs((theory.curves[name][steps] - mean[name]) / bars[name]).max()) for name in bars)


@pytest.mark.long
@pytest.mark.statistical
def test_theory_and_simulation_of_a_rule():
    """Four numbers, correlated. Twin: the theory of Nesterov's momentum. Measured: 1.1 and 9.3 standard errors."""
    run = parse_run(RUN).replace(update="two_shares", dimension=400, instances=40, record=(0.2, 0.48), samples=2048, replicas=6)
    simulation = sgd_sim.simulate(run)
    found = [worst(dmft.solve(run.replace(update=name), quiet=True), simulation) for name in ("two_shares", "nesterov")]
    assert found[0] < 4 and found[1] > 8


def test_the_page_on_rules_of_ones_own():
    page = Path(__file__).parents[2] / "docs" / "extending.md"
    text = page.read_text().split("## An update rule")[1].split("\n## ")[0]
    exec(text.split("```python\n")[1].split("```")[0], {})
    run = parse_run(RUN).replace(update="dampened")
    found = experiment.Experiment.from_run(run)
    np.testing.assert_array_equal(found.eta_n, 0.5 * ETA)
    np.testing.assert_array_equal([found.update.A[1:], found.update.B[1:]], [[1 + BETA] * (STEPS - 1), [BETA] * (STEPS - 1)])


@pytest.mark.parametrize("landscape", ["fresh", "shared"])
def test_a_loss_that_divides_by_zero_diverges(landscape):
    """At labels y = 1. A C function cannot raise: the loops went on with 0 in the place of dv, and gave numbers."""
    dmft.register_loss("divided", v=lambda f, y: 0.5 * (f - y) ** 2 / (1.0 - y), dv=lambda f, y: (f - y) / (1.0 - y),
                       d2v=lambda f, y: 1.0 / (1.0 - y), labels="field")
    changes = {"loss": "divided", "labels": "sign", "kind": "gd", "momentum": 0.0, "landscape": landscape}
    with pytest.raises(RunError, match="dv is no number for labels of this run"):
        dmft.solve(parse_run(RUN).replace(**{name: value for name, value in changes.items() if name != "landscape"}))
    with pytest.warns(dmft.core.errors.ResultWarning, match="2 of 2 instances diverged, the first at t = 0;"):
        sgd_sim.simulate(parse_run(RUN).replace(**changes))
