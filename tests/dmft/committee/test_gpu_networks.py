"""The march of networks on a GPU against that on the CPU: same numbers, up to rounding. Without a GPU its sources are compiled for
the host and tested all the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmft
from dmft.committee.algebra import factor_lines, keep_solved
from dmft.committee.card_matrices import CardMatrices
from dmft.committee.formulas import stiffness
from dmft.committee.gpu import UnitTiling
from dmft.committee.march import CommitteeMarch
from dmft.committee.matrices import Matrices
from dmft.core.errors import RunError
from dmft.core.parallel import Comm
from dmft.core.tree import flatten
from dmft.equations.noise import least_share
from dmft.equations.tuning import ESTIMATOR
from dmft.model.activations import register_activation
from dmft.samples.formulas import overshoots
from dmft.samples.sampling import Sampling
from tests.cards import Changed
from tests.emulate import COMPILER, HostGpu, HostQueue
from tests.marks import slow
from tests.network_cases import PAIR, SPHERES, UNEQUAL, made, network_run, observed
from tests.spoilt import spoilt_step

pytestmark = pytest.mark.gpu

# Three units of both signs with trained layers, on two of three directions, heat and momentum.
THREE: dict[str, Any] = {"units": 3, "directions": 2, "alpha": 3.0, "m0": [[0.4, 0.1], [0.05, 0.3], [0.1, -0.2]], "kind": "sgd",
                         "second_layer": [0.8, -0.5, 1.1], "train": 0.05, "train_intercepts": 0.03, "constraint": "frobenius",
                         "temperature": 0.1, "momentum": 0.4, "batch_fraction": 0.5, "learning_rate": 0.05, "t_max": 1.2}
LEAST = least_share(ESTIMATOR)  # of a variance that a pivot has
MANY = {**PAIR, "t_max": 2.6}
BOTH = ("sobol", "ibp")
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "pair": (MANY, {}),
    "tangents alone": (MANY, {"parts": ("sobol",), "tangents": 1.0}),
    "by parts": ({**MANY, "label": "tanh"}, {"parts": ("sobol", "stein"), "tangents": 1.0}),
    "unequal": ({**UNEQUAL, "t_max": 1.2, "label_noise": 0.2}, {}),
    "three units": (THREE, {}),
    "relu": ({**SPHERES, "activation": "relu", "kind": "gd", "t_max": 0.6}, {}),
    "nesterov": ({**MANY, "momentum": 0.5, "nesterov": True}, {}),
    "one unit": ({**PAIR, "units": 1, "m0": [[0.4, 0.1]], "activation": "smooth_relu", "t_max": 1.2}, {"parts": BOTH + ("stein",)}),
}
SMALL = UnitTiling(some=2, own=1, ahead=2, rows_ahead=3, warps=1, spread=6)


def solved(card: Any, run: Any, samples: int = 40, per_level: int | None = 4, **how: Any) -> CommitteeMarch:
    tiling = SMALL if isinstance(card, HostGpu) else None
    march = made(run, samples, per_level=per_level, gpu=card, tiling=tiling, **how)
    while not march.done:
        march.step()
    return march


def assert_same(want: CommitteeMarch, got: CommitteeMarch, close: float = 1e-8) -> None:
    for name, curve in want.curves.items():
        # what a row fails the identity by is a difference of numbers of order one, divided by eta
        np.testing.assert_allclose(got.curves[name], curve, rtol=close, atol=close, err_msg=name)
    for name, kernel in want.kernels.items():
        np.testing.assert_allclose(got.kernels[name], kernel, rtol=10 * close, atol=10 * close, err_msg=name)


@pytest.mark.parametrize("name", [slow(name) if name in ("by parts", "unequal") else name for name in CASES])
def test_networks_on_a_gpu_are_those_on_the_cpu(card, name):
    settings, how = CASES[name]
    run = network_run(settings)
    want, got = (solved(gpu, run, **how) for gpu in (None, card))
    assert not want.diverged and abs(want.curves["m"][-1] - want.curves["m"][0]).max() > 0.01
    # Without mini-batches M_C is nearly singular, and the weights of chi on its past amplify rounding.
    assert_same(want, got, 1e-6 if settings["kind"] == "gd" else 1e-8)


@pytest.mark.parametrize("name", ["pair", slow("nesterov")])
def test_observables_are_averaged_on_the_card(card, name):
    """Also at the weights where gradients are at the point ahead. Twin: with f in place of the field of the first direction."""
    with observed() as names:
        run = network_run({**CASES[name][0], "t_max": 1.2, "observables": names})
        want, got = (solved(gpu, run) for gpu in (None, card))
        assert_same(want, got)
        np.testing.assert_allclose(got.curves["misfit"], got.curves["loss"], rtol=1e-9)
        broken = solved(Changed(card, "average_values(f, y[i], own_kappa[0], terms)", "average_values(f, y[i], f, terms)"), run)
        assert np.abs(broken.curves["along"] - want.curves["along"]).min() > 1e-3


# A full history, whose matrices are on the card: with the identity and without, kinks, trained layers and momentum, Nesterov.
@pytest.mark.parametrize("name", ["pair", "relu", *map(slow, ("tangents alone", "unequal", "three units", "nesterov", "one unit"))])
def test_matrices_of_a_full_history_are_on_the_card(card, name):
    settings, how = CASES[name]
    run = network_run(settings)
    want, got = (solved(gpu, run, per_level=None, **how) for gpu in (None, card))
    assert isinstance(got.weights.matrices, CardMatrices) and not isinstance(want.weights.matrices, CardMatrices)
    assert_same(want, got, 1e-8)
    for matrix in ("Q", "R", "M_C", "factor"):  # the host has them all the same
        ours, theirs = (np.tril(getattr(march.weights.state, matrix)) for march in (got, want))
        np.testing.assert_allclose(ours, theirs, atol=1e-7, err_msg=matrix)


def smooth(size: int) -> np.ndarray:
    """A covariance that is nearly singular."""
    return np.exp(-0.5 * (np.subtract.outer(np.arange(size), np.arange(size)) / 9.0) ** 2)


def test_products_and_solves_on_a_card_are_those_of_the_host(card):
    """With a ridge to which a row has been added."""
    weights, blocks, rng = made(network_run(PAIR, t_max=2.4), 40, gpu=card).weights, 21, np.random.default_rng(3)
    state, p, size = weights.state, weights.units, 2 * blocks
    for n in range(blocks):
        weights.history.push(n)
    X, order = rng.standard_normal((size, size)), np.arange(size)
    state.M_C[:size, :size], state.Q[:size, :size], state.R[:size, :size] = smooth(size), X @ X.T / size, np.tril(X, -p)
    state.Q_row[:, :size] = rng.standard_normal((p, size))
    for M, noise, factor in ((state.M_C, 1e-9, state.factor), (state.Q, 0.1, state.ridge)):
        assert factor_lines(M, np.full(len(M), noise), order, factor, 0, 0, LEAST) == 0
    state.n, state.factor_from, state.ridge_from = blocks, size, size - p
    host, on_card = Matrices(weights.history, p), weights.matrices
    for matrices in (host, on_card):
        matrices.take(state)
        matrices.factored("ridge", size - p, size)
    correlation, memory, M_C, residual = lines = np.zeros((4, p, len(state.Q)))
    lines[:, :, :size] = rng.standard_normal((4, p, size))
    M_C[:, :size] = M_C[:, :size] @ smooth(size)  # within reach of M_C
    on_card.expect(correlation, memory, M_C)
    for name, of in (("noise", correlation), ("overlaps", memory), ("responses", memory)):
        ours, theirs = (getattr(each, name)(of, size) for each in (on_card, host))
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12, err_msg=name)
    want, got = (matrices.given_weights(residual, order) for matrices in (host, on_card))
    for ours, theirs in ((got[0], want[0]), (got[1](), want[1]())):
        np.testing.assert_allclose(ours.lines[:, :size], theirs.lines, rtol=0, atol=1e-11)
        np.testing.assert_allclose(ours.half[:, :size], theirs.half, rtol=0, atol=1e-11)
    L, found = np.tril(state.factor[:size, :size]), on_card.given_noise(M_C, order)
    half, lines = found.half[:, :size], found.lines[:, :size]
    np.testing.assert_allclose(half @ L.T, M_C[:, :size], rtol=0, atol=1e-12)
    np.testing.assert_allclose(lines @ L, half, rtol=0, atol=1e-9)


def test_a_factor_that_grows_on_a_card_stays_exact(card):
    """Row by row from what the solves left: errors of its inverse would add up, were they not taken out with the factor itself."""
    weights, blocks = made(network_run(PAIR, t_max=2.4), 40, gpu=card).weights, 20
    state, p, matrices, M = weights.state, weights.units, weights.matrices, smooth(2 * blocks)
    for n in range(blocks):
        at, end = n * p, n * p + p
        row, none, order = np.zeros_like(state.Q_row), np.zeros_like(state.Q_row), np.arange(end)
        row[:, :at], state.M_C[at:end, :end] = M[at:end, :at], M[at:end, :end]
        matrices.expect(none, none, row)
        keep_solved(state.factor, matrices.given_noise(row, order[:at]).half[:, :at])
        weights.history.push(n)
        factor_lines(state.M_C, np.full(len(state.M_C), 1e-9), order, state.factor, at, at, LEAST)
        matrices.factored("factor", at, end)
    L = np.tril(state.factor[:end, :end])
    np.testing.assert_allclose(L @ L.T, M + 1e-9 * np.eye(end), rtol=0, atol=5e-15)  # 1e-12 otherwise


class LateQueue(HostQueue):
    """What is launched happens when it is waited for, as late as on a card that is busy."""

    def __init__(self):
        super().__init__()
        self.waiting = []

    def replay(self, launched):
        self.waiting.append(launched)

    def wait(self):
        for launched in self.waiting:
            super().replay(launched)
        self.waiting.clear()
        super().wait()


class LateGpu(HostGpu):
    def queue(self, urgent=False):
        return LateQueue()


@pytest.mark.skipif(COMPILER is None, reason="no C++ compiler to run CUDA sources on the host")
def test_nothing_is_read_before_it_has_been_waited_for():
    """Nor overwritten before it has been sent: the bits of a card that does everything at once."""
    run = network_run(PAIR, t_max=0.8)
    want, got = (solved(gpu, run, per_level=None) for gpu in (HostGpu(), LateGpu()))
    for name, curve in want.curves.items():
        np.testing.assert_array_equal(got.curves[name], curve, err_msg=name)


def test_a_full_history_goes_on_on_a_card_bit_for_bit(card):
    """From a checkpoint, with factors that have been made anew once and grown by rows; and on the CPU, up to rounding."""
    run = network_run(PAIR, t_max=1.6)
    tiling = SMALL if isinstance(card, HostGpu) else None
    first, second, third = (made(run, 40, gpu=gpu, tiling=tiling) for gpu in (card, card, None))
    for _ in range(9):
        first.step()
    for _ in range(4):  # what it has done before is gone
        second.step()
    parts = first.shared(), first.per_sample(), first.per_tangent()
    kept = [{k: np.array(v) for k, v in flatten(part).items()} for part in parts]
    for march in (second, third):
        march.restore(*kept)
    for march in (first, second, third):
        while not march.done:
            march.step()
    for name, curve in first.curves.items():
        np.testing.assert_array_equal(second.curves[name], curve, err_msg=name)
    assert_same(first, third, 1e-8)


@pytest.mark.parametrize("dtype, close", [(np.float64, 1e-8), slow(np.float32, 1e-5)])
def test_blocks_in_several_parts(card, dtype, close):
    """Samples for more than one block of several parts, the last of them shorter."""
    run = network_run(PAIR, t_max=0.5)
    want, got = (solved(gpu, run, samples=1100, dtype=dtype) for gpu in (None, card))
    assert got.blocks.total > 1 and (not isinstance(card, HostGpu) or got.samples.parts > 1)
    assert_same(want, got, close)


def test_what_is_no_number_is_not_bounded(card):
    """As for one unit; what a unit responds with goes on to all."""
    run = network_run(SPHERES, kind="gd", label="tanh", learning_rate=3.0, t_max=9.0)
    want, got = (made(run, 40, parts=(*BOTH, "stein"), tangents=1.0, gpu=gpu) for gpu in (None, card))
    for march in (want, got):
        march.step()
    found, on_card = map(spoilt_step, (want, got))
    fields = want.samples.fields
    assert any(overshoots(3.0, stiffness(*of, 2, 1)) for of in zip(fields.curve[::2], fields.d[::2], fields.bend[::2], strict=True))
    for name, lost in found.items():
        assert lost.reshape(len(lost), -1)[::2, 0].all() and not lost[1::2].any()
        np.testing.assert_array_equal(on_card[name], lost, err_msg=name)


class Rank:
    """One of two ranks, whose sums are made by the test."""

    def __init__(self, rank: int, samples: int):
        self.rank, self.size, self.samples = rank, 2, samples

    def sum_exact(self, partials):
        return np.array([float(self.samples)])  # of weights


def test_two_ranks_have_the_bits_of_one(card):
    run, samples = network_run(PAIR, t_max=0.4), 1100
    options = {"gpu": card, "tiling": SMALL if isinstance(card, HostGpu) else None}
    whole = made(run, samples, **options)
    ranks = [CommitteeMarch(whole.experiment, Sampling(samples, 1, (0,), frozenset(BOTH), 1 / 16), None, whole.wanted,
                            Rank(rank, samples), **options) for rank in range(2)]
    assert min(len(rank.blocks.here) for rank in ranks) > 0
    while not whole.done:
        whole.step()
        totals = Comm().sums_exact([np.concatenate([rank.terms()[0] for rank in ranks])])
        for rank in ranks:
            rank.take(totals)
    for name, curve in whole.curves.items():
        np.testing.assert_array_equal(ranks[0].curves[name], curve, err_msg=name)


@pytest.mark.parametrize("back", [False, True], ids=["card to CPU", "CPU to card"])
def test_a_network_goes_on_on_the_other_device(card, back):
    """In the middle of a history whose blocks have been merged, with samples for more blocks on the CPU than on the card."""
    run = network_run({**MANY, "t_max": 2.0, "momentum": 0.5, "nesterov": True})
    first, second = (made(run, 300, per_level=4, gpu=gpu) for gpu in ((None, card) if back else (card, None)))
    for _ in range(13):
        first.step()
    for _ in range(4):  # what it has done before is gone
        second.step()
    assert first.blocks.total != second.blocks.total
    parts = first.shared(), first.per_sample(), first.per_tangent()
    second.restore(*({k: np.array(v) for k, v in flatten(part).items()} for part in parts))
    for march in (first, second):
        while not march.done:
            march.step()
    assert_same(first, second, 1e-7)


@pytest.mark.long
@pytest.mark.skipif(COMPILER is None, reason="no C++ compiler to run CUDA sources on the host")
@pytest.mark.parametrize("old, new", [
    ("sums[r * UNITS + q] += response * E[q * apart + t]", "sums[q * UNITS + r] += response * E[q * apart + t]"),
    ("chi += rates->chi_root[r][q] * z[q * ACROSS + across]", "chi += rates->chi_root[r][q] * z[r * ACROSS + across]"),
], ids=["the response transposed", "one normal for all units"])
def test_broken_physics_is_seen(old, new):
    """Twin of the comparison: K_R = T g' in place of g' T, and noise without the correlations of its units."""
    run, how = network_run({**UNEQUAL, "t_max": 0.6}), {"parts": ("sobol",), "tangents": 1.0}
    want, got = (solved(gpu, run, **how) for gpu in (None, Changed(HostGpu(), old, new)))
    assert np.abs(got.curves["C"] - want.curves["C"]).max() > 1e-4  # the two agree to 1e-6 otherwise


@pytest.mark.usefixtures("on_this_card")
def test_what_a_card_does_not_take_is_one_line():
    many = {**PAIR, "units": 17, "m0": 0, "device": "gpu"}
    with pytest.raises(RunError, match=r'\[network\] units = 17: device = "gpu" takes at most 16; take device = "cpu"'):
        dmft.solve(network_run(many), quiet=True)
    register_activation("from_a_list", lambda x: [x * x][0], lambda x: 2.0 * x, lambda x: 2.0 + 0.0 * x)
    with pytest.raises(RunError, match="the activation 'from_a_list': <lambda>: .* cannot be translated to CUDA .*; write it in"):
        dmft.solve(network_run(PAIR, activation="from_a_list", device="gpu"), quiet=True)


@pytest.mark.usefixtures("on_this_card")
def test_a_network_is_solved_on_a_gpu():
    """Through the driver: both solutions of a replica, and the curves that the result has of them."""
    run = network_run(PAIR, t_max=0.5, samples=24, replicas=2)
    got, want = (dmft.solve(run.replace({"theory.device": device}), quiet=True) for device in ("gpu", "cpu"))
    for name in ("m", "C", "loss", "mse", "m_error"):
        np.testing.assert_allclose(got.curves[name], want.curves[name], rtol=1e-7, atol=1e-9, err_msg=name)
