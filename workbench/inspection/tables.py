"""A file as plain tables: what `dmft export` writes."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np

from dmft.core import store
from dmft.core.whole import whole
from dmft.files.layouts import TOLD
from dmft.model.quantities import described
from workbench.inspection.curves import opened_curves
from workbench.inspection.kinds import Opened
from workbench.inspection.opening import INNER_GROUPS

Table = tuple[list[str], list[np.ndarray]]     # names and equally long columns


def export_csv(opened: Opened, folder: Path) -> list[Path]:
    """Write every table of a file, the run file, and columns.csv with meaning and unit of every column."""
    with whole(folder / "run.toml") as part:
        part.write_text(opened.header.run_text, encoding="utf-8")
    written, columns = [folder / "run.toml"], dict[tuple[str, str], tuple[str, str]]()
    for name, (names, values) in tables(opened):
        place = folder / f"{name.replace('/', '_')}.csv"
        _write(place, names, zip(*(column.tolist() for column in values)))
        written.append(place)
        # The columns of a kernel are the times t' or t_w; one line of columns.csv describes all of them.
        columns |= ({(place.name, "t and t'"): described("t"), (place.name, "all others"): described(name, opened.header.attrs)}
                    if _two_times(name) and len(values) > 2 else
                    {(place.name, column): described(column, opened.header.attrs) for column in names})
    rows = [(file, column, *words) for (file, column), words in columns.items() if any(words)]
    _write(folder / "columns.csv", ["file", "column", "meaning", "unit"], rows)
    return [*written, folder / "columns.csv"]


def _write(place: Path, names: list[str], rows) -> None:
    with whole(place) as part, part.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows(rows)


def tables(opened: Opened) -> Iterator[tuple[str, Table]]:
    """All curves in one table, then one table per array with more axes: time down, everything else across."""
    curves, names = opened_curves(opened), []
    if curves:
        names, values = ["t"], [next(iter(curves.values())).t]
        for name, curve in curves.items():
            names += [name, f"{name}_error"]
            values += [curve.mean, curve.error]
        yield "curves", (names, values)
    header = opened.header
    if opened.kind == "convergence":
        for name, rows in opened.result.tables().items():
            if rows:
                yield name, (list(rows[0]), [np.array([row[key] for row in rows]) for key in rows[0]])
        return
    if opened.kind == "sweep":
        table = opened.result.table()
        yield "scan", (list(table), [np.array(column, object) for column in table.values()])
        return
    for what in TOLD:  # curves of what companions tell, in one table
        told = [name for name, shape in header.shapes.items() if name.startswith(f"{what}/") and shape == header.shapes["t"]]
        if told:
            yield what, (["t", *told], [store.read(header.path, name) for name in ("t", *told)])
        names += told
    if "snapshots/f" in header.shapes:
        yield "snapshots", _samples(header)
    for name, shape in header.shapes.items():
        if name.startswith("snapshots/"):   # weights of simulations, and what the Hessian needs, are for programs
            continue
        if name.startswith(INNER_GROUPS) or (len(shape) == 1 and name in (*names, "kernels/t", "columns/t", "columns/t_w")):
            continue
        yield name, _across(opened, name, store.read(header.path, name))


def _samples(header: store.Stored) -> Table:
    """The law of the fields: a line per sample of every replica, with its fields and mini-batch weights at all snapshots."""
    t, f = (store.read(header.path, f"snapshots/{name}") for name in ("t", "f"))
    names, columns = ["replica"], [np.repeat(np.arange(len(f)), f.shape[1])]
    for name in ("weight", "k", "y", "sd"):
        names.append(name)
        columns.append(store.read(header.path, f"snapshots/{name}").ravel())
    for name in ("f", "s"):
        names += [f"{name}({time:.12g})" for time in t]
        columns += list(store.read(header.path, f"snapshots/{name}").reshape(-1, t.size).T)
    return names, columns


def _two_times(name: str) -> str:
    """"kernels" or "columns" for a dataset over two times, what companions tell of columns among them; "" for others."""
    *_, group, _ = ("", *name.split("/"))
    return group if group in ("kernels", "columns") else ""


def _across(opened: Opened, name: str, array: np.ndarray) -> Table:
    """Kernels: rows t, columns t'. Replicas and instances: rows t, one column each. Others: rows the first axis."""
    shapes, path = opened.header.shapes, opened.path
    if (group := _two_times(name)) and array.ndim == 2:
        t, across = (store.read(path, f"{group}/{axis}") for axis in ("t", "t" if group == "kernels" else "t_w"))
        return ["t", *(f"{time:.12g}" for time in across)], [t, *array.T]
    times = shapes.get("t", (0,))[0]
    if array.ndim >= 2 and array.shape[1] == times and shapes.get("t") != array.shape[:1]:
        array = np.moveaxis(array, 1, 0)
    rows = np.atleast_1d(array)
    first = store.read(path, "t") if rows.shape[0] == times else np.arange(rows.shape[0])
    base = name.rpartition("/")[2]
    columns = [f"{base}[{','.join(map(str, index))}]" if index else base for index in product(*map(range, rows.shape[1:]))]
    return ["t" if rows.shape[0] == times else "index", *columns], [first, *rows.reshape(rows.shape[0], len(columns)).T]
