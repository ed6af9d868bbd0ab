"""`dmft check`, `sgd-sim check`: what they tell agrees with what the run does, and warnings come when they should."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr

from dmft.cli import main as dmft_command
from dmft.core.parallel import Comm
from dmft.model.experiment import Experiment, theory_experiment
from dmft.model.runfile import parse_run
from dmft.running.cost import START, estimate
from dmft.running.preview import preview, unstable_share
from sgd_sim.cli import main as simulator_command
from tests.network_cases import network_run
from tests.run_files import run_text

QUIET = {"samples": 20000, "replicas": 8}


def _warnings(kind="theory", **sections):
    return preview(parse_run(run_text(**sections)), kind, Comm()).warnings


def test_a_sound_run_has_no_warnings():
    assert _warnings(theory=QUIET) == [] == _warnings("simulation")


@pytest.mark.parametrize("sections, told", [
    ({"problem": {"m0": 0.2}}, "few samples for small m0"),
    ({"problem": {"m0": 0.0}}, "m stays exactly 0"),
    ({"algorithm": {"learning_rate": 0.2}}, "unstable step"),
    ({"theory": {"samples": 20000, "replicas": 1}}, "no error bars"),
    ({"theory": {"samples": 20000, "replicas": 2}}, "themselves poor"),
    ({"algorithm": {"t_max": 0.97}}, "not a whole number of steps"),
], ids=lambda value: value if isinstance(value, str) else "")
def test_warnings(sections, told):
    found = _warnings(**{"theory": QUIET, **sections})
    assert len(found) == 1 and told in found[0]


def test_a_random_start_is_not_taken_for_m0_of_zero():
    run = parse_run(run_text(theory=QUIET)).replace(start="random")
    assert not any("stays exactly 0" in text for text in preview(run, "theory", Comm()).warnings)


def test_the_steps_of_a_spectral_start_are_told_and_paid_for():
    """At alpha = 1.5 power iteration takes many more steps than the run itself."""
    warm = parse_run(run_text(t_max=0.1, theory=QUIET))
    spectral = warm.replace(start="spectral", alpha=1.5)
    hidden = theory_experiment(spectral).hidden
    told = preview(spectral, "theory", Comm())
    assert hidden > 100 and f"5 steps of 0.02 to t = 0.1 after {hidden} steps of power iteration" in told.computed[0]
    assert told.costs["cpu"].seconds > 10 * (estimate(warm, "theory").seconds - START) + START


def test_enough_samples_for_a_small_m0():
    assert _warnings(problem={"m0": 0.2}, theory={"samples": 100000}) == []
    assert _warnings(problem={"m0": 0.2, "loss": "linear"}, theory=QUIET) == [], "labels with a sign need no more than usual"


def test_the_unstable_share_is_that_of_the_gaussian_start():
    """Gradient descent on phase retrieval at m0: f and h0 are normal with correlation m0, v'' = 3 f^2 - h0^2."""
    run = parse_run(run_text("gd", algorithm={"learning_rate": 0.3}))
    # Given h0 the field is N(h0/2, 3/4), and unstable beyond +-edge; h0 on a fine grid.
    h0 = np.linspace(-9.0, 9.0, 20_001)
    edge, density = np.sqrt((2.0 / 0.3 + h0**2) / 3.0), np.exp(-0.5 * h0**2)
    outside = ndtr((0.5 * h0 - edge) / np.sqrt(0.75)) + ndtr((-0.5 * h0 - edge) / np.sqrt(0.75))
    exact = float(np.sum(density * outside) / np.sum(density))
    # 65536 Sobol points: measured 1e-5 from it; a learning rate of 0.29 moves the share by 5e-3.
    assert unstable_share(Experiment.from_run(run)) == pytest.approx(exact, abs=1e-4) and exact > 0.05
    other = parse_run(run_text("gd", algorithm={"learning_rate": 0.29}))
    assert abs(unstable_share(Experiment.from_run(other)) - exact) > 1e-3


def test_check_prints_the_completed_run_and_the_cost(tmp_path, capsys):
    file = tmp_path / "run.toml"
    file.write_text(run_text(theory={"samples": 500}))
    assert dmft_command(["check", str(file)]) == 0
    told = capsys.readouterr().out
    assert parse_run(told[:told.index("\ntheory of")]) == parse_run(file.read_text())
    assert "100 steps of 0.02 to t = 2" in told and "8 replicas of 500 samples" in told
    assert "time on this machine: about" in told and "time on one H200 GPU: about" in told
    assert simulator_command(["check", str(file), "--set", "simulation.instances=1"]) == 0
    assert "100 instances" not in (told := capsys.readouterr().out) and "warning: simulation.instances = 1" in told
    assert list(tmp_path.iterdir()) == [file], "nothing is computed, nothing is written"


@pytest.mark.parametrize("command, change, told", [
    (dmft_command, "theory.samples=1000000000000", "GiB are needed"),
    (simulator_command, "simulation.dimension=10000000", "GB are free"),
    (dmft_command, "theory.sample=3", "did you mean"),
])
def test_what_cannot_be_computed_is_one_line_and_exit_2(tmp_path, capsys, command, change, told):
    file = tmp_path / "run.toml"
    file.write_text(run_text())
    assert command(["check", str(file), "--set", change]) == 2
    error = capsys.readouterr().err
    assert told in error and error.count("\n") == 1 and ("run.toml" in error or "simulation.dimension" in error)


def test_a_gpu_is_faster_where_it_was_measured_to_be():
    """docs/notes/performance.md: GD, n = 10 000, K = 100 000, 5.7 s for two marches; the simulator of figure 2, 718 us a step."""
    run = parse_run(run_text(t_max=100.0, algorithm={"learning_rate": 0.01},
                             theory={"samples": 100000, "replicas": 1, "device": "gpu"},
                             simulation={"dimension": 1000, "instances": 500, "device": "gpu"}))
    march, simulation = estimate(run, "theory"), estimate(run, "simulation")
    assert 0.5 < (march.seconds - START) / 5.7 < 2.0 and 0.5 < (simulation.seconds - START) / (10000 * 718e-6) < 2.0
    cpu = run.replace(device="cpu")
    assert estimate(cpu, "theory").seconds > 10 * march.seconds and march.card_bytes > 1e9 > estimate(cpu, "theory").card_bytes


@pytest.mark.parametrize("solutions, samples, by_card, by_host", [
    (1, 4000, 0.118, 0.308), (8, 4000, 0.191, 1.180), (1, 100_000, 0.271, 0.454), (8, 100_000, 1.349, 1.404)])
def test_steps_of_a_card_are_as_long_as_measured(solutions, samples, by_card, by_host):
    """docs/notes/performance.md: ms a step at n = 3000 of gradient descent, where the card does the equations, and where the host
    does them, as for Nesterov's rule: its two rates give 0.79 to 1.08 of what was measured on two hosts."""
    run = parse_run(run_text("gd", t_max=30.0, algorithm={"learning_rate": 0.01}, theory={
        "samples": samples, "replicas": solutions, "companions": False, "device": "gpu"}))
    other = run.replace({"algorithm.momentum": 0.5, "algorithm.nesterov": True})
    found, of_host = (1e3 * (estimate(each, "theory").seconds - START) / 3000 for each in (run, other))
    assert found == pytest.approx(by_card, rel=0.1) and of_host == pytest.approx(by_host, rel=0.3)


def test_networks_on_a_gpu_take_what_they_were_measured_to_take():
    """docs/networks.md: four units, 300 steps one by one of 65 536 samples, 0.96 s for a march; 2.15 ms a step of the simulator."""
    run = network_run({"units": 4, "directions": 2, "m0": 0, "alpha": 3.0, "kind": "gd", "learning_rate": 0.02, "t_max": 6.0,
                       "samples": 65536, "replicas": 1, "history": "full", "dimension": 2000, "instances": 128})
    march, simulation = (estimate(run.replace({"theory.device": "gpu", "simulation.device": "gpu"}), kind)
                         for kind in ("theory", "simulation"))
    assert 0.5 < (march.seconds - START) / (2 * 0.96) < 2.0 and march.card_bytes > 8e9
    assert 0.5 < (simulation.seconds - START) / (300 * 2.15e-3) < 2.0 and simulation.card_bytes > 6e9
    small = run.replace({"theory.samples": 64, "algorithm.t_max": 0.2})
    for kind, others in (("theory", {"network.units": 17}), ("simulation", {"network.constraint": "orthonormal"})):
        assert [*preview(small, kind, Comm()).costs] == ["cpu", "gpu"]
        assert [*preview(small.replace(others), kind, Comm()).costs] == ["cpu"]
