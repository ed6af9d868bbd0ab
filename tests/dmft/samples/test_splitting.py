"""Samples that split: weights and pasts are kept exactly, the law of a solution is the same, no sample outweighs the others."""

from __future__ import annotations

import numpy as np
import pytest

from dmft.core.parallel import Comm
from dmft.model.experiment import Experiment
from dmft.samples import splitting
from dmft.samples.process import Samples
from dmft.samples.sampling import FIXED, PARTS, Sampling
from dmft.solvers.march import March
from tests.solver_cases import make_march, make_run

PERSISTENT = {"kind": "persistent_sgd", "batch_fraction": 0.5, "persistence": 1.0}


def run_of(steps: int, algorithm: dict | None = None, **problem):
    return make_run(algorithm or PERSISTENT, {"alpha": 2.0, "m0": 0.5, **problem}, steps=steps, eta=0.02)


def copies(march: March) -> int:
    return int(np.count_nonzero(march.samples.state.weight)) - march.sampling.samples


@pytest.fixture
def eager(monkeypatch):
    """Nearly every sample splits, as often as there is room."""
    monkeypatch.setattr(splitting, "THRESHOLD", 0.05)


def test_most_important_samples_split_first_and_a_full_pool_is_choosy():
    share = np.array([5.0, 9.0, 0.1, 0.0, 0.0, 0.0, 8.0, 7.0, 6.0, 0.0, 0.0, 0.0])  # two pools of six places
    weight = np.array([1.0, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1, 0])  # the first has two empty places, the second has one
    assert splitting.pairs(share, weight, 6, 2, 1.0).tolist() == [[1, 4], [0, 5], [6, 11]]
    # one of two places left: the threshold is four times as high
    assert splitting.pairs(share, weight, 6, 2, 1.9).tolist() == [[1, 4], [0, 5], [6, 11]]
    assert splitting.pairs(share, weight, 6, 2, 2.1).tolist() == [[1, 4], [0, 5]]
    # more room than spare places, in a last pool with few samples: not choosier than elsewhere, and not less so
    assert splitting.pairs(np.array([3.0, 0, 0, 0, 0, 0]), np.eye(6)[0], 6, 2, 3.1).tolist() == []


def test_copies_have_numbers_of_their_own_and_the_index_of_their_first_sample():
    old = np.arange(1000)
    once, other = splitting.new_names(old, np.uint64(7), 12), splitting.new_names(old, np.uint64(7), 14)
    twice = splitting.new_names(once, np.uint64(7), 16)
    everything = np.concatenate((old, once, other, twice))
    assert len(np.unique(everything)) == 4000 and everything.min() >= 0
    for labels in (once, other, twice):
        np.testing.assert_array_equal(labels & 0xFFFFFFFF, old)


def gram_gap(march: March) -> float:
    """Largest distance of M_C(n, k) from the Gram matrix of the samples as they are now, in units of its diagonal."""
    samples, n = march.samples, march.n
    gram = (march.experiment.alpha * (samples.state.weight[:, None] * samples.past.G).T @ samples.past.G)[:n, :n]
    size = np.sqrt(np.diag(gram))
    return float((np.abs(march.weights.state.M_C[:n, :n] - gram) / np.outer(size, size)).max())


def test_m_c_stays_the_gram_matrix_of_the_samples(eager):
    march = make_march(run_of(30), samples=200, parts=PARTS)
    assert copies(march) > 50
    assert march.samples.state.weight.sum() == pytest.approx(1.0, abs=1e-14)
    assert gram_gap(march) < 1e-13


def test_a_copy_that_keeps_the_whole_weight_is_seen(eager, monkeypatch):
    """Twin of the test above."""

    class Greedy(Samples):
        def split(self, *arguments):
            before = self.state.weight.copy()
            super().split(*arguments)
            halved = (before > 0) & (self.state.weight < before)
            self.state.weight[halved] = before[halved]

    monkeypatch.setattr("dmft.solvers.march.Samples", Greedy)
    march = make_march(run_of(11), samples=200, parts=PARTS)  # the kernels of a longer one explode
    assert march.samples.state.weight.sum() > 1.01
    assert gram_gap(march) > 1e-3


def ends(parts, seeds: range) -> np.ndarray:
    return np.array([make_march(run_of(30), samples=64, seed=seed, parts=parts).curves["m"][-1] for seed in seeds])


def test_the_law_of_a_solution_is_the_same(eager, monkeypatch):
    """Mean m over many solutions with as many splits as there is room for, and without any."""
    with_splits, without = ends(PARTS, range(150)), ends(FIXED, range(150, 300))
    error = np.sqrt(with_splits.var(ddof=1) / 150 + without.var(ddof=1) / 150)
    assert abs(with_splits.mean() - without.mean()) < 4 * error
    # twin: copies that take the teacher's field with the wrong sign
    original = Samples.split

    def confused(self, *arguments):
        empty = self.state.weight == 0.0
        original(self, *arguments)
        self.state.k[empty & (self.state.weight > 0.0)] *= -1.0

    monkeypatch.setattr(Samples, "split", confused)
    assert abs(ends(PARTS, range(150)).mean() - without.mean()) > 4 * error


def test_no_sample_outweighs_the_others():
    """The largest share of the response, in units of a typical sample's, up to t = 1."""

    def largest(parts) -> float:
        problem = Experiment.from_run(run_of(50))
        march = March(problem, Sampling(4000, 7, (0,), frozenset(parts)), 8, np.array([0]), Comm(), np.float32)
        found = 0.0
        while not march.done:
            march.step()
            found = max(found, float((march.samples.state.weight * np.abs(march.samples.tangents.row).sum(axis=1)).max()))
        return 4000 * found

    assert largest(PARTS) < 10 < 100 < largest(FIXED)


@pytest.mark.parametrize("samples", [1, 37, 300])
def test_splitting_alone_and_any_number_of_samples(eager, samples):
    march = make_march(run_of(20), samples=samples, parts=("splitting",))
    assert copies(march) > 0 and march.samples.state.weight.sum() == pytest.approx(1.0, abs=1e-14)
    assert np.isfinite(march.curves["m"]).all()


def test_a_march_with_copies_goes_on_to_the_same_bits(eager):
    problem, sampling = Experiment.from_run(run_of(40)), Sampling(200, 1, (0,), frozenset(PARTS))
    first, second = (March(problem, sampling, 4, np.arange(41), Comm(), np.float32) for _ in range(2))
    for _ in range(25):
        first.step()
    assert copies(first) > 50
    second.restore({k: np.array(v) for k, v in first.shared().items()}, {k: np.array(v) for k, v in first.own().items()})
    for march in (first, second):
        while not march.done:
            march.step()
    for name, curve in first.curves.items():
        np.testing.assert_array_equal(second.curves[name], curve, err_msg=name)


@pytest.mark.parametrize("algorithm, problem, spare", [
    (PERSISTENT, {}, True), ({"kind": "sgd", "batch_fraction": 0.5}, {}, True),
    ({"kind": "langevin", "temperature": 0.3}, {}, True),
    ({"kind": "gd"}, {}, False), (PERSISTENT, {"m0": 0.0}, False),
], ids=["persistent", "sgd", "langevin", "gd", "mirrored"])
def test_samples_split_where_noise_tells_copies_apart(algorithm, problem, spare):
    p = Experiment.from_run(run_of(20, algorithm, **problem))
    assert bool(March(p, Sampling(64, 1, (0,), frozenset(PARTS)), None, np.array([0]), Comm()).blocks.spare) == spare
