"""The past of a march: recent steps one by one, older ones in blocks of 2, 4, 8, ... steps. Eq. [dyadic].

A block carries *sums* over its steps (of h, g, chi, the tangents, Q, R, M_C). All recursions are linear in
these, so merging two blocks is adding them; the only approximation is that a kernel is taken as constant
across an old block. At most `per_level` blocks of each size are kept, so n steps need O(per_level log n)
blocks. With `per_level` >= n nothing is ever merged: that is the full history, by the same code. Where a setting of the run jumps,
kernels do: no block spans such a step; a block that cannot be merged with the next one moves to the next level as it is.

Slots: level l (blocks of 2^l steps) owns a contiguous range of slots, and older (higher) levels lie at lower
numbers. So the blocks that a tangent row can respond to, those older than itself or in its own level, are the
slots 0 .. stop-1, one contiguous stretch: rows are stored packed, one after the other, and read as a stream.
Slots come in groups of four with a common row length, because four rows are read at a time.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from dmft.core.errors import RunError

GROUP = 4


class Plan(NamedTuple):
    """What one step does to the history: merges (older, newer, into), oldest level first, then the new slot."""

    merges: np.ndarray  # (count, 3) int64
    slot: int
    joins: tuple[int, ...]  # positions, in order of time, at which a block and the next one become one; one after the other


def levels_needed(steps: int, per_level: int) -> int:
    """Levels that hold so many steps when no block spans a jump."""
    levels = 1
    while per_level * (2**levels - 1) < steps:
        levels += 1
    return levels


def _levels_with_jumps(steps: int, per_level: int, jumps: frozenset[int]) -> int:
    """Levels that suffice although blocks next to a jump move up unmerged; found by trying."""
    least = levels_needed(steps, per_level)
    for more in range(1, 64):
        trial = History(steps, per_level, jumps, more)
        if all(trial.room and trial.push(step) for step in range(steps)):
            return least + more
    raise RunError(f'[theory] history = "dyadic": the settings of this run change at {len(jumps)} steps, which leaves nothing to '
                   'merge; take history = "full"')


class History:
    """Which steps lie in which slot. Knows nothing of samples or kernels."""

    def __init__(self, steps: int, per_level: int | None = None, jumps: Iterable[int] = (), more_levels: int = 0):
        steps = max(steps, 1)
        self.per_level = steps if per_level is None else min(per_level, steps)
        self.levels = levels_needed(steps, self.per_level)
        self.full = self.levels == 1
        self.jumps = frozenset() if self.full else frozenset(int(n) for n in jumps)
        self.levels += more_levels
        if self.jumps and not more_levels:
            self.levels = _levels_with_jumps(steps, self.per_level, self.jumps)
        # With jumps every level has one more slot, which stays empty: a block that moves up alone is merged with this empty slot.
        width = -(-(self.per_level + bool(self.jumps)) // GROUP) * GROUP
        self.width, self.slots = width, width * self.levels
        slot = np.arange(self.slots)
        # In a full history slots fill in order of time, so a row ends at its own group of four.
        self.stop = (slot // GROUP + 1) * GROUP if self.full else (slot // width + 1) * width
        self.offset = np.concatenate(([0], np.cumsum(self.stop)[:-1]))
        self.packed = int(self.stop.sum())  # tangents of a sample, all rows
        self.first = np.zeros(self.slots, np.int64)  # first step of the block in each slot
        self.size = np.zeros(self.slots, np.int64)  # its number of steps, 0 for an empty slot
        self.divisor = np.ones(self.slots)  # its number of steps, 1 for an empty slot: what turns a sum over a block into a mean
        self.order = np.zeros(0, np.int64)  # slots in use, oldest first
        self.upto = 0  # slots from here on have never been in use
        self._note_empty()

    def _note_empty(self) -> None:
        """Note the empty slots of each level, lowest first: heaps, from which `push` takes them."""
        lows = [self._low(level) for level in range(self.levels)]
        self._empty = [(low + np.flatnonzero(self.size[low : low + self.per_level] == 0)).tolist() for low in lows]

    def _low(self, level: int) -> int:
        """The first slot of a level."""
        return (self.levels - 1 - level) * self.width

    def _count(self, level: int) -> int:
        """Blocks in a level."""
        return self.per_level - len(self._empty[level])

    @property
    def room(self) -> bool:
        """Whether another step can be pushed."""
        return any(self._empty)

    def push(self, step: int) -> Plan:
        """Make room for `step` and enter it; returns what the arrays over slots must do accordingly. RuntimeError where there are
        more steps than the history was made for."""
        full = 0
        while full < self.levels and self._count(full) >= self.per_level:
            full += 1
        if full == self.levels:
            raise RuntimeError(f"no room for step {step}: the history has {self.levels} x {self.per_level} blocks, all in use; "
                               "it was made for fewer steps")
        merges, joins, count = [], [], len(self.order)
        order = np.empty(count + 1, np.int64)
        order[:count] = self.order
        for level in range(full - 1, -1, -1):
            at = count - (level + 1) * self.per_level  # the levels up to this one are full, and older blocks of higher levels
            older, newer = order[at : at + 2].tolist()
            into = heappop(self._empty[level + 1])
            order[at] = into
            heappush(self._empty[level], older)
            if self.jumps and int(self.first[newer]) in self.jumps:
                newer = self._low(level) + self.per_level
            else:
                heappush(self._empty[level], newer)
                joins.append(at)
                order[at + 1 : count - 1] = order[at + 2 : count]
                count -= 1
            self.first[into], self.size[into] = self.first[older], self.size[older] + self.size[newer]
            self.size[older] = self.size[newer] = 0
            self.divisor[into], self.divisor[older], self.divisor[newer] = self.size[into], 1.0, 1.0
            merges.append((older, newer, into))
        slot = heappop(self._empty[0])
        self.first[slot], self.size[slot] = step, 1
        order[count] = slot
        self.order, self.upto = order[: count + 1], max(self.upto, slot + 1)
        return Plan(np.array(merges, np.int64) if merges else np.zeros((0, 3), np.int64), slot, tuple(joins))

    def centres(self) -> np.ndarray:
        """Middle of each block in units of steps, oldest first."""
        return self.first[self.order] + (self.size[self.order] - 1) / 2

    def state(self) -> dict[str, np.ndarray]:
        return {"first": self.first, "size": self.size, "order": self.order}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        self.first[:], self.size[:] = arrays["first"], arrays["size"]
        self.order = np.array(arrays["order"], np.int64)
        self.divisor[:], self.upto = np.maximum(self.size, 1), int(self.order.max(initial=-1)) + 1
        self._note_empty()
