"""A convergence study: one axis for each parameter that was varied, with tables of distances and orders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from dmft.convergence import fits as orders
from dmft.convergence.fits import MEASURES, Quantity
from dmft.core import store
from dmft.core.errors import FileError, UserError
from dmft.equations.kernels import KERNELS
from dmft.model import layouts
from dmft.model.runfile import Run, parse_run
from dmft.result.comparison import common_indices
from dmft.result.theory import Theory

CURVES = ("m", "loss", "nu_hat", "delta_nu", "mu")
QUANTITIES = (*CURVES, *KERNELS)
EXPECTED = {"samples": 0.5, "learning_rate": 1.0}
# Points of these axes use the same random numbers, so that their differences are free of Monte-Carlo noise.
PAIRED = ("blocks_per_level", "mixing")
SMALL_IS_FINE = ("learning_rate", "mixing")


@dataclass(frozen=True)
class Axis:
    """One parameter, from coarse to fine: k points. Tables are by quantity: m, loss, nu_hat, delta_nu, mu, M_C, M_R, C, R."""

    name: str
    values: np.ndarray                          # (k,)
    seeds: np.ndarray                           # (k,)
    outcomes: list[str]
    wall_times: np.ndarray                      # (k,) seconds
    t: np.ndarray                               # (c,) times that all points have
    kernel_t: np.ndarray                        # (d,) of them those with kernels
    table: dict[str, dict[str, np.ndarray]] = field(repr=False)      # measure -> quantity -> (k,)
    orders: dict[str, tuple[float, float]] = field(repr=False)       # quantity -> order, error
    curves: dict[str, np.ndarray] = field(repr=False)                # m, m_error, ...: (k, c)
    limit: dict[str, np.ndarray] = field(repr=False)                 # learning_rate: m, m_error (c,), M_C, ... (d, d)
    residuals: np.ndarray | None = field(default=None, repr=False)   # iterate: (k, sweeps), NaN after the last

    @property
    def finest(self) -> int:
        return len(self.values) - 1


def make_axis(name: str, values: Sequence[float], theories: Sequence[Theory]) -> Axis:
    """Compare solutions that are ordered from coarse to fine. Those that diverged show in the table as NaN."""
    steps = np.array(values, float)
    good = np.array([theory.outcome != "diverged" for theory in theories])
    kept = [theory for theory, fine in zip(theories, good) if fine]
    head = (name, steps, np.array([theory.run.theory.seed for theory in theories]), [theory.outcome for theory in theories],
            np.array([float(theory.attrs.get("wall_time", np.nan)) for theory in theories]))
    empty = {measure: {q: np.full(len(steps), np.nan) for q in QUANTITIES} for measure in MEASURES}
    if not kept:
        return Axis(*head, np.zeros(0), np.zeros(0), empty, dict.fromkeys(QUANTITIES, (np.nan, np.nan)), {}, {})
    t, quantities, kernel_t = _aligned(kept)
    found, table, curves, limit = {}, empty, {}, {}
    for q, quantity in quantities.items():
        rows = orders.distances(quantity, len(kept) - 1, name in PAIRED)
        for measure in MEASURES:
            table[measure][q][good] = rows[measure]
        found[q] = _order(name, steps[good], quantity, rows)
        if q in CURVES:
            for key, array in ((q, quantity.mean), (f"{q}_error", quantity.error)):
                curves[key] = np.full((len(steps), t.size), np.nan)
                curves[key][good] = array
        if name == "learning_rate" and len(kept) > 1:
            limit[q], limit[f"{q}_error"] = (_square(array, q, kernel_t.size) for array in orders.richardson(
                steps[good], quantity.mean, quantity.error))
    return Axis(*head, t, kernel_t, table, found, curves, limit, _residuals(theories))


def _order(name: str, steps: np.ndarray, quantity: Quantity, rows: dict[str, np.ndarray]) -> tuple[float, float]:
    if name == "samples":
        return orders.order_in_samples(steps, rows["replica_distance"], quantity.counts)
    if name == "learning_rate":
        return orders.order_in_step(steps, quantity)
    if name == "blocks_per_level":
        return orders.order_by_distance(steps[:-1], rows["distance"][:-1])
    return np.nan, np.nan       # mixing: the fixed point does not depend on it


def _aligned(theories: Sequence[Theory]) -> tuple[np.ndarray, dict[str, Quantity], np.ndarray]:
    """All quantities on the times that every theory has."""
    counts = np.array([len(theory.replicas["m"]) for theory in theories])
    tolerance = 1e-3 * min(theory.run.algorithm.learning_rate for theory in theories)
    index = _common([theory.t for theory in theories], tolerance)
    saved = _common([theory.kernels.t for theory in theories], tolerance)
    found = {}
    for q in CURVES:
        rows = [theory.replicas[q][:, i] for theory, i in zip(theories, index)]
        found[q] = Quantity(np.array([theory.curves[q][i] for theory, i in zip(theories, index)]),
                            np.array([theory.curves[f"{q}_error"][i] for theory, i in zip(theories, index)]), counts, rows)
    for q in KERNELS:
        lower = _lower(q, saved[0].size)
        part = {label: np.array([getattr(theory.kernels, label)[np.ix_(i, i)][lower] for theory, i in zip(theories, saved)])
                for label in (q, f"{q}_error")}
        found[q] = Quantity(part[q], part[f"{q}_error"], counts)
    return theories[-1].t[index[-1]], found, theories[-1].kernels.t[saved[-1]]


def _common(grids: list[np.ndarray], tolerance: float) -> list[np.ndarray]:
    """Indices, in each grid, of the times that all have."""
    times = grids[-1]
    for grid in grids[:-1]:
        times = times[common_indices(grid, times, tolerance)[1]]
    return [common_indices(grid, times, tolerance)[0] for grid in grids]


def _lower(name: str, size: int) -> tuple[np.ndarray, np.ndarray]:
    """A kernel is given by its lower triangle; responses have nothing on the diagonal."""
    return np.tril_indices(size, -1 if name in ("M_R", "R") else 0)


def _square(entries: np.ndarray, name: str, size: int) -> np.ndarray:
    """Undo _lower; curves stay as they are."""
    if name in CURVES:
        return entries
    lower, full = _lower(name, size), np.zeros((size, size))
    full[lower] = entries
    if name in ("M_C", "C"):
        full.T[lower] = entries
    return full


def _residuals(theories: Sequence[Theory]) -> np.ndarray | None:
    """The largest residual over replicas, one line a point."""
    lines = [np.nanmax(theory.history, axis=1) if theory.history is not None and len(theory.history) else np.zeros(0)
             for theory in theories]
    longest = max(map(len, lines))
    if not longest:
        return None
    return np.array([np.pad(line, (0, longest - len(line)), constant_values=np.nan) for line in lines])


@dataclass(frozen=True)
class Study:
    """What convergence_study returns. `study["samples"]` is an Axis; `tables()` are rows, `to_dataframe()` pandas."""

    run: Run
    axes: dict[str, Axis]
    attrs: dict[str, Any] = field(default_factory=dict, repr=False)

    def __getitem__(self, name: str) -> Axis:
        return self.axes[name]

    @property
    def outcome(self) -> str:
        outcomes = [outcome for axis in self.axes.values() for outcome in axis.outcomes]
        bad = [outcome for outcome in ("diverged", "sweep limit") if outcome in outcomes]
        return f"{bad[0]}: {outcomes.count(bad[0])} of {len(outcomes)} points" if bad else "done"

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        """Rows of plain values: points (one a solution), distances (one a solution and quantity), orders."""
        rows: dict[str, list[dict[str, Any]]] = {"points": [], "distances": [], "orders": []}
        for axis in self.axes.values():
            for i, value in enumerate(axis.values):
                rate = orders.contraction(axis.residuals[i]) if axis.residuals is not None else np.nan
                sweeps = int(np.isfinite(axis.residuals[i]).sum()) if axis.residuals is not None else 0
                rows["points"].append({"axis": axis.name, "value": float(value), "seed": int(axis.seeds[i]),
                                       "outcome": axis.outcomes[i], "wall_time": float(axis.wall_times[i]),
                                       "sweeps": sweeps, "contraction": rate})
                for q in QUANTITIES:
                    times = axis.t.size if q in CURVES else axis.kernel_t.size
                    rows["distances"].append({"axis": axis.name, "value": float(value), "quantity": q, "times": times,
                                              **{measure: float(axis.table[measure][q][i]) for measure in MEASURES}})
            for q in QUANTITIES:
                order, error = axis.orders[q]
                rows["orders"].append({"axis": axis.name, "quantity": q, "order": float(order), "order_error": float(error),
                                       "expected": EXPECTED.get(axis.name, np.nan)})
        return rows

    def to_dataframe(self, table: str = "distances") -> Any:
        """One of the tables as a pandas.DataFrame."""
        try:
            import pandas
        except ImportError:
            raise UserError("to_dataframe needs pandas; install the extra [frames]") from None
        rows = self.tables()
        if table not in rows:
            raise UserError(f"a study has no table {table!r}; it has {', '.join(rows)}")
        return pandas.DataFrame(rows[table])

    def to_dict(self) -> dict[str, Any]:
        """The tables for JSON, and the text of repr."""
        plain = {name: [{key: None if value != value else value for key, value in row.items()} for row in rows]
                 for name, rows in self.tables().items()}
        return {**plain, "text": repr(self)}

    def __repr__(self) -> str:
        from dmft.convergence.text import study_text
        return study_text(self)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>"

    def save(self, path: str | Path, attrs: dict[str, Any] | None = None) -> None:
        """Write an HDF5 file of kind "convergence": one group an axis."""
        arrays: dict[str, np.ndarray] = {}
        texts: dict[str, Any] = {**self.attrs, **(attrs or {}), "outcome": self.outcome, "axes": ",".join(self.axes)}
        for name, axis in self.axes.items():
            texts[f"outcomes_{name}"] = ",".join(axis.outcomes)
            for key in ("values", "seeds", "wall_times", "t", "kernel_t"):
                arrays[f"{name}/{key}"] = getattr(axis, key)
            for measure, columns in axis.table.items():
                arrays |= {f"{name}/{measure}/{q}": column for q, column in columns.items()}
            arrays |= {f"{name}/order/{q}": np.array(pair) for q, pair in axis.orders.items()}
            for group in ("curves", "limit"):
                arrays |= {f"{name}/{group}/{key}": array for key, array in getattr(axis, group).items()}
            if axis.residuals is not None:
                arrays[f"{name}/residuals"] = axis.residuals
        store.save(path, "convergence", self.run.to_toml(), arrays, texts)


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
                          {measure: part(f"{name}/{measure}/") for measure in MEASURES},
                          {q: (float(pair[0]), float(pair[1])) for q, pair in part(f"{name}/order/").items()},
                          part(f"{name}/curves/"), part(f"{name}/limit/"), stored.arrays.get(f"{name}/residuals"))
    attrs = {key: value for key, value in stored.attrs.items()
             if key not in ("axes", "outcome") and not key.startswith("outcomes_")}
    return Study(parse_run(stored.run_text, str(path), any_loss=True), axes, attrs)
