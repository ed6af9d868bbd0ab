"""Fixed points of the ballistic dynamics: Newton from the ODE against formulas, eigenvalues against stated stability."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from dmft.core.errors import RunError, UserError
from onepass import BinaryMixture, SpikedTensor, XorMixture, fixed_point, linearise
from onepass.effective.dynamics import EffectiveDynamics, LinearSDE, jacobian
from onepass.mixtures.xor_components import COMPONENT_NAMES, component, components, fixed_point_of
from onepass.spiked.phases import critical_signal, fixed_points, informative

TABLE = {  # (m_dagger, m_star) at 1.1, 1.5, 2 lambda_c
    3: [(0.394028, 0.810455), (0.242782, 1.136101), (0.172146, 1.386332)],
    4: [(0.536017, 0.918003), (0.387744, 1.202845), (0.313171, 1.414214)],
}


def test_critical_signals():
    values = [critical_signal(SpikedTensor(k, 1.0)) for k in (2, 3, 4, 5)]
    np.testing.assert_allclose(values, [1.0, 3.0792014, 6.75, 14.101102], atol=1e-6)
    assert critical_signal(SpikedTensor(3, 1.0, step=0.25)) == pytest.approx(3.0792014356780 * 0.25**1.5)
    assert critical_signal(SpikedTensor(4, 1.0, ridge=1e-9)) == pytest.approx(6.75, rel=1e-6)


@pytest.mark.parametrize("order", [3, 4])
def test_fixed_points_table_and_newton(order):
    for factor, expected in zip((1.1, 1.5, 2.0), TABLE[order], strict=True):
        model = SpikedTensor(order, factor * critical_signal(SpikedTensor(order, 1.0)))
        np.testing.assert_allclose([m for m, _ in informative(model)], expected, atol=1e-6)
        for (m, r2), start in zip(informative(model), expected, strict=True):
            found = fixed_point(model, {"m": start * 1.02, "r2": 0.98})
            np.testing.assert_allclose([found["m"], found["r2"]], [m, r2], atol=1e-11)


@pytest.mark.parametrize("model", [SpikedTensor(2, 0.8), SpikedTensor(2, 1.2), SpikedTensor(3, 4.0), SpikedTensor(4, 9.0, step=0.7),
                                   SpikedTensor(5, 16.0), SpikedTensor(2, 1.5, ridge=0.2), SpikedTensor(3, 6.0, ridge=0.1)])
def test_stability_of_spiked_fixed_points(model):
    points = fixed_points(model)
    for point in points:
        x = np.array([point.m, point.r2])
        assert np.abs(model.drift(x)).max() < 1e-12
        if point.r2 > 0.01:
            eigenvalues = np.linalg.eigvals(jacobian(model, x))
            np.testing.assert_allclose(np.sort(eigenvalues.real), np.sort(point.eigenvalues.real), atol=1e-7)
    by_name = {name: [p for p in points if p.name == name] for name in ("origin", "uninformative", "m_dagger", "m_star")}
    copies = 2 if model.order % 2 == 0 else 1  # no fixed point with m < 0 for odd order
    above = model.signal > critical_signal(model)
    assert len(by_name["m_star"]) == (copies if above else 0)
    if model.ridge == 0.0:
        assert not by_name["origin"][0].stable
        assert len(by_name["m_dagger"]) == (copies if above and model.order > 2 else 0)
        assert by_name["uninformative"][0].r2 == pytest.approx(model.step)
        assert by_name["uninformative"][0].stable == (model.order > 2 or not above)
    if model.order % 2:
        assert all(p.m >= 0 for p in points)


def test_step_to_zero_is_the_population_flow():
    flow = SpikedTensor(3, 4.0, step=0.0)
    initial = {"m": 0.3, "r2": 0.8}
    times = [0.05, 0.2]
    exact = flow.solve(initial, times)
    gaps = [np.abs(SpikedTensor(3, 4.0, step=c).solve(initial, times).m - exact.m).max() for c in (1e-2, 1e-3, 1e-4)]
    assert gaps[2] < 2e-4 and gaps[1] / gaps[2] == pytest.approx(10, rel=2e-3)  # first order in the step: 4e-4 off at c = 1e-3
    barriers = [informative(SpikedTensor(3, 4.0, step=c))[0][0] for c in (1e-1, 1e-2, 1e-3)]
    np.testing.assert_allclose(barriers[1:], [c**2 / 4.0 for c in (1e-2, 1e-3)], rtol=1e-3)  # lambda m = c^2 at small c
    assert [m for m, _ in informative(flow)] == pytest.approx([4.0 ** (1 / 3)])


def test_order_two_relaxes_to_its_fixed_point():
    model = SpikedTensor(2, 1.7, step=0.6)
    end = model.solve({"m": 0.01, "r2": 1.5}, [20.0])
    np.testing.assert_allclose([end.m[0], end.r2[0]], [np.sqrt(1.1), 0.6], atol=1e-8)
    with pytest.raises(RunError, match="r2"):
        model.solve({"m": 0.1, "r2": -1.0}, [1.0])
    with pytest.warns(UserWarning, match="stays there"):
        model.solve({"m": 0.0, "r2": 1.0}, [1.0])


def test_binary_ring_and_optimal_points():
    alpha = 0.1
    model = BinaryMixture(np.inf, alpha)
    C = np.log(0.8 / 0.2)
    assert model.ring == pytest.approx(C)
    for angle in (0.2, 0.8, 1.3):
        point = model.ring_point(angle)
        x = model.start(point)
        assert np.abs(model.drift(x)).max() < 1e-15
        eigenvalues = np.sort(np.linalg.eigvals(jacobian(model, x)[:4, :4]).real)
        np.testing.assert_allclose(eigenvalues, np.sort([0, -2 * alpha, -2 * alpha, -2 * C * (alpha - 2 * alpha**2)]), atol=1e-9)
        found = fixed_point(model, {**point, "v": point["v"] * 1.05})
        assert found["v"] @ found["v"] == pytest.approx(C, abs=1e-9)
    for point in model.optimal_points():
        x = model.start(point)
        assert np.abs(model.drift(x)).max() < 1e-15
        assert np.linalg.eigvals(jacobian(model, x)).real.max() < -0.05
    np.testing.assert_array_equal(model.classify(np.array([[1.2, -1.2], [0.8, 0.8], [0.0, 0.0]]),
                                                 np.array([[1.2, -1.2], [0.8, 0.8], [0.0, 0.0]])), ["optimal", "ring", "origin"])


def test_finite_snr_keeps_the_optimal_point():
    """Newton at finite snr from the point of infinite snr: stable, and near it at large snr."""
    model = BinaryMixture(100.0, 0.1)
    guess = model.optimal_points()[0]
    found = fixed_point(model, {**guess, "R": 0.01 * np.eye(2)})
    assert np.abs(found["v"] - guess["v"]).max() < 0.05
    assert np.linalg.eigvals(jacobian(model, model.start(found))).real.max() < 0.0


def test_binary_flow_conserves_the_ratio_in_the_open_quadrant():
    end = BinaryMixture(np.inf, 0.1).solve({"v": [1.1, 0.4], "m": [0.0, 0.0], "R": 0.01 * np.eye(2)}, [0.5, 5.0, 80.0])
    ratio = (end.v[:, 0] + end.m[:, 0]) / (end.v[:, 1] + end.m[:, 1])
    np.testing.assert_allclose(ratio, 1.1 / 0.4, rtol=1e-7)
    assert end.v[-1] @ end.v[-1] == pytest.approx(np.log(4.0), abs=1e-6)  # relaxed as exp(-0.2 t), t = 80: 3e-8


def test_xor_components_by_merging_closures():
    """Union-find over the 5^4 tuples, without the naming rule: a neuron may join or leave 0 where its mean keeps another."""
    tuples = list(product(COMPONENT_NAMES, repeat=4))
    parent = {t: t for t in tuples}

    def root(t):
        while parent[t] != t:
            t = parent[t]
        return t

    for t in tuples:
        for i in range(4):
            if t[i] != "0" and t.count(t[i]) > 1:
                parent[root(t)] = root((*t[:i], "0", *t[i + 1 :]))
    classes = {}
    for t in tuples:
        classes.setdefault(root(t), set()).add(component(t))
    assert len(classes) == 39 == len(components())
    assert all(len(names) == 1 for names in classes.values())
    assert [sum(len(c) == n for c in components()) for n in range(4)] == [1, 4, 6, 4]
    assert sum(len(set(c)) == 4 for c in components()) == 24


@pytest.mark.long
@pytest.mark.parametrize("text", ["0 0 0 0", "+mu 0 0 0", "+mu +mu -nu 0", "+mu -mu +nu -nu", "+mu +mu +mu -nu"])
def test_xor_fixed_points_and_their_stability(text):
    """Silent neurons, pushed a little, find a mean to serve; the optimal point takes every push back."""
    labels = tuple(text.split())
    model = XorMixture(np.inf, 0.05)
    rng = np.random.default_rng(0)
    point = fixed_point_of(labels, model.ring, rng.random(4))
    drift = model.layout.unpack(model.drift(model.start(point)))
    across = (point["m"] == 0.0) & (point["v"] != 0.0)[:, None]  # the mean a live neuron does not serve: a sliding point
    assert np.abs(drift["v"]).max() < 1e-15 and np.abs(drift["m"][~across]).max() < 1e-15
    for side in (1.0, -1.0):  # the drift is not zero there but points inwards on both sides
        beside = model.layout.unpack(model.drift(model.start({**point, "m": point["m"] + side * 1e-6 * across})))
        assert np.all(side * beside["m"][across] < -0.01)
    assert component(tuple(model.classify(point["v"], point["m"]))) == component(labels)
    pushed = {"v": point["v"] + 1e-2 * rng.normal(size=4), "m": point["m"] + 1e-2 * rng.normal(size=(4, 2)), "R": point["R"]}
    end = model.solve(pushed, [400.0])
    after = component(tuple(model.classify(end.v[0], end.m[0])))
    assert (after != component(labels)) == ("0" in labels)
    if len(set(component(labels))) == 4:
        np.testing.assert_allclose(end.v[0], point["v"], atol=1e-9)
        np.testing.assert_allclose(end.m[0], point["m"], atol=1e-9)


@pytest.mark.long
def test_xor_basins_are_decided_by_signs():
    """At infinite snr from small m: optimal iff two v are positive with opposite m^mu and two negative with opposite m^nu.
    By counting signs that has probability (6/16)(1/2)(1/2) = 3/32."""
    model = XorMixture(np.inf, 0.1)
    rng = np.random.default_rng(1)
    hits = 0
    right, wrong = (1, 1, -1, -1), (1, 1, 1, -1)
    for signs, v_signs in (*product(product((1.0, -1.0), repeat=2), [right]), ((-1.0, -1.0), wrong)):
        m = 1e-3 * rng.random((4, 2))
        m[1, 0] *= signs[0]
        m[3, 1] *= signs[1]
        end = model.solve({"v": np.array(v_signs) * (0.3 + rng.random(4)), "m": m, "R": np.eye(4)}, [300.0])
        optimal = bool(model.is_optimal(end.v[0], end.m[0]))
        assert optimal == (v_signs == right and signs == (-1.0, -1.0))
        hits += optimal
    assert hits == 1
    with pytest.raises(RunError, match="1/8"):
        _ = XorMixture(np.inf, 0.2).ring


def printed_binary(model, a):
    """Proposition 4.3 as printed: the pull towards the ring has the sign of a push."""
    right = model.ring_sde(a)
    pull = (model.ridge - 2 * model.ridge**2) * np.outer(a, a)
    return LinearSDE(right.A + 2 * np.tile(pull, (2, 2)), right.S)


def test_ring_sdes_follow_from_the_drift():
    binary = BinaryMixture(np.inf, 0.1, step=0.7)
    point = binary.ring_point(0.6)
    sde, general = binary.ring_sde(point["v"]), linearise(binary, point)
    np.testing.assert_allclose(sde.A, general.A[:4, :4], atol=1e-9)
    np.testing.assert_allclose(sde.S, general.S[:4, :4], atol=1e-15)
    assert np.linalg.matrix_rank(sde.S) == 1
    assert np.abs(printed_binary(binary, point["v"]).A - general.A[:4, :4]).max() > 0.05  # the printed sign fails

    xor = XorMixture(np.inf, 0.05)
    point = fixed_point_of(("+mu", "+mu", "-nu", "-nu"), xor.ring, np.array([1.0, 2.0, 1.0, 3.0]))
    sde, general = xor.ring_sde(point["v"]), linearise(xor, point)
    own = [0, 1, 2, 3, 4, 6, 9, 11]  # v, and m along the mean each neuron serves
    np.testing.assert_allclose(sde.A, general.A[np.ix_(own, own)], atol=1e-8)
    np.testing.assert_allclose(sde.S, general.S[np.ix_(own, own)], atol=1e-15)
    assert np.linalg.matrix_rank(sde.S) == 2
    assert np.linalg.eigvals(sde.A).real.max() < 1e-12


def test_linear_sde_covariance():
    A, S = np.array([[-1.0, 0.3], [0.0, 0.5]]), np.array([[2.0, 0.4], [0.4, 1.0]])
    sde = LinearSDE(A, S)
    t, h = 3.0, 1e-4
    rate = (sde.covariance(t + h) - sde.covariance(t - h)) / (2 * h)
    c = sde.covariance(t)
    np.testing.assert_allclose(rate, A @ c + c @ A.T + S, rtol=2e-8)  # a central difference of step 1e-4: 2e-9
    assert LinearSDE(np.array([[-2.0]]), np.array([[3.0]])).covariance(40.0)[0, 0] == pytest.approx(0.75)


def test_users_own_model_refuses_what_it_lacks():
    model = EffectiveDynamics({"u": ()}, f=lambda u: u)
    assert model.solve({"u": 2.0}, [1.0]).u[0] == pytest.approx(2 * np.exp(-1.0))
    with pytest.raises(RunError, match="no sigma"):
        model.diffuse(10, 2, {"u": 2.0}, [1.0])
    with pytest.raises(RunError, match="unknown 'w'"):
        model.solve({"u": 1.0, "w": 2.0}, [1.0])


@pytest.mark.parametrize("model", [SpikedTensor(2, 1.2), BinaryMixture(4.0, 0.1), XorMixture(4.0, 0.05)])
def test_random_starts_do_not_depend_on_how_many(model):
    few, many = model.random_start(100, 2), model.random_start(100, 5)
    for name, array in few.items():
        np.testing.assert_array_equal(array, many[name][:2])
    model.start(many, 100)  # valid statistics


@pytest.mark.parametrize(
    "change, complaint",
    [
        ({"R": [[1.0, 2.0], [2.0, 1.0]]}, "smallest eigenvalue is -1"),
        ({"R": [[1.0, 0.2], [0.3, 1.0]]}, "must be symmetric"),
        ({"v": [1.0, np.nan]}, "v must be finite"),
        ({"v": [1.0, 2.0, 3.0]}, "shape"),
        ({"m": [0.0, 0.1], "R": [[0.0, 0.0], [0.0, 1.0]]}, "W = 0"),
    ],
)
def test_impossible_statistics_are_refused(change, complaint):
    start = {"v": [1.0, 0.5], "m": [0.3, 0.2], "R": np.eye(2), **change}
    with pytest.raises(UserError, match=complaint):
        BinaryMixture(4.0, 0.1).solve(start, [1.0])


@pytest.mark.parametrize(
    "make, complaint",
    [
        (lambda: SpikedTensor(1, 1.0), "order = 1"),
        (lambda: SpikedTensor(3, 1.0, literal=True), "needs order = 2"),
        (lambda: BinaryMixture(0.0, 0.1), "snr = 0"),
        (lambda: XorMixture(4.0, -0.1), "ridge = -0.1"),
        (lambda: SpikedTensor(3, 1.0, step=0.0).chain(10, 2, {"m": 0.1, "r2": 1.0}, [1.0]), "population flow"),
        (lambda: XorMixture(4.0, 0.1).chain(5, 2, XorMixture(4.0, 0.1).random_start(100, 2), [1.0]), "at least 6"),
    ],
)
def test_impossible_models_are_refused(make, complaint):
    with pytest.raises(RunError, match=complaint):
        make()
