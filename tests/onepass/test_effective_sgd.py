"""Spiked tensors and mixtures: ODE, SDE, chain and direct SGD against each other, with the printed formulas as failing twins.

Bounds are five standard errors (variances: error of a sample variance of Gaussian data), plus stated O(1/n) biases.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from onepass import BinaryMixture, SpikedNearZero, SpikedTensor, XorMixture, linearise
from onepass.effective.dynamics import LinearSDE
from onepass.mixtures.xor_components import fixed_point_of
from onepass.spiked.phases import informative
from tests.marks import slow
from tests.onepass.z_scores import compare

pytestmark = pytest.mark.statistical

BINARY = {"v": [1.0, 0.5], "m": [0.3, -0.4], "R": np.array([[0.5, 0.1], [0.1, 0.3]])}
XOR = {
    "v": [1.0, -0.5, 0.7, -1.2],
    "m": [[0.3, -0.4], [0.5, 0.1], [-0.6, 0.2], [0.1, 0.7]],
    "R": 0.5 * np.eye(4) + 0.1,
}


def variance_z(sample: np.ndarray, expected) -> np.ndarray:
    """Distance of the variance of `sample` (instances, ...) from the expected one, in its errors."""
    found = sample.var(0, ddof=1)
    kurtosis = np.mean((sample - sample.mean(0)) ** 4, 0) / found**2
    return (found - expected) / (found * np.sqrt(np.maximum(kurtosis - 1.0, 0.5) / len(sample)))


def largest_z(theory, ensemble, names=None) -> float:
    return max(float(np.abs(compare(theory, ensemble, name)).max()) for name in names or theory.arrays)


@pytest.mark.parametrize("model", [SpikedTensor(3, 4.5), SpikedTensor(2, 1.5, step=0.5, ridge=0.2)])
def test_spiked_chain_follows_the_ode(model):
    initial, times = {"m": 0.8, "r2": 0.6}, [0.05, 0.2, 0.5]
    chain = model.chain(40000, 60, initial, times)
    assert largest_z(model.solve(initial, times), chain) < 5
    wrong = replace(model, step=0.9 * model.step)  # a corrector that is ten per cent off
    assert largest_z(wrong.solve(initial, times), chain) > 10


@pytest.mark.long
def test_spiked_chain_gaussian_and_literal_sgd_have_one_law():
    model, initial, times = SpikedTensor(2, 1.5), {"m": 0.6, "r2": 0.9}, [0.1, 0.5]
    chain = model.chain(40, 1000, initial, times)
    gaussian = model.simulate(40, 1000, initial, times)
    literal = replace(model, literal=True).simulate(40, 500, initial, times)
    tensor = SpikedTensor(3, 4.5)
    third = tensor.chain(60, 1000, initial, [0.05]), tensor.simulate(60, 1000, initial, [0.05])
    pairs = [(chain, gaussian), (chain, literal), third]
    for one, other in pairs:
        assert largest_z(one, other) < 5
        for name in ("m", "r2"):
            gap = np.log(one[name].var(0) / other[name].var(0))
            assert np.all(np.abs(gap) < 5 * np.sqrt(4.0 / one.instances + 4.0 / other.instances))


def test_spiked_sde_variance():
    """About m_star the linear SDE is exact as n -> infinity; paths of the SDE and of the chain have its variance."""
    model = SpikedTensor(3, 4.5)
    (_, _), (m, r2) = informative(model)
    point, times, n = {"m": m, "r2": r2}, [0.02, 0.1], 20000
    sde = linearise(model, point)
    expected = np.array([np.diag(sde.covariance(t)) for t in times])
    chain, paths = model.chain(n, 600, point, times), model.diffuse(n, 1200, point, times)
    for i, name in enumerate(("m", "r2")):
        assert np.abs(variance_z(np.sqrt(n) * chain[name], expected[:, i])).max() < 5
        assert np.abs(variance_z(np.sqrt(n) * paths[name], expected[:, i])).max() < 5
        assert np.abs(variance_z(np.sqrt(n) * chain[name], 1.5 * expected[:, i])).min() > 4  # a wrong noise is seen


@pytest.mark.slow
def test_near_zero_variance_for_general_step():
    """Eq. (3.2) with diffusion coefficient^2 = 4 k c u2^{k-1}: d Var/dt = 4k(lambda 1_{k=2} - c^{k-1}) Var + 4 k c^k."""
    for k, c in ((2, 0.5), (3, 0.8)):
        limit = SpikedNearZero(k, 0.8, step=c)
        rate = 4 * k * ((0.8 if k == 2 else 0.0) - c ** (k - 1))
        t, n = 0.4, 2000
        expected = 4 * k * c**k * np.expm1(rate * t) / rate
        initial = {"m": 0.0, "r2": c}
        assert abs(variance_z(limit.diffuse(1, 2000, initial, [t]).m[:, 0], expected)) < 5
        sgd = limit.at(n).chain(n, 1500, initial, [t]).m[:, 0]
        assert abs(variance_z(sgd, expected)) < 5
        assert abs(variance_z(sgd, expected / c)) > 4  # noise 4 k u2^{k-1}, printed for c = 1 only


@pytest.mark.slow
def test_diverging_signal_is_not_an_ou_process():
    """lambda_n = Lambda n^{1/2} for k = 3: quartiles of SGD follow drift 2k m (Lambda m^{k-2} - r2^{k-1}); the printed
    2k m (Lambda - r2^{k-1}) misses them. Paths that explode count as +infinity."""
    limit, n, initial, t = SpikedNearZero(3, 0.5, diverging=True), 100_000, {"m": 3.0, "r2": 1.0}, 0.1
    sgd = limit.at(n).chain(n, 300, initial, [t]).m[:, 0]
    paths = limit.diffuse(1, 4000, initial, [t], step=5e-4).m[:, 0]
    q = [25, 50, 75]
    quartiles = np.percentile(np.where(np.isnan(paths), np.inf, paths), q)
    below = [np.mean(sgd < x) for x in quartiles]
    errors = np.sqrt(0.1875 / 300 + 0.1875 / 4000) * np.array([1.0, 1.15, 1.0])
    assert np.all(np.abs(np.array(below) - [0.25, 0.5, 0.75]) < 4 * errors)
    rate = 6 * (0.5 - 1.0)
    spread = np.sqrt(12 * np.expm1(2 * rate * t) / (2 * rate))
    printed = 3.0 * np.exp(rate * t) + spread * np.array([-0.6745, 0.0, 0.6745])
    assert np.mean(sgd < printed[1]) < 0.2 and np.mean(sgd < printed[2]) < 0.35


@pytest.mark.slow
def test_diverging_signal_of_odd_order_pulls_back_from_below():
    """k = 3, u1 = -3: the drift points inwards, far beyond -Lambda^{-1/(k-2)} = -2; for k = 4 it points outwards there."""
    limit, n, initial, t = SpikedNearZero(3, 0.5, diverging=True), 100_000, {"m": -3.0, "r2": 1.0}, 0.1
    for below in (-2.5, -3.0, -10.0):
        assert limit.drift(np.array([below, 1.0]))[0] > 0.0
        assert SpikedNearZero(4, 0.5, diverging=True).drift(np.array([below, 1.0]))[0] < 0.0
    sgd = limit.at(n).chain(n, 300, initial, [t]).m[:, 0]
    paths = limit.diffuse(1, 4000, initial, [t], step=5e-4).m[:, 0]
    assert np.isfinite(sgd).all() and np.isfinite(paths).all()  # nothing explodes
    below = np.array([np.mean(sgd < x) for x in np.percentile(paths, [25, 50, 75])])
    errors = np.sqrt(0.1875 / 300 + 0.1875 / 4000) * np.array([1.0, 1.15, 1.0])
    assert np.all(np.abs(below - [0.25, 0.5, 0.75]) < 4 * errors)
    assert np.percentile(sgd, 25) > -2.0  # all but a few came back through the supposed boundary
    mirrored = np.percentile(-limit.diffuse(1, 1000, {"m": 3.0, "r2": 1.0}, [t], step=5e-4).m[:, 0], 25)
    assert not np.mean(sgd < mirrored) > 0.05  # what "outwards on both sides" would give


@pytest.mark.slow
def test_escape_from_zero_takes_n_log_n_steps():
    """Order 2 above the threshold from a random start: the escape time steps/n grows as log(n)/(8 (lambda - 1))."""
    model, sizes, means, errors = SpikedTensor(2, 1.5), (1000, 30000), [], []
    for n in sizes:
        times = np.arange(0.0, 7.0, 0.02)
        m = np.abs(model.chain(n, 80, model.random_start(n, 80), times).m)
        assert np.all(m[:, -1] > 0.3)  # every run escapes
        first = times[np.argmax(m > 0.3, axis=1)]
        means.append(first.mean())
        errors.append(first.std(ddof=1) / np.sqrt(len(first)))
    expected = np.log(sizes[1] / sizes[0]) / (8 * 0.5)
    assert abs(means[1] - means[0] - expected) < 4 * np.hypot(*errors)
    assert abs(means[1] - means[0]) > 4 * np.hypot(*errors)  # not O(n)
    stuck = SpikedTensor(2, 0.7).chain(30000, 30, model.random_start(30000, 30), [7.0])
    assert np.abs(stuck.m).max() < 0.1


@pytest.mark.parametrize("model, initial", [
    (BinaryMixture(4.0, 0.1), BINARY), slow(XorMixture(4.0, 0.05, quadrature=11), XOR)])
def test_mixture_chain_follows_the_ode(model, initial):
    times = [0.5, 2.0]
    chain, ode = model.chain(30000, 40, initial, times), model.solve(initial, times)
    assert largest_z(ode, chain) < 5
    flow = replace(model, step=0.0).solve(initial, times)  # without the corrector
    assert largest_z(flow, chain, ["R"]) > 10


@pytest.mark.long
@pytest.mark.parametrize(
    "model, initial",
    [slow(BinaryMixture(3.0, 0.1), BINARY), (XorMixture(3.0, 0.05, class_weights=((0.4, 0.1), (0.2, 0.3))), XOR),
     slow(XorMixture(3.0, 0.05), XOR), slow(BinaryMixture(np.inf, 0.1), BINARY)],
)
def test_mixture_chain_and_sgd_have_one_law(model, initial):
    instances = 2000
    chain, sgd = model.chain(20, instances, initial, [2.0]), model.simulate(20, instances, initial, [2.0])
    for name in ("v", "m", "R"):
        assert np.abs(compare(chain, sgd, name)).max() < 5
        assert np.all(np.abs(np.log(chain[name].var(0) / sgd[name].var(0))) < 5 * np.sqrt(2 * 4.0 / instances))


@pytest.mark.long
def test_mixture_noise_covariance():
    """One chain step from a point: its variance over delta^2 is the covariance of the SDE."""
    for model, initial in ((BinaryMixture(4.0, 0.1), BINARY), (XorMixture(4.0, 0.05), XOR)):
        n = 10**7
        x0 = model.start(initial)
        after = model.chain(n, 4000, initial, [1.0 / n])
        flat = model.layout.pack({name: after[name][:, 0] for name in ("v", "m", "R")})
        sample, expected = (flat - x0) * n, np.diag(model.covariance(x0))
        assert np.abs(variance_z(sample, expected)).max() < 5


def radial(ensemble, point, own) -> np.ndarray:
    """Component along the ring's normal of the fluctuation of (v, own m), (instances, times)."""
    u = np.concatenate([ensemble.v - point["v"], ensemble.m.reshape(ensemble.v.shape[:-1] + (-1,))[..., own] - point["v"]], axis=-1)
    direction = np.concatenate([point["v"], point["v"]])
    return u @ direction / np.linalg.norm(direction)


@pytest.mark.long
def test_binary_ring_fluctuations_have_the_corrected_sign():
    model, N, times = BinaryMixture(np.inf, 0.1), 1000, [2.0, 20.0]
    point = model.ring_point(0.6)
    direction = np.concatenate([point["v"], point["v"]]) / np.sqrt(2 * model.ring)
    sde = model.ring_sde(point["v"])
    expected = [direction @ sde.covariance(t) @ direction for t in times]
    assert expected == pytest.approx([0.0368, 0.0625], abs=2e-4)
    sgd = np.sqrt(N) * radial(model.chain(N, 1500, point, times), point, [0, 1])
    assert np.abs(variance_z(sgd, expected)).max() < 5
    pull = (0.1 - 0.02) * np.outer(point["v"], point["v"])
    printed = LinearSDE(sde.A + 2 * np.tile(pull, (2, 2)), sde.S)
    wrong = [direction @ printed.covariance(t) @ direction for t in times]
    assert wrong == pytest.approx([0.089, 445], rel=0.02)
    assert np.abs(variance_z(sgd, wrong)).min() > 20


@pytest.mark.slow
def test_xor_ring_fluctuations_have_the_corrected_sign():
    model, N, times = XorMixture(np.inf, 0.05), 1000, [2.0, 20.0]
    point = fixed_point_of(("+mu", "+mu", "-nu", "-nu"), model.ring, np.array([1.0, 2.0, 1.0, 3.0]))
    own = [0, 2, 5, 7]
    sde = model.ring_sde(point["v"])
    chain = model.chain(N, 1500, point, times)
    for group in ([0, 1], [2, 3]):
        weights = np.zeros(8)
        weights[group], weights[np.array(group) + 4] = point["v"][group], point["v"][group]
        weights /= np.linalg.norm(weights)
        u = np.concatenate([chain.v - point["v"], chain.m.reshape(1500, 2, 8)[..., own] - point["v"]], axis=-1)
        sgd = np.sqrt(N) * (u @ weights)
        assert np.abs(variance_z(sgd, [weights @ sde.covariance(t) @ weights for t in times])).max() < 5
        pull = (0.05 - 4 * 0.05**2) * np.outer(point["v"], point["v"]) * np.kron(np.eye(2), np.ones((2, 2)))
        printed = LinearSDE(sde.A + 2 * np.tile(pull, (2, 2)), sde.S)
        assert abs(variance_z(sgd[:, 1], weights @ printed.covariance(20.0) @ weights)) > 20
    anti = np.cov((chain.v - point["v"])[:, 0, 0], (chain.v - point["v"])[:, 0, 2])[0, 1] * N
    a = point["v"]
    assert anti == pytest.approx(sde.covariance(2.0)[0, 2], abs=5 * 0.1 * abs(a[0] * a[2]) / np.sqrt(1500))
    assert anti * a[0] * a[2] < 0  # where one ring grows the other shrinks


def within_binomial(hits: np.ndarray, probability: float) -> bool:
    n = len(hits)
    return bool(abs(np.mean(hits) - probability) < 4 * np.sqrt(probability * (1 - probability) / n))


@pytest.mark.slow
def test_half_of_the_binary_runs_end_on_the_ring():
    model, N = BinaryMixture(100.0, 0.1), 250
    end = model.chain(N, 800, model.random_start(N, 800), [40.0])
    kinds = model.classify(end.v[:, 0], end.m[:, 0])
    assert within_binomial(kinds == "optimal", 0.5)
    assert np.mean(np.isin(kinds, ["optimal", "ring"])) > 0.98
    direct = model.simulate(N, 60, model.random_start(N, 60, seed=2), [40.0])
    assert within_binomial(model.classify(direct.v[:, 0], direct.m[:, 0]) == "optimal", 0.5)
    start = model.random_start(N, 200)
    start["v"] = np.abs(start["v"]) * [1.0, -1.0]  # opposite signs: always optimal
    end = model.chain(N, 200, start, [40.0])
    assert not within_binomial(model.classify(end.v[:, 0], end.m[:, 0]) == "optimal", 0.5)


@pytest.mark.slow
def test_three_in_thirty_two_xor_runs_are_optimal():
    model, N = XorMixture(np.inf, 0.1), 250
    start = model.random_start(N, 600)
    end = model.chain(N, 600, start, [120.0])
    assert within_binomial(model.is_optimal(end.v[:, 0], end.m[:, 0]), 3 / 32)
    start["v"] = np.abs(start["v"]) * [1.0, 1.0, -1.0, -1.0]  # right signature: one in four
    end = model.chain(N, 300, {name: a[:300] for name, a in start.items()}, [120.0])
    optimal = model.is_optimal(end.v[:, 0], end.m[:, 0])
    assert within_binomial(optimal, 1 / 4) and not within_binomial(optimal, 3 / 32)


def test_results_do_not_depend_on_threads():
    model = BinaryMixture(4.0, 0.1)
    one = model.simulate(30, 6, BINARY, [1.0], threads=1)
    two = model.simulate(30, 6, BINARY, [1.0], threads=3)
    np.testing.assert_array_equal(one.R, two.R)


def test_small_dimensions_diverge_at_order_four():
    """delta = 1/n is too large a step for small n: most runs of n = 50 leave the finite numbers, and are marked."""
    model = SpikedTensor(4, 1.0)
    small, large = (model.chain(n, 100, model.random_start(n, 100), [2.0]) for n in (50, 200))
    assert np.mean(small.diverged) > 0.6 and not large.diverged.any()
    assert small.attrs["outcome"] == "diverged" and np.all(np.isnan(small.m[small.diverged]))
    assert np.all(np.isfinite(small.mean().r2))
