"""A convergence study: one axis for each parameter that was varied, with tables of distances and orders, and its file."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from dmft.convergence.axis import EXPECTED, Axis
from dmft.convergence.fits import contraction
from dmft.convergence.text import study_text
from dmft.core import store
from dmft.core.errors import FileError, UserError
from dmft.equations.kernels import KERNELS
from dmft.files import layouts
from dmft.files.axes import study_axes
from dmft.model.quantities import to_frame
from dmft.model.runfile import Run, parse_run
from dmft.result import pictures


@dataclass(frozen=True)
class Study:
    """What convergence_study returns: study["samples"] is an Axis, tables() gives rows, to_dataframe() a pandas table."""

    run: Run
    axes: dict[str, Axis]
    attrs: dict[str, Any] = field(default_factory=dict, repr=False)

    def __getitem__(self, name: str) -> Axis:
        return self.axes[name]

    @property
    def outcome(self) -> str:
        """"done", or how many solutions diverged or reached the limit of sweeps."""
        outcomes = [outcome for axis in self.axes.values() for outcome in axis.outcomes]
        bad = [outcome for outcome in ("diverged", "sweep limit") if outcome in outcomes]
        return f"{bad[0]}: {outcomes.count(bad[0])} of {len(outcomes)} points" if bad else "done"

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        """Tables as lists of rows: points (a row per solution), distances (per solution and quantity), orders (per quantity)."""
        rows: dict[str, list[dict[str, Any]]] = {"points": [], "distances": [], "orders": []}
        for axis in self.axes.values():
            for i, value in enumerate(axis.values):
                rate = contraction(axis.residuals[i]) if axis.residuals is not None else np.nan
                sweeps = int(np.isfinite(axis.residuals[i]).sum()) if axis.residuals is not None else 0
                rows["points"].append({"axis": axis.name, "value": float(value), "seed": int(axis.seeds[i]),
                                       "outcome": axis.outcomes[i], "wall_time": float(axis.wall_times[i]),
                                       "sweeps": sweeps, "contraction": rate})
                for q in axis.quantities:
                    times = axis.kernel_t.size if q in KERNELS else axis.t.size
                    rows["distances"].append({"axis": axis.name, "value": float(value), "quantity": q, "times": times,
                                              **{measure: float(axis.table[measure][q][i]) for measure in layouts.MEASURES}})
            for q in axis.quantities:
                order, error = axis.orders[q]
                rows["orders"].append({"axis": axis.name, "quantity": q, "order": float(order), "order_error": float(error),
                                       "expected": EXPECTED.get(axis.name, np.nan)})
        return rows

    def to_dataframe(self, table: str = "distances") -> Any:
        """One of the tables as a pandas.DataFrame."""
        rows = self.tables()
        if table not in rows:
            raise UserError(f"a study has no table {table!r}; it has {', '.join(rows)}")
        return to_frame({name: np.array([row[name] for row in rows[table]]) for name in (rows[table] or [{}])[0]})

    def to_dict(self) -> dict[str, Any]:
        """The tables for JSON, and the text of repr."""
        plain = {name: [{key: None if value != value else value for key, value in row.items()} for row in rows]
                 for name, rows in self.tables().items()}
        return {**plain, "text": repr(self)}

    def __repr__(self) -> str:
        return study_text(self.run, self.outcome, self.axes)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>"

    def plot(self, path: str | Path | None = None) -> Any:
        """Draw distances, orders and curves; returns the matplotlib Figure, written to `path` when one is given."""
        return pictures.draw("workbench.plots.convergence", self, path)

    def save(self, path: str | Path, attrs: dict[str, Any] | None = None) -> None:
        """Write an HDF5 file of kind "convergence" with one group per axis."""
        arrays: dict[str, np.ndarray] = {}
        texts: dict[str, Any] = {**self.attrs, **(attrs or {}), "outcome": self.outcome, "axes": ",".join(self.axes)}
        for name, axis in self.axes.items():
            texts |= {f"outcomes_{name}": ",".join(axis.outcomes), f"beyond_{name}": "\n".join(axis.beyond)}
            for key in ("values", "seeds", "wall_times", "t", "kernel_t"):
                arrays[f"{name}/{key}"] = getattr(axis, key)
            for measure, columns in axis.table.items():
                arrays |= {f"{name}/{measure}/{q}": column for q, column in columns.items()}
            arrays |= {f"{name}/order/{q}": np.array(pair) for q, pair in axis.orders.items()}
            for group in ("curves", "limit"):
                arrays |= {f"{name}/{group}/{key}": array for key, array in getattr(axis, group).items()}
            if axis.residuals is not None:
                arrays[f"{name}/residuals"] = axis.residuals
        names = study_axes(list(self.axes), self.run.has_network, arrays, texts)
        store.save(path, "convergence", self.run.to_toml(), arrays, texts, names=names)


def load_study(path: str | Path) -> Study:
    """Read what Study.save wrote."""
    stored = store.load(path)
    if stored.kind != "convergence":
        raise FileError(f"{path}: a {stored.kind} file, not a convergence study")
    layouts.check(stored)

    def part(prefix: str) -> dict[str, np.ndarray]:
        return {name[len(prefix):]: array for name, array in stored.arrays.items() if name.startswith(prefix)}

    axes = {}
    for name in stored.attrs["axes"].split(","):
        plain = {key: stored.arrays[f"{name}/{key}"] for key in ("values", "seeds", "wall_times", "t", "kernel_t")}
        axes[name] = Axis(name, plain["values"], plain["seeds"], stored.attrs[f"outcomes_{name}"].split(","),
                          plain["wall_times"], plain["t"], plain["kernel_t"],
                          {measure: part(f"{name}/{measure}/") for measure in layouts.MEASURES},
                          {q: (float(pair[0]), float(pair[1])) for q, pair in part(f"{name}/order/").items()},
                          part(f"{name}/curves/"), part(f"{name}/limit/"), stored.arrays.get(f"{name}/residuals"),
                          tuple(str(stored.attrs.get(f"beyond_{name}", "")).splitlines()))
    attrs = {key: value for key, value in stored.attrs.items()
             if key not in ("axes", "outcome") and not key.startswith(("outcomes_", "beyond_"))}
    return Study(parse_run(stored.run_text, str(path), any_loss=True), axes, attrs)
