"""A scan as one table: a row per result file, the keys in which the runs differ, and the curves at a few times."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dmft.core import store
from dmft.core.errors import UserError
from dmft.files.axes import named
from dmft.model.quantities import to_frame
from dmft.model.runfile import Run
from dmft.result import pictures

SCANNED_KINDS = ("theory", "simulation")
_IRRELEVANT = ("checkpoint_interval", "device")


@dataclass(frozen=True)
class ScanRow:
    """One result: means and errors at its times (n,) and, for simulations, the share of instances that have learned."""

    path: Path
    kind: str
    run: Run
    count: int                  # replicas or instances
    t: np.ndarray
    m: np.ndarray
    m_error: np.ndarray
    loss: np.ndarray
    loss_error: np.ndarray
    share: np.ndarray | None = None         # of instances below the threshold, with its interval
    share_low: np.ndarray | None = None
    share_high: np.ndarray | None = None
    diverged: bool = False                  # as a whole, or some of its replicas or instances


SCAN_CURVES = ("m", "m_error", "loss", "loss_error")
SCAN_SHARES = ("share", "share_low", "share_high")


@dataclass(frozen=True, repr=False)
class Scan:
    """parameters: key -> value of each row (None where the row's kind does not use it); arrays (rows, times)."""

    rows: list[ScanRow]
    times: np.ndarray
    threshold: float
    parameters: dict[str, list[Any]]
    arrays: dict[str, np.ndarray]

    @property
    def overlaps(self) -> np.ndarray:
        """m (rows, times), NaN where it has no error although there are several replicas or instances: all but one diverged."""
        several = np.array([row.count > 1 for row in self.rows])
        return np.where(several[:, None] & np.isnan(self.arrays["m_error"]), np.nan, self.arrays["m"])

    def numeric(self) -> dict[str, np.ndarray]:
        """The parameters that are numbers, NaN where unused."""
        return {key: np.array([np.nan if value is None else float(value) for value in values])
                for key, values in self.parameters.items() if all(_is_number(value) for value in values)}

    def axis(self) -> str:
        """The key for the horizontal axis of a picture: the one with most different values, but not the dimension, for whose values
        separate curves are drawn."""
        numbers = {key: len(set(values[np.isfinite(values)])) for key, values in self.numeric().items()}
        keys = [key for key in numbers if key != "simulation.dimension"] or list(numbers) or ["problem.alpha"]
        return max(keys, key=lambda key: (numbers.get(key, 0), key == "problem.alpha"))

    def plane(self) -> tuple[str, str] | None:
        """The two keys of a map: where rows of one kind differ in two numbers alone, each with three values at least, and all pairs
        are there."""
        numbers = self.numeric()
        if len(self.parameters) != 2 or len(numbers) != 2 or len({row.kind for row in self.rows}) > 1:
            return None
        x, y = numbers
        counts = [len(np.unique(numbers[key])) for key in (x, y)]
        return (x, y) if min(counts) > 2 and counts[0] * counts[1] == len(self.rows) else None

    def table(self) -> dict[str, Any]:
        """Columns with a row for each result and time: file, kind, the keys in which runs differ, t, m, loss, errors, shares."""
        rows, times = len(self.rows), len(self.times)
        columns: dict[str, Any] = {"file": np.repeat([str(row.path) for row in self.rows], times),
                                   "kind": np.repeat([row.kind for row in self.rows], times)}
        columns |= {key: [value for value in values for _ in range(times)] for key, values in self.parameters.items()}
        return columns | {"t": np.tile(self.times, rows), **{name: array.ravel() for name, array in self.arrays.items()}}

    def to_dataframe(self) -> Any:
        """The table as a pandas.DataFrame. Needs pandas, an extra."""
        return to_frame(self.table())

    def to_xarray(self) -> Any:
        """An xarray.Dataset over the scanned keys and t, and over kind where there are theories and simulations; NaN where a grid
        has no point. Needs pandas and xarray, an extra."""
        kinds = len({row.kind for row in self.rows}) > 1
        axes = [*(["kind"] if kinds else []), *self.parameters, "t"]
        table = self.to_dataframe().set_index(axes)[list(self.arrays)]
        if not table.index.is_unique:
            raise UserError("to_xarray: some results of the scan have the same parameters; to_dataframe has all of them")
        try:
            return table.to_xarray()
        except ImportError:
            raise UserError("to_xarray needs xarray; install the extra [frames]") from None

    def plot(self, path: str | Path | None = None) -> Any:
        """Draw m, and shares, against the scanned keys; returns the matplotlib Figure, written to `path` when one is given."""
        return pictures.draw("workbench.plots.scan", self, path)

    def __repr__(self) -> str:
        keys, times = ", ".join(self.parameters) or "nothing", ", ".join(f"{t:g}" for t in self.times)
        return f"<scan of {len(self.rows)} results over {keys}, at t = {times}>"

    def save(self, path: Path) -> None:
        """Write the table; parameters that are not numbers go into an attribute, as JSON, like the names of the files."""
        numbers = self.numeric()
        arrays = {f"parameters/{key}": values for key, values in numbers.items()}
        arrays |= {"times": self.times, "count": np.array([row.count for row in self.rows]),
                   "is_simulation": np.array([row.kind == "simulation" for row in self.rows]), **self.arrays}
        others = {key: values for key, values in self.parameters.items() if key not in numbers}
        attrs: dict[str, Any] = {
            "outcome": "done", "threshold": self.threshold, "other_parameters": json.dumps(others),
            "files": json.dumps([str(row.path) for row in self.rows]), "keys": json.dumps(list(self.parameters))}
        axes = {name: ("row", "times")[:array.ndim] for name, array in arrays.items()} | {"times": ("times",)}
        store.save(path, "sweep", self.rows[0].run.to_toml(), arrays, attrs, names=named(arrays, axes, {}, attrs))


def make_scan(rows: Sequence[ScanRow], times: Sequence[float] | None, threshold: float) -> Scan:
    """Sort the rows by their parameters and read their curves off at `times` (default: three, up to the shortest end)."""
    keys = scanned_keys(rows)
    ordered = sorted(rows, key=lambda row: (SCANNED_KINDS.index(row.kind), [_rank(value_of(row, key)) for key in keys]))
    if times is None:
        end = min(float(row.t[-1]) for row in rows)
        times = [end / 4, end / 2, end]
    at = np.array(times, float)
    if (beyond := at[at > (last := max(float(row.t[-1]) for row in rows)) * (1 + 1e-9)]).size:
        raise UserError(f"--times {beyond[0]:g}: beyond the end of all runs of the scan, t = {last:g}")
    arrays = {name: np.array([_interpolated(row, getattr(row, name), at) for row in ordered]) for name in SCAN_CURVES}
    arrays |= {name: np.array([_last_before(row, getattr(row, name), at) for row in ordered]) for name in SCAN_SHARES}
    return Scan(ordered, at, threshold, {key: [value_of(row, key) for row in ordered] for key in keys}, arrays)


def scanned_keys(rows: Sequence[ScanRow]) -> list[str]:
    """The keys in which runs differ; [theory] is compared among theories, [simulation] among simulations."""
    found = []
    sections = rows[0].run.tables()
    for section in sections:
        users = [row for row in rows if section not in SCANNED_KINDS or row.kind == section]
        names = dict.fromkeys(name for row in users for name in row.run.tables()[section])
        for name in names:
            values = {_rank(row.run.tables()[section].get(name)) for row in users}
            if len(values) > 1 and name not in _IRRELEVANT:
                found.append(f"{section}.{name}")
    return found


def value_of(row: ScanRow, key: str) -> Any:
    """The value of a key in a row's run; None where it plays no role."""
    section, _, name = key.partition(".")
    if section in SCANNED_KINDS and section != row.kind:
        return None
    return row.run.tables()[section].get(name)


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))


def _rank(value: Any) -> tuple[int, float, str]:
    """Sorting key: numbers by size, before everything else."""
    return (0, float(value), "") if value is not None and _is_number(value) else (1, 0.0, str(value))


def _interpolated(row: ScanRow, values: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Straight lines between recorded times; NaN beyond the end."""
    slack = 1e-9 * max(1.0, float(row.t[-1]))
    inside = (at >= row.t[0] - slack) & (at <= row.t[-1] + slack)
    return np.where(inside, np.interp(at, row.t, values), np.nan)


def _last_before(row: ScanRow, values: np.ndarray | None, at: np.ndarray) -> np.ndarray:
    """The value at the last recorded time up to `at`: shares come from counts, which are not interpolated."""
    if values is None:
        return np.full(at.shape, np.nan)
    slack = 1e-9 * max(1.0, float(row.t[-1]))
    index = np.searchsorted(row.t, at + slack, side="right") - 1
    inside = (index >= 0) & (at <= row.t[-1] + slack)
    return np.where(inside, values[np.maximum(index, 0)], np.nan)
