"""Schedules, momentum, epochs and phases in the theory: march and iteration against the plain statement of the equations, with
the same random numbers; twins with the wrong eta or the wrong mini-batches are seen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dmft.equations.weights import WeightDynamics
from dmft.model.experiment import Experiment
from dmft.model.minibatches import Batches, Bernoulli
from dmft.model.runfile import Run, parse_run
from tests.dmft.equations.test_reference import PLAIN, SAMPLES, assert_same, solved
from tests.solver_cases import make_iteration, make_march

SPHERE, RIDGE = "", 'constraint = "ridge"\nridge = [[0.0, 0.5], [0.1, 0.1]]'
PERSISTENT = ('kind = "persistent_sgd"\nbatch_fraction = [[0.0, 0.5], [0.08, 0.25], [0.16, 0.7]]\n'
              "persistence = [[0.0, 0.5], [0.1, 1.0]]")
RATES = "learning_rate = [[0.0, 0.02], [0.1, 0.01]]"
SETTINGS = {
    "scheduled langevin": (SPHERE, f'kind = "langevin"\n{RATES}\ntemperature = [[0.0, 0.5], [0.12, 0.0]]', ""),
    "scheduled persistent": (SPHERE, f"{PERSISTENT}\n{RATES}", ""),
    "scheduled persistent, relaxing": (SPHERE, f'{PERSISTENT}\n{RATES}\nbatch_change = "relax"', ""),
    "scheduled ridge": (RIDGE, f"{PERSISTENT}\n{RATES}", ""),
    "scheduled bernoulli": (SPHERE, 'kind = "sgd"\nbatch_fraction = [[0.0, 0.3], [0.1, 1.0]]\nlearning_rate = 0.015', ""),
    "heavy ball": (SPHERE, f'kind = "sgd"\nbatch_fraction = 0.5\n{RATES}\nmomentum = [[0.0, 0.8], [0.1, 0.4]]\ntemperature = 0.1',
                   ""),
    "heavy ball, ridge": (RIDGE, f'kind = "sgd"\nbatch_fraction = 0.5\n{RATES}\nmomentum = 0.7', ""),
    "reshuffled": (SPHERE, 'kind = "sgd"\nbatch_fraction = 0.25\nminibatch = "reshuffled"\nlearning_rate = 0.015', ""),
    "cyclic": (SPHERE, 'kind = "sgd"\nbatch_fraction = [[0.0, 0.25], [0.1, 0.5]]\nminibatch = "cyclic"\nlearning_rate = 0.015', ""),
    "phases": (SPHERE, 'kind = "sgd"\nbatch_fraction = 0.5\nlearning_rate = 0.015\nmomentum = 0.3',
               "[[phase]]\nstep = 6\nlearning_rate = 0.01\nmomentum = 0.6\n[[phase]]\nbegin = 0.15\nbatch_fraction = 0.8\n"),
}


def run_of(name: str, steps: int = 14, m0: float = 0.3) -> Run:
    problem, algorithm, phases = SETTINGS[name]
    run = parse_run(f"[problem]\nalpha = 3.0\nm0 = {m0}\n{problem}\n[algorithm]\nt_max = 0.3\n{algorithm}\n{phases}")
    return run.replace({"algorithm.t_max": float(run.algorithm.clock.t[steps])})


@pytest.mark.parametrize("name", SETTINGS)
def test_the_march_solves_the_equations(name):
    run = run_of(name)
    experiment = Experiment.from_run(run)
    assert experiment.steps == 14
    kernels, weights, _ = solved(experiment)
    assert_same(make_march(run, SAMPLES, parts=PLAIN), kernels, weights, 1e-6 if name == "scheduled langevin" else 1e-9)


@pytest.mark.parametrize("name", ["scheduled persistent", "heavy ball", "cyclic"])
def test_the_iteration_solves_the_equations(name):
    run = run_of(name)
    kernels, weights, _ = solved(Experiment.from_run(run))
    assert_same(make_iteration(run, SAMPLES, parts=PLAIN), kernels, weights, 1e-9)


@pytest.mark.parametrize("name", ["scheduled ridge", "heavy ball"])
def test_the_identity_holds_for_every_row(name):
    """[ibp] and the identity of nu_hat: what a row as sampled fails them by is Monte-Carlo error, smaller with more samples."""
    def gap(samples: int) -> float:
        marches = [make_march(run_of(name), samples, seed=seed, tangents=1.0) for seed in range(3)]
        return float(np.sqrt(np.mean([march.curves["ibp_gap"] ** 2 for march in marches])))

    gaps = gap(500), gap(8000)
    assert gaps[1] < 0.5 * gaps[0] and gaps[0] < 1.0


def test_constant_schedules_change_no_bit():
    plain = 'kind = "persistent_sgd"\nbatch_fraction = 0.5\npersistence = 0.5\nlearning_rate = 0.02'
    spelt = ('kind = "persistent_sgd"\nbatch_fraction = {kind = "steps", points = [[0, 0.5]]}\npersistence = [[0.0, 0.5]]\n'
             'learning_rate = 0.02\nmomentum = [[0.0, 0.0]]\ntemperature = [[0.0, 0.0]]')
    runs = [parse_run(f"[problem]\nalpha = 3.0\nm0 = 0.3\n[algorithm]\nt_max = 0.28\n{text}\n") for text in (plain, spelt)]
    first, second = (make_march(run, 200) for run in runs)
    for name, curve in first.curves.items():
        assert np.array_equal(curve, second.curves[name]), name
    for name, kernel in first.kernels.items():
        assert np.array_equal(kernel, second.kernels[name]), name


def difference(run: Run, monkeypatch, broken) -> float:
    right = make_march(run, 400).curves["m"]
    broken(monkeypatch)
    return float(np.abs(make_march(run, 400).curves["m"] - right).max())


def test_the_eta_of_the_wrong_step_is_seen(monkeypatch):
    """Twin: R kept with the eta of the next step."""
    close = WeightDynamics.close

    def wrong(self, row, m_given=None):
        closing, e = close(self, row, m_given), self.experiment
        ratio = e.eta_n[min(self.n + 1, e.steps - 1)] / e.eta_n[min(self.n, e.steps - 1)]
        return closing._replace(next=closing.next._replace(R_last=closing.next.R_last * ratio))

    run = run_of("scheduled persistent")
    assert difference(run, monkeypatch, lambda patch: patch.setattr(WeightDynamics, "close", wrong)) > 1e-5


def test_bernoulli_is_not_reshuffled():
    run = run_of("reshuffled")
    e = Experiment.from_run(run)
    twin = replace(e, batches=Batches.steady(Bernoulli(0.25), e.steps))
    one, other = (solved(each)[0].M_C for each in (e, twin))
    for epoch in (slice(0, 4), slice(4, 8), slice(8, 12)):
        block = one[epoch, epoch]
        assert np.all(block[~np.eye(4, dtype=bool)] == 0.0) and np.all(np.diag(block) > 0)
        assert np.all(other[epoch, epoch] != 0.0)
    M_R = solved(e)[0].M_R
    assert np.all(M_R[:4, :4] == 0.0) and np.any(M_R[4:8, :4] != 0.0) and np.all(M_R[4:8, 4:8] == 0.0)


def test_relaxing_is_not_jumping():
    names = "scheduled persistent", "scheduled persistent, relaxing"
    jump, relax = (make_march(run_of(name), 2000).curves["m"] for name in names)
    assert_allclose(jump[:5], relax[:5], rtol=1e-12)
    assert np.abs(jump - relax).max() > 1e-3
