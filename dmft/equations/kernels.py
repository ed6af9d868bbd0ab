"""Which entries of the two-time kernels are kept, and how they are read off a row: maps over all times, columns at waiting times.

A saved entry is what it claims to be. With a full history a map holds kernels at pairs of single times. In a history of blocks the
time t' of a map is a *cell*, a stretch of steps that is one block in the end (history.py): the entry is the average over the
cell, which is exact for a cell of one step, and nothing is read off between two cells. Columns belong to waiting steps, each of
which is a block by itself for ever, so that C(t, t_w), R(t, t_w), M_C(t, t_w) and M_R(t, t_w) are entries at single times for any
t. So is the response chi(t, t_w) to a force that acts from t_w on, because no block spans t_w. Eq. [columns].
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dmft.core.errors import RunError
from dmft.equations.fdt import temperatures
from dmft.equations.history import History
from dmft.equations.weights import Row, WeightDynamics
from dmft.files.layouts import COLUMNS as COLUMNS
from dmft.files.layouts import FDT_COLUMNS as FDT_COLUMNS
from dmft.files.layouts import KERNELS as KERNELS
from dmft.model.experiment import Experiment
from dmft.model.runfile import Run
from dmft.model.two_times import nearest_steps, snapshot_steps, visited_steps, waiting_ladder, waiting_steps
from dmft.model.two_times import saved_steps as saved_steps

LAGS_ONE_BY_ONE, LAGS_PER_OCTAVE = 32, 16  # rows at which columns are kept after each waiting time


def columns_of(run: Run) -> tuple[str, ...]:
    """Names of the columns of a run."""
    return (*COLUMNS, *(FDT_COLUMNS if run.theory.fdt else ()))


class Wanted(NamedTuple):
    """What a run asks for, in steps."""

    rows: np.ndarray  # rows of the maps, with a full history
    waiting: np.ndarray  # waiting steps
    alone: np.ndarray  # steps that have cells of their own besides
    temperatures: bool = False  # whether columns have those of equations/fdt.py
    snapshots: np.ndarray = np.zeros(0, np.int64)  # steps at which the fields of all samples are kept
    visited: np.ndarray = np.zeros(0, np.int64)  # steps whose fields and gradients the Hessian there needs

    @property
    def pins(self) -> np.ndarray:
        """Steps that are never merged with others."""
        return np.union1d(self.waiting, self.alone)

    def without_snapshots(self) -> Wanted:
        """For companions, whose samples nobody looks at."""
        nothing = np.zeros(0, np.int64)
        return self._replace(snapshots=nothing, visited=nothing)

    @classmethod
    def plain(cls, steps: int) -> Wanted:
        """What is kept where nothing is asked for."""
        return cls(saved_steps(steps), waiting_ladder(steps), np.zeros(0, np.int64))

    @classmethod
    def of(cls, run: Run) -> Wanted:
        """theory.kernel_points: a count of rows, or a list of times; theory.waiting_times: a list, chosen here if empty."""
        points, steps = run.theory.kernel_points, run.algorithm.steps
        listed = not isinstance(points, int)
        rows = nearest_steps(run, "kernel_points", points) if not isinstance(points, int) else saved_steps(steps, points)
        if run.theory.snapshots and run.theory.method != "march":
            raise RunError('[theory] snapshots: only method = "march" keeps the fields of its samples; leave one of them out')
        waiting, alone = waiting_steps(run), rows if listed else np.zeros(0, np.int64)
        if run.theory.fdt:  # differences need the steps beside the waiting ones
            beside = np.concatenate([waiting - 1, waiting + 1])
            alone = np.union1d(alone, beside[(beside >= 0) & (beside < steps)])
        visited = visited_steps(run)
        alone = np.union1d(alone, visited[visited < steps])
        return cls(rows, waiting, alone, run.theory.fdt, snapshot_steps(run), visited)


class Kept(NamedTuple):
    """Where the saved entries lie, in visible steps: those after the hidden ones of a spectral start."""

    grid: np.ndarray  # (P,) rows of the maps; cell j holds the steps grid[j] .. upto[j]
    upto: np.ndarray  # (P,)
    times: np.ndarray  # (L,) rows of the columns
    waiting: np.ndarray  # (J,) waiting steps

    @classmethod
    def of(cls, history: History, hidden: int, wanted: Wanted) -> Kept:
        """What a history allows of what is wanted."""
        steps = history.steps - hidden
        grid = upto = wanted.rows
        if not history.full:
            marks = history.fences[(history.fences >= hidden) & (history.fences < history.steps)] - hidden
            grid, upto = np.append(marks, steps), np.append(np.append(marks[1:], steps) - 1, steps)
        return cls(grid, upto, column_steps(steps, wanted.waiting), wanted.waiting)

    def means(self, sums: np.ndarray, history: History, i: int, hidden: int, source: np.ndarray | None = None) -> np.ndarray:
        """(i,) averages over the cells before row i, from sums over blocks (slots,), which never span two cells. source (n,): the
        learning rates that make a density of sums of K_R or Gam."""
        if not i:
            return np.zeros(0)
        return _between(sums[history.order], *self.cells(history.first[history.order], i, hidden)) / self.below(i, hidden, source)

    def cells(self, first: np.ndarray, i: int, hidden: int) -> tuple[np.ndarray, np.ndarray]:
        """The blocks of the cells before row i in order of time, (i,) from which on and up to which; first (blocks,): their first
        steps."""
        return first.searchsorted(self.grid[:i] + hidden), first.searchsorted(self.upto[:i] + hidden + 1)

    def below(self, i: int, hidden: int, source: np.ndarray | None) -> np.ndarray:
        """What a sum over each of these cells is divided by, (i,): their steps, or what these are in time."""
        begin, end = self.grid[:i] + hidden, self.upto[:i] + hidden + 1
        return end - begin if source is None else _between(source, begin, end)  # [columns], [schedule]

    def empty(self, temperatures: bool = False) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Maps and columns, to be filled by `enter_row`."""
        return ({name: np.zeros((len(self.grid), len(self.grid))) for name in KERNELS},
                {name: np.full((len(self.times), len(self.waiting)), np.nan)
                 for name in (*COLUMNS, *(FDT_COLUMNS if temperatures else ()))})


def _between(values: np.ndarray, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Sums over values[begin : end], for arrays of begins and ends; a stretch of one value is that value."""
    if np.all(end - begin == 1):
        return values[begin]
    total = np.append(0.0, np.cumsum(values))
    found = total[end] - total[begin]
    found[end - begin == 1] = values[begin[end - begin == 1]]
    return found


def history_for(experiment: Experiment, per_level: int | None, wanted: Wanted, steps: int | None = None) -> History:
    """The history of a march, or of the same march with an earlier end after `steps`."""
    steps = experiment.steps if steps is None else steps
    pins = wanted.pins + experiment.hidden
    fine = wanted.waiting[wanted.waiting < steps - experiment.hidden] + experiment.hidden if wanted.temperatures else ()
    return History(steps, per_level, np.flatnonzero(experiment.jump_n[:steps]), pins[pins < steps],
                   not experiment.data.sampled, fine)


def column_steps(steps: int, waiting: np.ndarray) -> np.ndarray:
    """Rows at which columns are kept: after each waiting step some one by one, then a few in every octave of the lag; and the last.
    Those of a longer run are the same up to there."""
    octaves = np.log2(max(steps, LAGS_ONE_BY_ONE) / LAGS_ONE_BY_ONE)
    late = LAGS_ONE_BY_ONE * 2 ** (np.arange(int(octaves * LAGS_PER_OCTAVE) + 1) / LAGS_PER_OCTAVE)
    lags = np.union1d(np.arange(LAGS_ONE_BY_ONE), np.round(late).astype(np.int64))
    found = np.unique(np.add.outer(waiting, lags))
    return np.append(found[found < steps], steps)


def enter_row(maps: dict[str, np.ndarray], columns: dict[str, np.ndarray], kept: Kept, weights: WeightDynamics, row: Row) -> None:
    """Enter row n into the maps and columns that have it. M_R and R are densities in time, zero on and above the diagonal of a
    map; a column is NaN before its waiting time. Eq. [fdt-chi]."""
    e, state, history = weights.experiment, weights.state, weights.history
    visible = weights.n - e.hidden
    i, line = int(kept.grid.searchsorted(visible)), int(kept.times.searchsorted(visible))
    in_map, in_columns = visible in kept.grid[i : i + 1], kept.times[line] == visible
    if not (in_map or in_columns):
        return
    rates, m = e.eta_n[: weights.n], weights.m
    rows = (("M_C", row.M_C, row.M_C_now, None), ("C", state.Q_row + m * state.m_past, weights.number("Q_now") + m**2, None),
            ("M_R", row.K_R, 0.0, rates), ("R", e.eta_0 * state.R_row, 0.0, rates))
    waited = int(kept.waiting.searchsorted(visible))
    slots = history.order[np.searchsorted(history.first[history.order], kept.waiting[:waited] + e.hidden)]
    for name, past, now, source in rows:
        if in_map:
            means = kept.means(past, history, i, e.hidden, source)
            maps[name][i, : i + 1] = np.append(means, now)
            if source is None:
                maps[name][:i, i] = means
        if in_columns:
            step = 1.0 if source is None else source[kept.waiting[:waited] + e.hidden]
            columns[name][line, :waited] = past[slots] / step  # [columns], [schedule]
            columns[name][line, waited : waited + 1][kept.waiting[waited : waited + 1] == visible] = now
    if in_columns:
        # sums over all blocks from one on
        since = np.append(np.cumsum(e.eta_0 * state.R_row[history.order[::-1]])[::-1], 0.0)  # [fdt-chi]
        columns["chi"][line, :waited] = since[np.searchsorted(history.first[history.order], kept.waiting[:waited] + e.hidden)]
        columns["chi"][line, waited : waited + 1][kept.waiting[waited : waited + 1] == visible] = 0.0
        if FDT_COLUMNS[0] in columns and waited:
            found = temperatures(weights, kept.waiting[:waited] + e.hidden, columns["chi"][line, :waited])
            for name, values in found._asdict().items():
                columns[name][line, :waited] = values
