"""Theory (line and band) against simulation (points and bars), with their distance in standard errors below."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dmft.model.curves import label_of
from dmft.result.comparison import Comparison
from workbench.inspection.against import AgainstSimulations
from workbench.plots.compare_kernels import draw_kernels, say_verdict
from workbench.plots.curves import draw_band, time_axis
from workbench.plots.references import draw_references
from workbench.plots.style import BAND, BLACK, BLUE, ORANGE, Figure, new_figure, save

MOST_ACROSS = 4  # observables side by side


def draw(found: AgainstSimulations, path: Path | None) -> Figure:
    """One column per observable, z below; the title says the verdict. Kernels have a picture of their own."""
    if found.kernels:
        return save(draw_kernels(found), path)
    eta = found.run.algorithm.first_rate
    across, lines = min(len(found.comparisons), MOST_ACROSS), -(-len(found.comparisons) // MOST_ACROSS)
    figure = new_figure(1.0 + 5.0 * across, 5.8 * lines)
    axes = figure.subplots(2 * lines, across, squeeze=False, height_ratios=(3, 1) * lines)
    pairs = [(axes[2 * (i // across), i % across], axes[2 * (i // across) + 1, i % across]) for i in range(lines * across)]
    for upper, lower in pairs[len(found.comparisons):]:
        upper.set_axis_off()
        lower.set_axis_off()
    for (upper, lower), result in zip(pairs, found.comparisons):
        draw_references(upper, found.run, result.observable)
        _values(upper, result)
        upper.set_ylabel(label_of(result.observable, found.attrs))
        time_axis(upper, True, eta)
        upper.set_xlabel("")
        lower.axhspan(-result.bound, result.bound, color=BLACK, alpha=0.08, linewidth=0)
        lower.axhline(0.0, color=BLACK, linewidth=0.8)
        lower.plot(result.t, result.z, "o", color=ORANGE, markersize=3.5)
        lower.set_ylabel("$z$")
        time_axis(lower, True, eta)
        lower.set_xlim(upper.get_xlim())
        if result.blind.any():
            for axis in (upper, lower):
                _mark_blind(axis, result)
    say_verdict(figure, found)
    return save(figure, path)


def _values(axis, result: Comparison) -> None:
    a, b = result.theory, result.simulation
    draw_band(axis, result.t, a.mean, a.error, BLUE, "theory", alpha=0.3)
    axis.errorbar(result.t, b.mean, BAND * np.nan_to_num(b.error), color=ORANGE, fmt="o", markersize=3.5, capsize=2,
                  label="simulation")
    axis.legend(title="bands and bars: 2 standard errors\ngrey below: chance (99 %)", fontsize="small", title_fontsize="small")


def _mark_blind(axis, result: Comparison) -> None:
    """Times whose errors could hide a disagreement, as a hatched stretch."""
    t = result.t[result.blind]
    axis.axvspan(t[0], t[-1], facecolor="none", edgecolor="0.7", hatch="//", linewidth=0, zorder=0)
