"""Dyadic history: the bookkeeping, and how little it changes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from dmft.core.errors import StateError
from dmft.core.parallel import Comm
from dmft.core.tree import flatten
from dmft.equations import blocks as block_table
from dmft.equations.history import SLOT_GROUP, History, grouped
from dmft.equations.kernels import COLUMNS, Wanted
from dmft.equations.recursion import merge_matrix
from dmft.equations.tuning import Estimator
from dmft.model.experiment import Experiment
from dmft.model.runfile import parse_run
from dmft.running.replica import WHOLE, Setup
from dmft.samples.sampling import PARTS, Sampling
from dmft.samples.tangents import gather, merge_packed
from dmft.solvers import march as marching
from dmft.solvers.march import March
from tests.run_files import run_text
from tests.solver_cases import ALGORITHMS, CONSTRAINTS, make_march, make_run


def tiles(history: History, step: int) -> tuple[np.ndarray, np.ndarray]:
    """First steps and sizes of the blocks, oldest first, which hold every step up to this one once. A newer block can respond to
    all older ones."""
    order = history.order
    first, size = history.first[order], history.size[order]
    assert_array_equal(first, np.concatenate(([0], np.cumsum(size)[:-1])))
    assert size.sum() == step + 1 and size[-1] == 1
    assert all((order[: i + 1] < history.stop[slot]).all() for i, slot in enumerate(order))
    return first, size


def newer_blocks(history: History, per_level: int | None = None) -> int:
    """The rule of age, with pins and jumps too: steps share a block of a level only where every level below is full. How many more
    newer blocks than per_level - 1 for each of those levels a block has, at least."""
    size = history.size[history.order]
    newer = len(size) - 1 - np.arange(len(size))
    return int(np.min(newer - ((per_level or history.per_level) - 1) * np.ceil(np.log2(size)).astype(int)))


def test_the_rule_of_age_is_tight():
    """Waiting steps and jumps inside: a block is met that has just as many newer ones as it must. Twin: a history with one block a
    level fewer breaks the rule."""
    least = []
    for per_level in (8, 7):
        history = History(400, per_level, [150], [0, 1, 2, 4, 8, 16, 32, 64, 128, 256])
        slack = []
        for step in range(400):
            history.push(step)
            slack.append(newer_blocks(history, 8))
        least.append(min(slack))
    assert least[0] == 0 > least[1]


@settings(deadline=None, max_examples=20)
@given(steps=st.integers(1, 400), per_level=st.integers(2, 20), jumps=st.sets(st.integers(1, 399), max_size=6),
       pins=st.sets(st.integers(0, 399), max_size=6))
def test_blocks_obey_the_three_rules(steps, per_level, jumps, pins):
    """Short beside their age and beside the time since the start; alone at pins; within jumps; few."""
    history = History(steps, per_level, jumps, {pin for pin in pins if pin < steps})
    assert history.slots % SLOT_GROUP == 0
    if history.full:
        return
    early = max(per_level // 2, 1)
    for step in range(steps):
        history.push(step)
        first, size = tiles(history, step)
        assert np.all(size <= 1 + first // early)
        assert newer_blocks(history) >= 0
        assert jumps or pins or np.all(size <= 4 * (step - first - size + 1) / per_level + 2)  # so a block is short beside its age
        assert all(1 in size[first == pin] for pin in pins if pin <= step)
        assert not any(np.any((first < jump) & (jump < first + size)) for jump in jumps)
    assert len(history.order) <= history.slots <= history.layout.settled + grouped(per_level) * history.levels


def test_a_longer_run_may_keep_its_past_in_other_blocks():
    """It continues from a state where blocks had to begin at the same steps; not where a phase is long in the longer run alone, nor
    where the shorter one kept every step, or has other waiting steps."""
    assert History(300, 8, pins=[0, 64, 128]).extends(History(100, 8, pins=[0, 64]))
    assert History(300, 8, [60]).extends(History(100, 8, [60])) and not History(300, 8, [90]).extends(History(100, 8, [90]))
    assert not History(300, 8).extends(History(8, 8)) and History(300).extends(History(8))
    assert not History(300, 8, pins=[0, 64]).extends(History(100, 8))


def test_a_long_phase_is_a_new_start():
    """After a jump that opens a long phase blocks are short beside the time since then; after one of many short phases they are
    not, or a run with many jumps would keep all steps."""
    history = History(1000, 8, [400])
    for step in range(1000):
        history.push(step)
    first, size = tiles(history, 999)
    after = first >= 400
    assert np.all(size[after] <= 1 + (first[after] - 400) // 4) and size.max() > 50
    many = History(1000, 8, range(50, 1000, 50))
    for step in range(1000):
        many.push(step)
    assert len(many.order) < 130


@pytest.mark.parametrize(("per_level", "jumps"), [(None, ()), (4, ()), (4, (5,))])
def test_a_step_more_than_it_was_made_for(per_level, jumps):
    history, step = History(12, per_level, jumps), 12
    for past in range(12):
        history.push(past)
    before = {name: array.copy() for name, array in history.state().items()}
    with pytest.raises(RuntimeError, match="no room for step 12: the history was made for 12 steps"):
        history.push(step)
    assert all(np.array_equal(before[name], array) for name, array in history.state().items())


def test_blocks_of_less_than_no_steps_are_not_taken_up():
    """Not even where the steps of all blocks add up, and each begins where the one before ends."""
    history, steps = History(12, 4), [4, 3, -1]
    for step in range(sum(steps)):
        history.push(step)
    kept = {name: array.copy() for name, array in history.state().items()}
    order = kept["order"] = kept["order"][: len(steps)]
    kept["size"][:] = 0
    kept["size"][order], kept["first"][order] = steps, np.cumsum(steps) - steps
    with pytest.raises(StateError, match="do not follow each other"):
        history.restore(kept)


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
    assert full.history.full and not blocks.history.full
    for name in full.curves:
        assert_allclose(blocks.curves[name][:25], full.curves[name][:25], rtol=1e-9, atol=1e-9, err_msg=name)
    assert np.abs(blocks.curves["m"] - full.curves["m"]).max() > 1e-6


@pytest.mark.long
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
    sampling = Sampling(400, 1, (0,), frozenset(PARTS), 0.1, estimator=Estimator(least_carriers=16))
    march = March(problem, sampling, 8, Wanted.plain(problem.steps), Comm(), dtype)
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
    assert smooth_march(np.float32).weights.now.floored == 0
    rounded = smooth_march(np.float32, g_to_single)
    assert rounded.weights.now.floored > 0 and rounded.diverged


@pytest.mark.parametrize("at", [0, 1, 37, 70])
def test_a_march_goes_on_from_its_arrays(at):
    """What a checkpoint holds is all there is: the same bits after a restore."""
    run = make_run(ALGORITHMS["persistent and hot"], steps=70)
    whole = make_march(run, per_level=8)

    def fresh() -> March:
        return March(whole.experiment, whole.sampling, 8, Wanted.plain(70), Comm())

    first, second = fresh(), fresh()
    for _ in range(at):
        first.step()
    parts = first.shared(), first.per_sample(), first.per_tangent()
    second.restore(*({k: np.array(v) for k, v in flatten(part).items()} for part in parts))
    while not second.done:
        second.step()
    for name in whole.curves:
        assert_array_equal(whole.curves[name], second.curves[name])
    for name in whole.kernels:
        assert_array_equal(whole.kernels[name], second.kernels[name])
    for name in whole.columns:
        assert_array_equal(whole.columns[name], second.columns[name])


def in_blocks(values: np.ndarray, history: History) -> np.ndarray:
    """(slots,) sums over the blocks of a history."""
    sums = np.zeros(history.slots)
    first, size = history.first[history.order], history.size[history.order]
    sums[history.order] = [values[a : a + count].sum() for a, count in zip(first, size)]
    return sums


@pytest.mark.parametrize("jump", [None, 300, 700])  # a long phase, fine after its start, and a short one
def test_weights_of_a_kernel_see_slopes(jump):
    """sum_k K(k) x(k) from sums over blocks: exact where both are linear, on either side of a jump of theirs too; with means over
    blocks alone it is not. For smooth ones the error falls with the fourth power of the blocks, that of means with the second."""
    def errors(K, x, per_level):
        history = History(1000, per_level, [] if jump is None else [jump], [64, 512])
        for step in range(1000):
            history.push(step)
        sums, exact = in_blocks(x, history), float(K @ x)
        kernel = in_blocks(K, history)
        return abs(history.weights(kernel) @ sums - exact) / abs(exact), abs(kernel / history.divisor @ sums - exact) / abs(exact)

    k = np.arange(1000.0)
    late = k >= (jump or 2000)
    right, means = errors(1 + k / 500 + late, 3 - k / 400 - 2 * late, 8)
    assert right < 1e-13 < 1e-5 < means
    smooth = (1 / (1 + k / 20) + late, np.exp(-k / 400) - 0.5 * late)
    (right, means), (finer, finer_means) = errors(*smooth, 8), errors(*smooth, 32)
    assert right < means / 10 and finer < right / 50 and finer_means > means / 40


@pytest.mark.slow
def test_near_the_teacher_the_loss_falls_to_nothing():
    """Persistent SGD that has found the teacher: the loss is 1.1e-7 at t = 20 and falls on, to 1e-11 at t = 50. Slopes off waiting
    steps kept it above 4e-7 for ever, with 4.2e-6 at t = 20; without waiting steps, or without slopes, it was 1.3e-7."""
    run = parse_run(run_text(t_max=20.0, theory={"samples": 512}))
    setup = Setup.from_run(run)
    march = March(setup.experiment, setup.sampling(WHOLE, 0), setup.blocks(WHOLE), setup.wanted, Comm(), setup.stored_type)
    while not march.done:
        march.step()
    assert march.curves["loss"][-2] < 1e-6


def test_noise_of_single_steps_is_not_multiplied_by_long_blocks(monkeypatch):
    """A kernel that is noise: its weights stay of the size of its means. Twin: slopes from the next blocks alone, of which some are
    single steps beside blocks of thousands, multiply their noise by dozens (solutions of 20 000 steps broke down by it)."""
    history = History(30_000, 12, [], [1024, 4096, 16384])
    for step in range(30_000):
        history.push(step)
    kernel = in_blocks(np.random.default_rng(1).standard_normal(30_000), history)
    means, size = np.abs(kernel / history.divisor).max(), history.size[history.order]
    assert (size[1:] > 100 * size[:-1]).any() and np.abs(history.weights(kernel)).max() < 1.5 * means

    def neighbours(order, first, size, jumps, i, way, least):
        inside = 0 <= i + way < len(order)
        return (i + way, size[order[i + way]]) if inside else (i, 0)

    torn = np.empty(history.slots)
    monkeypatch.setattr(block_table, "_beside", neighbours)
    monkeypatch.setattr(block_table, "beside", block_table.beside.py_func)
    block_table.kernel_weights.py_func(history.rule._replace(jumps=np.zeros(30_001, bool)), history.blocks, kernel, torn)
    assert np.abs(torn).max() > 30 * means


def test_a_jump_inside_costs_no_accuracy(monkeypatch):
    """Blocks against the full history with jumps of eta inside, on the linear loss, where nothing but blocks makes a difference to
    m: 1.8e-6 at most, and the bound is twice that. A history that does not know of the jumps is off by 9.9e-6."""
    rates = [[0.0, 0.05], [2.0, 0.1], [6.0, 0.025]]
    run = make_run({"kind": "gd", "learning_rate": rates},
                   {"loss": "linear", "m0": 0.3, "constraint": "ridge", "ridge": 0.05, "alpha": 1.2}, 200, 0.05)
    full, blocks = make_march(run), make_march(run, per_level=8)
    assert np.count_nonzero(blocks.experiment.jump_n) == 2 and not blocks.history.full
    monkeypatch.setattr(marching, "history_for", lambda e, q, wanted: History(e.steps, q, pins=wanted.pins))
    unaware = make_march(run, per_level=8)
    gap, unaware_gap = (np.abs(march.curves["m"] - full.curves["m"]).max() for march in (blocks, unaware))
    assert 0 < gap < 3.6e-6 < unaware_gap


def columns_off(blocks: March, full: March) -> dict[str, float]:
    """Largest difference of the columns of two marches, in units of the largest entry of the column."""
    off = {name: np.abs(blocks.columns[name] - full.columns[name]) for name in COLUMNS}
    return {name: float(np.nanmax(off[name] / np.nanmax(np.abs(full.columns[name]), axis=0))) for name in COLUMNS}


# Measured with 16 blocks, 250 steps of the linear loss under GD: at most 4.7e-4, in M_C on the sphere, and 1.3e-4 elsewhere.
BOUNDS = {"M_C": 1e-3, "M_R": 3e-4, "C": 3e-4, "R": 3e-4, "chi": 3e-4}


@pytest.mark.long
@pytest.mark.parametrize("constraint", CONSTRAINTS)
def test_columns_are_entries_at_single_times(constraint):
    """C(t, t_w), R, M_C, M_R and chi of blocks against those of the full history with the same random numbers. Twin: read off the
    cell that a step lies in where it is no waiting step."""
    run = make_run({"kind": "gd"}, {"loss": "linear", "m0": 0.3, "alpha": 1.2, **CONSTRAINTS[constraint]}, 250, 0.05)
    full, blocks = make_march(run), make_march(run, per_level=16)
    off = columns_off(blocks, full)
    assert all(0 < off[name] < BOUNDS[name] for name in COLUMNS), off
    free = March(blocks.experiment, blocks.sampling, 16, Wanted.plain(250)._replace(waiting=np.zeros(1, np.int64)), Comm())
    while not free.done:
        free.step()
    cell = int(free.kept.grid.searchsorted(64, side="right")) - 1
    assert free.kept.upto[cell] - free.kept.grid[cell] >= 7
    for name in ("M_C", "M_R", "C", "R"):
        exact, column = full.columns[name][-1, 7], blocks.columns[name][-1, 7]  # t_w = 64 steps
        assert abs(free.kernels[name][-1, cell] - exact) > 5 * abs(column - exact), name


def test_a_map_holds_averages_over_its_cells():
    """Rows of blocks, averaged over cells, against the full history, early, late and last: entries where a cell is one step, and
    averages elsewhere. Twin: the entry at the first step of a cell, where cells are wide."""
    run = make_run({"kind": "gd"}, {"loss": "linear", "m0": 0.3, "alpha": 1.2, "constraint": "ridge", "ridge": 0.3}, 250, 0.05)
    full, blocks = make_march(run), make_march(run, per_level=16)
    grid, upto = blocks.kept.grid, blocks.kept.upto
    assert grid[-1] == upto[-1] == 250 and np.array_equal(grid[1:], upto[:-1] + 1) and (upto > grid).sum() > 8
    rows = np.linspace(1, len(grid) - 1, 12).astype(int)
    told_apart = 0
    for name in ("M_C", "M_R", "C", "R"):
        for i in rows:
            row = full.kernels[name][grid[i]]
            means = np.array([row[a : b + 1].mean() for a, b in zip(grid[:i], upto[:i])])
            bound = 2e-3 * np.abs(row).max()
            assert np.abs(blocks.kernels[name][i, :i] - means).max() < bound, (name, i)
            told_apart += np.abs(row[grid[:i]] - means).max() > bound
            if name in ("M_C", "C"):
                assert_array_equal(blocks.kernels[name][:i, i], blocks.kernels[name][i, :i])
    assert told_apart > 4 * 6
