"""The end of gradient descent on convex losses: numbers converged elsewhere, closed forms, and the dynamics at long times."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.optimize import brentq, minimize

import dmft
from dmft.core.errors import RunError, UserError
from dmft.model.classification import LOGISTIC, SMOOTH_HINGE
from dmft.model.losses import LINEAR
from dmft.model.mixture import Mixture
from dmft.model.runfile import Run, parse_run
from dmft.model.teacher import Teacher
from dmft.statics.limit_averages import averages, integrals, prox
from dmft.statics.limits import fixed_point

TWO = 'data = "mixture"\nclusters = [[1, 0.3, 1, {0}], [-1, 0.7, -1, {0}]]\n'
RIDGE = 'constraint = "ridge"\nridge = {}\n'
PROBLEMS = {
    "P1": 'alpha = 2\nloss = "linear"\nlabel_noise = 0.5\n' + RIDGE.format(0.5),
    "P2": 'alpha = 2\nloss = "logistic"\nflip = 0.1\n' + RIDGE.format(0.3),
    "P3": 'alpha = 2\nloss = "logistic"\n' + TWO.format(1) + RIDGE.format(0.3),
    "P4": 'alpha = 1.5\nloss = "smooth_hinge"\nbias = true\n' + TWO.format(0.5) + RIDGE.format(0.5),
    "P5": 'alpha = 1.5\nloss = "smooth_hinge"\nflip = 0.1\n' + RIDGE.format(0.5),
    "P6": 'alpha = 2\nloss = "logistic"\n' + TWO.format(1),
    "P7": 'alpha = 2\nloss = "logistic"\nflip = 0.1\n',
}
# m, q, V, training loss, error on new samples (noisy labels), ridge or multiplier: an independent solution of the same equations,
# compared there with direct minimisation
EXPECTED = {
    "P1": (0.71922359, 0.71922359, 0.56155281, 0.16009705, 0.78077641, 0.5),
    "P2": (0.79537938, 1.25377665, 1.73396958, 0.36466901, 0.29883416, 0.3),
    "P3": (0.88816744, 1.32247598, 1.84170694, 0.29730690, 0.21996053, 0.3),
    "P4": (0.5005274, 0.4031988, 1.1555454, 0.0781448, 0.1202119, 0.5),
    "P5": (0.4340367, 0.4495939, 0.8383110, 0.1333657, 0.3207132, 0.5),
    "P6": (0.7810877, 1.0, 1.4878854, 0.3251845, 0.2173754, 0.4003655),
    "P7": (0.7102080, 1.0, 1.4936896, 0.3858333, 0.2988807, 0.3720234),
}
DIGITS = {name: 6e-9 if name in ("P1", "P2", "P3") else 6e-8 for name in EXPECTED}


def make(problem: str, eta: float = 0.1, t_max: float = 1.0, theory: str = "") -> Run:
    return parse_run(f'[problem]\nm0 = 0.2\n{problem}\n[algorithm]\nkind = "gd"\nlearning_rate = {eta}\nt_max = {t_max}\n'
                     f"[theory]\n{theory}")


@pytest.mark.long
@pytest.mark.parametrize("name", EXPECTED)
def test_numbers_of_another_solver(name):
    found = fixed_point(make(PROBLEMS[name]))
    (error,) = found.errors.values()
    numbers = found.m, found.q, found.response, found.loss, error, found.nu_hat
    np.testing.assert_allclose(numbers, EXPECTED[name], rtol=0, atol=DIGITS[name])
    assert found.b == pytest.approx(-0.2573393, abs=6e-8) if name == "P4" else found.b == 0.0


def test_closed_forms():
    """The noisy linear teacher by its formula, and two clusters with V = 1, m = 1/2, q = 2/5, loss = 1/10; all to 1e-10."""
    for alpha, ridge, noise in ((2.0, 0.5, 0.5), (0.7, 0.2, 0.3)):
        found = fixed_point(make(f'alpha = {alpha}\nloss = "linear"\nlabel_noise = {noise}\n' + RIDGE.format(ridge)))
        s = 1 - alpha - ridge
        V = (s + np.sqrt(s * s + 4 * ridge)) / (2 * ridge)
        m, A = 1 - ridge * V, alpha * V**2 / (1 + V) ** 2
        Q = A * ((1 - m) ** 2 + noise) / (1 - A)
        loss = ((1 - m) ** 2 + Q + noise) / (2 * (1 + V) ** 2)
        np.testing.assert_allclose((found.m, found.q, found.response, found.loss), (m, Q + m * m, V, loss), rtol=0, atol=1e-10)
    found = fixed_point(make('alpha = 1.5\nloss = "linear"\n' + TWO.format(0.5) + RIDGE.format(0.5)))
    np.testing.assert_allclose((found.response, found.m, found.q, found.loss), (1, 0.5, 0.4, 0.1), rtol=0, atol=1e-10)


def test_square_loss_on_signs_two_ways():
    """Labels +-1 by integrals over omega against their moments <k y> = (1 - 2p) sqrt(2/pi), <y^2> = 1."""
    p, alpha, ridge = 0.1, 1.5, 0.4
    found = fixed_point(make(f'alpha = {alpha}\nloss = "linear"\nlabels = "sign"\nflip = {p}\n' + RIDGE.format(ridge)))
    ky, s = (1 - 2 * p) * np.sqrt(2 / np.pi), 1 - alpha - ridge
    V = (s + np.sqrt(s * s + 4 * ridge)) / (2 * ridge)
    m = alpha * V / (1 + V) * ky
    A = alpha * V**2 / (1 + V) ** 2
    Q = A * (m * m - 2 * m * ky + 1) / (1 - A)
    np.testing.assert_allclose((found.m, found.q, found.response), (m, Q + m * m, V), rtol=0, atol=1e-10)


@pytest.mark.parametrize("Delta, ridge", [(0.05, 0.1), (0.01, 0.01)])
def test_narrow_clusters(Delta, ridge):
    """Two clusters with the square loss, in closed form, to 1e-10. Where they are narrow the equation for m has a slope of -9
    (-59), and the iteration needs more damping than one half."""
    alpha = 2.0
    clusters = f"clusters = [[1, 0.5, 1, {Delta}], [-1, 0.5, -1, {Delta}]]\n"
    found = fixed_point(make(f'alpha = {alpha}\nloss = "linear"\ndata = "mixture"\nbias = true\n{clusters}' + RIDGE.format(ridge)))
    s = 1 - alpha - ridge / Delta
    DV = (s + np.sqrt(s * s + 4 * ridge / Delta)) / (2 * ridge / Delta)  # of 1/V = lambda + alpha Delta/(1 + Delta V)
    slope = alpha * DV / Delta / (1 + DV)
    m, A = slope / (1 + slope), alpha * (DV / (1 + DV)) ** 2
    Q = A * ((1 - m) ** 2 / Delta + m * m) / (1 - A)
    np.testing.assert_allclose((found.m, found.q, found.response, found.b), (m, Q + m * m, DV / Delta, 0.0), rtol=0, atol=1e-10)


@pytest.mark.long
@pytest.mark.parametrize("problem", [
    'loss = "logistic"\n' + RIDGE.format(0.1), 'loss = "smooth_hinge"\n' + RIDGE.format(0.1), 'loss = "smooth_hinge"\n'])
def test_an_intercept_that_symmetry_keeps_at_zero(problem):
    """Without a warning of a division by zero: Powell's method looks far away, where all samples are on flat parts of v'."""
    clusters = 'alpha = 2\ndata = "mixture"\nbias = true\nclusters = [[1, 0.5, 1, 1], [-1, 0.5, -1, 1]]\n'
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found, plain = fixed_point(make(clusters + problem)), fixed_point(make(clusters.replace("bias = true\n", "") + problem))
    np.testing.assert_allclose((found.m, found.q, found.b), (plain.m, plain.q, 0.0), rtol=0, atol=1e-10)


def test_the_field_of_a_sample_where_newton_jumps_to_and_fro():
    """f + V v'(f, y) = omega at V = 68, as at alpha = 1/2 and ridge 0.01: v' is steep between two flat parts."""
    omega = np.linspace(-40.0, 40.0, 401)
    for loss in (LOGISTIC, SMOOTH_HINGE):
        for y in (1.0, -1.0):
            wanted = [brentq(lambda f, x=x, y=y, loss=loss: f + 68.0 * loss.dv(f, y) - x, x - 70.0, x + 70.0, xtol=1e-13)
                      for x in omega]
            np.testing.assert_allclose(prox(loss, omega, np.full_like(omega, y), 68.0), wanted, rtol=0, atol=1e-12)


@pytest.mark.long
@pytest.mark.statistical
def test_a_small_ridge_below_and_above_separability():
    """Flipped labels, ridge 0.01: a limit at every alpha. At alpha = 1, where the data can be fitted without error, m, q and loss
    are those of direct minimisation within 4 errors (12 instances, N = 400), and those of alpha = 1.1 are not."""
    problem = 'alpha = {}\nloss = "logistic"\nflip = 0.1\n' + RIDGE.format(0.01)
    overlaps = [fixed_point(make(problem.format(alpha))).m for alpha in (0.5, 1.0, 2.0, 2.7, 5.0, 20.0)]
    assert np.argmax(overlaps) == 3  # it grows until the data cannot be fitted any more, and falls to that of infinite alpha
    measured = np.array([_logistic(seed, 400, 1.0, 0.01, 0.1) for seed in range(12)])
    mean, error = measured.mean(0), measured.std(0, ddof=1) / np.sqrt(len(measured))
    for alpha in (1.0, 1.1):
        found = fixed_point(make(problem.format(alpha)))
        z = np.abs(mean - np.array([found.m, found.q, found.loss])) / error
        assert (z.max() < 4) == (alpha == 1.0), z


def _logistic(seed: int, N: int, alpha: float, ridge: float, flip: float) -> tuple[float, float, float]:
    """m, q and the loss of a sample at the minimum of the logistic loss with a ridge, from data with flipped labels."""
    rng = np.random.default_rng(seed)
    X, w0 = rng.standard_normal((int(alpha * N), N)) / np.sqrt(N), rng.standard_normal(N)
    w0 *= np.sqrt(N) / np.linalg.norm(w0)
    y = np.where(X @ w0 >= 0, 1.0, -1.0) * np.where(rng.random(len(X)) < flip, -1.0, 1.0)

    def cost(w: np.ndarray) -> tuple[float, np.ndarray]:
        f = X @ w
        return LOGISTIC.v(f, y).sum() + 0.5 * ridge * w @ w, X.T @ LOGISTIC.dv(f, y) + ridge * w

    w = minimize(cost, np.zeros(N), jac=True, method="L-BFGS-B", options={"maxiter": 5000, "ftol": 1e-15, "gtol": 1e-8}).x
    return float(w @ w0 / N), float(w @ w / N), float(LOGISTIC.v(X @ w, y).mean())


def _soft(name: str, labels: str) -> None:
    """Huber's loss of f - y, quadratic within 1."""
    dmft.register_loss(name, lambda f, y: 0.5 * (f - y) ** 2 if abs(f - y) < 1 else abs(f - y) - 0.5,
                       lambda f, y: min(max(f - y, -1.0), 1.0), lambda f, y: 1.0 if abs(f - y) < 1 else 0.0,
                       lambda f, y: -1.0 if abs(f - y) < 1 else 0.0, labels=labels, convex=True)


@pytest.mark.long
def test_the_square_loss_of_a_user_is_ours():
    """By integrals over labels and fields in place of moments, to 1e-10."""
    dmft.register_loss("my_square", lambda f, y: 0.5 * (f - y) ** 2, lambda f, y: f - y, lambda f, y: 1.0, lambda f, y: -1.0,
                       labels="field", convex=True)
    for problem in ('alpha = 3\nlabel_noise = 0.3\n', 'alpha = 1.5\nlabels = "abs"\n' + RIDGE.format(0.4),
                    'alpha = 1.5\n' + TWO.format(0.5) + RIDGE.format(0.5)):
        found, ours = (fixed_point(make(f'loss = "{loss}"\n' + problem)) for loss in ("my_square", "linear"))
        np.testing.assert_allclose((found.m, found.q, found.response, found.loss), (ours.m, ours.q, ours.response, ours.loss),
                                   rtol=0, atol=1e-10)


def test_averages_of_noisy_labels_in_three_integrals():
    """Labels |h0| + noise and h0^2 + noise: integrals against the moments of the square loss."""
    for kind in ("abs", "square"):
        data = Teacher(kind, 0.3, loss=LINEAR)
        np.testing.assert_allclose(integrals(data, 0.3, 1.2, 0.7, 0.0)[:3], averages(data, 0.3, 1.2, 0.7, 0.0)[:3], atol=1e-10)


@pytest.mark.slow
def test_a_loss_of_a_user_with_kinks():
    """The smooth hinge registered as a user's has the limit of ours: the jumps of its v'' are found. Huber's loss, whose jumps move
    with the label, solves its own equations under direct minimisation: m, q and loss within 4 errors, not those of squares."""
    dmft.register_loss("my_hinge", SMOOTH_HINGE.v, SMOOTH_HINGE.dv, SMOOTH_HINGE.d2v, SMOOTH_HINGE.dv_dy, labels="sign",
                       convex=True)
    found, ours = (fixed_point(make(PROBLEMS["P5"].replace("smooth_hinge", loss))) for loss in ("my_hinge", "smooth_hinge"))
    np.testing.assert_allclose((found.m, found.q, found.response, found.loss), (ours.m, ours.q, ours.response, ours.loss),
                               rtol=0, atol=1e-10)
    _soft("my_huber", "field")
    found = fixed_point(make('alpha = 2\nloss = "my_huber"\nlabel_noise = 1.5\n' + RIDGE.format(0.3)))
    measured = np.array([_minimised(seed, 300, 2.0, 0.3, 1.5) for seed in range(12)])
    mean, error = measured.mean(0), measured.std(0, ddof=1) / np.sqrt(len(measured))
    z = (mean - np.array([found.m, found.q, found.loss])) / error
    assert np.abs(z).max() < 4
    squares = fixed_point(make('alpha = 2\nloss = "linear"\nlabel_noise = 1.5\n' + RIDGE.format(0.3)))
    assert abs(mean[1] - squares.q) > 6 * error[1]


def _minimised(seed: int, N: int, alpha: float, ridge: float, noise: float) -> tuple[float, float, float]:
    """m, q and the loss of a sample at the minimum of Huber's loss with a ridge, from data."""
    rng = np.random.default_rng(seed)
    X, w0 = rng.standard_normal((int(alpha * N), N)), rng.standard_normal(N)
    w0 *= np.sqrt(N) / np.linalg.norm(w0)
    y = X @ w0 / np.sqrt(N) + np.sqrt(noise) * rng.standard_normal(len(X))

    def cost(w: np.ndarray) -> tuple[float, np.ndarray]:
        gap = X @ w / np.sqrt(N) - y
        cut = np.clip(gap, -1, 1)
        return np.sum(cut * (gap - 0.5 * cut)) + 0.5 * ridge * w @ w, X.T @ cut / np.sqrt(N) + ridge * w

    w = minimize(cost, np.zeros(N), jac=True, method="L-BFGS-B", options={"gtol": 1e-7, "ftol": 0.0}).x
    return w @ w0 / N, w @ w / N, (cost(w)[0] - 0.5 * ridge * w @ w) / len(y)


LONG = {"P1": (0.2, 24.0), "P2": (0.4, 24.0), "P3": (0.4, 32.0), "P4": (0.3, 24.0), "P5": (0.4, 24.0), "P6": (0.4, 16.0),
        "P7": (0.4, 24.0)}
QUICK = ("P4", "P6")


def _distance(name: str, theory: dmft.api.Theory) -> float:
    """The largest distance of m, q, loss and the error from the fixed point at the last time, in errors of the theory."""
    found = fixed_point(make(PROBLEMS[name]))
    worst = 0.0
    for curve, wanted in (("m", found.m), ("q", found.q), ("loss", found.loss), ("training_error", found.training_error),
                          ("b", found.b), *found.errors.items()):
        if curve in theory.curves:
            spread = theory.curves[f"{curve}_error"][-1]
            assert spread < (1e-3 if curve in ("m", "error") else 4e-3)
            worst = max(worst, abs(theory.curves[curve][-1] - wanted) / (spread + 2e-4))
    return worst


@pytest.mark.long
@pytest.mark.parametrize("name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in LONG])
def test_gradient_descent_gets_there(name):
    """Student with 7 degrees of freedom stays below 6 but for 5e-4; 2e-4: what exp(-lambda t) leaves, and the bias at finite K."""
    theory = dmft.solve(make(PROBLEMS[name], *LONG[name], "samples = 2048\nreplicas = 8"), quiet=True)
    assert _distance(name, theory) < 6


def test_gradient_descent_without_the_centres_ends_elsewhere(monkeypatch):
    """The twin: clusters whose k is h0, as for a teacher."""
    draw = Mixture.draw
    monkeypatch.setattr(Mixture, "draw", lambda self, h0, u: draw(self, h0, u)._replace(k=h0))
    theory = dmft.solve(make(PROBLEMS["P6"], *LONG["P6"], "samples = 2048\nreplicas = 8"), quiet=True)
    with pytest.raises(AssertionError):
        assert _distance("P6", theory) < 6


@pytest.mark.long
def test_no_limit_is_one_line():
    for problem, said in (('alpha = 2\nloss = "phase_retrieval"', "not convex"),
                          ('alpha = 2\nloss = "logistic"\n' + RIDGE.format(0), "no fixed point")):
        with pytest.raises(RunError, match=said):
            fixed_point(make(problem))
    run = make(PROBLEMS["P2"]).replace(kind="sgd", batch_fraction=0.5)
    with pytest.raises(RunError, match='kind = "sgd": .* keep the weights moving'):
        fixed_point(run)
    with pytest.raises(RunError, match="temperature > 0: .* keep the weights moving"):
        fixed_point(make(PROBLEMS["P2"]).replace(temperature=0.1))
    cold = make(PROBLEMS["P2"]).replace(kind="langevin", temperature=0.0)
    assert fixed_point(cold).m == fixed_point(make(PROBLEMS["P2"])).m
    with pytest.raises(RunError, match="ridge: it changes in time"):
        fixed_point(make(PROBLEMS["P2"]).replace(ridge=[[0.0, 0.3], [0.2, 0.1]]))
    with pytest.raises(UserError, match="d2v is negative"):
        dmft.register_loss("no_bowl", lambda f, y: -0.5 * f * f, lambda f, y: -f, lambda f, y: -1.0 + 0.0 * f, convex=True)
