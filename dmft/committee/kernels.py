"""Which entries of the kernels of a committee are kept: as of equations/kernels.py for one unit, in blocks p x p. Eq. [columns]."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dmft.committee.weights import UnitRow, UnitWeights
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
    waited = int(kept.waiting.searchsorted(n))
    now_waits = slice(waited, waited + int(n in kept.waiting[waited : waited + 1]))
    blocks = np.searchsorted(steps.first, kept.waiting[:waited])  # those of the waiting steps
    for name, past, now, source in rows:
        entries = past.reshape(p, -1, p).swapaxes(0, 1)[steps.order]  # (blocks, p, p)
        if in_map:
            means = kept.means_in_time(entries, steps.first, i, 0, source)
            maps[name][i, :i], maps[name][i, i] = means, now
            if source is None:
                maps[name][:i, i] = means.swapaxes(1, 2)
        if in_columns:
            waits = entries[blocks]
            columns[name][line, :waited] = waits if source is None else waits / source[kept.waiting[:waited], None, None]
            columns[name][line, now_waits] = now
    if in_columns:
        # sums over all blocks from one on, of R, which comes last above
        since = np.cumsum(entries[::-1], axis=0)[::-1]  # [fdt-chi]
        columns["chi"][line, :waited], columns["chi"][line, now_waits] = since[blocks], 0.0
