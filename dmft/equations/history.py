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
from typing import NamedTuple

import numpy as np
from numba import njit

from dmft.core.compiled import UNCOUNTED

SLOT_GROUP = 4
NONE = -1  # in the place of the newer block of a merge: the older one moves alone
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
        s += 1 + s // early
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
def _empty(low, size):
    """The first empty slot from `low` on."""
    slot = low
    while size[slot]:
        slot += 1
    return slot


class BlockTable(NamedTuple):
    """Where the blocks are, for compiled code."""

    per_level: int
    lows: np.ndarray  # (levels,) first slot of each level
    stretch: np.ndarray  # (steps,) which stretch between two fences a step lies in
    whole: np.ndarray  # how long a stretch is
    first: np.ndarray  # (slots,) first step of the block in each slot
    size: np.ndarray  # (slots,) its number of steps
    order: np.ndarray  # slots, oldest first
    held: np.ndarray  # (levels,) how many blocks each level has
    merges: np.ndarray  # (levels, 3) what the last step merged, as of a Plan
    joins: np.ndarray  # (levels,)


@njit(**UNCOUNTED)
def push_step(step, blocks, count, settled):
    """Enter a step into a BlockTable of so many blocks; returns the numbers of `merges` and `joins`, the new slot, and how many
    blocks there are and have settled."""
    per_level, lows, stretch, whole, first, size, order, held, merges, joins = blocks
    full = 0
    while full < len(held) and held[full] >= per_level:
        full += 1
    moved = joined = 0
    for level in range(full - 1, -1, -1):
        at = count  # where the oldest block of this level is in the order of time
        for k in range(level + 1):
            at -= held[k]
        older, newer = order[at], NONE
        begin, both, mine = first[older], size[older], stretch[first[older]]
        size[older] = 0
        held[level] -= 1
        if at == settled and both == whole[mine]:
            into = settled
            settled += 1
        else:
            if held[level] and stretch[first[order[at + 1]]] == mine:
                newer = order[at + 1]
                both += size[newer]
                size[newer] = 0
                held[level] -= 1
                joins[joined] = at
                joined += 1
                count -= 1
                for i in range(at + 1, count):
                    order[i] = order[i + 1]
            into = _empty(lows[level + 1], size)
            held[level + 1] += 1
        order[at], first[into], size[into] = into, begin, both
        merges[moved, 0], merges[moved, 1], merges[moved, 2] = older, newer, into
        moved += 1
    slot = _empty(lows[0], size)
    first[slot], size[slot], order[count] = step, 1, slot
    held[0] += 1
    return moved, joined, slot, count + 1, settled


@njit(**UNCOUNTED)
def _tried(steps, blocks, most):
    """How many blocks settle in so many steps, and into most (levels,) how many slots of each level are ever in use: the plan,
    tried out with levels of one slot more than they can fill."""
    count, settled, settling, width = 0, 0, len(blocks.whole), blocks.per_level + 1
    for step in range(steps):
        moved, _, slot, count, settled = push_step(step, blocks, count, settled)
        most[0] = max(most[0], slot - blocks.lows[0] + 1)
        for k in range(moved):
            level, place = divmod(blocks.merges[k, 2] - settling, width)
            if level >= 0:
                most[level] = max(most[level], place + 1)
    return settled


@njit(**UNCOUNTED)
def _beside(order, first, size, jumps, i, way, least):
    """The neighbours of the block at place i of the order, before it (way = -1) or after it (way = 1): the place of the last one of
    so many blocks that they have at least `least` steps together, and how many steps they have. Where a jump or the end of the past
    comes before, half of that will do; 0 steps where there are fewer."""
    place, steps = i, 0
    while steps < least:
        beyond = place + way
        if beyond < 0 or beyond == len(order) or jumps[first[order[max(place, beyond)]]]:
            return place, steps if 2 * steps >= least else 0
        place = beyond
        steps += size[order[place]]
    return place, steps


@njit(**UNCOUNTED)
def _weights(order, first, size, jumps, sums, out):
    """See `History.weights`; out: sums over blocks divided by their sizes."""
    for i in range(1, len(order)):
        w = size[order[i]]
        if w == 1:
            continue
        # Neighbours shorter than half of the block (rests before a fence, waiting steps) are taken together with the next ones: the
        # mean of a few steps is noise, which a slope across many steps would multiply by their number.
        oldest, steps = _beside(order, first, size, jumps, i, -1, (w + 1) // 2)
        newest, steps_newer = _beside(order, first, size, jumps, i, 1, (w + 1) // 2)
        older, newer = range(oldest, i if steps else oldest), range(i + 1, newest + 1 if steps_newer else i + 1)
        # Means over stretches at centres -d, 0, d' of a parabola with slope b in the middle; v: variance of a step in its block.
        d, d_newer, v = (steps + w) / 2.0, (steps_newer + w) / 2.0, (w * w - 1) / 12.0
        e, e_newer = d * d + (steps * steps - 1) / 12.0 - v, d_newer * d_newer + (steps_newer * steps_newer - 1) / 12.0 - v
        if steps and steps_newer:
            scale = 1.0 / (d_newer * e + d * e_newer)
            to_older, to_newer = -e_newer * scale, e * scale
        elif steps:
            to_older, to_newer = -1.0 / d, 0.0
        elif steps_newer:
            to_older, to_newer = 0.0, 1.0 / d_newer
        else:
            continue
        before = after = 0.0
        for k in older:
            before += sums[order[k]]
        for k in newer:
            after += sums[order[k]]
        mean = sums[order[i]] / w
        slope = to_older * (before / max(steps, 1) - mean) + to_newer * (after / max(steps_newer, 1) - mean)
        spread = w * v * slope  # times the slope of what is summed, which the same neighbours tell
        for k in older:
            out[order[k]] += to_older * spread / steps
        for k in newer:
            out[order[k]] += to_newer * spread / steps_newer
        out[order[i]] -= (to_older + to_newer) * spread / w


@njit(**UNCOUNTED)
def _unit_weights(order, first, size, jumps, sums, out):
    """The same for every pair of units of a kernel row (p, slots p)."""
    units = len(sums)
    for r in range(units):
        for q in range(units):
            _weights(order, first, size, jumps, sums[r, q::units], out[r, q::units])


class Layout(NamedTuple):
    """Where blocks lie: `settled` slots for those that stay as they are, then levels, the highest one first."""

    settled: int
    widths: tuple[int, ...]  # (levels,) slots of each level, level 0 first

    @classmethod
    def smallest(cls, steps: int, per_level: int, stretch: np.ndarray, whole: np.ndarray) -> Layout:
        """The fewest slots, in groups of four, that hold so many steps."""
        levels, width = np.arange(MOST_LEVELS), per_level + 1
        slots = len(whole) + width * MOST_LEVELS
        first, size, order = (np.zeros(slots, np.int64) for _ in range(3))
        held, joins, most = (np.zeros_like(levels) for _ in range(3))
        blocks = BlockTable(per_level, len(whole) + width * levels, stretch, whole, first, size, order, held,
                            np.zeros((MOST_LEVELS, 3), np.int64), joins)
        settled = _tried(steps, blocks, most)
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

    def __init__(self, steps: int, per_level: int | None = None, jumps: Iterable[int] = (), pins: Iterable[int] = (),
                 closed: bool = False, fine: Iterable[int] = ()):
        self.steps, self.closed = (steps := max(steps, 1)), closed
        self.per_level = steps if per_level is None else min(per_level, steps)
        self.full = self.per_level == steps
        self.pins = np.array(sorted({int(n) for n in pins}), np.int64)
        early = max(self.per_level // (1 if closed else 2), 1)
        self.fences = np.array([0, steps]) if self.full else fences(steps, early, jumps, self.pins, fine)
        self._jumps = np.zeros(steps + 1, bool)
        self._jumps[[int(n) for n in jumps if n < steps]] = True
        self._stretch, self._whole = np.searchsorted(self.fences, np.arange(steps), side="right") - 1, np.diff(self.fences)
        self.layout = (Layout(0, (grouped(steps),)) if self.full else
                       Layout.smallest(steps, self.per_level, self._stretch, self._whole))
        self.slots, self._lows = self.layout.slots, self.layout.lows
        # In a full history slots fill in order of time, so a row ends at its own group of four.
        self.stop = grouped(np.arange(self.slots) + 1) if self.full else self.layout.stop()
        self.offset = np.concatenate(([0], np.cumsum(self.stop)[:-1]))
        self.packed = int(self.stop.sum())  # tangents of a sample, all rows
        self.first = np.zeros(self.slots, np.int64)  # first step of the block in each slot
        self.size = np.zeros(self.slots, np.int64)  # its number of steps, 0 for an empty slot
        self.divisor = np.ones(self.slots)  # its number of steps, 1 for an empty slot: what turns a sum over a block into a mean
        self.upto = 0  # slots from here on have never been in use
        self._order = np.zeros(self.slots, np.int64)
        self._count = self._settled = 0
        self._held = np.zeros(len(self.layout.widths), np.int64)
        self._merges, self._joins = np.zeros((len(self._held), 3), np.int64), np.zeros(len(self._held), np.int64)

    @property
    def levels(self) -> int:
        """Levels of blocks; a step makes at most one merge in each."""
        return len(self.layout.widths)

    @property
    def order(self) -> np.ndarray:
        """The slots in use, oldest first."""
        return self._order[: self._count]

    def push(self, step: int) -> Plan:
        """Make room for `step` and enter it; returns what the arrays over slots must do accordingly. RuntimeError where there are
        more steps than the history was made for."""
        if step >= self.steps:
            raise RuntimeError(f"no room for step {step}: the history was made for {self.steps} steps")
        moved, joined, slot, self._count, self._settled = push_step(step, self._blocks(), self._count, self._settled)
        self.divisor, self.upto = np.maximum(self.size, 1.0), max(self.upto, slot + 1)
        return Plan(self._merges[:moved].copy(), slot, tuple(self._joins[:joined].tolist()))

    def _blocks(self) -> BlockTable:
        self._order = self._order.copy()  # plans and callers may hold the old order
        return BlockTable(self.per_level, self._lows, self._stretch, self._whole, self.first, self.size, self._order, self._held,
                          self._merges, self._joins)

    def pushing(self) -> tuple[BlockTable, int, int, int]:
        """The arguments of `push_step` besides the step, for compiled loops over many steps; and the end of the slots ever in use.
        `pushed` takes over what they left in the arrays."""
        return self._blocks(), self._count, self._settled, self.upto

    def pushed(self, count: int, settled: int, upto: int) -> None:
        """After such a loop: how many blocks there are and have settled, and the end of the slots that were ever in use."""
        self._count, self._settled, self.upto = count, settled, upto
        self.divisor = np.maximum(self.size, 1.0)

    def weights(self, kernel: np.ndarray) -> np.ndarray:
        """(slots,) weights w with sum_k K(n,k) x_k = sum_I w_I X_I, from sums K(n,I) of a kernel over blocks, and sums X_I of
        anything: with means over blocks alone, w_I = K(n,I)/|I|. Within a block both vary, and the product of their slopes adds
        slope_K slope_X sum_(k in I) (k - centre)^2. A slope is that of the parabola with the right means over a block and the
        stretches beside it, at least half as long, linear in the sums; across a jump it sees nothing. Blocks of one step need none
        of this. Eq. [dyadic]."""
        out = kernel / self.divisor
        if not self.full and not self.closed:
            _weights(self.order, self.first, self.size, self._jumps, kernel, out)
        return out

    def unit_weights(self, kernel: np.ndarray) -> np.ndarray:
        """`weights` for every pair of units of a kernel row (p, slots p)."""
        if self.full:
            return kernel.copy()
        out = kernel / np.repeat(self.divisor, len(kernel))
        _unit_weights(self.order, self.first, self.size, self._jumps, kernel, out)
        return out

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
        self.first[:], self.size[:] = arrays["first"], arrays["size"]
        self._count = len(arrays["order"])
        self._order[: self._count] = arrays["order"]
        self.divisor, self.upto = np.maximum(self.size, 1.0), int(self.order.max(initial=-1)) + 1
        self._settled = int(np.count_nonzero(self.size[: self.layout.settled]))
        self._held[:] = [np.count_nonzero(self.size[low : low + width]) for low, width in zip(self._lows, self.layout.widths)]
