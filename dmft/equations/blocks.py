"""Where the blocks of a history (history.py) lie, for compiled code: a step enters, kernels across blocks. Eq. [dyadic]."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numba.extending import register_jitable

from dmft.core.compiled import IN_PLACE, INNER, UNCOUNTED, record

NONE = -1  # in the place of the newer block of a merge: the older one moves alone


@njit(**INNER)
def _empty(low, size):
    """The first empty slot from `low` on."""
    slot = low
    while size[slot]:
        slot += 1
    return slot


class BlockRule(NamedTuple):
    """What says which steps share a block, and where they lie."""

    per_level: int
    slopes: bool  # whether kernels vary within blocks
    lows: np.ndarray  # (levels,) first slot of each level
    stretch: np.ndarray  # (steps,) which stretch between two fences a step lies in
    whole: np.ndarray  # how long a stretch is
    jumps: np.ndarray  # (steps + 1,) whether a setting jumps at a step
    stop: np.ndarray  # (slots,) where rows of R end, rounded up to a multiple of eight for `dot`


# How many blocks there are, were before the last step, and have settled; the end of the slots that were ever in use; how many
# merges and joins the last step made, and its slot.
COUNTS = record(blocks=int, before=int, settled=int, upto=int, moved=int, joined=int, slot=int)


# Of a BlockTable: `slots` has the first step of the block in each slot, its number of steps, 0 for an empty slot, and slots,
# oldest first, as they are and as they were before the last step; `levels` how many blocks each level has, what the last step
# merged (older, newer or NONE, into), and what it joined, as of a Plan.
FIRST, SIZE, IN_ORDER, BEFORE = range(4)
HELD, OLDER, NEWER, INTO, JOINS = range(5)


class BlockTable(NamedTuple):
    """Where the blocks are, for compiled code; of several solutions with one more index in front."""

    slots: np.ndarray  # (4, slots)
    levels: np.ndarray  # (5, levels)
    counts: Any  # COUNTS

    @classmethod
    def empty(cls, slots: int, levels: int) -> BlockTable:
        """No blocks, of one solution."""
        return cls(np.zeros((1, 4, slots), np.int64), np.zeros((1, 5, levels), np.int64), np.zeros(1, COUNTS))


@njit(**IN_PLACE)
def blocks_of(tables, at):
    """The BlockTable of one of several solutions."""
    return BlockTable(tables.slots[at], tables.levels[at], tables.counts[at])


@njit(**INNER)
def push_step(step, rule, blocks):
    """Enter a step into a BlockTable."""
    first, size, order, before = blocks.slots[FIRST], blocks.slots[SIZE], blocks.slots[IN_ORDER], blocks.slots[BEFORE]
    levels, held, joins, counts, stretch = blocks.levels, blocks.levels[HELD], blocks.levels[JOINS], blocks.counts, rule.stretch
    count = counts.blocks
    counts.before = count
    for i in range(count):
        before[i] = order[i]
    full = 0
    while full < len(held) and held[full] >= rule.per_level:  # [dyadic]
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
        if at == counts.settled and both == rule.whole[mine]:
            into = counts.settled
            counts.settled += 1
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
            into = _empty(rule.lows[level + 1], size)
            held[level + 1] += 1
        order[at], first[into], size[into] = into, begin, both
        levels[OLDER, moved], levels[NEWER, moved], levels[INTO, moved] = older, newer, into
        moved += 1
    slot = _empty(rule.lows[0], size)
    first[slot], size[slot], order[count] = step, 1, slot
    held[0] += 1
    counts.moved, counts.joined, counts.slot, counts.blocks = moved, joined, slot, count + 1
    counts.upto = max(counts.upto, slot + 1)


@njit(**UNCOUNTED)
def push_steps(step, places, rule, tables):
    """`push_step` of several solutions."""
    for at in places:
        push_step(step, rule, blocks_of(tables, at))


@register_jitable
def sum_of_steps(first, size):
    """The sum of k + 1 over the steps k of a block, S of [ibp]."""
    return size * (first + 0.5 * (size + 1))


@njit(**INNER)
def used_slots(blocks):
    """Number of slots up to the last one that was ever in use, rounded up to a multiple of eight for `dot`."""
    return min((blocks.counts.upto + 7) // 8 * 8, len(blocks.slots[SIZE]))


@njit(**INNER)
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


@register_jitable
def step_variance(w):
    """The variance of a step in a block of w steps."""
    return (w * w - 1) / 12.0


@njit(**INNER, error_model="numpy")
def beside(rule, blocks, i):
    """What tells the slope within the block at place i > 0 of the order of time: the places `oldest` .. i - 1 with `steps` steps
    and i + 1 .. `newest` with `steps_newer`, and the weights of their means less its own; no steps where there are none. Eq.
    [dyadic]."""
    first, size, order = blocks.slots[FIRST], blocks.slots[SIZE], blocks.slots[IN_ORDER, : blocks.counts.blocks]
    w = size[order[i]]
    if w == 1:
        return i, i, 0, 0, 0.0, 0.0
    # Neighbours shorter than half of the block (rests before a fence, waiting steps) are taken together with the next ones: the
    # mean of a few steps is noise, which a slope across many steps would multiply by their number.
    oldest, steps = _beside(order, first, size, rule.jumps, i, -1, (w + 1) // 2)
    newest, steps_newer = _beside(order, first, size, rule.jumps, i, 1, (w + 1) // 2)
    # Means over stretches at centres -d, 0, d' of a parabola with slope b in the middle.
    d, d_newer, v = (steps + w) / 2.0, (steps_newer + w) / 2.0, step_variance(w)
    e, e_newer = d * d + (steps * steps - 1) / 12.0 - v, d_newer * d_newer + (steps_newer * steps_newer - 1) / 12.0 - v
    to_older, to_newer = 0.0, 0.0
    if steps and steps_newer:
        scale = 1.0 / (d_newer * e + d * e_newer)
        to_older, to_newer = -e_newer * scale, e * scale  # [dyadic]
    elif steps:
        to_older = -1.0 / d
    elif steps_newer:
        to_newer = 1.0 / d_newer
    return oldest if steps else i, newest if steps_newer else i, steps, steps_newer, to_older, to_newer


@register_jitable
def spread_within(w, steps, steps_newer, to_older, to_newer, own, before, after):
    """What the slope within a block of w steps adds, times the slope of what is summed, which the same neighbours tell. own,
    before, after: sums over the block and over its neighbours. Eq. [dyadic]."""
    mean = own / w
    slope = to_older * (before / max(steps, 1) - mean) + to_newer * (after / max(steps_newer, 1) - mean)
    return w * step_variance(w) * slope  # [dyadic]


@njit(**INNER, error_model="numpy")
def kernel_weights(rule, blocks, sums, out):
    """See `History.weights`, into out (slots,). Eq. [dyadic]."""
    size, order = blocks.slots[SIZE], blocks.slots[IN_ORDER, : blocks.counts.blocks]
    for slot in range(len(out)):
        out[slot] = sums[slot] / max(size[slot], 1)  # [dyadic]
    for i in range(1, len(order) if rule.slopes else 0):
        oldest, newest, steps, steps_newer, to_older, to_newer = beside(rule, blocks, i)
        if steps == 0 and steps_newer == 0:
            continue
        before = after = 0.0
        for k in range(oldest, i):
            before += sums[order[k]]
        for k in range(i + 1, newest + 1):
            after += sums[order[k]]
        w = size[order[i]]
        spread = spread_within(w, steps, steps_newer, to_older, to_newer, sums[order[i]], before, after)
        for k in range(oldest, i):
            out[order[k]] += to_older * spread / steps  # [dyadic]
        for k in range(i + 1, newest + 1):
            out[order[k]] += to_newer * spread / steps_newer
        out[order[i]] -= (to_older + to_newer) * spread / w  # [dyadic]
