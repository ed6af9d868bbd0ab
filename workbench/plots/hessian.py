"""The Hessian along a run: density at several times over simulated eigenvalues; lowest eigenvalue and its overlap against time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from workbench.inspection.hessian import HessianAlong
from workbench.plots.curves import time_axis
from workbench.plots.style import BAND, BLACK, BLUE, ORANGE, Figure, new_figure, save

MOST_PANELS = 5
DENSITY_POINTS = 300        # of a density
SPECTRUM_BINS = 80


def draw(found: Sequence[HessianAlong], path: Path | None) -> Figure:
    """Upper row: spectra; lower row: ends and overlaps over time."""
    t = found[0].t
    shown = np.unique(np.linspace(0, t.size - 1, min(t.size, MOST_PANELS)).round().astype(int))
    figure = new_figure(1.0 + 3.6 * max(shown.size, 3), 7.4)
    halves = figure.subfigures(2, 1, squeeze=False)[:, 0]
    upper = halves[0].subplots(1, shown.size, squeeze=False)[0]
    for axis, i in zip(upper, shown):
        _spectrum(axis, found, float(t[i]))
    upper[0].set_ylabel("density")
    known = {label: handle for axis in upper for handle, label in zip(*axis.get_legend_handles_labels())}
    halves[0].legend(known.values(), known.keys(), loc="outside lower center", ncols=len(known), fontsize="small")
    lower = halves[1].subplots(1, 3)
    for axis, (names, title) in zip(lower, ((("lowest", "soft"), "lowest eigenvalue"), (("lowest_overlap", "soft_overlap"),
                                             "squared overlap with the teacher"), (("largest",), "largest eigenvalue"))):
        _over_time(axis, found, names)
        axis.set_title(title, fontsize="medium")
    figure.suptitle("\n".join([*(one.title for one in found), "bars: 2 standard errors"]), fontsize="medium")
    return save(figure, path)


def _spectrum(axis: Axes, found: Sequence[HessianAlong], t: float) -> None:
    """Density of the theory, outliers as lines, over a histogram of the simulation."""
    for one in found:
        near = int(np.argmin(np.abs(one.t - t)))
        if one.instances:
            seen = np.concatenate([each[near].eigenvalues for each in one.instances])
            axis.hist(seen, SPECTRUM_BINS, density=True, color=ORANGE, alpha=0.4, label="simulation")
        if one.laws:
            low, high = one.values["lowest"][0][near], one.values["largest"][0][near]
            z = np.linspace(low - 0.05 * (high - low), high + 0.05 * (high - low), DENSITY_POINTS)
            axis.plot(z, one.laws[near].density(z), color=BLUE, label="theory, bulk")
            outliers = [value for value, overlap in ((low, "lowest_overlap"), (high, "largest_overlap"))
                        if one.values[overlap][0][near] > 0.0]
            for value in outliers:
                axis.axvline(value, color=BLUE, linestyle=":", linewidth=1.2,
                             label="theory, outliers" if value == outliers[0] else None)
    axis.axvline(0.0, color=BLACK, linewidth=0.6)
    axis.set(title=f"$t = {t:.3g}$", xlabel="eigenvalue", yscale="log", ylim=(1e-3, None))


def _over_time(axis: Axes, found: Sequence[HessianAlong], names: Sequence[str]) -> None:
    """Numbers against time: the theory as lines, the simulation as points."""
    for one in found:
        for name, style in zip(names, ("-", "--")):
            if name not in one.values:
                continue
            mean, error = one.values[name]
            words = f"{'theory' if one.laws else 'simulation'}" + (", along the sphere" if name.startswith("soft") else "")
            axis.errorbar(one.t, mean, BAND * np.nan_to_num(error), color=BLUE if one.laws else ORANGE, capsize=2, label=words,
                          fmt=style if one.laws else ("o" if style == "-" else "s"), markersize=4)
    axis.axhline(0.0, color=BLACK, linewidth=0.6)
    time_axis(axis, True, found[0].run.algorithm.first_rate)
    axis.legend(fontsize="small")
