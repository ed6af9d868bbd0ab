"""Numbers that did not come from this package, as one half of a comparison: arrays, tables, CSV files.

Times need not be those of the theory: it is interpolated to them. Of each curve either all instances are given, (instances, times),
or a mean with its standard error, NAME and NAME_error, each (times,).
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dmft.core.errors import FileError, UserError
from dmft.result.comparison import Curve

TIME, INSTANCE, ERROR = "t", "instance", "_error"
AS_GIVEN = 1_000_000  # instances behind an error bar whose own error nobody knows: it is taken as exact


def is_table(source: Any) -> bool:
    """Whether it is a DataFrame, a Dataset of xarray, a mapping, or a CSV file."""
    return (isinstance(source, Mapping) or hasattr(source, "data_vars") or (hasattr(source, "columns") and hasattr(source, "shape"))
            or (isinstance(source, (str, Path)) and Path(source).suffix.lower() == ".csv"))


def read_table(source: Any) -> tuple[str, dict[str, np.ndarray]]:
    """What to call it, and its arrays by name: t (times,), others (times,) or (instances, times). Tables with a column `instance`
    have a row for each instance and time."""
    if isinstance(source, (str, Path)):
        return str(source), _pivoted(str(source), _columns(Path(source)))
    try:
        return "your data", _arrays(source)
    except (ValueError, TypeError) as error:
        raise UserError(f"your data: tables of numbers are wanted, but {error}") from None


def _arrays(source: Any) -> dict[str, np.ndarray]:
    """Of an xarray Dataset, a DataFrame or a mapping."""
    if hasattr(source, "data_vars"):
        named = {str(name): source[name] for name in (TIME, *source.data_vars) if name in source}
        return {name: np.asarray(array.transpose(..., TIME) if TIME in array.dims else array, float)
                for name, array in named.items()}
    names = source.columns if hasattr(source, "columns") else source
    return _pivoted("your data", {str(name): np.asarray(source[name], float) for name in names})


def own_arrays(name: str, given: Mapping[str, np.ndarray], known: Mapping[str, np.ndarray],
               start: str = "") -> dict[str, np.ndarray]:
    """The arrays as those of a simulation, (instances, times), after a check against the curves that the theory has. start: that of
    the run."""
    curves = _compared(known)
    arrays = {key: np.asarray(array, float) for key, array in given.items()}
    t = arrays.pop(TIME, np.zeros(0))
    if not t.size:
        raise UserError(f"{name}: there are no times, named t; it has {', '.join(arrays) or 'nothing'}")
    if t.ndim != 1 or not np.isfinite(t).all() or np.any(np.diff(t) <= 0):
        raise UserError(f"{name}: t must be a list of growing times, at which the others are given; rows of several runs need a "
                        "column 'instance', too")
    if not arrays:
        raise UserError(f"{name}: no curve beside t; name those of the theory, e.g. m or loss")
    for key in arrays:
        _check(name, key, arrays, t, curves)
    if start == "random" and "m" in arrays:
        raise UserError(f"{name}: from a random start m is 0 in the theory; compare V = N <m^2>, named V")
    return {TIME: t, **{key: array if key.endswith(ERROR) else np.atleast_2d(array) for key, array in arrays.items()}}


def _check(name: str, key: str, arrays: Mapping[str, np.ndarray], t: np.ndarray, curves: list[str]) -> None:
    """UserError where an array is none of the curves, does not fit the times, or has gaps; NaN at the end is a divergence."""
    array, of = arrays[key], key.removesuffix(ERROR)
    if of not in curves:
        raise UserError(f"{name}: the theory has no curve '{of}'; it has {', '.join(sorted(curves))}")
    if array.shape[-1:] != t.shape or array.ndim > 2 or (key != of and array.ndim != 1):
        wanted = f"({t.size},)" if key != of else f"({t.size},) or (instances, {t.size})"
        raise UserError(f"{name}: {key} has the shape {array.shape}, but t has {t.size} times: {wanted} is wanted")
    if key != of and of not in arrays:
        raise UserError(f"{name}: {key} is given without {of}")
    if not np.isfinite(np.atleast_2d(array)).any(axis=0).all():
        raise UserError(f"{name}: {key} is not a number at some times; leave these out")
    if key != of and (array < 0).any():
        raise UserError(f"{name}: {key} is below 0 at some times")


def interpolated(curve: Curve, t: np.ndarray, tolerance: float) -> Curve:
    """A curve of the theory at other times, those within its own; UserError where there are none."""
    inside = t[(t >= curve.t[0] - tolerance) & (t <= curve.t[-1] + tolerance)]
    if not inside.size:
        raise UserError(f"your data: no time within those of the theory, {curve.t[0]:g} to {curve.t[-1]:g}")
    return Curve(inside, np.interp(inside, curve.t, curve.mean), np.interp(inside, curve.t, curve.error), curve.count)


def _compared(arrays: Mapping[str, np.ndarray]) -> list[str]:
    """Curves of the theory that have error bars."""
    return [name for name, array in arrays.items() if "/" not in name and f"{name}{ERROR}" in arrays and array.ndim == 1]


def _columns(path: Path) -> dict[str, np.ndarray]:
    """The columns of a CSV file with a line of names."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as lines:  # with the mark that some programs write first, or without
            names, *rows = [row for row in csv.reader(lines) if row and not row[0].startswith("#")]
        table = np.array([[float(cell) for cell in row] for row in rows])
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}") from None
    except ValueError:
        raise FileError(f"{path}: a table of numbers with a line of names is wanted, as t,m,m_error or t,instance,m,loss") from None
    if not rows or len(set(names)) < len(names):
        raise FileError(f"{path}: {'two columns have the same name' if rows else 'there are no lines below the names'}")
    if table.ndim != 2 or table.shape[1] != len(names):
        raise FileError(f"{path}: its lines do not have the {len(names)} numbers that the line of names promises")
    return {name.strip(): table[:, k] for k, name in enumerate(names)}


def _pivoted(name: str, columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Columns with one row for each instance and time, as arrays (instances, times); others as they are."""
    if INSTANCE not in columns or TIME not in columns:
        return columns
    t, at = np.unique(columns[TIME], return_inverse=True)
    instances, of = np.unique(columns[INSTANCE], return_inverse=True)
    if len(at) != t.size * instances.size or np.unique(of * t.size + at).size != len(at):
        raise UserError(f"{name}: {len(at)} rows, but {instances.size} instances at {t.size} times; each must be there once")
    found = {TIME: t}
    for key, column in columns.items():
        if key not in (TIME, INSTANCE):
            found[key] = np.empty((instances.size, t.size))
            found[key][of, at] = column
    return found
