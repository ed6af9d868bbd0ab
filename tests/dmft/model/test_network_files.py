"""[network] in run files: what is read, what does not fit, and errors on new samples."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

import dmft
import sgd_sim
from dmft.core.errors import RunError, UserError
from dmft.core.parallel import Comm
from dmft.model.activations import BUILT_IN, RELU, apply, register_activation, smooth_relu
from dmft.model.experiment import Experiment, known_errors
from dmft.model.links import register_link
from dmft.model.network import network_of, some_samples
from dmft.model.network_errors import error_seconds, network_errors, pair_average
from dmft.running.cost import estimate
from dmft.running.preview import preview
from dmft.running.replica import Setup
from tests.network_cases import PAIR, UNEQUAL, network_run

WRONG = [
    ({"m0": [[0.1], [0.2]]}, r"m0 = .*: must be 2 x 2 numbers, for units = 2"),
    ({"m0": 0.3}, r"m0 = 0.3: must be 2 x 2 numbers"),
    ({"m0": [[0.7, 0.7], [0.7, 0.7]], "constraint": "orthonormal"}, r"m0 = .*: must be overlaps of units that .* keeps apart"),
    ({"m0": [[0.9, 0.6], [0.0, 0.1]]}, r"m0 = .*: must be overlaps of units of norm 1 .*take a smaller m0"),
    ({"Q0": [[1.0, 2.0], [2.0, 1.0]]}, r"Q0 = .*: must be a symmetric matrix without negative eigenvalues"),
    ({"Q0": [[1.0, 2.0], [2.0, 1.0]]}, r"Q0 = .*negative eigenvalues"),
    ({"Q0": [[0.5, 0.0], [0.0, 0.5]]}, r"Q0 = .*constraint = \"units\""),
    ({"second_layer": [1.0]}, r"second_layer = \[1.0\]: must be 2 numbers"),
    ({"second_layer": []}, r"second_layer = \[\]: must be 2 numbers"),
    ({"second_layer": "random"}, r"second_layer = \"random\": must be a list of numbers, or one of ones, mean, signs"),
    ({"activation": "sine"}, r"activation = \"sine\": must be one of .*smooth_relu.*; a plugin may register more"),
    ({"teacher_activation": "sine"}, r"teacher_activation = \"sine\": must be one of "),
    ({"label": "sine"}, r"label = \"sine\": must be network or one of "),
    ({"teacher_overlaps": [[1.0, 2.0], [2.0, 1.0]]}, r"teacher_overlaps = .*positive"),
    ({"train": -1.0}, r"train = -1.0: must be false, or a rate"),
    ({"flip": 0.1}, r"\[problem\] key 'flip' is not used with \[network\]"),
    ({"ridge": 0.1}, r"key 'ridge' is not used with \[network\] constraint = \"units\""),
    ({"units": 0}, r"units = 0: must be 1 at least"),
    ({"loss": "logistic"}, r'loss = "logistic": made for labels \+1 and -1, and label = "network" gives real numbers'),
    ({"loss": "smooth_hinge", "label": "parity", "label_noise": 0.1}, r'loss = "smooth_hinge": made for labels \+1 and -1'),
]


@pytest.mark.parametrize(("wrong", "says"), WRONG)
def test_what_does_not_fit_is_said_in_a_line(wrong, says):
    with pytest.raises(RunError, match=says) as caught:
        network_run({**PAIR, **wrong})
    assert "\n" not in str(caught.value)


def test_the_theory_marches():
    with pytest.raises(RunError, match=r'\[theory\] method = "iterate": networks are solved by the march'):
        dmft.solve(network_run(PAIR).replace(method="iterate"))


@pytest.mark.parametrize(("solve", "key", "value"), [
    (dmft.solve, "theory.fdt", True), (dmft.solve, "theory.clones", True), (sgd_sim.simulate, "simulation.clones", True),
    *((solve, key, value) for solve in (dmft.solve, sgd_sim.simulate)
      for key, value in (("theory.snapshots", [0.5]), ("theory.hessian", True)))])
def test_what_single_units_have_is_said_before_a_network_runs(solve, key, value):
    section, _, name = key.partition(".")
    says = rf"\[{section}\] {name}( = true)?: .* a single unit.*; leave (it|them) out with \[network\]$"
    with pytest.raises(RunError, match=says):
        solve(network_run(PAIR).replace({key: value}))


@pytest.mark.parametrize(("name", "g"), [("root", lambda u, k: u[0] ** 0.5), ("over_nothing", lambda u, k: u[0] / (u[0] - u[0]))])
def test_a_label_that_is_no_number_is_refused(name, g, capfd):
    """Also where Python would raise, which C functions cannot: they would go on with 0."""
    register_link(name, g)
    with pytest.raises(RunError, match=f'label = "{name}": must be a number on every sample'):
        network_run({**PAIR, "label": name})
    assert capfd.readouterr().err == ""


def test_a_dimension_without_room_is_named():
    with pytest.raises(RunError, match=r"\[simulation\] dimension = 3: has no room for all units and directions"):
        sgd_sim.simulate(network_run({**PAIR, "dimension": 3}))


@pytest.mark.parametrize(("register", "name"), [(register_activation, "erf"), (register_activation, "smooth_relu"),
                                                (register_link, "parity"), (register_link, "network")])
def test_what_is_built_in_stays_what_it_is(register, name):
    with pytest.raises(UserError, match=f"{name}' is built in; choose another name"):
        register(name, *[lambda x: x] * (2 if register is register_activation else 1))


def test_an_activation_without_second_derivative_has_no_tangents():
    register_activation("mine", lambda x: x * x * x, lambda x: 3.0 * x * x)
    register_activation("mine_too", lambda x: x * x * x, lambda x: 3.0 * x * x, lambda x: 6.0 * x)
    kinked, smooth = (Setup.from_run(network_run({**PAIR, "activation": name})) for name in ("mine", "mine_too"))
    assert kinked.sampling("whole", 0).carriers == 0 and smooth.sampling("whole", 0).carriers > 0
    with pytest.raises(RunError, match="the response comes by the identity alone"):
        Setup.from_run(network_run({**PAIR, "activation": "relu"}).replace(variance_reduction=["sobol"]))


def test_a_run_is_read_back_and_changed():
    run = network_run({**UNEQUAL, "label_noise": 0.09, "train": 0.1})
    assert dmft.parse_run(run.to_toml()) == run
    assert run.replace(constraint="none", samples=64).network.constraint == "none"
    assert run.replace(activation="tanh").network.activation == "tanh"
    single = dmft.Experiment(alpha=3.0, m0=0.2, kind="gd", learning_rate=0.1, t_max=1.0)
    assert "[network]" not in single.to_toml() and "label =" not in single.to_toml()
    assert single.replace(constraint="ridge", ridge=0.3).problem.constraint == "ridge"
    for wrong in ({"label": "erf"}, {"Q0": [[1.0]]}, {"m0": [[0.2]]}):
        with pytest.raises(RunError, match=r"\[network\]"):
            single.replace(wrong and {f"problem.{key}": value for key, value in wrong.items()})


def test_a_ridge_survives_another_loss():
    """Its constraint is named in [network], not in [problem]."""
    free = network_run(UNEQUAL)
    assert free.replace(loss="linear").problem.ridge == 0.2


def test_second_layers_by_law():
    layers = {law: Experiment.from_run(network_run({**PAIR, "second_layer": law})).network.a for law in ("ones", "mean", "signs")}
    assert layers["mean"].sum() == 1.0 and layers["signs"] @ layers["signs"] == pytest.approx(1.0) and layers["ones"].sum() == 2.0


@pytest.mark.parametrize("name", ["erf", "square", "relu", "linear", "he2", "he3", "tanh"])
def test_averages_of_pairs(name):
    """Closed forms, and rules, against many points: (a, b, c) = (0.7, 1.3, 0.4)."""
    z = np.random.default_rng(3).standard_normal((2, 400_000))
    u = np.sqrt(0.7) * z[0]
    v = 0.4 / 0.7 * u + np.sqrt(1.3 - 0.16 / 0.7) * z[1]
    s, one = BUILT_IN[name], np.ones(1)
    product = apply(s.s, u) * apply(s.s, v)
    found = pair_average(s, s, 0.7 * one, 1.3 * one, 0.4 * one)[0]
    assert abs(found - product.mean()) < 5.0 * product.std() / np.sqrt(product.size)


def test_smooth_relu_is_relu_averaged():
    x, fine = np.linspace(-1.5, 1.5, 31), np.linspace(-8.0, 8.0, 200_001)
    weight = np.exp(-0.5 * fine**2)
    mean = np.array([np.sum(weight * apply(RELU.s, at + 0.3 * fine)) / weight.sum() for at in x])
    np.testing.assert_allclose(apply(smooth_relu(0.3).s, x), mean, atol=1e-9)
    step = 1e-5
    slope = (apply(smooth_relu(0.3).ds, x + step) - apply(smooth_relu(0.3).ds, x - step)) / (2 * step)
    np.testing.assert_allclose(apply(smooth_relu(0.3).d2s, x), slope, atol=1e-8)


def test_losses_of_signs_have_labels_of_signs():
    assert network_run({**PAIR, "loss": "logistic", "label": "parity"}).problem.loss == "logistic"


def test_ranks_share_samples_and_not_kernels():
    setup = Setup.from_run(network_run({**PAIR, "samples": 64, "history": "full"}, t_max=15.0))
    whole, half = setup.network_bytes(), setup.network_bytes(0.5)
    matrices = 2 * 5 * 8.0 * (2 * 150) ** 2  # Q, R, M_C and two factors, of the solution and its companion
    assert matrices < 2 * half - whole < 2 * matrices


@pytest.mark.parametrize(("k", "label", "exact"), [(2, "product", 1.0), (3, "parity", 1.0), (4, "product", 1.0),
                                                   (3, "staircase", 3.0)])
def test_errors_with_links_of_several_directions(k, label, exact):
    """Units without overlap know nothing of the label: E (f - y)^2 = E f^2 + E y^2, with E f^2 = 2 (2/pi) arcsin(1/2)."""
    network = Experiment.from_run(network_run({"units": 2, "directions": k, "label": label, "m0": 0.0, "alpha": 2.0, "kind": "gd",
                                               "learning_rate": 0.1, "t_max": 0.1})).network
    found = network_errors(network, {"m": network.m0[None], "C": network.Q0[None], "a": network.a[None]})["mse"][0]
    assert found == pytest.approx(2.0 / 3.0 + exact, abs=1e-6)


def test_rough_errors_are_told_and_counted():
    run = network_run({"units": 1, "directions": 5, "label": "product", "m0": 0.0, "alpha": 2.0, "kind": "gd", "t_max": 1.0,
                       "learning_rate": 0.1})
    assert any("mse: labels of 5 directions" in text for text in preview(run, "theory", Comm()).warnings)
    assert estimate(run.replace(t_max=50.0), "theory").seconds > estimate(
        run.replace(t_max=50.0, label="network"), "theory").seconds + 8 * 500 * error_seconds(network_of(run.network, run.problem))


@pytest.mark.parametrize("more", [{}, {"label": "tanh_hermite3"}, {"teacher_overlaps": [[1.0, 0.4], [0.4, 1.2]],
                                                                   "teacher_activation": "tanh", "intercepts": [0.3, -0.2]}])
def test_errors_on_new_samples(more):
    """E (f - y)^2 by rules against many new samples."""
    run = network_run({**PAIR, "label_noise": 0.25, **more})
    network = Experiment.from_run(run).network
    C = network.Q0 + network.m0 @ network.m0.T
    curves = {"m": network.m0[None], "C": C[None], "a": network.a[None]}
    rng = np.random.default_rng(5)
    kappa, rest = rng.standard_normal((400_000, 2)), rng.standard_normal((400_000, 2)) @ np.linalg.cholesky(network.Q0).T
    miss = (network.output(rest + kappa @ network.m0.T) - network.label(kappa)) ** 2
    found = known_errors(run, curves)["mse"][0] - 0.25
    assert abs(found - miss.mean()) < 5.0 * miss.std() / np.sqrt(miss.size)
    lost = {name: np.concatenate([array, np.full_like(array, np.nan)]) for name, array in curves.items()}
    assert np.isnan(network_errors(network, lost)["mse"]).tolist() == [False, True]


def beyond(limit: float, value: float):
    return lambda x: 0.5 * x if abs(x) < limit else value


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_label_that_is_a_number_only_near_zero_is_refused(value):
    """Samples hardly ever get there, but averages over new samples do."""
    inside = njit(beyond(5.0, value))
    register_link("far", lambda u, k: inside(u[1]))
    with pytest.raises(RunError, match=rf'\[problem\] label = "far": .*, and is {value} at kappa = \[.*\]$'):
        network_run({**PAIR, "label": "far"})


def test_a_label_that_is_no_number_on_a_sample_is_named_when_it_is_drawn():
    """By theory and simulator: it is a number wherever it was tried before."""
    tried = np.sort(some_samples(2, 0.0)[0][:, 0])
    tried = tried[np.abs(tried) < 1.0]
    low, high = tried[np.argmax(np.diff(tried))], tried[np.argmax(np.diff(tried)) + 1]
    register_link("torn", lambda u, k: u[0] if u[0] <= low or u[0] >= high else np.nan)
    run = network_run({**PAIR, "label": "torn", "samples": 8192, "replicas": 2, "dimension": 1500, "instances": 2})
    for solve in (dmft.solve, sgd_sim.simulate):
        with pytest.raises(RunError, match=r'label = "torn": must be a number on every sample, and is nan at kappa'):
            solve(run, quiet=True)


@pytest.mark.parametrize(("key", "wrong"), [("activation", "s"), ("teacher_activation", "s"), ("activation", "s'"),
                                            ("activation", "s''")])
def test_an_activation_that_is_a_number_only_near_zero_is_refused(key, wrong):
    functions = {"s": lambda x: 0.5 * x, "s'": lambda x: 0.5, "s''": lambda x: 0.0}
    smooth = {name: njit(f) for name, f in functions.items()}
    broken = smooth[wrong]
    functions[wrong] = lambda x: broken(x) if abs(x) < 9.0 else np.nan
    register_activation("bounded", *functions.values())
    with pytest.raises(RunError, match=rf'\[network\] {key} = "bounded": must be a number at .*, and {wrong}\(.*\) is none$'):
        network_run({**PAIR, key: "bounded"})


@pytest.mark.parametrize("section", ["network", "problem", "theory"])
@pytest.mark.parametrize("more", [[], ["network.units=2"]])
def test_sections_with_double_brackets_are_one_line_with_the_remedy(section, more):
    text = network_run({**PAIR, "label": "tanh"}).to_toml().replace(f"[{section}]", f"[[{section}]]")
    with pytest.raises(RunError, match=rf": \[\[{section}\]\] makes a list of sections; write \[{section}\]$"):
        dmft.parse_run(text, "run.toml", more)
