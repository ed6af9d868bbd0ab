"""What is written down of a step for the kernels of samples on a card, as cuda/march.cu reads it."""

from __future__ import annotations

from numba import njit

from dmft.core.compiled import UNCOUNTED
from dmft.equations.blocks import BEFORE, IN_ORDER, OLDER, SIZE, blocks_of


@njit(**UNCOUNTED)
def write_plan(at, stop, tables, line):
    """Write down what the last step did to the history of a solution, as the sources read it: struct Step, order of the slots
    before it, merges, and now the slots that hold something, in order of time, and then the empty ones."""
    blocks = blocks_of(tables, at)
    counts, slots = blocks.counts, blocks.slots.shape[1]
    line[0], line[1], line[2], line[3] = counts.before, stop[counts.slot], counts.moved, counts.slot
    for i in range(counts.before):
        line[8 + i] = blocks.slots[BEFORE, i]
    for k in range(counts.moved):
        for which in range(3):
            line[8 + slots + 3 * k + which] = blocks.levels[OLDER + which, k]
    held = line[len(line) - slots :]
    for i in range(counts.blocks):
        held[i] = blocks.slots[IN_ORDER, i]
    empty = counts.blocks
    for slot in range(slots):
        if blocks.slots[SIZE, slot] == 0:
            held[empty] = -1 - slot
            empty += 1


@njit(**UNCOUNTED)
def write_rates(common, solutions, numbers):
    """SAMPLE_RATES of every solution, (solutions,). common: eta, thermal, fraction, p_on, p_off."""
    for at in range(len(numbers)):
        now, rates = solutions.now[at], numbers[at]
        rates.eta, rates.thermal, rates.fraction, rates.p_on, rates.p_off = common
        rates.a, rates.keep, rates.chi_sd = now.a, now.keep, now.chi_sd
