"""What is written down of a step for the kernels of samples on a card, as cuda/march.cu reads it."""

from __future__ import annotations

import numpy as np
from numba import njit

from dmft.core.compiled import UNCOUNTED, record
from dmft.equations.blocks import BEFORE, IN_ORDER, OLDER, SIZE, blocks_of

# Numbers of a step: what it does to the history (how many slots held something before it, how many columns the tangents of the new
# slot use, how many merges, the new slot), and its mini-batch. The sources have it as struct Step.
PLANNED_STEP = record(active=int, used=int, merges=int, slot=int, n=int, kind=int, period=int, epochs_from=int)
PLANNED_NUMBERS = len(PLANNED_STEP.names or ())


def plan_size(slots: int, levels: int) -> int:
    """How many numbers a plan has: PLANNED_STEP, order of the slots, merges, slots that hold something afterwards."""
    return PLANNED_NUMBERS + 2 * slots + 3 * levels


def planned_step(plan: np.ndarray) -> np.ndarray:
    """The PLANNED_STEP of a plan, (1,), a view."""
    return plan[:PLANNED_NUMBERS].view(PLANNED_STEP)


@njit(**UNCOUNTED)
def write_plan(at, stop, tables, step_of_plan, line):
    """Write down what the last step did to the history of a solution, as the sources read it. line: what lies behind
    PLANNED_STEP, order of the slots before it, merges, and now the slots that hold something, in order of time, and then the empty
    ones."""
    blocks, step = blocks_of(tables, at), step_of_plan[0]
    counts, slots = blocks.counts, blocks.slots.shape[1]
    step.active, step.used, step.merges, step.slot = counts.before, stop[counts.slot], counts.moved, counts.slot
    for i in range(counts.before):
        line[i] = blocks.slots[BEFORE, i]
    for k in range(counts.moved):
        for which in range(3):
            line[slots + 3 * k + which] = blocks.levels[OLDER + which, k]
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
