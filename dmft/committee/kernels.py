"""Which entries of the kernels of a committee are kept: as of equations/kernels.py for one unit, in blocks p x p. Eq. [columns]."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from dmft.committee.weights import UnitRow, UnitWeights
from dmft.core.compiled import FREE
from dmft.equations.history import History
from dmft.equations.kernels import COLUMNS, KERNELS, Kept


def empty_kernels(kept: Kept, units: int) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Maps (P, P, p, p) and columns (L, J, p, p), to be filled by `enter_units`."""
    pair, saved = (units, units), len(kept.grid)
    return ({name: np.zeros((saved, saved, *pair)) for name in KERNELS},
            {name: np.full((len(kept.times), len(kept.waiting), *pair), np.nan) for name in COLUMNS})


class PastSteps(NamedTuple):
    """The blocks of the past at step n, in order of time."""

    order: np.ndarray  # (blocks,) their slots
    first: np.ndarray  # (blocks,) their first steps

    @classmethod
    def of(cls, history: History) -> PastSteps:
        return cls(history.order, history.first[history.order])


@njit(**FREE, error_model="numpy")
def _enter_means(past, order, cells, below, symmetric, i, now, out):
    """Row i of a map, (P, P, p, p): averages of past (p, slots p) over cells of blocks in order of time, and `now` on the diagonal.
    symmetric: column i as well."""
    p, (begin, end) = len(past), cells
    for j in range(i):
        for a in range(p):
            for b in range(p):
                total = 0.0
                for k in range(begin[j], end[j]):
                    total += past[a, order[k] * p + b]
                out[i, j, a, b] = total / below[j]  # [columns]
                if symmetric:
                    out[j, i, b, a] = out[i, j, a, b]
    for a in range(p):
        for b in range(p):
            out[i, i, a, b] = now[a, b]


@njit(**FREE)
def _add_since(past, order, blocks, out):
    """Sums of past (p, slots p) over all blocks from some on, which ascend in time; into out (blocks, p, p). Eq. [fdt-chi]."""
    p, upto = len(past), len(order)
    for w in range(len(blocks) - 1, -1, -1):
        for a in range(p):
            for b in range(p):
                total = out[w + 1, a, b] if w + 1 < len(blocks) else 0.0
                for k in range(upto - 1, blocks[w] - 1, -1):
                    total += past[a, order[k] * p + b]
                out[w, a, b] = total  # [fdt-chi]
        upto = blocks[w]


def enter_units(maps: dict[str, np.ndarray], columns: dict[str, np.ndarray], kept: Kept, weights: UnitWeights,
                row: UnitRow, steps: PastSteps) -> None:
    """Enter row n into the maps and columns that have it. M_R and R are densities in time, zero on and above the diagonal of a
    map; a column is NaN before its waiting time. All belong to the points where gradients are taken. Eq. [fdt-chi]."""
    e, state, p, n = weights.experiment, weights.state, weights.units, weights.n
    i, line = int(kept.grid.searchsorted(n)), int(kept.times.searchsorted(n))
    in_map, in_columns = n in kept.grid[i : i + 1], kept.times[line] == n
    if not (in_map or in_columns):
        return
    none, rates, R = np.zeros((p, p)), e.eta_n[:n], e.eta_0 * state.R_row
    C, C_now = state.Q_row + state.m @ state.m_past, state.Q_now + state.m @ state.m.T
    rows = (("M_C", row.M_C, row.M_C_now, None), ("C", C, C_now, None),
            ("M_R", row.K_R, none, rates), ("R", R, none, rates))
    if in_map:
        cells = kept.cells(steps.first, i, 0)
        below = {source is None: kept.below(i, 0, source).astype(float) for source in (None, rates)}
        for name, past, now, source in rows:
            _enter_means(past, steps.order, cells, below[source is None], source is None, i, now, maps[name])
    if not in_columns:
        return
    waited = int(kept.waiting.searchsorted(n))
    now_waits = slice(waited, waited + int(n in kept.waiting[waited : waited + 1]))
    blocks = np.searchsorted(steps.first, kept.waiting[:waited])  # those of the waiting steps
    for name, past, now, source in rows:
        waits = past.reshape(p, -1, p)[:, steps.order[blocks]].swapaxes(0, 1)
        columns[name][line, :waited] = waits if source is None else waits / source[kept.waiting[:waited], None, None]  # [columns]
        columns[name][line, now_waits] = now
    _add_since(R, steps.order, blocks, columns["chi"][line])
    columns["chi"][line, now_waits] = 0.0
