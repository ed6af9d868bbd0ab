"""Numbers of a figure as rows, for the terminal and for the CSV file beside the picture."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dmft.core.averages import standard_error
from onepass.result import Ensemble, Trajectory


class NumberRow(NamedTuple):
    """One number with its standard error (NaN: none), where it was taken, and whether the command prints it."""

    quantity: str
    place: str
    value: float
    error: float = np.nan
    printed: bool = True

    def text(self) -> str:
        error = f" +- {self.error:.2g}" if np.isfinite(self.error) else ""
        return f"{self.quantity:<44} {self.place:<28} {self.value:.6g}{error}"


def mean_row(quantity: str, place: str, samples: np.ndarray) -> NumberRow:
    """Mean and standard error of the finite samples."""
    kept = samples[np.isfinite(samples)]
    return NumberRow(quantity, place, float(kept.mean()) if len(kept) else np.nan, float(standard_error(kept)))


def curve_rows(quantity: str, paths: Trajectory, name: str) -> list[NumberRow]:
    """A statistic against time, entry by entry; of an ensemble its mean and error. The last time is printed."""
    mean = paths.mean()[name] if isinstance(paths, Ensemble) else paths[name]
    error = paths.error()[name] if isinstance(paths, Ensemble) else np.full(mean.shape, np.nan)
    rows = []
    for index in np.ndindex(*mean.shape):
        entry = f"[{','.join(map(str, index[1:]))}]" if len(index) > 1 else ""
        last = index[0] == len(mean) - 1 and len(index) == 1
        rows.append(NumberRow(quantity + entry, f"t = {paths.t[index[0]]:.6g}", float(mean[index]), float(error[index]), last))
    return rows


def array_rows(
    quantity: str, axis: str, x: Iterable[float], y: Iterable[float], errors: Iterable[float] | None = None, printed: bool = False
) -> list[NumberRow]:
    """y against x with errors, a row each."""
    y = list(y)
    errors = [np.nan] * len(y) if errors is None else errors
    points = zip(x, y, errors, strict=True)
    return [NumberRow(quantity, f"{axis} = {float(a):.6g}", float(b), float(error), printed) for a, b, error in points]


def write_csv(rows: Iterable[NumberRow], path: Path) -> None:
    """Write the columns quantity, place, value, error; the error is empty where there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["quantity", "place", "value", "error"])
        for row in rows:
            error = repr(float(row.error)) if np.isfinite(row.error) else ""
            writer.writerow([row.quantity, row.place, repr(float(row.value)), error])
