"""What the plots of the page show, as plain data; the page's script draws it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dmft.convergence.axis import EXPECTED, Axis
from dmft.convergence.study import Study
from dmft.core.schema import show
from dmft.equations.kernels import COLUMNS, KERNELS
from dmft.model.data import fixed_norm
from dmft.model.quantities import described
from dmft.model.runfile import Run, changes
from dmft.result.comparison import Curve, common_times, extrapolate
from dmft.result.theory import Columns, Kernels, Theory
from sgd_sim.result import SOLVED
from workbench.inspection.by_component import mirrored, varies
from workbench.inspection.curves import MAIN, opened_curves, own_curves
from workbench.inspection.kinds import Opened

MOST_KERNEL_TIMES = 96      # per axis of a kernel on the page
PAGE_POINTS = 600           # of a curve
MOST_DIFFERENCES = 4        # keys that are named when a file is of another experiment
MOST_ONEPASS = 12           # curves of a one-pass file
# Keys in which two runs may differ and still be the same experiment.
_FREE = ("title", "algorithm.t_max", "theory.", "simulation.")
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)


def page_data(opened: Sequence[Opened]) -> dict[str, Any]:
    """Curves by observable, kernels, spreads of simulations, axes of studies."""
    labels = curve_labels(opened)
    observables: dict[str, list[dict[str, Any]]] = {}
    for item, label in zip(opened, labels):
        curves, norm = opened_curves(item), 1.0 if item.run is None else fixed_norm(item.run.problem)
        wanted = list(dict.fromkeys((*MAIN, *own_curves(item)))) if item.kind != "onepass" else list(curves)[:MOST_ONEPASS]
        if item.run is not None and item.run.has_network:
            wanted = [name for name in curves if name.startswith(("m[", "C["))][:MOST_ONEPASS] + ["loss", "mse", "specialisation"]
        if item.kind == "theory":
            wanted += ["nu_hat", "nu_hat_direct"] if norm is not None else ["nu_hat"]
        for name in filter(curves.__contains__, wanted):
            # Not shown: q where it is the norm that is fixed, up to rounding, and entries of matrices that are constant, or there
            # twice.
            plain = name == "q" and np.nanmax(np.abs(curves["q"].mean / (norm or 1.0) - 1.0), initial=0.0) < 1e-6
            plain = plain or ("[" in name and (mirrored(name, curves) or not varies(curves[name].mean)))
            if not plain:
                panel = "nu_hat" if name.startswith("nu_hat") else name
                observables.setdefault(panel, []).append(_curve(item.kind, _eta(item), name, curves[name], label))
    for name in ("m", "loss"):
        single = [item for item in opened if item.run is None or not item.run.has_network]
        observables.setdefault(name, []).extend(_limits(single, name))
    observables = {name: curves for name, curves in observables.items() if curves}
    return {
        "observables": observables,
        "titles": {name: _title(opened, name) for name in {"m", "loss", *observables}},
        "kernels": [_kernels(item.result, label) for item, label in zip(opened, labels)
                    if isinstance(item.result, Theory) and not item.result.run.has_network],
        "spreads": [_spread(item.result, label) for item, label in zip(opened, labels)
                    if item.kind == "simulation" and not item.result.run.has_network],
        "axes": [_axis(axis, label) for item, label in zip(opened, labels) if isinstance(item.result, Study)
                 for axis in item.result.axes.values()],
    }


def _title(opened: Sequence[Opened], name: str) -> str:
    """What a curve means, as far as one of the files or this program knows."""
    _, bracket, index = name.partition("[")
    meaning = next((words for item in opened if (words := described(name, item.header.attrs)[0])), "")
    return f"{meaning} {bracket}{index}".rstrip() if meaning else name


def file_labels(opened: Sequence[Opened]) -> list[str]:
    """File names, with folders where the names alone are not distinct."""
    names = [item.path.name for item in opened]
    return [name if names.count(name) == 1 else str(item.path) for name, item in zip(names, opened)]


def curve_labels(opened: Sequence[Opened]) -> list[str]:
    """Names for legends: the kind, N of simulations, what sets the experiment apart from the others, the file where that is not
    enough."""
    summaries = [item.run.summary.split(", ") if item.run is not None else [] for item in opened]
    common = set.intersection(*(set(parts) for parts in summaries if parts)) if any(summaries) else set()
    experiments = [", ".join(part for part in parts if part not in common) for parts in summaries]
    words = []
    for item, experiment in zip(opened, experiments):
        parts = [item.kind if not item.live else f"{item.kind} (live)"]
        parts += [f"N = {item.run.simulation.dimension}"] if item.run is not None and item.kind == "simulation" else []
        parts += [experiment] if experiment else []
        words.append(", ".join(parts))
    return [word if words.count(word) == 1 else f"{word}, {name}" for word, name in zip(words, file_labels(opened))]


def _differences(a: Run, b: Run) -> list[tuple[str, Any, Any]]:
    """Keys, with both values, in which two runs are different experiments."""
    return [change for change in changes(a, b) if not change[0].startswith(_FREE)]


def same_experiment(a: Run, b: Run) -> bool:
    """True for runs that differ in title, length and numerical settings alone."""
    return not _differences(a, b)


def other_experiments(opened: Sequence[Opened]) -> list[str]:
    """A line for every file that is of another experiment than the first: its curves are drawn beside the others."""
    known = [(item.run, name) for item, name in zip(opened, file_labels(opened)) if item.run is not None and item.kind != "sweep"]
    lines = []
    for run, name in known[1:]:
        if found := _differences(known[0][0], run):
            told = ", ".join(f"{key} = {show(ours)} instead of {show(theirs)}" for key, theirs, ours in found[:MOST_DIFFERENCES])
            more = f" and {len(found) - MOST_DIFFERENCES} more keys" if len(found) > MOST_DIFFERENCES else ""
            lines.append(f"{name} shows another experiment than {known[0][1]}: {told}{more}")
    return lines


def _limits(opened: Sequence[Opened], name: str) -> list[dict[str, Any]]:
    """Simulations of one experiment at several dimensions extrapolated to N = infinity, and studies to eta = 0."""
    found, seen = [], list[Run]()
    for item, label in zip(opened, curve_labels(opened)):
        experiment = label.partition(", ")[2]
        if isinstance(item.result, Study) and name in (limit := _small_step_limit(item.result)):
            found.append(_curve("limit", _eta(item), name, limit[name], ", ".join(filter(None, ("limit eta -> 0", experiment)))))
        if item.kind != "simulation" or item.run is None or any(same_experiment(item.run, run) for run in seen):
            continue
        seen.append(item.run)
        alike = [other for other in opened if other.kind == "simulation" and other.run is not None
                 and same_experiment(item.run, other.run)]
        dimensions = [other.result.run.simulation.dimension for other in alike]
        if len(set(dimensions)) < 2:
            continue
        curves = [opened_curves(other)[name] for other in alike]
        tolerance = 1e-3 * item.run.algorithm.first_rate
        times = common_times(curves, tolerance)
        if times.size:
            infinite = extrapolate([curve.at(times, tolerance) for curve in curves], dimensions)
            found.append(_curve("simulation", _eta(item), name, infinite, "simulation, N -> infinity"))
    return found


def _small_step_limit(study: Study) -> dict[str, Curve]:
    axis = study.axes.get("learning_rate")
    if axis is None or not axis.limit:
        return {}
    return {name: Curve(axis.t, axis.limit[name], axis.limit[f"{name}_error"], len(axis.values))
            for name in (axis.main, "loss")}


def _eta(item: Opened) -> float:
    return item.run.algorithm.first_rate if item.run is not None else 0.0


def _curve(kind: str, eta: float, name: str, curve: Curve, label: str) -> dict[str, Any]:
    thin = np.unique(np.linspace(0, curve.t.size - 1, PAGE_POINTS).astype(int)) if curve.t.size > PAGE_POINTS else slice(None)
    direct = " (A.19)" if name == "nu_hat_direct" else " (A.29)" if name == "nu_hat" else ""
    dash = "dash" if name == "nu_hat_direct" else "solid"
    return {"label": label + direct, "source": label, "dash": dash, "kind": kind, "eta": eta,
            "t": curve.t[thin], "mean": curve.mean[thin], "error": curve.error[thin]}


def thinned(kernels: Kernels) -> np.ndarray:
    """Indices of the saved times that the page shows: those reached so far, dense early and sparse late."""
    reached = np.flatnonzero(np.isfinite(np.diag(kernels.C)))
    if reached.size <= MOST_KERNEL_TIMES:
        return reached
    half = MOST_KERNEL_TIMES // 2
    last = reached[-1]
    return np.unique(np.concatenate((np.linspace(0, last, half), np.geomspace(1, last, half))).round().astype(int))


def _kernels(theory: Theory, label: str) -> dict[str, Any]:
    """Heat maps, and for every waiting time the columns after it."""
    kernels, index = theory.kernels, thinned(theory.kernels)
    slices = [_slice(theory.columns, j) for j in range(theory.columns.t_w.size)] if theory.columns else []
    maps = {name: getattr(kernels, name)[np.ix_(index, index)] for name in KERNELS}
    for name in ("M_R", "R"):
        maps[name] = np.where(np.tri(index.size, k=-1, dtype=bool), maps[name], np.nan)
    centres = kernels.t if kernels.t_last is None else (kernels.t + kernels.t_last) / 2
    return {"label": label, "eta": theory.run.algorithm.first_rate, "t": kernels.t[index], "t_prime": centres[index],
            "cells": not kernels.exact.all(), "maps": maps, "slices": [one for one in slices if one["tau"].size > 1]}


def _slice(columns: Columns, j: int) -> dict[str, Any]:
    """The columns after waiting time j."""
    after = {name: columns.after(name, j) for name in COLUMNS}
    shown = _thin(after["C"][0].size)
    return ({"t_w": columns.t_w[j], "tau": after["C"][0][shown]} | {name: value[shown] for name, (_, value, _) in after.items()}
            | {f"{name}_error": error[shown] for name, (_, _, error) in after.items()})


def _thin(count: int) -> np.ndarray:
    """At most MOST_KERNEL_TIMES of so many points of a column."""
    return np.unique(np.linspace(0, max(count - 1, 0), min(count, MOST_KERNEL_TIMES)).round().astype(int))


def _spread(result: Any, label: str) -> dict[str, Any]:
    share = result.share_below(SOLVED)
    return {"label": label, "eta": result.run.algorithm.first_rate, "t": result.t, "threshold": SOLVED, "share": share.share,
            "low": share.low, "high": share.high, "levels": list(QUANTILES),
            "m": [result.quantile(p).m for p in QUANTILES], "loss": [result.quantile(p).loss for p in QUANTILES]}


def _axis(axis: Axis, label: str) -> dict[str, Any]:
    measure = "replica_distance" if axis.name == "samples" else "distance"
    return {"label": label, "name": axis.name, "values": axis.values, "expected": EXPECTED.get(axis.name),
            "quantities": {q: np.where(axis.table[measure][q] > 0, axis.table[measure][q], np.nan) for q in axis.quantities},
            "residuals": [] if axis.residuals is None else list(axis.residuals)}
