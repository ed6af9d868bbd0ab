"""The paper's panels: theory (line, band of 2 standard errors) over simulation (points with bars, or single runs)."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dmft.model.runfile import Run
from dmft.statics.limits import known_limits
from reproduction.paper.computations import Data
from reproduction.paper.figure import Panel, PaperFigure
from workbench.plots.aging import draw_correlation
from workbench.plots.curves import tidy_ticks, time_axis
from workbench.plots.style import (
    BAND,
    BLACK,
    BLUE,
    GREEN,
    ORANGE,
    PINK,
    Line2D,
    Patch,
    new_figure,
    save,
    scale_colour,
    tinted,
)

# algorithm: colour, marker and line style, after the paper's red triangles, green squares and blue dots
APPEARANCE = {"gd": (ORANGE, "^", "-"), "sgd": (GREEN, "s", ":"), "persistent_sgd": (BLUE, "o", "--"),
         "langevin": (PINK, "D", "-")}
SCAN_MARKERS = "os^DvPX"
PAPER_LABELS = {"m": "magnetization $m$", "loss": "training loss", "mse": "mean square error", "mse_fresh": "mean square error",
          "error_fresh": "share of wrong labels"}
FLOOR = 1e-9  # lower end of logarithmic axes of losses: smaller ones show the single precision of the data
DRAWN_TIMES = 28  # simulation points on a curve
FOUND_IT = 0.999  # a single run whose overlap is beyond this has found the teacher


def draw(figure: PaperFigure, data: Mapping[str, Data], caption: str, paths: list[Path]) -> None:
    """Draw all panels and, unless it is empty, the caption below them; written to each of the paths."""
    panels = [panel for panel in figure.panels if any(name in data and _has(data[name], panel) for name in panel.series)]
    rows = -(-len(panels) // figure.columns)
    lines = textwrap.wrap(caption, 64 * figure.columns)
    below = 0.17 * len(lines) + 0.12 if lines else 0.0  # inches of caption
    height = 3.3 * rows + below
    picture = new_figure(4.3 * figure.columns, height)
    picture.set_layout_engine("constrained", rect=(0.0, below / height, 1.0, 1.0 - below / height))
    axes = picture.subplots(rows, figure.columns, squeeze=False, sharex=False).ravel()
    for ax in axes[len(panels):]:
        ax.set_visible(False)
    for ax, panel in zip(axes, panels):
        shown = {name: data[name] for name in panel.series if name in data and _has(data[name], panel)}
        _panel(ax, panel, panel.observable, shown)
        if panel.title:
            ax.set_title(panel.title, fontsize=10)
        if panel.inset:
            _make_room(ax, panel.observable)
            inset = ax.inset_axes((0.17, 0.45, 0.36, 0.32) if panel.observable == "m" else (0.16, 0.13, 0.36, 0.24))
            _panel(inset, panel, panel.inset, shown, small=True)
        if panel.legend:
            _legend(ax, panel, shown)
    if lines:
        picture.text(0.01, 0.06 / height, "\n".join(lines), fontsize=8, va="bottom", ha="left", linespacing=1.25)
    for path in paths:
        save(picture, path)


def _has(found: Data, panel: Panel) -> bool:
    """Whether there is what a panel shows of a theory, which is not kept of every one."""
    if panel.statistic == "solutions":
        return found.theory is not None and bool(found.theory.solutions)
    return panel.statistic != "correlation" or (found.theory is not None and found.theory.columns is not None)


def _panel(ax, panel: Panel, observable: str, shown: Mapping[str, Data], small: bool = False) -> None:
    log_y = panel.log_y or (small and observable == "loss")
    if panel.statistic == "correlation":
        theory = next(iter(shown.values())).theory
        assert theory is not None
        draw_correlation(ax, theory.columns, theory.run.algorithm.first_rate)
        return ax.tick_params(which="both", labelsize=8)
    for found in shown.values():
        if panel.statistic in ("instances", "solutions"):
            (_instances if panel.statistic == "instances" else _solutions)(ax, found, observable)
            continue
        if found.simulation is not None:
            _simulation(ax, found, observable, panel, small)
        if found.theory is not None:
            _theory(ax, found, observable, log_y)
    eta = min(_run(found).algorithm.first_rate for found in shown.values())
    time_axis(ax, True, eta)
    if log_y:
        ax.set_yscale("log")
        low = ax.get_ylim()[0]
        ax.set_ylim(bottom=max(low, FLOOR))
        tidy_ticks(ax.yaxis)
    elif observable == "m":
        ax.set_ylim(top=1.03)
    ax.set_xlabel("$t$", fontsize=8 if small else 10, labelpad=1 if small else 4)
    ax.set_ylabel(PAPER_LABELS.get(observable, observable), fontsize=7 if small else 10, labelpad=1 if small else 4)
    ax.tick_params(which="both", labelsize=6 if small else 8)
    ax.grid(alpha=0.2, linewidth=0.5)


def _make_room(ax, observable: str) -> None:
    """Extend the axis below falling errors, for the inset, and above them, for the legend; rising overlaps leave both free."""
    if observable != "m":
        low, high = ax.get_ylim()
        ticks = [tick for tick in ax.get_yticks() if 0.0 <= tick <= high]
        ax.set_ylim(low - 0.5 * (high - low), high + 0.5 * (high - low))
        ax.set_yticks(ticks)


def _run(found: Data) -> Run:
    result = found.simulation if found.simulation is not None else found.theory
    assert result is not None
    return result.run


def appearance(found: Data) -> tuple[str, str, Any]:
    """Colour, marker and line style of a series: by its algorithm, or by its place in a scan."""
    colour, marker, line = APPEARANCE[_run(found).algorithm.kind]
    shade = found.series.shade
    if shade is not None:
        colour = scale_colour(0.92 * shade)
        return colour, SCAN_MARKERS[round(shade * (len(SCAN_MARKERS) - 1))], line
    return tinted(colour, found.series.tint), marker, line


def drawn_places(x: np.ndarray) -> np.ndarray:
    """Indices of about POINTS of the times x > 0, equally spaced on a logarithmic axis."""
    wanted = np.linspace(np.log(x[0]), np.log(x[-1]), DRAWN_TIMES)
    return np.unique(np.abs(np.log(x)[None, :] - wanted[:, None]).argmin(axis=1))


def _simulation(ax, found: Data, observable: str, panel: Panel, small: bool) -> None:
    sim, (colour, marker, _) = found.simulation, appearance(found)
    assert sim is not None
    x, curves = sim.t, sim.curves[observable]
    keep = drawn_places(x + sim.run.algorithm.first_rate)
    size = 1.6 if small else 3.2
    if panel.statistic == "median":
        values, low, high = (curves[kind] for kind in ("median", "low", "high"))
        ax.plot(x, values, color=colour, linewidth=0.6, alpha=0.6)
        ax.plot(x[keep], values[keep], marker, color=colour, markersize=size, markeredgewidth=0)
        if len(panel.series) <= 3:
            ax.fill_between(x, low, high, color=colour, alpha=0.12, linewidth=0)
        return
    mean, error = curves["mean"], BAND * np.nan_to_num(curves["error"])
    ax.errorbar(x[keep], mean[keep], error[keep], fmt=marker, color=colour, markersize=size, markerfacecolor="white",
                markeredgewidth=0.8, elinewidth=0.7, capsize=0 if small else 1.5, linestyle="none")
    if found.theory is None or sim.t[-1] > found.theory.t[-1]:
        ax.plot(x, mean, color=colour, linewidth=0.5, alpha=0.5)
    if panel.overlaps_line and not small:
        ax.plot(x, sim.curves["mse"]["mean"], color=BLACK, linewidth=0.9)


def _theory(ax, found: Data, observable: str, log_y: bool) -> None:
    theory, (colour, _, line) = found.theory, appearance(found)
    assert theory is not None
    name = observable.removesuffix("_fresh")
    if name not in theory.curves:
        return
    mean, error = theory.curves[name]["mean"], BAND * np.nan_to_num(theory.curves[name]["error"])
    x, floor = theory.t, FLOOR if log_y else -np.inf
    ax.fill_between(x, np.maximum(mean - error, floor), mean + error, color=colour, alpha=0.28, linewidth=0)
    ax.plot(x, mean, line, color=colour, linewidth=1.6)
    limits = known_limits(theory.run)
    if name in limits:
        ax.axhline(limits[name], color=colour, linestyle="--", linewidth=0.8)


def _instances(ax, found: Data, observable: str) -> None:
    """One line per run: blue where it found the teacher by the end (m = 1 to rounding), vermilion where it did not."""
    sim = found.simulation
    assert sim is not None and observable == "m"
    found_it = sim.lines[:, -1] > FOUND_IT
    for curve, good in sorted(zip(sim.lines, found_it), key=lambda pair: bool(pair[1])):
        ax.plot(sim.t, curve, color=BLUE if good else ORANGE, linewidth=0.7, alpha=0.6)


def _solutions(ax, found: Data, observable: str) -> None:
    """One line per solution of the theory."""
    theory, (colour, _, line) = found.theory, appearance(found)
    assert theory is not None
    for curve in theory.solutions[observable]:
        ax.plot(theory.t, curve, line, color=colour, linewidth=0.9, alpha=0.8)


def _legend(ax, panel: Panel, shown: Mapping[str, Data]) -> None:
    handles: list[Any] = []
    if panel.statistic == "correlation":
        return  # which has its own
    if panel.statistic == "solutions":
        handles = [Line2D([], [], color=appearance(found)[0], linestyle=appearance(found)[2], label=found.series.label)
                   for found in shown.values()]
    elif panel.statistic == "instances":
        handles = [Line2D([], [], color=BLUE, label="m = 1 at the end"),
                         Line2D([], [], color=ORANGE, label="stuck")]
    else:
        for found in shown.values():
            colour, marker, line = appearance(found)
            handles.append(Line2D([], [], color=colour, marker=marker, linestyle=line if found.theory is not None else "none",
                                  markersize=4, label=found.series.label))
        if any(found.theory is not None for found in shown.values()):
            handles.append(Patch(color="0.5", alpha=0.4, label="theory: line, band of 2 s.e."))
            handles.append(Line2D([], [], color="0.4", marker="o", linestyle="none", markersize=4, markerfacecolor="white",
                                  label=f"simulation: {panel.statistic}"))
        if panel.overlaps_line:
            handles.append(Line2D([], [], color=BLACK, label="(B.8) of each run, averaged"))
    place = "upper right" if panel.observable == "mse_fresh" else "best"
    ax.legend(handles=handles, fontsize=6.5 if len(handles) > 5 else 7.5, loc=place, framealpha=0.8)
