"""Dyadic history: the bookkeeping, and how little it changes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from dmft.core.parallel import Comm
from dmft.core.tree import flatten
from dmft.equations.history import GROUP, History
from dmft.equations.kernels import saved_steps
from dmft.equations.recursion import merge_matrix
from dmft.model.experiment import Experiment
from dmft.samples.sampling import PARTS, Sampling
from dmft.samples.tangents import gather, merge_packed
from dmft.solvers.march import March
from tests.solver_cases import ALGORITHMS, CONSTRAINTS, make_march, make_run


@settings(deadline=None, max_examples=40)
@given(steps=st.integers(1, 700), per_level=st.integers(2, 20))
def test_blocks_tile_the_past(steps, per_level):
    """Every past step lies in exactly one block, blocks are powers of two and never finer in the past, and there are
    at most per_level of each size."""
    history = History(steps, per_level)
    assert history.slots % GROUP == 0
    for step in range(steps):
        history.push(step)
        order = np.array(history.order)
        size = history.size[order]
        assert_array_equal(history.first[order], np.concatenate(([0], np.cumsum(size)[:-1])))
        assert size.sum() == step + 1
        assert np.all(np.diff(size) <= 0) and np.all(size & (size - 1) == 0)
        assert np.unique(size, return_counts=True)[1].max() <= per_level


@pytest.mark.parametrize(("per_level", "jumps"), [(None, ()), (4, ()), (4, (5,))])
def test_a_step_more_than_it_was_made_for(per_level, jumps):
    history, step = History(12, per_level, jumps), 0
    while history.room:
        history.push(step)
        step += 1
    before = {name: array.copy() for name, array in history.state().items()}
    with pytest.raises(RuntimeError, match=f"no room for step {step}: .* made for fewer steps"):
        history.push(step)
    assert step >= 12 and all(np.array_equal(before[name], array) for name, array in history.state().items())


def test_packed_tangents_follow_the_square_matrix():
    """The packed store, merged step by step, against a plain matrix of block sums."""
    steps, rng = 150, np.random.default_rng(0)
    history = History(steps, 8)
    packed, square = np.zeros(history.packed), np.zeros((history.slots, history.slots))
    for step in range(steps):
        plan = history.push(step)
        for older, newer, into in plan.merges:
            merge_packed(packed, older, newer, into, history.offset, history.stop)
            merge_matrix(square, older, newer, into)
        row = np.where((history.size > 0) & (np.arange(history.slots) != plan.slot), rng.standard_normal(history.slots), 0)
        packed[history.offset[plan.slot] : history.offset[plan.slot] + history.stop[plan.slot]] = row
        square[plan.slot] = row
        memory, out = rng.standard_normal(history.slots), np.zeros(history.slots)
        memory[history.size == 0] = 0
        gather(packed, memory, history.offset, history.stop, 0, history.slots, out)
        assert_allclose(out, memory @ square, rtol=0, atol=1e-12)


@pytest.mark.parametrize("constraint", CONSTRAINTS)
def test_until_blocks_merge_it_is_the_full_history(constraint):
    """Another layout (two levels, rows read to the end of a level) and other code for the noise's order, but nothing merged
    for the first 24 steps: the same up to rounding; from then on the noise is drawn given less, and paths part."""
    run = make_run(ALGORITHMS["persistent"], CONSTRAINTS[constraint])
    full, blocks = make_march(run), make_march(run, per_level=24)
    assert full.history.full and not blocks.history.full and blocks.history.slots > full.history.slots
    for name in full.curves:
        assert_allclose(blocks.curves[name][:25], full.curves[name][:25], rtol=1e-9, atol=1e-9, err_msg=name)
    assert np.abs(blocks.curves["m"] - full.curves["m"]).max() > 1e-6


SEEDS, SAMPLES = range(1, 21), 300
# Without control variates the change of m was 7.5e-4, 1.9e-4, 4.2e-5 for 8, 16, 32 blocks per level; bounds are twice that, four
# errors of such a mean.
BOUNDS = {8: 1.5e-3, 16: 3.8e-4, 32: 8.5e-5}
# With [ibp], whose correction is constant across a block too: at 16 blocks it was 1.8e-4.
COMPLETED = 3.7e-4


def changes_of(run, levels, **options) -> dict[int, float]:
    """The largest change of m against the full history for each number of blocks, the geometric mean of twenty solutions, because
    single ones differ by factors of ten."""
    logs = []
    for seed in SEEDS:
        full = make_march(run, SAMPLES, seed=seed, **options).curves["m"]
        logs.append([np.log(np.abs(make_march(run, SAMPLES, per_level, seed=seed, **options).curves["m"] - full).max())
                     for per_level in levels])
    return dict(zip(levels, np.exp(np.mean(logs, axis=0)), strict=True))


def test_more_blocks_come_closer_to_the_full_history():
    run = make_run({"kind": "gd"}, {"m0": 0.5}, steps=150, eta=0.01)
    change = changes_of(run, BOUNDS, parts=("sobol", "weights"))
    assert change[8] > 2 * change[16] > 4 * change[32]
    for q, bound in BOUNDS.items():
        assert 0 < change[q] < bound
    assert 0 < changes_of(run, [16])[16] < COMPLETED


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_marches_in_blocks(algorithm):
    """Persistent mini-batches make chi rough: drawn given less of its past it takes another path, so that single
    solutions differ, by less than two seeds do (0.02 to 0.04 at these sizes). Measured: 1e-4 to 1.9e-3; the bound is twice that."""
    run = make_run(ALGORITHMS[algorithm], steps=60)
    full, dyadic = make_march(run, 2000), make_march(run, 2000, per_level=16)
    assert np.abs(full.curves["m"] - dyadic.curves["m"]).max() < 4e-3


def test_single_precision_does_not_hurt():
    run = make_run(ALGORITHMS["persistent"], steps=100)
    double, single = make_march(run, per_level=8), make_march(run, per_level=8, dtype=np.float32)
    change = np.abs(double.curves["m"] - single.curves["m"]).max()
    assert 0 < change < 2e-8  # measured 6.8e-9


def smooth_march(dtype, rounding=None) -> March:
    """Gradient descent, whose noise hangs on its past most delicately: M_C is nearly singular. Six levels of the history are in
    use. rounding: what is done to the past after every step."""
    problem = Experiment.from_run(make_run({"kind": "gd"}, {"m0": 0.5}, steps=300, eta=0.01))
    march = March(problem, Sampling(400, 1, (0,), frozenset(PARTS), 0.1, least_carriers=16), 8, np.array([0]), Comm(), dtype)
    while not march.done:
        march.step()
        if rounding:
            rounding(march.samples.past)
    return march


def to_bits(bits: int):
    """Rounding of what is kept in single precision to fewer bits."""
    def rounding(past):
        for array in (past.H, past.X, past.Y):
            digits, exponent = np.frexp(array)
            array[...] = np.ldexp(np.round(digits * 2**bits) / 2**bits, exponent)
    return rounding


def g_to_single(past):
    past.G[...] = past.G.astype(np.float32)


def noise_ratio(march: March) -> float:
    """The variance of chi at the last step over M_C there, both over the samples."""
    weight, past, newest = march.samples.state.weight, march.samples.past, march.history.order[-1]
    return float(weight @ past.X[:, newest].astype(float) ** 2 / (march.experiment.alpha * weight @ past.G[:, newest] ** 2))


def test_a_past_in_single_precision_keeps_a_smooth_noise():
    """The change of m was 1.2e-6 (24 bits), and grows with the rounding: 2.4e-4 with 16 bits. The noise of late steps has the
    variance M_C as before, within what 363 independent samples leave open (0.37: five errors), and to 8e-5 that of double
    precision. With 12 bits it has 3.7 times as much."""
    double, single, coarse, coarsest = (smooth_march(*how) for how in (
        (np.float64,), (np.float32,), (np.float32, to_bits(16)), (np.float32, to_bits(12))))
    assert single.history.levels == 6 and single.samples.past.X.dtype == np.float32
    assert 0 < np.abs(single.curves["m"] - double.curves["m"]).max() < 4e-6 < np.abs(coarse.curves["m"] - double.curves["m"]).max()
    assert abs(noise_ratio(double) - 1) < 0.37 < noise_ratio(coarsest) - 1
    assert abs(noise_ratio(single) - noise_ratio(double)) < 1e-3


def test_sums_of_g_need_double_precision():
    """Why the past of g is an exception: rounded, M_C is no Gram matrix, and its pivots become negative."""
    assert smooth_march(np.float32).weights.state.floored == 0
    rounded = smooth_march(np.float32, g_to_single)
    assert rounded.weights.state.floored > 0 and rounded.diverged


@pytest.mark.parametrize("at", [0, 1, 37, 70])
def test_a_march_goes_on_from_its_arrays(at):
    """What a checkpoint holds is all there is: the same bits after a restore."""
    run = make_run(ALGORITHMS["persistent and hot"], steps=70)
    whole = make_march(run, per_level=8)

    def fresh() -> March:
        return March(whole.experiment, whole.sampling, 8, saved_steps(70), Comm())

    first, second = fresh(), fresh()
    for _ in range(at):
        first.step()
    second.restore(*({k: np.array(v) for k, v in flatten(part).items()} for part in (first.shared(), first.own(), first.carried())))
    while not second.done:
        second.step()
    for name in whole.curves:
        assert_array_equal(whole.curves[name], second.curves[name])
    for name in whole.kernels:
        assert_array_equal(whole.kernels[name], second.kernels[name])


@settings(deadline=None, max_examples=25)
@given(steps=st.integers(2, 500), per_level=st.integers(2, 12), jumps=st.sets(st.integers(1, 499), max_size=8))
def test_no_block_spans_a_jump(steps, per_level, jumps):
    """Blocks still tile the past, at most per_level a level, the newest step alone; none holds a jump but as its first step."""
    history = History(steps, per_level, jumps)
    for step in range(steps):
        plan = history.push(step)
        order = np.array(history.order)
        first, size = history.first[order], history.size[order]
        assert_array_equal(first, np.concatenate(([0], np.cumsum(size)[:-1])))
        assert size.sum() == step + 1 and size[-1] == 1 and history.order[-1] == plan.slot
        if not history.full:
            assert not any(a < jump < a + count for jump in jumps for a, count in zip(first, size, strict=True))
        assert np.bincount(order // history.width).max() <= per_level


def test_a_jump_inside_costs_no_accuracy():
    """Blocks against the full history with jumps of eta and l inside: 8.8e-4, and 8.2e-4 without jumps; the bound is twice that."""
    rates = [[0.0, 0.01], [0.4, 0.02], [0.9, 0.005]]
    run = make_run({"kind": "sgd", "batch_fraction": [[0.0, 0.5], [0.6, 1.0]], "learning_rate": rates}, {"m0": 0.5}, 120, 0.01)
    blocks = make_march(run, 1000, per_level=16)
    assert len(blocks.history.jumps) == 3 and blocks.history.slots < 150
    assert 0 < changes_of(run, [16])[16] < 1.8e-3
