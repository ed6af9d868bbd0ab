"""The view of the fields: the joint law of the student's and the teacher's field on training samples, at the times of snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.colors import LogNorm

from dmft.core.errors import UserError
from dmft.result.theory import Theory
from sgd_sim.result import SimulationResult
from workbench.plots.style import BLUE, Figure, new_figure, save

BINS, RANGE = 61, 3.5       # of a map, and its half width
MOST_INSTANCES = 8          # whose data are made again for a picture
NONE_KEPT = "has no snapshots of fields; list times in [theory] snapshots and run it again"
Sample = tuple[np.ndarray, np.ndarray, np.ndarray]      # f (count, S), teacher's fields and weights (count,)


def draw_theory(theory: Theory, path: Path | None) -> Figure:
    """Maps of all samples of all replicas, and the law of the aligned field below."""
    found = theory.snapshots
    if found is None:
        raise UserError(f"this result {NONE_KEPT}")
    parts = [(f, h0, weight) for f, h0, weight in zip(found.f, found.h0, found.weight)]
    what = f"{theory.run.summary}, {len(found.f)} x {found.f.shape[1]} samples"
    return save(_draw(found.t, parts, f"{theory.run.title}\n{what}".strip()), path)


def draw_simulation(result: SimulationResult, path: Path | None) -> Figure:
    """The same from the data of some instances."""
    found = result.snapshots
    if found is None:
        raise UserError(f"this result {NONE_KEPT}")
    ended = np.flatnonzero(np.isfinite(found.w).all(axis=(1, 2)))[:MOST_INSTANCES]
    parts = []
    for i in ended:
        f, _, teacher = found.fields(int(i))
        parts.append((f, teacher, np.full(teacher.size, 1.0 / teacher.size)))
    what = (f"{result.run.summary}, N = {result.run.simulation.dimension}, "
            f"{len(parts)} of {len(found.w)} instances")
    return save(_draw(found.t, parts, f"{result.run.title}\n{what}".strip()), path)


def _draw(t: np.ndarray, parts: Sequence[Sample], title: str) -> Figure:
    figure = new_figure(1.0 + 3.6 * t.size, 7.0)
    axes = figure.subplots(2, t.size, squeeze=False, height_ratios=(3, 2))
    edges = np.linspace(-RANGE, RANGE, BINS + 1)
    f, h0, weight = (np.concatenate([part[k] for part in parts]) for k in range(3))
    weight = weight / len(parts)
    for i, (upper, lower) in enumerate(axes.T):
        known = np.isfinite(f[:, i])
        counts = np.histogram2d(h0[known], f[known, i], (edges, edges), weights=weight[known])[0] / np.diff(edges)[0] ** 2
        upper.pcolormesh(edges, edges, counts.T, norm=LogNorm(1e-4, max(counts.max(), 1e-3)), cmap="cividis", rasterized=True)
        for sign in (1, -1):
            upper.plot([-RANGE, RANGE], [-sign * RANGE, sign * RANGE], color="white", linewidth=0.7, linestyle=":")
        upper.set(title=f"$t = {t[i]:.3g}$", xlabel="$h_0$", ylabel=r"$\tilde h$" if i == 0 else "")
        upper.set_box_aspect(1)
        aligned = f[known, i] * np.sign(h0[known])
        density = np.histogram(aligned, edges, weights=weight[known])[0] / np.diff(edges)
        lower.stairs(density, edges, color=BLUE, fill=True, alpha=0.4)
        lower.set(xlabel=r"$\tilde h\, \mathrm{sign}\, h_0$", ylabel="density" if i == 0 else "")
    figure.suptitle(title, fontsize="medium")
    return figure
