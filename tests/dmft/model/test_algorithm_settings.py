"""Schedules, phases, momentum and epochs in run files: their values at every step, and every slip in one line."""

import numpy as np
import pytest

from dmft.core.errors import RunError
from dmft.model.experiment import Experiment
from dmft.model.minibatches import Batches, Epochs, Persistent, epoch_positions, next_weight
from dmft.model.runfile import changes, parse_run

HEAD = "[problem]\nalpha = 3.0\nm0 = 0.5\n[algorithm]\n"


def run_of(algorithm: str, problem: str = "", phases: str = "", eta: str = "0.01", t_max: float = 0.4):
    head = f"[problem]\nalpha = 3.0\nm0 = 0.5\n{problem}\n[algorithm]\nlearning_rate = {eta}\nt_max = {t_max}\n"
    return parse_run(head + algorithm + "\n" + phases)


def test_numbers_keep_the_time_axis():
    run = run_of('kind = "gd"')
    assert np.array_equal(run.algorithm.clock.t, 0.01 * np.arange(41)) and run.algorithm.steps == 40
    experiment = Experiment.from_run(run)
    assert experiment.update.plain and len(experiment.batches.laws) == 1 and np.all(experiment.eta_n == 0.01)


@pytest.mark.parametrize("setting, expected", [
    ("[[0.0, 0.02], [0.2, 0.01]]", np.where(np.arange(31) < 10, 0.02, 0.01)[:31]),
    ('{kind = "steps", points = [[0, 0.02], [10, 0.01]]}', np.where(np.arange(31) < 10, 0.02, 0.01)[:31]),
    ('{kind = "power", start = 0.03, exponent = 1, steps = 20}', 0.03 / (1 + 0.05 * np.arange(19))),
    ('{kind = "linear", start = 0.01, end = 0.03, steps = 4}', np.minimum(0.01 + 0.005 * np.arange(15), 0.03)),
])
def test_learning_rates_and_their_times(setting, expected):
    clock = run_of('kind = "gd"', eta=setting).algorithm.clock
    shared = min(len(expected), clock.steps)
    assert np.allclose(clock.eta[:shared], expected[:shared], rtol=1e-14)
    assert np.allclose(clock.t[1:], np.cumsum(clock.eta)) and abs(clock.t[-1] - 0.4) <= 0.5 * clock.eta[-1]


def test_schedules_in_time_follow_the_times():
    run = run_of('kind = "langevin"\ntemperature = {kind = "cosine", start = 0.5, end = 0.1, time = 0.2}',
                 eta="[[0.0, 0.02], [0.1, 0.01]]")
    e = Experiment.from_run(run)
    x = np.minimum(e.t_n[:-1] / 0.2, 1)
    assert np.allclose(e.temperature, 0.1 + 0.2 * (1 + np.cos(np.pi * x)))
    assert np.flatnonzero(e.jump_n).tolist() == [5]


def test_phases_count_from_their_beginning_and_change_what_they_say():
    run = run_of('kind = "persistent_sgd"\nbatch_fraction = 0.5\npersistence = 0.5', 'constraint = "ridge"\nridge = 1.0',
                 "[[phase]]\nstep = 20\nbatch_fraction = 0.25\n"
                 "[[phase]]\nbegin = 0.5\nlearning_rate = [[0.0, 0.02], [0.1, 0.01]]\nridge = 0.2\nmomentum = 0.5\n",
                 eta="0.02", t_max=0.8)
    e = Experiment.from_run(run)
    l_n = np.array([e.batches.law(n).fraction for n in range(e.steps)])
    assert np.array_equal(l_n, np.where(np.arange(e.steps) < 20, 0.5, 0.25))
    assert np.allclose(e.eta_n, np.where(np.arange(e.steps) < 30, 0.02, 0.01))
    assert np.array_equal(e.ridge_n, np.where(np.arange(e.steps) < 25, 1.0, 0.2))
    assert np.flatnonzero(e.jump_n).tolist() == [20, 25, 30]
    assert e.update.inertia(24) == 1.0 and e.update.inertia(25) == 1.5 and e.update.recoil(25) == 0.5
    again = parse_run(run.to_toml())
    assert again == run and changes(run, again) == []
    assert [key for key, *_ in changes(run, run.replace(phase=()))] == ["algorithm.phase"]


def test_a_phase_may_change_the_loss():
    e = Experiment.from_run(run_of('kind = "gd"', 'loss = "phase_retrieval"\nlabels = "abs"',
                                   '[[phase]]\nstep = 10\nloss = "phase_retrieval"\nlearning_rate = 0.005'))
    assert e.loss(40).name == "phase_retrieval" and len(e.losses) == 1 and e.eta_n[10] == 0.005


def test_a_persistent_chain_jumps_with_the_fewest_flips():
    """p_n = l_n at every step under `jump`, by the law's own transition; under `relax` it lags."""
    laws = [Persistent.from_times(ell, 0.02, 0.5) for ell in [0.5] * 5 + [0.25] * 5 + [0.7] * 5]
    for relax in (False, True):
        batches, p = Batches.of(laws, relax), 0.5
        for n in range(len(laws) - 1):
            chain = batches.chain(n)
            p = p * (1 - chain.p_off) + (1 - p) * chain.p_on
            if not relax:
                assert abs(p - laws[n + 1].fraction) < 1e-14
        assert relax == (abs(p - 0.7) > 0.1)
    flips = Batches.of(laws).chain(4)
    assert np.allclose([flips.p_on, flips.p_off], [0.04 * 0.5, 1 - 0.96 * 0.5])      # thinned with l'/l = 1/2 after the move


@pytest.mark.parametrize("cyclic", [False, True])
def test_every_sample_is_seen_once_an_epoch(cyclic):
    key, index, law = np.uint64(7), np.arange(120), Epochs(0.25, cyclic)
    s = [law.first(np.zeros(120), key, index)]
    for n in range(39):
        s.append(np.array([next_weight(law.chain(), s[-1][i], key, index[i], n) for i in index]))
    epochs = np.array(s).reshape(10, 4, 120)
    assert np.all(epochs.sum(axis=1) == 1) and np.all(epochs.sum(axis=2) == 30)
    positions = epochs.argmax(axis=1)
    assert np.all(positions == positions[0]) == cyclic
    if not cyclic:  # epochs are independent for a sample: pairs of positions are spread evenly
        many = np.array([epoch_positions(law.chain(), key, np.arange(40000), n) for n in range(8)]).reshape(2, 4, -1).argmax(axis=1)
        counts = np.bincount(4 * many[0] + many[1], minlength=16)
        assert np.max(np.abs(counts - 2500)) < 5 * np.sqrt(4 * 2500)     # four samples of a block go together


@pytest.mark.parametrize("algorithm, complaint", [
    ('kind = "gd"\nlearning_rate = [[0.1, 0.02]]', "[[0.0, eta0], [t1, eta1], ...]"),
    ('kind = "gd"\nlearning_rate = [[0.0, 0.02], [0.0, 0.01]]', "increasing times"),
    ('kind = "gd"\nlearning_rate = {kind = "power", start = 0.02}', "exponent"),
    ('kind = "gd"\nlearning_rate = {kind = "power", start = 0.02, exponent = 30, steps = 1}', "reaches t_max = 0.4 within"),
    ('kind = "gd"\nlearning_rate = [[0.0, 1e-9], [0.1, 2e-9]]', "reaches t_max = 0.4 within"),
    ('kind = "gd"\nlearning_rate = [[0.0, 1e-9]]\n[[phase]]\nstep = 9\nlearning_rate = 1e-9', "reaches t_max = 0.4 within"),
    ('kind = "gd"\nlearning_rate = {kind = "step", points = [[0, 0.1]]}', "did you mean 'steps'"),
    ('kind = "gd"\nlearning_rate = {start = 0.1, steps = 3}', "whose kind is one of steps, power, linear, cosine"),
    ('kind = "gd"\nlearning_rate = {kind = "steps", points = [[1, 0.1]]}', "points is [[0, v0], [n1, v1], ...]"),
    ('kind = "gd"\nlearning_rate = {kind = "linear", start = 0.1, end = 0, time = 1}', "end is a number > 0"),
    ('kind = "gd"\nlearning_rate = {kind = "linear", start = 0.1, end = 0.2}', "one of the keys 'time' and 'steps'"),
    ('kind = "gd"\nlearning_rate = 0.01\nmomentum = 1.0', "momentum = 1.0: must be a number >= 0 and < 1"),
    ('kind = "gd"\nlearning_rate = 0.01\nmomentum = -0.1', "momentum = -0.1"),
    ('kind = "gd"\nlearning_rate = 0.01\nnesterov = true', "give algorithm.momentum"),
    ('kind = "sgd"\nlearning_rate = 0.01\nbatch_fraction = 0.4\nminibatch = "reshuffled"', "1/E with a whole number"),
    ('kind = "sgd"\nlearning_rate = 0.01\nbatch_fraction = [[0.0, 0.5], [0.2, 0.4]]\nminibatch = "cyclic"', "batch_fraction = 0.4"),
    ('kind = "persistent_sgd"\nlearning_rate = 0.01\nbatch_fraction = [[0.0, 0.5], [0.2, 0.1]]\npersistence = 0.05', "(step 20)"),
    ('kind = "persistent_sgd"\nlearning_rate = [[0.0, 0.01], [0.2, 0.1]]\nbatch_fraction = 0.5\npersistence = 0.05', "step 20"),
    ('kind = "gd"\nlearning_rate = 0.01\nbatch_change = "relax"', 'not used with kind = "gd"'),
    ('kind = "gd"\nlearning_rate = 0.01\n[[phase]]\nstep = 40\nmomentum = 0.5', "at least one step each"),
    ('kind = "gd"\nlearning_rate = 0.01\n[[phase]]\nstep = 4\nmomentum = 0.5\n[[phase]]\nstep = 4\nmomentum = 0.1', "at least one"),
    ('kind = "gd"\nlearning_rate = 0.01\n[[phase]]\nbegin = 0.2\nstep = 4\nmomentum = 0.5', "needs one of them"),
    ('kind = "gd"\nlearning_rate = 0.01\n[[phase]]\nbegin = 0.2', "changes nothing"),
    ('kind = "gd"\nlearning_rate = 0.01\n[[phase]]\nbegin = 0.2\nlearning_rat = 0.5', "did you mean 'learning_rate'"),
    ('kind = "gd"\nlearning_rate = 0.01\n[[phase]]\nbegin = 0.2\nridge = 0.5', 'not used with constraint = "sphere"'),
    ('kind = "gd"\nlearning_rate = 0.01\n[[phase]]\nbegin = 0.2\nloss = "phase"', "unknown loss"),
    ('kind = "gd"\nlearning_rate = 0.01\n[[phase]]\nbegin = 0.2\nloss = "linear"\nmomentum = 0.1', "labels abs"),
    ('kind = "gd"\nlearning_rate = 0.01\nmomentum = [[0.0, 0.9], [0.1, 0.5]]\nnesterov = true', None),
])
def test_slips_are_one_line(algorithm, complaint):
    head = "[problem]\nalpha = 3.0\nm0 = 0.5\n[algorithm]\nt_max = 0.4\n"
    if complaint is None:
        parse_run(head + algorithm)
        return
    with pytest.raises(RunError) as error:
        parse_run(head + algorithm)
    assert complaint in str(error.value) and "\n" not in str(error.value)
