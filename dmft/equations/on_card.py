"""The equations of a step in CUDA C++: rows.py, steps.py, ibp.py, noise.py and recursion.py, translated (core/block_cuda.py), with
the products and solves of cuda/algebra.cuh; and what the host tells the card of a step, a page of a plan.

The host knows beforehand which blocks there will be, and what the run prescribes; so it can write pages for many steps ahead."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from dmft.core import exact_sum
from dmft.core.block_cuda import CELL_TYPES, BlockFunctions, Cells, Struct, structs_source
from dmft.core.compiled import FREE, UNCOUNTED, record
from dmft.core.cuda_numbers import defines, enum
from dmft.core.device import CUDA, WARP, source
from dmft.core.to_cuda import CudaFunctions, NoCuda
from dmft.equations.blocks import (
    COUNTS,
    IN_ORDER,
    NONE,
    SIZE,
    BlockTable,
    beside,
    blocks_of,
    kernel_weights,
    spread_within,
)
from dmft.equations.history import History
from dmft.equations.ibp import FieldOverlaps
from dmft.equations.noise import backward, dot, forward, join_rows, largest, total
from dmft.equations.recursion import (
    Correlations,
    Responses,
    StepCoefficients,
    add_rows,
    add_short_rows,
    merge_matrix,
    merge_vector,
    row_products,
)
from dmft.equations.rows import LOST, SCALARS, InUse, escaped, estimate, noise_row, too_many, unbounded
from dmft.equations.state import (
    CHI_WEIGHTS,
    ESTIMATING,
    FACTOR,
    GIVEN,
    JITTER,
    MEMORY,
    PRESENT,
    ROW_K_R,
    ROW_M_C,
    SAMPLE_RATES,
    STEP_RECORD,
    WORK_VECTORS,
)
from dmft.equations.steps import given_past, noise_into_past, row_steps, scaled, weights_into_past
from dmft.model.constraints import Constraint, Sphere

EQUATION_SOURCES = Path(__file__).parent / "cuda"
EQUATION_KERNELS = ("exact_totals", "ask_for_matrices", "row_and_step", "noise_given_past", "enter_step")
MOST_SLOTS = 1024  # of a full history: what is written out for a whole row gets long
KEPT_VECTORS = 6  # of a record: row n of M_C and K_R, then `vectors`
NOW_NUMBERS = len(STEP_RECORD.names or ())
LEFT_OUT, SOUND, EXPLODED, ESCAPED = range(4)  # how a row came out on the card: not asked for, sound, or diverged
ROW_OUTCOMES = {"LEFT_OUT": LEFT_OUT, "SOUND": SOUND, "EXPLODED": EXPLODED, "ESCAPED": ESCAPED}

# What moves the samples in a step besides GIVEN: whether there is a step after this row, whether it is a hidden one, strength of
# the thermal noise, the law of mini-batches, and the learning rate and the scale of the loss at the next row.
STEP_ORDERS = record(moves=int, hidden=int, thermal=float, fraction=float, p_on=float, p_off=float, eta_next=float,
                     scale_next=float)

# Rows of what is told of the neighbours of each block, in order of time: as `beside` gives it, and which blocks it is a neighbour
# of.
OLDEST, NEWEST, REACH_FROM, REACH_TO = range(4)
NEIGHBOUR_ROWS = {"OLDEST": OLDEST, "NEWEST": NEWEST, "REACH_FROM": REACH_FROM, "REACH_TO": REACH_TO}
# And what the slope within a block adds, `spread_within`, for one of what is summed up over the block itself, its older and its
# newer neighbours; then what a step of these and of the block itself gets of it.
WITHIN_OWN, WITHIN_OLDER, WITHIN_NEWER, TO_OLDER, TO_NEWER, OF_OWN = range(6)
SHARE_ROWS = {"WITHIN_OWN": WITHIN_OWN, "WITHIN_OLDER": WITHIN_OLDER, "WITHIN_NEWER": WITHIN_NEWER, "TO_OLDER": TO_OLDER,
              "TO_NEWER": TO_NEWER, "OF_OWN": OF_OWN}
TABLE_ROWS = len(NEIGHBOUR_ROWS) + len(SHARE_ROWS)  # of a page

_LINE, _TABLE = Cells("real"), Cells("real", 2)
_COUNTS = Struct.of_record("Counts", COUNTS)
_NOW, _GIVEN, _BY = (Struct.of_record(*each) for each in (("Now", STEP_RECORD), ("Given", GIVEN), ("By", ESTIMATING)))
_USE = Struct.of("Use", stein="bool", identity="bool", share="real", trusted="real", faint="real", late="real")
_BLOCKS = Struct.of("Blocks", slots=Cells("int", 2), levels=Cells("int", 2), counts=_COUNTS)
_RULE = Struct.of("Rule", slopes="bool", stop=Cells("int"), beside=Cells("int", 2), shares=_TABLE, spread=_LINE)
_SOLUTION = Struct.of("Solution", matrices=Cells("real", 3), ridge=_TABLE, vectors=_TABLE, work=_TABLE, drive=_TABLE, now=_NOW)
_MADE = {StepCoefficients: Struct.of("StepCoefficients", eta="real", keep="real", memory=_LINE),
         Correlations: Struct.of("Correlations", Q=_TABLE, Q_row=_LINE, Q_now="real"),
         Responses: Struct.of("Responses", R=_TABLE, R_row=_LINE, stop=Cells("int")),
         FieldOverlaps: Struct.of("FieldOverlaps", past=_LINE, now="real")}
_FOR_SAMPLES = {name: Struct.of_record(name, kind) for name, kind in (("Rates", SAMPLE_RATES), ("Present", PRESENT))}
_STRUCTS = {each.name: each for each in (_COUNTS, _NOW, _GIVEN, _BY, _USE, _BLOCKS, _RULE, _SOLUTION,
                                         Struct.of_record("Moving", STEP_ORDERS), *_MADE.values())} | _FOR_SAMPLES
_BY_HAND = {dot: "real", total: "real", largest: "real", row_products: "void", add_rows: "void", add_short_rows: "void",
            forward: "void", backward: "void", join_rows: "int", merge_vector: "void", merge_matrix: "void", kernel_weights: "void"}


@lru_cache
def translated() -> str:
    """The equations."""
    functions = BlockFunctions(_BY_HAND, _MADE)
    common: dict[str, Any] = {"given": _GIVEN, "by": _BY, "blocks": _BLOCKS, "one": _SOLUTION}
    functions.add(given_past, {name: common[name] for name in ("by", "blocks", "one")})
    functions.add(noise_row, {"sums": _LINE, "given": _GIVEN, "one": _SOLUTION})
    functions.add(estimate, {**common, "sums": _LINE, "use": _USE, "rule": _RULE})
    functions.add(row_steps, {**common, "known": "bool", "drawn": "bool", "rule": _RULE})
    functions.add(scaled, {name: common[name] for name in ("given", "one")})
    for into_past in (noise_into_past, weights_into_past):
        functions.add(into_past, {**common, "drawn": "bool"})
    return functions.text


def _scalars(constraint: Constraint) -> str:
    """What scales a step, and whether sums and steps have diverged; NoCuda where a constraint is no scalar code."""
    functions = CudaFunctions("step_").add(escaped).add(unbounded).add(too_many)
    for name, shape in (("rescaled", constraint), ("on_sphere", Sphere())):
        functions.add(type(shape).scale, given={"self": shape}, name=name)
    return functions.text


def can_be_translated(constraint: Constraint) -> bool:
    """Whether the scale of this constraint, which may be a user's, has a counterpart in CUDA."""
    try:
        return bool(_scalars(constraint))
    except NoCuda:
        return False


class Room(NamedTuple):
    """What lies in the shared memory of a block of threads: a number a thread; rows of a matrix that are under way; of a solve the
    inverses of blocks on the diagonal and the unknowns; and where there is room vectors and tables, too."""

    threads: int
    slots: int
    solve_rows: int  # of a group of unknowns
    rows: int  # under way
    staged: bool

    @property
    def width(self) -> int:
        """Of a row: so that a number of every row of a group can be read at once, and rows begin at a multiple of 16 bytes."""
        return (self.slots + 13) // 16 * 16 + 2

    @property
    def inverses(self) -> int:
        """Where they begin."""
        return self.threads + self.rows * self.width

    @property
    def of_inverses(self) -> int:
        """Numbers of these."""
        return -(-self.slots // self.solve_rows) * self.solve_rows * (self.solve_rows + 1)

    @property
    def lines(self) -> int:
        """Where the two lines of a solve begin."""
        return self.inverses + self.of_inverses

    @property
    def arrays(self) -> int:
        """Where vectors and tables begin."""
        return self.lines + 2 * self.width + 2

    @property
    def numbers(self) -> int:
        """All of them. The lines that are staged are those of `arrays_of`, `stage_blocks` and `stage_rule` (equations.cu): vectors,
        work, drive, spread, blocks, stop and tables."""
        lines = 4 + WORK_VECTORS + 2 + 1 + 4 + 1 + TABLE_ROWS
        return self.arrays + (lines * self.slots + len(GIVEN.names or ()) + len(ESTIMATING.names or ()) if self.staged else 0)

    @property
    def solve_stages(self) -> int:
        return self.rows // self.solve_rows

    @classmethod
    def within(cls, limit: int, threads: int, slots: int) -> Room | None:
        """The best one that fits into so many bytes, if any: two groups at least, of 16 unknowns if it can be, and everything
        staged."""
        assert threads >= 2 * WARP and slots % 2 == 0  # a warp for each line of a solve; rows begin at a multiple of 16 bytes
        for solve_rows in (16, 8, 4, 2):
            for staged in (True, False):
                empty = cls(threads, slots, solve_rows, 0, staged)
                groups = min((limit // 8 - empty.numbers) // (solve_rows * empty.width), max(-(-slots // solve_rows), 2))
                if groups >= 2:
                    return empty._replace(rows=groups * solve_rows)
        return None


def chosen_numbers(by: np.ndarray, use: InUse) -> np.ndarray:
    """What the card is told of the estimators: ESTIMATING, and the numbers of what is in use. They are no part of the source, which
    takes seconds to compile: they differ between a solution and its companions, and from run to run."""
    return np.concatenate([by.view(np.float64).reshape(-1), use[2:]])


def equations_source(constraint: Constraint, use: InUse, slopes: bool, room: Room) -> str:
    """The whole source, which is the same for all histories with the same rows. slopes: whether kernels vary within blocks."""
    names = STEP_RECORD.names or ()
    codes = {"SIZE": SIZE, "IN_ORDER": IN_ORDER, "NONE": NONE, "ROW_M_C": ROW_M_C, "ROW_K_R": ROW_K_R, "WORK_VECTORS": WORK_VECTORS,
             "MEMORY": MEMORY, "CHI_WEIGHTS": CHI_WEIGHTS, "FACTOR": FACTOR, "JITTER": JITTER, "LOST": LOST, "SCALARS": SCALARS,
             "NOW_NUMBERS": NOW_NUMBERS,
             **{f"AT_{name.upper()}": names.index(name) for name in ("factor_from", "floored", "chi_sd")},
             "GIVEN_NUMBERS": len(GIVEN.names or ()), "MOVING_NUMBERS": len(STEP_ORDERS.names or ()),
             "BY_NUMBERS": len(ESTIMATING.names or ()), "COUNT_NUMBERS": len(COUNTS.names or ()),
             "NEIGHBOUR_LINES": len(NEIGHBOUR_ROWS), "SHARE_LINES": len(SHARE_ROWS), **ROW_OUTCOMES, **NEIGHBOUR_ROWS, **SHARE_ROWS}
    numbers: dict[str, Any] = {"STAGED": int(room.staged), "SLOPES": int(slopes), "EQUATION_THREADS": room.threads, "LANES": WARP,
                               "EQUATION_WARPS": room.threads // WARP, "STREAM_AT": room.threads, "ROOM_WIDTH": room.width,
                               "SOLVE_ROWS": room.solve_rows, "SOLVE_STAGES": room.solve_stages, "INVERSES_AT": room.inverses,
                               "BLOCKS_NUMBERS": room.of_inverses, "LINES_AT": room.lines, "KNOWN_AT": room.arrays - 2,
                               "ARRAYS_AT": room.arrays,
                               "EXACT_BASE": repr(exact_sum.BASE)}
    numbers |= {"USE_STEIN": int(use.stein), "USE_IDENTITY": int(use.identity)}
    return "\n".join((enum(codes), defines(numbers), source(CUDA / "exact_sum.cuh"), CELL_TYPES, structs_source(_STRUCTS),
                      source(EQUATION_SOURCES / "algebra.cuh"), translated(), _scalars(constraint),
                      source(EQUATION_SOURCES / "equations.cu")))


@njit(**FREE)
def take_records(found, places, kept, numbers, work, vectors, sums):
    """Take over what the card found (solutions, numbers of a record) for the solutions at some places: into sums (places, SCALARS)
    the scalar sums, and where the row is kept its vectors. numbers: the STEP_RECORDs."""
    for k in range(len(places)):
        at = places[k]
        record = found[at]
        for i in range(NOW_NUMBERS):
            numbers[at, i] = record[1 + i]
        for i in range(SCALARS):
            sums[k, i] = record[1 + NOW_NUMBERS + i]
        for j in range(work.shape[2] if kept else 0):
            first = 1 + NOW_NUMBERS + SCALARS + j
            work[at, ROW_M_C, j], work[at, ROW_K_R, j] = record[first], record[first + work.shape[2]]
            for line in range(vectors.shape[1]):
                vectors[at, line, j] = record[first + (2 + line) * work.shape[2]]


# --- pages -------------------------------------------------------------------------------------------------------


@njit(**UNCOUNTED)
def _write_neighbours(at, rule, tables, whole, shares):
    """Into whole (NEIGHBOUR_ROWS, slots) and shares (SHARE_ROWS, slots), for the blocks of a solution in order of time."""
    table = blocks_of(tables, at)
    count = table.counts.blocks if rule.slopes else 0
    for i in range(count):
        oldest, newest, steps, steps_newer, to_older, to_newer = beside(rule, table, i) if i > 0 else (0, 0, 0, 0, 0.0, 0.0)
        w = table.slots[SIZE, table.slots[IN_ORDER, i]]
        law = w, steps, steps_newer, to_older, to_newer
        shares[WITHIN_OWN, i] = spread_within(*law, 1.0, 0.0, 0.0)
        shares[WITHIN_OLDER, i], shares[WITHIN_NEWER, i] = spread_within(*law, 0.0, 1.0, 0.0), spread_within(*law, 0.0, 0.0, 1.0)
        shares[TO_OLDER, i], shares[TO_NEWER, i] = to_older / max(steps, 1), to_newer / max(steps_newer, 1)
        shares[OF_OWN, i] = (to_older + to_newer) / w
        whole[OLDEST, i], whole[NEWEST, i] = oldest, newest
        whole[REACH_FROM, i] = whole[REACH_TO, i] = i
    for i in range(count):
        for p in range(whole[OLDEST, i], whole[NEWEST, i] + 1):
            whole[REACH_FROM, p], whole[REACH_TO, p] = min(whole[REACH_FROM, p], i), max(whole[REACH_TO, p], i)


class Pages:
    """Where things lie in a page of so many 8-byte numbers."""

    def __init__(self, history: History):
        self.slots, self.levels = history.slots, history.levels
        self.given, self.moving = len(GIVEN.names or ()), len(STEP_ORDERS.names or ())
        self.table = 4 * self.slots + 5 * self.levels + len(COUNTS.names or ())
        self.first = self.given + self.moving
        self.numbers = self.first + 2 * self.table + TABLE_ROWS * self.slots

    def write_settings(self, page: np.ndarray, given: tuple, moving: tuple) -> None:
        page[: self.given].view(GIVEN)[0] = given
        page[self.given : self.first].view(STEP_ORDERS)[0] = moving

    def write_blocks(self, page: np.ndarray, tables: BlockTable, at: int, after: bool) -> None:
        """The blocks before a step, or after it."""
        line, four = page[self.first + after * self.table :][: self.table], 4 * self.slots
        line[:four] = tables.slots[at].reshape(-1)
        line[four : four + 5 * self.levels] = tables.levels[at].reshape(-1)
        line[four + 5 * self.levels :] = tables.counts[at : at + 1].view(np.int64)

    def write_neighbours(self, page: np.ndarray, rule: Any, tables: BlockTable, at: int) -> None:
        rest = page[self.first + 2 * self.table : self.numbers]
        whole = len(NEIGHBOUR_ROWS) * self.slots
        _write_neighbours(at, rule, tables, rest[:whole].reshape(len(NEIGHBOUR_ROWS), -1),
                          rest[whole:].view(np.float64).reshape(len(SHARE_ROWS), -1))
