"""The past of a march: steps one by one where kernels change fast, blocks of steps elsewhere. Eq. [dyadic].

A block carries *sums* over its steps (of h, g, chi, the tangents, Q, R, M_C). All recursions are linear in these, so merging two
blocks is adding them. Three rules say which steps may share a block:

- age: at most `per_level` blocks of a level (1, 2, 4, ... steps) among the recent ones, so that a block is short beside its age;
- start: a block that begins s steps after the start holds at most 1 + s/(per_level/2) steps, so that it is short beside that, too:
  the transient after the start is fast, and never forgotten. A long phase with other settings begins anew, with its own transient;
- fences: no block spans a step at which a setting jumps, because kernels do; and a waiting step is a block by itself for ever
  (`pins`), so that kernels against it are exact entries and no averages. Where neighbouring columns are subtracted (`fine` steps,
  of effective temperatures), a block d steps away holds at most 1 + d/(per_level/6): the response to and from a step is sharp in d,
  and a long block beside it shifts the two columns by different amounts.

The one approximation is how kernels vary inside a block: linearly, with the slope that its neighbours tell (`weights`). With
`per_level` >= n nothing is ever merged: that is the full history, by the same code.

Slots: blocks that will never be merged again lie in order of time in the first slots; then come the levels, older ones at lower
numbers. So the blocks that a tangent row can respond to, those older than itself or in its own level, are the slots 0 .. stop-1,
one contiguous stretch: rows are stored packed, one after the other, and read as a stream. Slots come in groups of four with a
common row length, because four rows are read at a time. A block that goes up a level without being merged is "merged" with NONE.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from typing import ClassVar, NamedTuple

import numpy as np
from numba import njit

from dmft.core.compiled import UNCOUNTED
from dmft.core.errors import StateError
from dmft.core.tree import check_like
from dmft.equations.blocks import (
    BEFORE,
    FIRST,
    HELD,
    IN_ORDER,
    INTO,
    JOINS,
    OLDER,
    SIZE,
    BlockRule,
    BlockTable,
    blocks_of,
    kernel_weights,
    push_step,
    push_steps,
)

SLOT_GROUP = 4
MOST_LEVELS = 48  # more than any number of steps needs


class Plan(NamedTuple):
    """What one step does to the history: merges (older, newer or NONE, into), one after the other, then the new slot."""

    merges: np.ndarray  # (count, 3) int64
    slot: int
    joins: tuple[int, ...]  # positions, in order of time, at which a block and the next one become one; one after the other


def start_fences(begin: int, end: int, early: int) -> list[int]:
    """Steps from `begin` on, before `end`, at which blocks begin by the rule of the start: one that begins s steps after `begin`
    holds at most 1 + s/early steps."""
    found, s = [], 0
    while begin + s < end:
        found.append(begin + s)
        s += 1 + s // early  # [dyadic]
    return found


def fine_fences(step: int, early: int) -> list[int]:
    """Steps at which blocks begin so that one d steps before or after `step` holds at most 1 + d/early; as far as half the way to
    the start, and as far after it."""
    far = step // 2
    return [step + side * s + (side < 0) for side in (-1, 1) for s in (*start_fences(0, far, early), far)]


def fences(steps: int, early: int, jumps: Iterable[int] = (), pins: Iterable[int] = (), fine: Iterable[int] = ()) -> np.ndarray:
    """Steps at which a block has to begin, in order; the last one is the first that is not below `steps`.

    The rule of the start begins anew at a jump that opens a phase at least half as long as all the time before it, so that runs
    with many jumps do not keep many steps one by one."""
    at = sorted({int(n) for n in jumps if 0 < n < steps})
    begins = [0, *(jump for jump, end in zip(at, [*at[1:], steps]) if 2 * (end - jump) >= jump)]
    last = begins[-1]
    found = {n for begin, end in zip(begins, begins[1:]) for n in start_fences(begin, end, early)}
    found |= set(start_fences(last, last + 2 * (steps - last) + 2, early)) | set(at)  # one stretch is never longer than all before
    found |= {int(n) + k for n in pins for k in (0, 1)} | {at for n in fine for at in fine_fences(int(n), max(early // 3, 1))}
    marks = np.array(sorted(found), np.int64)
    return marks[: int(marks.searchsorted(steps)) + 1]


@njit(**UNCOUNTED)
def _tried(steps, rule, tables, most):
    """How many blocks settle in so many steps, and into most (levels,) how many slots of each level are ever in use: the plan,
    tried out with levels of one slot more than they can fill."""
    blocks, settling, width = blocks_of(tables, 0), len(rule.whole), rule.per_level + 1
    for step in range(steps):
        push_step(step, rule, blocks)
        most[0] = max(most[0], blocks.counts.slot - rule.lows[0] + 1)
        for k in range(blocks.counts.moved):
            level, place = divmod(blocks.levels[INTO, k] - settling, width)
            if level >= 0:
                most[level] = max(most[level], place + 1)
    return blocks.counts.settled


@njit(**UNCOUNTED)
def _weights_of(at, rule, tables, sums, out):
    """`kernel_weights` of one of several solutions."""
    kernel_weights(rule, blocks_of(tables, at), sums, out)


@njit(**UNCOUNTED)
def _unit_weights_of(at, rule, tables, sums, out):
    """The same for every pair of units of a kernel row (p, slots p)."""
    blocks, units = blocks_of(tables, at), len(sums)
    for r in range(units):
        for q in range(units):
            kernel_weights(rule, blocks, sums[r, q::units], out[r, q::units])


class Layout(NamedTuple):
    """Where blocks lie: `settled` slots for those that stay as they are, then levels, the highest one first."""

    settled: int
    widths: tuple[int, ...]  # (levels,) slots of each level, level 0 first

    @classmethod
    def smallest(cls, steps: int, per_level: int, stretch: np.ndarray, whole: np.ndarray) -> Layout:
        """The fewest slots, in groups of four, that hold so many steps."""
        levels, width = np.arange(MOST_LEVELS), per_level + 1
        most, unused = np.zeros_like(levels), np.zeros(0, np.int64)
        rule = BlockRule(per_level, False, len(whole) + width * levels, stretch, whole, np.zeros(0, bool), unused)
        settled = _tried(steps, rule, BlockTable.empty(len(whole) + width * MOST_LEVELS, MOST_LEVELS), most)
        return cls(grouped(settled), tuple(grouped(int(count)) for count in most if count))

    @property
    def slots(self) -> int:
        return self.settled + sum(self.widths)

    @property
    def lows(self) -> np.ndarray:
        """(levels,) the first slot of each level."""
        return self.slots - np.cumsum(np.array(self.widths, np.int64))

    def stop(self) -> np.ndarray:
        """(slots,) how many slots a row of tangents can respond to. Settled blocks fill their slots in order of time."""
        slot = np.arange(self.slots)
        levels = np.repeat(self.lows + self.widths, self.widths)[::-1]
        return np.where(slot < self.settled, grouped(slot + 1), np.append(np.zeros(self.settled, np.int64), levels))


def grouped(count):
    """Rounded up to whole groups of slots."""
    return -(-count // SLOT_GROUP) * SLOT_GROUP


class History:
    """Which steps lie in which slot. Knows nothing of samples or kernels.

    per_level: blocks of a level, None for the full history; jumps, pins: steps at which a setting jumps, and waiting steps; fine:
    those whose columns are subtracted from their neighbours'; closed: that of a closed model, whose kernels are taken as constant
    across a block, which is to be shorter beside its distance from the start (1 + s/per_level steps) for that. Slopes within blocks
    make these marches unstable: kernels follow C and R at once."""

    slopes: ClassVar[bool] = True  # whether kernels vary within blocks, where these are long

    def __init__(self, steps: int, per_level: int | None = None, jumps: Iterable[int] = (), pins: Iterable[int] = (),
                 closed: bool = False, fine: Iterable[int] = ()):
        self.steps, self.closed = (steps := max(steps, 1)), closed
        self.per_level = steps if per_level is None else min(per_level, steps)
        self.full = self.per_level == steps
        self.pins = np.array(sorted({int(n) for n in pins}), np.int64)
        early = max(self.per_level // (1 if closed else 2), 1)
        self.fences = np.array([0, steps]) if self.full else fences(steps, early, jumps, self.pins, fine)
        jumping = np.zeros(steps + 1, bool)
        jumping[[int(n) for n in jumps if n < steps]] = True
        stretch, whole = np.searchsorted(self.fences, np.arange(steps), side="right") - 1, np.diff(self.fences)
        self.layout = Layout(0, (grouped(steps),)) if self.full else Layout.smallest(steps, self.per_level, stretch, whole)
        self.slots, lows = self.layout.slots, self.layout.lows
        # In a full history slots fill in order of time, so a row ends at its own group of four.
        self.stop = grouped(np.arange(self.slots) + 1) if self.full else self.layout.stop()
        self.offset = np.concatenate(([0], np.cumsum(self.stop)[:-1]))
        self.packed = int(self.stop.sum())  # tangents of a sample, all rows
        eights = np.minimum(-(-self.stop // 8) * 8, self.slots)
        self.rule = BlockRule(self.per_level, self.slopes and not self.full and not closed, lows, stretch, whole, jumping, eights)
        self.tables, self.at = BlockTable.empty(self.slots, self.levels), 0  # in which table it is, and where

    @property
    def levels(self) -> int:
        """Levels of blocks; a step makes at most one merge in each."""
        return len(self.layout.widths)

    @property
    def blocks(self) -> BlockTable:
        """Where the blocks are; these arrays change with every step."""
        return BlockTable(self.tables.slots[self.at], self.tables.levels[self.at], self.tables.counts[self.at])

    @property
    def order(self) -> np.ndarray:
        """The slots in use, oldest first."""
        return self.tables.slots[self.at, IN_ORDER, : self.tables.counts["blocks"][self.at]].copy()

    @property
    def first(self) -> np.ndarray:
        """(slots,) first step of the block in each slot."""
        return self.tables.slots[self.at, FIRST]

    @property
    def size(self) -> np.ndarray:
        """(slots,) its number of steps, 0 for an empty slot."""
        return self.tables.slots[self.at, SIZE]

    @property
    def divisor(self) -> np.ndarray:
        """(slots,) its number of steps, 1 for an empty slot: what turns a sum over a block into a mean."""
        return np.maximum(self.size, 1.0)

    @property
    def upto(self) -> int:
        """Slots from here on have never been in use."""
        return int(self.tables.counts["upto"][self.at])

    def push(self, step: int) -> Plan:
        """Make room for `step` and enter it; returns what the arrays over slots must do accordingly. RuntimeError where there are
        more steps than the history was made for."""
        if step >= self.steps:
            raise RuntimeError(f"no room for step {step}: the history was made for {self.steps} steps")
        push_steps(step, np.array([self.at]), self.rule, self.tables)
        return self.plan

    @property
    def plan(self) -> Plan:
        """What the last step did."""
        levels, counts = self.tables.levels[self.at], self.tables.counts
        moved, joined, slot = (int(counts[name][self.at]) for name in ("moved", "joined", "slot"))
        return Plan(np.ascontiguousarray(levels[OLDER : INTO + 1, :moved].T), slot, tuple(levels[JOINS, :joined].tolist()))

    def as_it_is(self) -> History:
        """A copy that later steps leave alone."""
        own = copy(self)
        own.tables = BlockTable(*(array.copy() for array in self.tables))
        return own

    def weights(self, kernel: np.ndarray) -> np.ndarray:
        """(slots,) weights w with sum_k K(n,k) x_k = sum_I w_I X_I, from sums K(n,I) of a kernel over blocks, and sums X_I of
        anything: with means over blocks alone, w_I = K(n,I)/|I|. Within a block both vary, and the product of their slopes adds
        slope_K slope_X sum_(k in I) (k - centre)^2. A slope is that of the parabola with the right means over a block and the
        stretches beside it, at least half as long, linear in the sums; across a jump it sees nothing. Blocks of one step need none
        of this. Eq. [dyadic]."""
        out = np.empty(self.slots)
        _weights_of(self.at, self.rule, self.tables, kernel, out)
        return out

    def unit_weights(self, kernel: np.ndarray, out: np.ndarray) -> None:
        """`weights` for every pair of units of a kernel row (p, slots p), into out; with a full history the row itself."""
        if self.full:
            out[...] = kernel
        else:
            _unit_weights_of(self.at, self.rule, self.tables, kernel, out)

    def extends(self, earlier: History) -> bool:
        """Whether a run with this history can continue from one with a history that ended earlier: blocks had to begin at the same
        steps. They need not: a phase may be long in the longer run alone, and a short run may have kept every step."""
        mine, others = (each.fences[each.fences < earlier.steps] for each in (self, earlier))
        return np.array_equal(mine, others)

    def centres(self) -> np.ndarray:
        """Middle of each block in units of steps, oldest first."""
        return self.first[self.order] + (self.size[self.order] - 1) / 2

    def state(self) -> dict[str, np.ndarray]:
        return {"first": self.first, "size": self.size, "order": self.order}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Take over what `state` gave."""
        first, size, order = arrays["first"], arrays["size"], arrays["order"]
        for name, array in (("first", first), ("size", size)):
            check_like(name, array, (self.slots,), np.dtype(np.int64))
        check_like("order", order, (int(np.count_nonzero(size)),), np.dtype(np.int64))
        if not (np.array_equal(np.sort(order), np.flatnonzero(size > 0))
                and np.array_equal(first[order], np.cumsum(size[order]) - size[order])):
            raise StateError("the blocks of the history do not follow each other")
        blocks, count = self.blocks, len(order)
        blocks.slots[FIRST], blocks.slots[SIZE] = first, size
        blocks.slots[[IN_ORDER, BEFORE], :count] = order
        blocks.counts.blocks, blocks.counts.before = count, count
        blocks.counts.upto = order.max(initial=-1) + 1
        blocks.counts.settled = np.count_nonzero(self.size[: self.layout.settled])
        blocks.levels[HELD] = [np.count_nonzero(self.size[low : low + width])
                               for low, width in zip(self.rule.lows, self.layout.widths)]
