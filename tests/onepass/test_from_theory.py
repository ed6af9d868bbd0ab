"""Run files with [network] through one pass: the same physics, and the limit of many samples of theory and simulation."""

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import dmft
import onepass
from dmft.core.errors import UserError
from dmft.model.runfile import parse_run as parse_theory
from onepass.from_theory import step_length
from onepass.networks.large_batches import descend
from onepass.runfile import load_run, parse_run
from tests.marks import with_slow

TEXT = """
[problem]
alpha = {alpha}
m0 = [[0.4, 0.1], [0.05, 0.3]]
label_noise = 0.05
{ridge}
[network]
units = 2
directions = 2
activation = "{activation}"
second_layer = [0.8, 0.5]
teacher_weights = [0.7, 0.6]
teacher_overlaps = [[1.0, 0.3], [0.3, 1.0]]
constraint = "{constraint}"
{train}
[algorithm]
kind = "gd"
learning_rate = {eta}
t_max = {t_max}
[theory]
samples = 2048
replicas = 4
"""


def text(alpha, step=1.2, count=5, constraint="units", ridge="", train="", activation="erf"):
    eta = step / alpha
    return TEXT.format(alpha=float(alpha), eta=eta, t_max=count * eta, constraint=constraint, ridge=ridge, train=train,
                       activation=activation)


CASES = {
    "spheres": {},
    "ridge": {"constraint": "none", "ridge": "ridge = 0.2"},
    "trained": {"constraint": "none", "train": "train = {}"},
}


def limit(content, start=None):
    """Steps of large batches of the run, and m = M root^-T."""
    theory, run = parse_theory(content), parse_run(content)
    found = descend(run.model, run.start() | (start or {}), step_length(theory), theory.algorithm.steps)
    root = np.linalg.cholesky(run.model.P)
    return found, found.M @ np.linalg.inv(root).T


@pytest.mark.statistical
@pytest.mark.parametrize("case", with_slow(CASES, "ridge", "trained"))
def test_the_theory_at_many_samples_is_the_limit(case):
    """alpha (m - limit) stays of order one as alpha grows: the difference at alpha = 64 is a quarter of that at 16, and errors of
    the theory are smaller. Twins: another ridge, another rate of the second layer, steps without their square."""
    gaps = {}
    for alpha in (16, 64):
        options = dict(CASES[case])
        if case == "ridge":
            options["ridge"] = f"ridge = {0.01 * alpha}"     # per unit of alpha t
        if case == "trained":
            options["train"] = f"train = {0.15 / alpha}"
        content = text(alpha, **options)
        theory = dmft.solve(parse_theory(content), quiet=True)
        found, m = limit(content)
        gaps[alpha] = max(np.abs(theory.m - m).max(), np.abs(theory.C - found.Q).max())
        error = max(theory.m_error.max(), 1e-4)
    assert gaps[64] < 0.4 * gaps[16] + 4.0 * error and gaps[64] < 0.02
    flow = parse_run(content).model.solve(parse_run(content).start(), found.t[1:])
    assert np.abs(flow.Q - found.Q[1:]).max() > 2.0 * gaps[64]          # the ODE has no finite steps


@pytest.mark.statistical
def test_chain_of_large_batches_follows_the_map():
    """Batches of b = d/2 fresh samples, gamma = b gamma_1: one step takes gamma_1 b/(p d)."""
    run, d = parse_run(text(8)), 200
    keys = {"activation": "erf", "width": 2, "teacher_width": 2, "noise": 0.05, "teacher_weights": run.model.teacher_weights,
            "teacher_overlaps": run.model.teacher_overlaps}
    single = onepass.Network(gamma=0.5, **keys)
    real = onepass.Network(gamma=0.5 * d / 2, batch=d // 2, **keys)
    step = real.time_step(d)
    found = descend(single, run.start(), step, 6)
    chain = real.chain(d, 80, run.start(), found.t[[2, 6]])
    z = lambda ode: max(np.abs((chain.mean()[n] - ode[n][[2, 6]]) / chain.error()[n]).max() for n in ("M", "Q"))  # noqa: E731
    assert z(found) < 4.5
    assert z(descend(onepass.Network(gamma=1e-9, **keys), run.start(), step, 6)) > 6.0      # without the noise of samples


def test_small_steps_are_the_ode():
    run = parse_run(text(8))
    ode = run.model.solve(run.start(), [1.0])
    gaps = [np.abs(descend(run.model, run.start(), 1.0 / n, n).Q[-1] - ode.Q[0]).max() for n in (20, 40)]
    assert 0.4 < gaps[1] / gaps[0] < 0.6 and gaps[0] < 0.02


def test_run_files_of_networks_are_read():
    root = Path(__file__).resolve().parents[2] / "runs" / "networks"
    run = load_run(root / "persistent.toml")
    assert run.model.width == 2 and run.model.sphere and run.model.gamma == 0.2       # eta/l
    assert_allclose(run.start()["a"], 2.0)
    assert parse_run(run.to_toml()).model == run.model and run.time.t_max == 3.0 * 3.0 / 2
    again = parse_theory(text(8, constraint="none", ridge="ridge = 0.4"))
    assert parse_run(text(8, constraint="none", ridge="ridge = 0.4")).model.weight_decay == 2 * 0.4 / 8
    assert step_length(again) == 0.6
    changing = "ridge = [[0.0, 0.1], [0.1, 0.2]]"
    for old, new, said in (('kind = "gd"', 'kind = "sgd"\nbatch_fraction = 0.5\nrescale_gradient = false', "rescale_gradient"),
                           ("ridge = 0.4", changing, "ridge that changes"), ('"erf"', '"smooth_relu"', "smooth_relu")):
        with pytest.raises(UserError, match=f"{said}.* has no counterpart in one pass"):
            parse_run(text(8, constraint="none", ridge="ridge = 0.4").replace(old, new))
    for name, said in (("trained.toml", "constraint"), ("four.toml", "has no counterpart")):
        with pytest.raises(UserError, match=said):
            load_run(root / name)
