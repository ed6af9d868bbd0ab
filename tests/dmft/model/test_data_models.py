"""Data models: what a run file may ask for, the laws of the labels, and errors on new samples in closed form."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr

from dmft.core.errors import RunError
from dmft.model.channels import Channel, Field
from dmft.model.data import data_of
from dmft.model.experiment import Experiment, theory_experiment
from dmft.model.losses import get_loss, register_loss
from dmft.model.observables import sign_error
from dmft.model.runfile import Run, load_run, parse_run

CLUSTERS = 'data = "mixture"\nclusters = [[1.0, 0.3, 1.0, 0.5], [-1.0, 0.7, -1.0, 2.0]]\n'
THREE = 'data = "mixture"\nclusters = [[0, 0.5, -1, 0.5], [1, 0.25, 1, 0.5], [-1, 0.25, 1, 0.5]]\n'


def make(problem: str, algorithm: str = 'kind = "gd"') -> Run:
    return parse_run(f"[problem]\nalpha = 2.0\nm0 = 0.2\n{problem}\n[algorithm]\n{algorithm}\nlearning_rate = 0.1\nt_max = 1.0\n")


@pytest.mark.parametrize(("problem", "said"), [
    ('labels = "sign"', "makes sense with labels abs or square"),
    ('flip = 0.1', 'only labels = "sign" have a sign to flip'),
    ('loss = "linear"\nflip = 0.1', "have a sign to flip"),
    ('loss = "logistic"\nlabels = "abs"', "makes sense with labels sign"),
    ('loss = "door"', "made for clusters"),
    ('loss = "logistic"\nflip = 0.6', "flip"),
    (CLUSTERS, "no use for the sign"),
    ('loss = "logistic"\n' + CLUSTERS + "flip = 0.1", "not used with data"),
    ('loss = "logistic"\ndata = "mixture"', "missing key 'clusters'"),
    ('loss = "logistic"\ndata = "mixture"\nclusters = [[1, 0.3, 1, 1], [-1, 0.6, -1, 1]]', "add up to 1"),
    ('loss = "logistic"\ndata = "mixture"\nclusters = [[1, 0.3, 1, 1], [-1, 0.7, 0, 1]]', r"labels \+1 and -1"),
    ('loss = "logistic"\nbias = true', "x and -x are alike"),
    ("start_variance = 0.5", "not used with constraint"),
    ("door = 0.5", "not used with loss"),
    ('labels = "signs"', "did you mean 'sign'"),
])
def test_what_makes_no_sense_is_one_line(problem, said):
    with pytest.raises(RunError, match=said) as caught:
        make(problem)
    assert "\n" not in str(caught.value)


SPECTRAL = """[problem]\nalpha = 2.0\nstart = "spectral"\nconstraint = "ridge"\nridge = 0.1\n{}
[algorithm]\nkind = "gd"\nlearning_rate = 0.1\nt_max = 1.0\n"""


def test_a_spectral_start_has_no_variance():
    """It is an eigenvector on the sphere. Results of earlier versions, whose run files hold the key, are still read."""
    run = parse_run(SPECTRAL.format(""))
    assert "start_variance" not in run.to_toml() and parse_run(run.to_toml()) == run
    with pytest.raises(RunError, match='start_variance\' is not used with start = "spectral"') as caught:
        parse_run(SPECTRAL.format("start_variance = 0.5"))
    assert "\n" not in str(caught.value)
    assert parse_run(SPECTRAL.format("start_variance = 0.5"), any_loss=True).to_toml() == run.to_toml()
    assert "start_variance = 0.5" in make('constraint = "ridge"\nridge = 0.1\nstart_variance = 0.5').to_toml()    # of a warm one


@pytest.mark.parametrize("problem", ['loss = "linear"\nlabel_noise = 0.5', "label_noise = 0.5",
                                     'labels = "square"\nlabel_noise = 0.5'])
def test_the_slope_of_a_label_is_its_derivative(problem):
    """By central differences in h0 with the same noise: exact but for rounding, 1e-16 over 1e-5, for these labels."""
    data, step = data_of(make(problem).problem), 1e-5
    h0, u = np.linspace(-2.0, 2.5, 10), np.linspace(0.1, 0.9, 10)[:, None]
    up, down = data.draw(h0 + step, u).y, data.draw(h0 - step, u).y
    np.testing.assert_allclose(data.draw(h0, u).slope, (up - down) / (2 * step), atol=1e-9)


def test_the_theory_refuses_a_loss_that_is_not_smooth():
    register_loss("hinge_for_tests", lambda f, y: max(0.0, 1 - y * f), lambda f, y: -y if y * f < 1 else 0.0 * f,
                  lambda f, y: 0.0 * f, labels="sign")
    with pytest.raises(RunError, match="dv jumps as f grows"):
        theory_experiment(make('loss = "hinge_for_tests"'))


PHASE = "\n[[phase]]\nbegin = 0.5\nlearning_rate = 0.05\n[[phase]]\nbegin = 0.7\nloss = {!r}\n"


def with_phase(problem: str, loss: str) -> Run:
    """A run whose second phase continues to another loss; without m0."""
    return parse_run(f'[problem]\nalpha = 2.0\n{problem}\n[algorithm]\nkind = "gd"\nlearning_rate = 0.1\nt_max = 1.0\n'
                     + PHASE.format(loss))


def test_the_theory_refuses_a_phase_to_a_loss_that_is_not_smooth():
    """The smoothed hinge in its place is taken."""
    register_loss("late_hinge", lambda f, y: max(0.0, 1 - y * f), lambda f, y: -y if y * f < 1 else 0.0 * f,
                  lambda f, y: 0.0 * f, labels="sign")
    with pytest.raises(RunError, match=r'^\[\[phase\]\] 2: loss = "late_hinge": its derivative dv jumps as f grows') as caught:
        theory_experiment(with_phase('m0 = 0.2\nloss = "logistic"', "late_hinge"))
    assert "\n" not in str(caught.value)
    assert len(theory_experiment(with_phase('m0 = 0.2\nloss = "logistic"', "smooth_hinge")).losses) == 2


@pytest.mark.parametrize(("labels", "loss", "has"), [("square", "phase_retrieval", "square"), ("", "logistic", "y = h0"),
                                                     ("square", "linear", "square"), ("sign", "linear", "sign")])
def test_a_phase_to_a_loss_made_for_other_labels(labels, loss, has):
    """Refused unless the run file says which labels are meant; phase retrieval of squares is then (f^2 - y)^2/4."""
    square = get_loss("linear")
    register_loss("first", square.v, square.dv, square.d2v, labels=labels)
    said = rf"\[\[phase\]\] 2: loss = \"{loss}\": made for labels \w+, but this run has {has} "
    with pytest.raises(RunError, match=said) as caught:
        with_phase('m0 = 0.2\nloss = "first"', loss)
    assert "\n" not in str(caught.value)
    meant = {"phase_retrieval": "square", "logistic": "sign", "linear": labels}[loss]
    run = with_phase(f'm0 = 0.2\nloss = "first"\nlabels = "{meant}"', loss)
    if loss == "phase_retrieval":
        assert theory_experiment(run).losses[1].v(1.0, 3.0) == 1.0


@pytest.mark.parametrize(("labels", "loss"), [("", "linear"), ("", "phase_retrieval"), ("field", "linear"), ("sign", "logistic")])
def test_a_phase_to_a_loss_made_for_the_same_labels(labels, loss):
    square = get_loss("linear")
    register_loss("first", square.v, square.dv, square.d2v, labels=labels)
    assert len(theory_experiment(with_phase('m0 = 0.2\nloss = "first"', loss)).losses) == 2


def test_a_phase_to_a_loss_that_jumps_in_the_label_is_solved_without_stein():
    """The jump at |y| = 3 is in reach; one at 30 is not, and labels sign never need it."""
    def register_cut(name: str, edge: float) -> None:
        register_loss(name, lambda f, y: 0.5 * (f - y) ** 2 if abs(y) < edge else 0.0,
                      lambda f, y: f - y if abs(y) < edge else 0.0, lambda f, y: 1.0 if abs(y) < edge else 0.0)

    register_cut("cut_3", 3.0)
    register_cut("cut_30", 30.0)
    linear, signs = 'm0 = 0.2\nloss = "linear"\nlabels = "field"', 'm0 = 0.2\nloss = "linear"\nlabels = "sign"'
    assert not theory_experiment(with_phase(linear, "cut_3")).stein
    assert theory_experiment(with_phase(linear, "cut_30")).stein and theory_experiment(with_phase(signs, "cut_3")).stein


def test_a_random_start_refuses_a_phase_to_a_loss_that_tells_the_sign():
    """(f^2 - y^2)^2 with y = h0 is even in h0, (f - y)^2 is not; nor is a loss that differs beyond y = 2 alone."""
    phase = get_loss("phase_retrieval")
    v, dv = phase.v, phase.dv
    register_loss("even_field", v, dv, phase.d2v, phase.dv_dy, labels="field")
    register_loss("late_sign", lambda f, y: v(f, y) + f * max(0.0, y - 2.0) ** 2, lambda f, y: dv(f, y) + max(0.0, y - 2.0) ** 2,
                  phase.d2v, labels="field")
    for name in ("linear", "late_sign"):
        with pytest.raises(RunError, match=rf'\[\[phase\]\] 2: loss = "{name}": labels give away the sign of h0') as caught:
            theory_experiment(with_phase('start = "random"\nloss = "even_field"', name))
        assert "\n" not in str(caught.value)
    assert theory_experiment(with_phase('start = "random"\nloss = "even_field"', "even_field")).centred


def test_files_round_trip_and_old_ones_mean_what_they_meant():
    for problem in ("", 'loss = "linear"\nlabel_noise = 0.5', 'loss = "logistic"\nflip = 0.1', 'loss = "door"\n' + THREE):
        run = make(problem)
        assert parse_run(run.to_toml()) == run
    assert data_of(make("").problem).plain and data_of(make('loss = "linear"').problem).plain
    for name in ("logistic-flips", "two-clusters", "three-clusters"):
        Experiment.from_run(load_run(f"runs/data/{name}.toml"))


@pytest.mark.parametrize("name", ["logistic", "smooth_hinge", "door"])
def test_derivatives(name):
    f, y = (axis.ravel() for axis in np.meshgrid(np.linspace(-3.03, 3.01, 41), (1.0, -1.0)))
    loss, step = get_loss(name), 1e-6
    np.testing.assert_allclose((loss.v(f + step, y) - loss.v(f - step, y)) / (2 * step), loss.dv(f, y), atol=1e-8)
    np.testing.assert_allclose((loss.dv(f + step, y) - loss.dv(f - step, y)) / (2 * step), loss.d2v(f, y), atol=1e-8)
    np.testing.assert_allclose((loss.dv(f, y + step) - loss.dv(f, y - step)) / (2 * step), loss.dv_dy(f, y), atol=1e-8)
    assert loss.v(800.0, -1.0) > 100 and np.isfinite(loss.v(-800.0, -1.0))


TEACHERS = {
    "field": ('loss = "linear"\nlabel_noise = 0.4', "mse", lambda f, y: (f - y) ** 2),
    "abs": ("label_noise = 0.4", "mse", lambda f, y: (np.abs(f) - y) ** 2),
    "square": ('labels = "square"\nlabel_noise = 0.4', "mse", lambda f, y: (f**2 - y) ** 2),
    "flips": ('loss = "logistic"\nflip = 0.15', "error", lambda f, y: f * y < 0),
    "noisy sign": ('loss = "logistic"\nlabel_noise = 0.4\nflip = 0.1', "error", lambda f, y: f * y < 0),
    "two clusters": ('loss = "logistic"\n' + CLUSTERS, "error", lambda f, y: f * y < 0),
    "numbered clusters": ('loss = "linear"\nbias = true\ndata = "mixture"\nclusters = [[1, 0.3, 2.5, 0.5], [-1, 0.7, 0, 2]]',
                          "mse", lambda f, y: (f - y) ** 2),
    "three clusters": ('loss = "door"\n' + THREE, "error", lambda f, y: (f**2 - 0.49) * y < 0),
}


@pytest.mark.parametrize("name", TEACHERS)
def test_errors_on_new_samples(name):
    """Closed forms against 4e5 draws of f = sd (m k + sqrt(q - m^2) xi) + b, within 4 errors; a wrong norm is seen."""
    problem, which, metric = TEACHERS[name]
    data, rng = data_of(make(problem).problem), np.random.default_rng(3)
    m, q, b, count = 0.6, 1.3, 0.2 if "clusters" in name else 0.0, 400_000
    h0, xi = rng.standard_normal((2, count))
    drawn = data.draw(h0, rng.uniform(size=(count, max(1, data.draws))))
    f = drawn.sd * (m * drawn.k + np.sqrt(q - m * m) * xi) + b
    values = np.asarray(metric(f, drawn.y), float)
    spread = values.std() / np.sqrt(count)
    assert abs(data.errors(np.array(m), np.array(q), b)[which] - values.mean()) < 4 * spread
    assert abs(data.errors(np.array(m), np.array(0.9 * q), b)[which] - values.mean()) > 4 * spread
    door = (lambda f: np.sign(f**2 - 0.49)) if "three" in name else np.sign
    guess = {"field": lambda f: f, "abs": np.abs, "square": np.square}.get(name, (lambda f: f) if "numbered" in name else door)
    distance = (lambda y, z: y != z) if which == "error" else (lambda y, z: (y - z) ** 2)
    found = data.generalization(distance, np.array(m), np.array(q), b)
    assert abs(found - values.mean()) < 4 * spread
    assert np.mean(distance(drawn.y, guess(f))) == pytest.approx(values.mean(), abs=1e-12)
    assert abs(data.generalization(distance, np.array(m), np.array(0.9 * q), b) - values.mean()) > 4 * spread


def test_generalization_of_clusters_whose_labels_are_numbers():
    """|y - f| has a kink at f = y: the mean of a folded normal, at several times at once."""
    data = data_of(make('loss = "linear"\ndata = "mixture"\nclusters = [[1, 0.3, 2.5, 0.5], [-1, 0.7, 0, 2]]').problem)
    m, q, b = np.array([0.0, 0.6]), np.array([1.0, 1.3]), np.array([0.0, 0.2])
    exact = 0.0
    for c, probability, label, Delta in data.clusters:
        centre, spread = c * m + b - label, np.sqrt(Delta * q)
        exact = exact + probability * (spread * np.sqrt(2 / np.pi) * np.exp(-0.5 * (centre / spread) ** 2)
                                       + centre * (1 - 2 * ndtr(-centre / spread)))
    np.testing.assert_allclose(data.generalization(lambda y, z: abs(y - z), m, q, b), exact, rtol=0, atol=1e-12)


def test_clusters_have_their_own_labels_whatever_the_loss_was_made_for():
    """A loss made for magnitudes says nothing of clusters, whose labels have signs: a later loss may use them."""
    phase = get_loss("phase_retrieval")
    register_loss("for_magnitudes", phase.v, phase.dv, phase.d2v, labels="abs")
    text = ('[problem]\nalpha = 2.0\nm0 = 0.2\nloss = "for_magnitudes"\n{}\n'
            '[algorithm]\nkind = "gd"\nlearning_rate = 0.1\nt_max = 1.0\n')
    later = '[[phase]]\nstep = 3\nloss = "{}"\n'
    assert len(theory_experiment(parse_run(text.format(CLUSTERS) + later.format("logistic"))).losses) == 2
    with pytest.raises(RunError, match="tell no sign"):
        parse_run(text.format("") + later.format("linear"))


def test_noise_of_labels_is_averaged_with_as_many_nodes_as_it_takes():
    """The generic average of a square over noise that is added needs two nodes, and is the closed form; noise inside a function
    needs more of them, and gets them. Twin: with two nodes the latter would be off."""
    asked: list[float] = []

    class Watched(Field):
        def label(self, h0, zeta):
            asked.append(zeta)
            return super().label(h0, zeta)

    class Inside(Channel):
        def label(self, h0, zeta):
            asked.append(zeta)
            return np.tanh(h0 + zeta)

    def nodes(channel: Channel) -> tuple[float, int]:
        asked.clear()
        found = Channel.errors(channel, np.array([0.4]), np.array([1.0]), 0.3, 0.0)["mse"][0]
        return found, len(set(asked[-12:]) - {0.0})

    assert nodes(Watched()) == (pytest.approx(2.0 - 0.8 + 0.3, rel=1e-12), 2)
    found, count = nodes(Inside())
    rng = np.random.default_rng(1)
    x, noise, z = rng.standard_normal((3, 400_000))
    square = (np.tanh(x + np.sqrt(0.3) * noise) - np.tanh(0.4 * x + np.sqrt(0.84) * z)) ** 2
    assert count > 4 and abs(found - square.mean()) < 4 * square.std() / np.sqrt(square.size)


@pytest.mark.parametrize(("noise", "flip"), [(1e-4, 0.0), (0.3, 0.05), (2.0, 0.0)])
def test_errors_of_own_signs_with_noise(noise, flip):
    """Against the closed form that the package's signs have; the same signs without their noise are far off."""
    class Mine(Channel):
        classifies = True

        def label(self, h0, zeta):
            return np.where(h0 + zeta > 0, 1.0, -1.0)

    m, q = np.array([0.1, 0.5, 0.9]), np.ones(3)
    found = Mine().errors(m, q, noise, flip)["error"]
    assert np.abs(found - sign_error(m / np.sqrt(1.0 + noise), q, flip)).max() < 1e-5
    assert np.abs(found - sign_error(m, q, flip)).max() > 1e-5 or noise < 1e-3
