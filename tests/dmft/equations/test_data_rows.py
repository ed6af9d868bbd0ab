"""Labels and clusters in the rows of the kernels: exact at t = 0, by nodes in place of samples; and along whole runs."""

from __future__ import annotations

import numpy as np
import pytest

import dmft
from dmft.core.parallel import Comm
from dmft.equations import reference
from dmft.equations.history import History
from dmft.equations.rows import GK, LOSSES, InUse
from dmft.equations.weights import WeightDynamics
from dmft.model.experiment import Experiment
from dmft.model.mixture import Mixture
from dmft.model.runfile import Run, parse_run
from dmft.model.teacher import Jump, Teacher
from dmft.samples.process import Samples
from dmft.samples.sampling import Draws, Sampling, draw
from dmft.solvers.blocks import blocks_for, normalised
from tests.dmft.equations.test_reference import PLAIN, SAMPLES, STEPS, assert_same
from tests.marks import slow
from tests.solver_cases import make_iteration, make_march

RIDGE = 'constraint = "ridge"\nridge = 0.3\n'
HALF = 'kind = "sgd"\nbatch_fraction = 0.5'
GD = 'kind = "gd"'
CASES = {  # problem, algorithm, (delta_nu, mu, M_C, loss) at t = 0 by an independent quadrature
    "A1": ('alpha = 2\nm0 = 0.2\nloss = "logistic"\nflip = 0.1\n' + RIDGE, GD, (0.4107715, -0.5561534, 0.5366841, 0.7463484)),
    "D": ('alpha = 2\nm0 = 0.2\nloss = "linear"\nlabels = "sign"\n', GD,
          (2.0, 2 * (0.2 - np.sqrt(2 / np.pi)), 4 * (1 - 0.2 * np.sqrt(2 / np.pi)), 0.8404231)),
    "E1": ('alpha = 2\nm0 = 0.2\nloss = "logistic"\ndata = "mixture"\nclusters = [[1, 0.3, 1, 1], [-1, 0.7, -1, 1]]\nbias = true\n'
           + RIDGE, HALF, (0.4083344, -0.8363415, 1.0193479, 0.7142829)),
    "E3": ('alpha = 2\nm0 = 0.2\nloss = "logistic"\ndata = "mixture"\nclusters = [[1, 0.4, 1, 0.5], [-1, 0.6, -1, 2]]\n' + RIDGE,
           GD, (0.5189271, -0.8173629, 0.7769484, 0.7516842)),
    "F1": ('alpha = 3\nm0 = 0.3\nloss = "door"\ndata = "mixture"\n'
           "clusters = [[0, 0.5, -1, 0.5], [1, 0.25, 1, 0.5], [-1, 0.25, 1, 0.5]]\n" + RIDGE,
           HALF, (0.6368843, -0.0725052, 2.1018904, 0.7408886)),
    "F2": ('alpha = 3\nm0 = 0.4\nloss = "door"\ndata = "mixture"\n'
           "clusters = [[0, 0.5, -1, 0.25], [1, 0.25, 1, 0.25], [-1, 0.25, 1, 0.25]]\n",
           GD, (0.1535268, -0.4339312, 0.2222534, 0.6810228)),
}


def make(problem: str, algorithm: str, steps: int = 1, eta: float = 0.05, theory: str = "") -> Run:
    return parse_run(f"[problem]\n{problem}\n[algorithm]\n{algorithm}\nlearning_rate = {eta}\nt_max = {steps * eta}\n"
                     f"[theory]\n{theory}")


def _nodes() -> tuple[np.ndarray, np.ndarray]:
    """A Gaussian in panels, with an end at 0 where labels may jump."""
    ends = np.linspace(-8.0, 8.0, 17)
    x, w = np.polynomial.legendre.leggauss(8)
    x = (0.5 * (ends[:-1, None] + ends[1:, None]) + 0.5 * x).ravel()
    return x, np.tile(0.5 * w, 16) * np.exp(-0.5 * x**2) / np.sqrt(2 * np.pi)


def first_row(run: Run) -> tuple[tuple[float, ...], float]:
    """(delta_nu, mu by parts, M_C, loss) and the plain mu at t = 0, with every average of the samples' code taken over nodes."""
    e = Experiment.from_run(run)
    x, w = _nodes()
    strata = np.cumsum((0.0, *e.data.strata))
    h0, h, u, s = (axis.ravel() for axis in np.meshgrid(x, x, 0.5 * (strata[1:] + strata[:-1]), (1.0, 0.0), indexing="ij"))
    on = e.batch.fraction
    weight = (w[:, None, None, None] * w[:, None, None] * np.diff(strata)[:, None] * np.array((on, 1 - on))).ravel()
    if isinstance(e.data, Teacher) and e.data.flip:
        u = np.where(u < 1 - e.data.flip, 0.99, 0.01)  # strata: right, then flipped; u below `flip` flips
    labelled = e.data.draw(h0, u[:, None])
    zero, sd = np.zeros(len(h0)), np.sqrt(e.h_start_variance)
    pairs = e.data.jump(np.full((2 * len(x), 1), 0.5))
    sign = np.repeat((1.0, -1.0), len(x))
    extra = np.zeros(2 * len(x))
    parts = {"batch_index": extra, "noise_index": extra, "sign": extra + 1, "k": pairs.k, "y": sign, "sd": extra + 1,
             "slope": extra, "shift": extra, "stratum": extra, "jump": sign * pairs.size * np.tile(w, 2), "h": sd * np.tile(x, 2),
             "s": extra + 1, "weight": extra, "carrier": extra > 0, "z": np.zeros((2 * len(x), 0)),
             "changes": np.zeros((2 * len(x), 0), np.int64)}
    own = {**labelled._asdict(), "batch_index": zero, "noise_index": zero, "sign": zero + 1, "jump": zero, "h": sd * h, "s": s,
           "weight": weight, "carrier": zero > 0, "z": np.zeros((len(h0), 0)), "changes": np.zeros((len(h0), 0), np.int64)}
    draws = Draws(**{name: np.concatenate([own[name], parts[name]]) for name in Draws._fields})
    history = History(1)
    samples = Samples(e, history, draws, draws.weight, 64, Sampling(len(draws.h), 1, (0,), frozenset({"stein"})))
    sums = samples.row_sums(e.m0).sum(axis=0)
    row = WeightDynamics(e, history).estimate_row(sums, InUse(True, False, 1.0, 1.0, 0.0, np.inf)).row
    return (row.delta_nu, row.mu, row.M_C_now, sums[LOSSES]), e.alpha * sums[GK]


@pytest.mark.parametrize("name", CASES)
def test_first_row_is_exact(name):
    problem, algorithm, expected = CASES[name]
    found, plain = first_row(make(problem, algorithm))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)
    assert plain == pytest.approx(expected[1], abs=1e-6)


def test_twins_of_the_first_row(monkeypatch):
    """Without the jump of the labels mu is off by (1 - 2p)/sqrt(2 pi) times alpha; with k = h0 clusters lose their centres."""
    problem, algorithm, expected = CASES["A1"]
    monkeypatch.setattr(Teacher, "jump", lambda self, u: Jump(np.zeros(len(u)), 0.0))
    (_, mu, _, _), _ = first_row(make(problem, algorithm))
    assert mu - expected[1] == pytest.approx(2 * 0.8 / np.sqrt(2 * np.pi), abs=1e-6)
    problem, algorithm, expected = CASES["E3"]
    placed = Mixture.draw
    monkeypatch.setattr(Mixture, "draw", lambda self, h0, u: placed(self, h0, u)._replace(k=h0))
    _, plain = first_row(make(problem, algorithm))
    assert abs(plain - expected[1]) > 0.1


@pytest.mark.parametrize("name", ["A1", slow("F2")])
def test_the_march_solves_the_equations(name):
    """Plain estimates of the march against dmft/equations/reference.py, the same random numbers."""
    run = make(*CASES[name][:2], steps=STEPS)
    e, sampling = Experiment.from_run(run), Sampling(SAMPLES, 1, (0,), PLAIN)
    draws = draw(e, sampling, np.arange(SAMPLES))
    weight = normalised(draws.weight, blocks_for(SAMPLES, SAMPLES, Comm()), Comm(), draws.stratum, e.data.strata)
    for k, share in enumerate(e.data.strata):
        assert weight[draws.stratum == k].sum() == pytest.approx(share)
    kernels, weights, _ = reference.solve(e, draws, weight, sampling.keys)
    assert_same(make_march(run, SAMPLES, parts=PLAIN), kernels, weights, 1e-6)


@pytest.mark.parametrize("name", ["E3", "F2"])
def test_march_and_iteration_agree(name):
    run = make(*CASES[name][:2], steps=12)
    march, iteration = make_march(run, 200), make_iteration(run, 200)
    for curve in ("m", "loss", "mu", "training_error"):
        np.testing.assert_allclose(march.curves[curve], iteration.curves[curve], rtol=0, atol=1e-7)


@pytest.mark.filterwarnings("ignore:not converged")
def test_march_and_iteration_learn_the_same_intercept(tmp_path):
    """Also with the kernels of the march as first guess: b then hardly moves."""
    run = make(*CASES["E1"][:2], steps=10, theory="samples = 200\nreplicas = 1\nkernel_points = 11")
    march = dmft.solve(run, output=tmp_path / "march.h5", quiet=True)
    iterate = run.replace(method="iterate", mixing=1.0, tolerance=1e-12)
    iteration = dmft.solve(iterate, quiet=True)
    assert march.b[-1] < -0.05
    for curve in ("m", "b", "loss", "training_error", "error"):
        np.testing.assert_allclose(march.curves[curve], iteration.curves[curve], rtol=0, atol=1e-8)
    again = dmft.solve(iterate.replace(start_from=str(tmp_path / "march.h5"), max_sweeps=2), quiet=True)
    np.testing.assert_allclose(again.b, march.b, rtol=0, atol=1e-5)
    cold = dmft.solve(iterate.replace(max_sweeps=2), quiet=True)
    assert abs(cold.b - march.b).max() > 1e-3


def test_march_and_iteration_agree_with_samples_on_the_jump():
    run = make(*CASES["A1"][:2], steps=10, theory="samples = 100\nreplicas = 1")
    march = dmft.solve(run, quiet=True)
    iteration = dmft.solve(run.replace(method="iterate", mixing=1.0, tolerance=1e-12), quiet=True)
    np.testing.assert_allclose(march.m, iteration.m, rtol=0, atol=1e-8)
    plain = dmft.solve(run.replace(variance_reduction=("sobol", "weights", "ibp")), quiet=True)
    assert abs(march.m - plain.m).max() > 1e-4


def marchenko_pastur(alpha: float, ridge: float, noise: float, m0: float, eta: float, steps: int) -> dict[str, np.ndarray]:
    """m, q, C(n, 0) and the loss of every step of gradient descent on the square loss with labels h0 + noise, alpha > 1."""
    theta = np.arange(1, 401) * np.pi / 401
    x = 1 + alpha + 2 * np.sqrt(alpha) * np.cos(theta)  # eigenvalues: Gauss-Chebyshev nodes of the second kind
    rho = 4 * alpha * np.pi / 401 * np.sin(theta) ** 2 / (2 * np.pi * x)
    P = (1 - eta * (x + ridge)) ** np.arange(steps + 1)[:, None]
    F = (1 - P) / (x + ridge)
    A = m0 * P + x * F
    loss = (x * ((A - 1) ** 2 + P**2)) @ rho + noise * (alpha + (x**2 * F**2 - 2 * x * F) @ rho)
    return {"m": A @ rho, "q": (A**2 + P**2 + noise * x * F**2) @ rho, "C": (m0 * A + P) @ rho, "loss": loss / (2 * alpha)}


def test_whole_curve_of_the_noisy_linear_teacher():
    """Against the Marchenko-Pastur law at every step: m and C(t, 0) have no Monte-Carlo noise in this linear problem, q and the
    loss are right within errors of 4e-3 or less; with less noise on the labels in the formula they are not."""
    run = make('alpha = 2\nm0 = 0.3\nloss = "linear"\nlabel_noise = 0.5\nconstraint = "ridge"\nridge = 0.2\n', GD, steps=40,
               theory="samples = 1024\nreplicas = 8")
    theory = dmft.solve(run, quiet=True)
    exact = marchenko_pastur(2.0, 0.2, 0.5, 0.3, 0.05, 40)
    np.testing.assert_allclose(exact["m"][[10, 20, 40]], (0.65935421, 0.75776450, 0.81849316), rtol=0, atol=1e-8)
    np.testing.assert_allclose(theory.m, exact["m"], rtol=0, atol=2e-7)
    np.testing.assert_allclose(theory.kernels.C[:, 0], exact["C"], rtol=0, atol=1e-6)
    less = marchenko_pastur(2.0, 0.2, 0.4, 0.3, 0.05, 40)
    for name in ("q", "loss"):
        error = theory.curves[f"{name}_error"]
        assert error.max() < 4e-3 and np.abs(theory.curves[name] - exact[name]).max() < 6 * error.max()
        assert np.abs(theory.curves[name] - less[name])[-1] > 6 * error[-1]


WITHOUT = {  # what mu has besides E_n, taken out
    "A1": (Teacher, "jump", lambda self, u: Jump(np.zeros(len(u)), 0.0)),
    "E3": (Mixture, "draw", lambda self, h0, u, draw=Mixture.draw: draw(self, h0, u)._replace(shift=np.zeros(len(h0)))),
    "C": (Teacher, "_label", lambda self, h0, zeta, label=Teacher._label: (label(self, h0, zeta)[0], np.zeros(len(h0)))),
}


@pytest.mark.parametrize("name", WITHOUT)
def test_control_leaves_the_mean_and_takes_the_noise(name, monkeypatch):
    """mu by parts against plain sampling, for labels that jump, clusters, and labels that are smooth: the same mean, and m(t = 1)
    with less than a tenth of the variance (no more of it for clusters, where Sobol points do as much). The twin without the jump of
    the labels (the centres, the slope) has another mean."""
    problem = CASES["A1"][0].replace('"logistic"\nflip = 0.1', '"linear"\nlabel_noise = 0.5') if name == "C" else CASES[name][0]
    run = make(problem, GD, steps=20, theory="samples = 1024\nreplicas = 12")
    controlled = dmft.solve(run, quiet=True)
    plain = dmft.solve(run.replace(variance_reduction=("sobol", "weights", "ibp")), quiet=True)
    spread = np.hypot(controlled.m_error[-1], plain.m_error[-1])
    assert abs(controlled.m[-1] - plain.m[-1]) < 5 * spread
    assert controlled.m_error[-1] < (1.2 if name == "E3" else 0.3) * plain.m_error[-1]
    monkeypatch.setattr(*WITHOUT[name])
    assert abs(dmft.solve(run, quiet=True).m[-1] - plain.m[-1]) > 10 * spread


def test_pairs_are_alike_but_for_their_label():
    run = make('alpha = 2\nm0 = 0.2\nloss = "logistic"\nlabel_noise = 0.5\n' + RIDGE,
               'kind = "persistent_sgd"\nbatch_fraction = 0.5\npersistence = 0.5')
    e = Experiment.from_run(run)
    draws = draw(e, Sampling(100, 1, (0,), frozenset({"sobol", "weights", "stein"}), pairs=64), np.arange(228))
    first, second = slice(100, None, 2), slice(101, None, 2)
    for name in ("batch_index", "k", "h", "s", "z"):
        np.testing.assert_array_equal(getattr(draws, name)[first], getattr(draws, name)[second])
    assert np.all(draws.y[first] == 1) and np.all(draws.y[second] == -1) and not draws.weight[100:].any()
    assert draws.jump[first].sum() == pytest.approx(1 / np.sqrt(2 * np.pi * 1.5))
    assert np.std(draws.k[first]) == pytest.approx(np.sqrt(0.5 / 1.5), rel=0.1)
