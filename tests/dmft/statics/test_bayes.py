"""Bayes-optimal reference lines: closed forms, known thresholds, and learners that must not beat them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.special import ndtr

import dmft
from dmft.core.errors import RunError
from dmft.model.data import data_of
from dmft.model.losses import PHASE
from dmft.model.runfile import Run, parse_run
from dmft.model.teacher import Teacher
from dmft.statics.bayes import bayes, information, known_bayes, thresholds
from dmft.statics.limits import fixed_point
from tests.network_cases import PAIR, network_run
from tests.run_files import run_text

RIDGE = 'constraint = "ridge"\nridge = {}\n'
TWO = 'data = "mixture"\nclusters = [[1, {0}, 1, 0.5], [-1, {1}, -1, 0.5]]\n'


def make(problem: str) -> Run:
    return parse_run(f'[problem]\nm0 = 0.2\n{problem}\n[algorithm]\nkind = "gd"\nlearning_rate = 0.1\nt_max = 1.0\n')


@pytest.mark.parametrize(("alpha", "noise"), [(2.0, 0.5), (0.7, 0.2)])
def test_linear_regression_with_the_right_ridge_is_optimal(alpha, noise):
    """lambda = Delta: the posterior mean is the minimiser; another ridge is worse."""
    problem = f'alpha = {alpha}\nloss = "linear"\nlabel_noise = {noise}\n'
    found, ridge = bayes(make(problem)), fixed_point(make(problem + RIDGE.format(noise)))
    wanted = ridge.m, ridge.q, ridge.errors["mse"]
    np.testing.assert_allclose((found.overlap, found.overlap, found.errors["mse"]), wanted, rtol=0, atol=1e-10)
    assert fixed_point(make(problem + RIDGE.format(2 * noise))).errors["mse"] > found.errors["mse"] + 1e-3
    assert found.best_overlap == found.overlap and not found.thresholds


def test_fields_without_noise():
    for alpha, overlap in ((0.7, 0.7), (1.2, 1.0)):
        found = bayes(make(f'alpha = {alpha}\nloss = "linear"'))
        assert found.overlap == pytest.approx(overlap, abs=1e-8) and found.errors["mse"] == pytest.approx(1 - overlap, abs=1e-8)


def test_thresholds_of_phase_retrieval():
    """alpha_WR = 1/2, alpha_IT = 1 and alpha_AMP = 1.13 (Barbier et al., 2019), and the gap between what is possible and what is
    fast."""
    found = bayes(make("alpha = 1.05"))
    assert found.thresholds["alpha_WR"] == pytest.approx(0.5, abs=1e-5)
    assert found.thresholds["alpha_AMP"] == pytest.approx(1.1285, abs=2e-3) and found.thresholds["alpha_IT"] == 1.0
    assert found.overlap < 0.7 and found.best_overlap == 1.0 and found.best_errors["mse"] == 0.0 < found.errors["mse"]
    assert bayes(make("alpha = 1.2")).overlap == 1.0 and bayes(make("alpha = 0.45")).best_overlap == 0.0
    square = bayes(make('alpha = 0.45\nlabels = "square"'))
    assert square.errors["mse"] == pytest.approx(2.0) and square.thresholds == found.thresholds


def test_noisy_magnitudes():
    """The channel by brute force over fields."""
    q, noise = 0.5, 0.3
    omega, y = np.linspace(-6, 6, 121), np.linspace(-4, 8, 241)
    nodes, weights = np.polynomial.legendre.leggauss(200)
    h, wide = np.append(4 * (nodes + 1), -4 * (nodes + 1)), np.tile(4 * weights, 2)  # either half line to 8
    prior = np.exp(-0.5 * omega**2 / q) / np.sqrt(2 * np.pi * q)
    joint = np.exp(-0.5 * (h - omega[:, None]) ** 2 / (1 - q)) / np.sqrt(2 * np.pi * (1 - q))
    label = np.exp(-0.5 * (y - np.abs(h)[:, None]) ** 2 / noise) / np.sqrt(2 * np.pi * noise)
    Z, first = (joint * wide) @ label, (joint * wide * h) @ label
    g = (first / Z - omega[:, None]) / (1 - q)
    exact = np.sum(prior[:, None] * Z * g**2) * (omega[1] - omega[0]) * (y[1] - y[0])
    assert information(Teacher("abs", noise, loss=PHASE))(q) == pytest.approx(exact, rel=1e-6)


@pytest.mark.slow
def test_thresholds_with_noise():
    """With little noise near those without, alpha_IT below alpha_AMP; with more, the overlap grows without a jump."""
    found = thresholds(information(Teacher("abs", 1e-3, loss=PHASE)), False)
    assert 0.5 < found["alpha_WR"] < 0.502 and 1.1 < found["alpha_IT"] < found["alpha_AMP"] < 1.15
    assert "alpha_AMP" not in thresholds(information(Teacher("abs", 0.3, loss=PHASE)), False)


def test_no_loss_beats_the_bayes_classifier():
    """Logistic regression at its best ridge comes within 5e-3. Without flips q/sqrt(1-q) = alpha/pi <exp(-q z^2/2)/Phi(sqrt(q) z)>
    (Gyorgyi, Opper and Haussler)."""
    found = bayes(make('alpha = 2\nloss = "logistic"'))
    q = found.overlap
    told = quad(lambda z: np.exp(-0.5 * (1 + q) * z * z) / np.sqrt(2 * np.pi) / ndtr(np.sqrt(q) * z), -12, 12, epsabs=1e-12)[0]
    assert q / np.sqrt(1 - q) == pytest.approx(2 / np.pi * told, abs=1e-9)
    assert found.errors["error"] == pytest.approx(np.arccos(np.sqrt(q)) / np.pi, abs=1e-12)
    best = bayes(make('alpha = 2\nloss = "logistic"\nflip = 0.1')).errors["error"]
    problem = 'alpha = 2\nloss = "logistic"\nflip = 0.1\n'
    errors = [fixed_point(make(problem + RIDGE.format(ridge))).errors["error"] for ridge in (0.1, 0.3, 1.0)]
    assert best < min(errors) < best + 5e-3 < errors[0]
    small = information(Teacher("sign", 0.4, 0.1, loss=PHASE))(1e-9)
    assert small == pytest.approx(0.8**2 * 2 / np.pi / 1.4, rel=1e-6)


def test_two_clusters():
    """Equal weights: a large ridge (the mean of y x) is optimal. Others: the best intercept at m = q is that of Bayes."""
    best = bayes(make("alpha = 2\nloss = \"logistic\"\n" + TWO.format(0.5, 0.5)))
    hebb = fixed_point(make("alpha = 2\nloss = \"linear\"\n" + TWO.format(0.5, 0.5) + RIDGE.format(1e5)))
    assert best.overlap == pytest.approx(0.8) and best.errors["error"] == pytest.approx(hebb.errors["error"], abs=1e-8)
    run = make("alpha = 2\nloss = \"logistic\"\nbias = true\n" + TWO.format(0.3, 0.7))
    data, q = data_of(run.problem), np.array(0.8)
    least = minimize_scalar(lambda b: float(data.errors(q, q, b)["error"]), (-0.5, 0.5), method="brent")
    assert bayes(run).errors["error"] == pytest.approx(least.fun, abs=1e-12)
    assert fixed_point(run.replace(constraint="ridge", ridge=0.5)).errors["error"] > least.fun
    unequal = make('alpha = 2\nloss = "logistic"\ndata = "mixture"\nclusters = [[1, 0.5, 1, 0.5], [-1, 0.5, -1, 2]]')
    with pytest.raises(RunError, match="by |x| alone"):
        bayes(unequal)
    assert known_bayes(unequal) == {}


def test_a_network_gets_no_line_of_a_single_direction():
    """Its noisy labels are not those of linear regression, although [problem] reads the same."""
    network = network_run({**PAIR, "label_noise": 0.05})
    with pytest.raises(RunError, match="one direction alone"):
        bayes(network)
    assert known_bayes(network) == {}


@pytest.mark.long
@pytest.mark.cli
def test_limit_tells_both(dmft_main, tmp_path):
    """Phase retrieval has no limit of gradient descent but thresholds; logistic regression has both; the door has neither."""
    file = tmp_path / "run.toml"
    file.write_text(run_text("gd"))
    done = dmft_main("limit", str(file), "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["alpha_AMP"] == pytest.approx(1.1285, abs=2e-3)
    told = dmft_main("limit", str(file)).stderr
    assert told.count("\n") == 1 and "no limit of gradient descent" in told and "not convex" in told
    file.write_text(make('alpha = 2\nloss = "logistic"\nflip = 0.1\n' + RIDGE.format(0.3)).to_toml())
    numbers = json.loads(dmft_main("limit", str(file), "--json").stdout)
    assert numbers["error"] > numbers["bayes_error"] > 0.29
    file.write_text(make('alpha = 2\nloss = "door"\ndata = "mixture"\nclusters = [[0, 0.5, -1, 0.5], [1, 0.5, 1, 0.5]]').to_toml()
                    .replace("[0.0, 0.5, -1.0, 0.5], [1.0, 0.5, 1.0, 0.5]",
                             "[0.0, 0.5, -1.0, 0.5], [1.0, 0.25, 1.0, 0.5], [-1.0, 0.25, 1.0, 0.5]"))
    done = dmft_main("limit", str(file))
    assert done.returncode == 2 and "not convex" in done.stderr
    (tmp_path / "mine.py").write_text(
        "import dmft\ndmft.register_loss('mine', lambda f, y: 0.5 * (f - y) ** 2, lambda f, y: f - y, lambda f, y: 1.0 + 0.0 * f, "
        "labels='field', convex=True)\n")
    text = make('alpha = 2\nloss = "linear"\nlabel_noise = 0.5\n' + RIDGE.format(0.5)).to_toml()
    file.write_text(text.replace('"linear"', '"mine"'))
    done = dmft_main("limit", str(file), "--plugin", str(tmp_path / "mine.py"), "--json")
    assert json.loads(done.stdout)["m"] == pytest.approx(0.71922359, abs=1e-7)


@pytest.mark.long
def test_pictures_show_the_lines(tmp_path):
    run = make('alpha = 2\nloss = "logistic"\nflip = 0.1\n' + RIDGE.format(0.3)).replace(samples=64, replicas=2)
    figure = dmft.solve(run, quiet=True).plot(tmp_path / "theory.png")
    labels = [line.get_label() for axis in figure.axes for line in axis.get_lines()]
    assert labels.count("limit of gradient descent") >= 3 and labels.count("Bayes-optimal") == 1
