"""Two copies with equal data and start: C_12 of theory and simulation against closed forms, each other, themselves in pieces."""

from __future__ import annotations

import numpy as np
import pytest

import dmft
import sgd_sim
from dmft.cli import main
from dmft.core.errors import RunError, Stopped
from dmft.model.experiment import Experiment
from dmft.samples import clones
from sgd_sim.cpu.by_rows import make_rows
from sgd_sim.cpu.lanes import make_noise
from sgd_sim.cpu.starts import start_weights
from sgd_sim.landscape import make_landscape
from tests.exact import lin_volterra
from tests.exact.setting import Setting
from tests.marks import slow
from tests.run_files import run_text
from tests.sgd_sim.simulator_reference import phase_dv, reference
from tests.sgd_sim.test_gpu_simulator import on_cpu, on_gpu
from tests.sgd_sim.test_simulator_reference import drawn
from tests.small_results import StopAfter, solved_and_simulated

HEAT = {"kind": "langevin", "temperature": 0.3}
COINS = {"kind": "sgd", "batch_fraction": 0.5}
PERSISTENT = {"kind": "persistent_sgd", "batch_fraction": 0.5, "persistence": 0.2}


def linear(algorithm: dict, steps: int = 20, **theory: object) -> dmft.Run:
    text = run_text("gd", t_max=0.1 * steps, problem={"alpha": 2.0, "m0": 0.3, "loss": "linear", "constraint": "ridge",
                    "ridge": 0.2}, algorithm={"learning_rate": 0.1, **algorithm}, theory={
                        "samples": 512, "replicas": 10, "clones": True, "seed": 7, **theory})
    return dmft.parse_run(text)


def distance(run: dmft.Run) -> float:
    """The largest z of C_12 against C of gradient descent: the mean of a linear process over its noise, and two copies share no
    more. 10 replicas: Student's t with 9 degrees of freedom exceeds 7 once in 3e4; the points of a curve are one draw."""
    theory, steps = dmft.solve(run, quiet=True), run.algorithm.steps
    exact = lin_volterra.solve(Setting(alpha=2.0, eta=0.1, m0=0.3, steps=steps, ridge=0.2))
    assert np.max(theory.q - exact.q) > 0.02     # noise does move single copies
    return float(np.max(np.abs(theory.C_12 - exact.q)[1:] / theory.C_12_error[1:]))


CASES = {"heat": (HEAT, {}), "coins": (COINS, {"history": "dyadic", "blocks_per_level": 6}),
         "with replacement": ({**COINS, "minibatch": "with_replacement"}, {})}


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("case", [slow("heat"), "coins", slow("with replacement")])
def test_on_the_linear_loss_two_copies_share_gradient_descent(case):
    algorithm, theory = CASES[case]
    assert distance(linear(algorithm, **theory)) < 7


@pytest.mark.long
@pytest.mark.statistical
def test_independent_noises_fail(monkeypatch):
    """Twin: copies whose noises chi know nothing of each other."""
    honest = clones.Clones._given

    def alone(self, order, covariances, variance):
        weights, sd = honest(self, order, covariances, variance)
        return 0 * weights, np.sqrt(variance)

    monkeypatch.setattr(clones.Clones, "_given", alone)
    assert distance(linear(HEAT)) > 14


@pytest.mark.long
@pytest.mark.parametrize("history", ["full", "dyadic"])
def test_without_noise_copies_are_one(history):
    run = dmft.parse_run(run_text("gd", t_max=1.2, theory={
        "samples": 256, "replicas": 1, "clones": True, "history": history, "blocks_per_level": 6}))
    theory = dmft.solve(run, quiet=True)
    np.testing.assert_allclose(theory.C_12, theory.q, atol=1e-6)
    simulation = sgd_sim.simulate(run.replace({"simulation.clones": True, "dimension": 60, "instances": 2}))
    np.testing.assert_allclose(simulation.C_12, simulation.q, atol=1e-6)


RUN = dmft.parse_run(run_text(t_max=1.0, problem={"alpha": 2.0}, theory={"samples": 1024, "replicas": 6, "clones": True},
                              simulation={"dimension": 300, "instances": 24, "clones": True, "seed": 3}))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return solved_and_simulated(RUN, tmp_path_factory.mktemp("clones"))


def z_at_the_end(theory, simulation) -> float:
    error = np.hypot(theory.C_12_error[-1], simulation.error().C_12[-1])
    assert error < 0.01
    return float((theory.C_12[-1] - simulation.mean().C_12[-1]) / error)


@pytest.mark.long
@pytest.mark.statistical
def test_theory_and_simulation_agree(files, monkeypatch):
    """Persistent SGD on the sphere, errors of 0.006 where C_12 = 0.88; the twin, whose copies share no noise, has 0.91."""
    theory, simulation = dmft.load(files / "theory.h5"), sgd_sim.load(files / "sim.h5")
    assert abs(z_at_the_end(theory, simulation)) < 4 and simulation.mean().C_12[-1] < 0.93
    honest = clones.Clones._given
    monkeypatch.setattr(clones.Clones, "_given", lambda self, order, c, variance: (
        0 * honest(self, order, c, variance)[0], np.sqrt(variance)))
    assert abs(z_at_the_end(dmft.solve(RUN, quiet=True), simulation)) > 5


@pytest.mark.cli
def test_tables_have_it(files, capsys):
    theory, simulation = (str(files / name) for name in ("theory.h5", "sim.h5"))
    for words in (["inspect", theory], ["inspect", simulation], ["compare", theory, simulation]):
        assert main(words) == 0 and "C_12" in capsys.readouterr().out, words


@pytest.mark.long
def test_pieces_of_the_theory_are_the_whole(files, tmp_path):
    """A stop, more replicas, and copies that are drawn on other ranks' blocks all give the same bits."""
    with pytest.raises(Stopped):
        dmft.solve(RUN.replace(replicas=2), output=tmp_path / "a.h5", stop=StopAfter(30))
    for run in (RUN.replace(replicas=2), RUN):
        dmft.solve(run, output=tmp_path / "a.h5", resume=True)
    np.testing.assert_array_equal(dmft.load(tmp_path / "a.h5").replicas["C_12"], dmft.load(files / "theory.h5").replicas["C_12"])


def test_pieces_of_the_simulation_are_the_whole(files, tmp_path):
    """So do a shorter run that continues and more instances."""
    run, plain = RUN.replace(instances=4, record="linear"), tmp_path / "a.h5"
    for piece in (run.replace(instances=2, t_max=0.5), run.replace(instances=2), run):
        sgd_sim.simulate(piece, output=plain, resume=True)
    one, other = sgd_sim.load(plain), sgd_sim.simulate(run)
    np.testing.assert_array_equal(one.C_12, other.C_12)
    np.testing.assert_array_equal(other.m, sgd_sim.simulate(run.replace({"simulation.clones": False})).m)
    assert np.isfinite(other.C_12).all() and "C_12" not in sgd_sim.simulate(run.replace({"simulation.clones": False})).curves


@pytest.mark.parametrize("landscape", ["fresh", slow("shared")])
def test_simulated_copies_agree_with_numpy(landscape):
    """Persistent mini-batches and heat at once, each copy with its own."""
    run = RUN.replace({"simulation.clones": True, "temperature": 0.2}, dimension=90, instances=2, t_max=0.4, landscape=landscape)
    n, experiment, found = 90, Experiment.from_run(run), sgd_sim.simulate(run)
    for instance in range(2):
        index = 0 if landscape == "shared" else instance
        data = make_landscape(run.simulation.seed, index, n, run.problem.alpha)
        X = data.data[:data.h0.size, :n].astype(np.float64)
        w = start_weights(run.problem, experiment.constraint, data, make_rows(data), run.simulation.seed, instance)
        paths = []
        for clone in range(2):
            s, normals = drawn(run, len(X), instance, make_noise(run.simulation.seed, instance, clone))
            noise = np.sqrt(2 * 0.2 * 0.02) * normals
            paths.append(reference(X, data.w0, w, 0.02, run.algorithm.steps, phase_dv, s, 2.0, None, noise))
        want = np.sum(paths[0] * paths[1], axis=1)[found.states.record] / n
        np.testing.assert_allclose(found.C_12[instance], want, atol=1e-5)


@pytest.mark.gpu
def test_the_card_does_what_the_cpu_does(card):
    run = RUN.replace(dimension=90, instances=3, t_max=0.3, record="linear")
    got, want = on_gpu(run, card, stops=(3,), instances=np.arange(6)), on_cpu(run)
    np.testing.assert_allclose(got.overlaps(), want.overlaps(), atol=1e-5)


@pytest.mark.parametrize(("change", "words"), [
    ({"theory.method": "iterate"}, 'method = "march"'), ({"theory.device": "gpu"}, 'device = "cpu"'),
    ({"theory.keep_state": True}, "keep_state"), ({"momentum": 0.5, "nesterov": True}, "nesterov")])
def test_what_theory_cannot_pair_is_refused(change, words):
    with pytest.raises(RunError, match=words) as refusal:
        dmft.solve(RUN.replace(change))
    assert "[theory] clones" in str(refusal.value) and "\n" not in str(refusal.value)


def test_two_second_copies_are_refused():
    with pytest.raises(RunError, match="two runs"):
        sgd_sim.simulate(RUN.replace(kernels=True))
