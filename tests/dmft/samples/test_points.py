"""Where samples start: normals drawn too wide weigh as normals, and neighbours have opposite later normals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import factorial2

from dmft.core.streams import normal2
from dmft.model.experiment import Experiment
from dmft.samples import points as points_module
from dmft.samples import sampling
from dmft.samples.points import PointSet, too_wide
from dmft.samples.sampling import PARTS, Sampling, draw
from tests.solver_cases import ALGORITHMS, make_run

UNIFORMS = (np.arange(400_000) + 0.5) / 400_000
LATER = 20  # a step whose normal is not part of the set


@pytest.mark.parametrize(("factor", "upto", "beyond"), [(2.0, 2.5, 1.0), (2.0, 2.5, 1.2), (1.1, np.inf, 1.0), (1.0, 2.5, 1.0),
                                                        (3.0, 2.0, 1.5)])
def test_numbers_that_are_too_wide_have_the_moments_of_normals(factor, upto, beyond):
    """The midpoint rule has an error of about the weight of the outermost point; a weight of another factor fails."""
    x, weight = too_wide(UNIFORMS, factor, upto, beyond)
    for power in (0, 1, 2, 4, 6):
        want = 0.0 if power % 2 else float(factorial2(power - 1)) if power else 1.0
        assert np.mean(weight * x**power) == pytest.approx(want, abs=0.01)
    assert np.all(np.diff(x) > 0)
    _, other = too_wide(UNIFORMS, factor + 0.5, upto, beyond)
    assert abs(np.mean(other * x**2) - 1) > 0.02
    if upto < np.inf:
        _, other = too_wide(UNIFORMS, factor, upto, beyond + 0.2)
        assert abs(np.mean(other * x**6) - 15) > 0.15  # fifteen times what is allowed above


def test_the_law_is_continuous_where_it_stops_being_as_wide():
    x, weight = too_wide(UNIFORMS, 2.0, 2.5, 1.2)
    at = np.searchsorted(x, 2.5)
    assert abs(x[at] - x[at - 1]) < 2e-4 and weight[at] == pytest.approx(weight[at - 1], rel=1e-3)
    assert 1 / np.mean(weight**2) == pytest.approx(0.7529, abs=1e-3)  # of all samples, those that count
    x, weight = too_wide(UNIFORMS, 2.0, 2.5)
    assert np.ptp(weight[np.searchsorted(x, 2.5) :]) < 1e-12  # as normals themselves


def test_no_sample_that_never_comes_to_rest_weighs_much():
    """Samples with the largest h0 are on chaotic orbits for ever where steps are large; m and the loss are noisy where one of them
    weighs much. Their largest weight is 0.03 of the mean here; were e drawn as any other normal beyond 2.5 it would be 0.17, and
    0.06 if h0 and h(0) themselves were 1.2 times too wide."""
    experiment = Experiment.from_run(make_run(ALGORITHMS["sgd"], {"m0": 0.5}))
    start = draw(experiment, Sampling(1 << 16, 1, (0,), frozenset(PARTS)), np.arange(1 << 16))
    far = np.abs(start.k) > 4.5
    assert np.count_nonzero(far) > 10
    assert start.weight[far].max() < 0.05 * start.weight.mean()


@pytest.mark.parametrize("algorithm", ["gd", "persistent", "sgd"])
@pytest.mark.parametrize("samples", [1000, 1001])
def test_two_neighbours_share_their_later_normals_with_opposite_signs(algorithm, samples):
    experiment = Experiment.from_run(make_run(ALGORITHMS[algorithm]))
    start = draw(experiment, Sampling(samples, 1, (0,), frozenset(PARTS)), np.arange(samples))
    assert np.array_equal(start.batch_index, np.arange(samples))  # mini-batches are their own
    _, place, count = np.unique(start.noise_index, return_inverse=True, return_counts=True)
    assert count.max() == 2 and np.count_nonzero(count == 1) <= 10
    twice = count[place] == 2
    pairs = np.flatnonzero(twice)[np.argsort(start.noise_index[twice], kind="stable")].reshape(-1, 2)
    assert np.array_equal(start.noise_index[pairs[:, 0]], start.noise_index[pairs[:, 1]])
    assert np.all(start.sign[pairs].sum(axis=1) == 0) and np.all(np.abs(start.sign) == 1)
    if algorithm == "persistent":
        assert np.count_nonzero(start.s[pairs[:, 0]] != start.s[pairs[:, 1]]) <= 10  # one in each part of the set at most
    chance = np.random.default_rng(1).permutation(samples)[: 2 * len(pairs)].reshape(-1, 2)
    near, far = (np.mean(np.abs(start.h[some[:, 0]] - start.h[some[:, 1]])) for some in (pairs, chance))
    assert near < 0.6 * far  # measured 0.35 to 0.52


@pytest.mark.parametrize("problem", [{}, {"m0": 0.0}])
@pytest.mark.parametrize("samples", [1000, 1001, 1024])
def test_half_the_samples_are_the_first_of_all(problem, samples):
    """As the estimate of the bias wants it; mirrored too (m0 = 0)."""
    experiment = Experiment.from_run(make_run(ALGORITHMS["persistent"], problem))
    whole, half = (draw(experiment, Sampling(count, 1, (0,), frozenset(PARTS)), np.arange(count))
                   for count in (samples, samples // 2))
    for name in ("h", "z", "changes", "noise_index", "sign"):
        np.testing.assert_array_equal(getattr(whole, name)[: samples // 2], getattr(half, name), err_msg=name)


def test_without_a_sobol_set_all_normals_are_their_own():
    start = draw(Experiment.from_run(make_run(ALGORITHMS["gd"])), Sampling(100, 1, (0,), frozenset({"weights"})), np.arange(100))
    assert np.array_equal(start.noise_index, np.arange(100)) and np.all(start.sign == 1)


def test_a_set_is_drawn_in_pieces_of_any_size(monkeypatch):
    whole = PointSet(3, (0,), 5, True)

    def apart(points: np.ndarray) -> np.ndarray:
        return points[:, 2] > 0.5

    want = whole.codes(1000, [0, 1, 3], apart)
    monkeypatch.setattr(points_module, "TOGETHER", 64)
    assert np.array_equal(whole.codes(1000, [0, 1, 3], apart), want)
    assert np.all((want >= 1 << 36) == apart(whole.stretch(0, 1000)))
    np.testing.assert_array_equal(whole.at(np.array([7, 900, 8, 7])), whole.stretch(0, 1000)[[7, 900, 8, 7]])


def test_what_is_linear_in_a_later_normal_nearly_drops_out(monkeypatch):
    """The mean square of <z h0> and <z h(0)> at a later step, over 48 seeds, was 15 and 21 times smaller than with normals of
    their own. Of equal variances, 48 seeds each show a ratio of 2.6 in less than one of a thousand cases; pairs by chance gain
    nothing."""
    experiment, samples = Experiment.from_run(make_run(ALGORITHMS["gd"])), 1024

    def noise() -> np.ndarray:
        found = []
        for seed in range(48):
            how = Sampling(samples, seed, (0,), frozenset(PARTS))
            start = draw(experiment, how, np.arange(samples))
            z = start.sign * np.array([normal2(how.keys[0], name, LATER)[0] for name in start.noise_index])
            found.append([np.average(z * f, weights=start.weight) for f in (start.k, start.h)])
        return np.mean(np.square(found), axis=0)

    paired = noise()
    monkeypatch.setattr(PointSet, "codes", lambda self, count, *_: np.random.default_rng(self.seed).permutation(count))
    by_chance = noise()
    monkeypatch.setattr(sampling, "later_normals", lambda experiment, points, count: (
        sampling.Later(np.arange(count), np.ones(count))))
    alone = noise()
    assert np.all(alone / paired > 2.6) and np.all(alone / by_chance < 2.6)


def spreads(problem: dict) -> tuple[float, float]:
    """Of h0 and h(0) as drawn, not weighted back, in units of their own."""
    experiment = Experiment.from_run(make_run(ALGORITHMS["gd"], problem))
    start = draw(experiment, Sampling(4096, 1, (0,), frozenset(PARTS)), np.arange(4096))
    return float(start.k.std()), float(start.h.std() / np.sqrt(experiment.h_start_variance))


def test_starts_are_turned_where_there_are_barriers_alone():
    """Where labels are signs, h0 and h(0) are drawn 1.2 times too wide; with barriers what is independent of the field is, up to
    2.5, two times too wide, which makes 1.55; not so close to the teacher."""
    wide = np.sqrt(np.mean(too_wide(UNIFORMS, 2.0, 2.5, 1.2)[0] ** 2))
    assert wide == pytest.approx(1.55, abs=0.01)
    assert spreads({"m0": 0.5, "loss": "logistic"}) == pytest.approx((1.2, 1.2), abs=0.01)
    far = spreads({"m0": 0.5})
    assert far == pytest.approx((np.hypot(0.5 * 1.1, np.sqrt(0.75) * wide), np.hypot(np.sqrt(0.75) * 1.1, 0.5 * wide)), abs=0.01)
    assert spreads({"m0": 0.8}) == pytest.approx((1.2, 1.2), abs=0.01)
