"""The ODE of one-pass SGD (lines) against ensembles (bars): one panel per statistic, one line per entry."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dmft.model.curves import components
from workbench.inspection.by_component import varies
from workbench.plots.style import BAND, Figure, colours, new_figure, save

_MAX_LINES = 12


def _entries(array: np.ndarray, name: str) -> list[tuple[str, np.ndarray]]:
    """Entries of a statistic over time by label, a symmetric matrix's lower half left out."""
    return list(components(name, array, 1, ("Q", "R")).items())[:_MAX_LINES]


def _panels(names: list[str]):
    columns = min(2, len(names))
    rows = -(-len(names) // columns)
    figure = new_figure(5.0 * columns, 3.2 * rows + 0.3)
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for extra in axes[len(names) :]:
        extra.set_axis_off()
    return figure, axes


def _finish(axis, name: str, lines: int) -> None:
    axis.set(xlabel="$t$", ylabel=name)
    if lines > 1:
        axis.legend(fontsize=7 if lines <= 6 else 6, ncols=1 + (lines - 1) // 6)
    if name == "risk":
        axis.set_yscale("log")


def draw_comparison(pairs, what: str, path: Path) -> Figure:
    """Statistics that vary, of pairs of an ODE and an ensemble, in a picture that says `what` the ODE is. Lines: the ODEs. Bars:
    mean and two standard errors of each ensemble, one marker per file."""
    odes, ensembles = list({id(ode): ode for ode, _ in pairs}.values()), [ensemble for _, ensemble in pairs]
    names = [name for name in odes[0].arrays if name in ensembles[0].arrays
             and any(varies(one.arrays[name]) for one in (*odes, *ensembles))]
    figure, axes = _panels(names)
    for axis, name in zip(axes, names):
        lines = _entries(odes[0].arrays[name], name)
        shades = colours(len(lines))
        for style, ode in zip(("-", "--", ":", "-."), odes):
            for i, (label, values) in enumerate(_entries(ode.arrays[name], name)):
                axis.plot(ode.t, values, style, color=shades[i], linewidth=1.2, label=label if ode is odes[0] else None)
        for marker, ensemble in zip("os^v", ensembles):
            mean, error = ensemble.mean(), ensemble.error()
            both = zip(_entries(mean.arrays[name], name), _entries(error.arrays[name], name))
            for i, ((_, m), (_, e)) in enumerate(both):
                every = slice(None, None, max(1, len(ensemble.t) // 15))
                axis.errorbar(ensemble.t[every], m[every], BAND * e[every], fmt=marker, markersize=3, capsize=2,
                              linewidth=0.8, color=shades[i])
        _finish(axis, name, len(lines))
    sources = ", ".join(f"{e.source} d = {e.attrs.get('dimension')}" for e in ensembles)
    figure.suptitle(f"lines: {what}; bars: {sources}, 2 standard errors", fontsize=9)
    return save(figure, path)
