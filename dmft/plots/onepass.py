"""The picture of a one-pass result: every statistic over time."""

from __future__ import annotations

from pathlib import Path

from dmft.plots.curves import draw_curve
from dmft.plots.style import CYCLE, new_figure, save
from dmft.result.comparison import Curve

COLUMNS = 3


def draw(curves: dict[str, Curve], title: str, path: Path) -> None:
    """One panel per statistic, its components as lines."""
    panels: dict[str, list[str]] = {}
    for name in curves:
        panels.setdefault(name.split("[")[0], []).append(name)
    columns = min(COLUMNS, len(panels))
    rows = -(-len(panels) // columns)
    figure = new_figure(1.0 + 5.0 * columns, 0.5 + 3.8 * rows)
    axes = figure.subplots(rows, columns, squeeze=False)
    for axis, (panel, names) in zip(axes.flat, panels.items()):
        for k, name in enumerate(names):
            draw_curve(axis, curves[name], 0.0, False, CYCLE[k % len(CYCLE)], name if 1 < len(names) <= 8 else "",
                       ("-", "--", ":", "-.")[k // len(CYCLE) % 4])
        axis.set_ylabel(panel)
        if 1 < len(names) <= 8:
            axis.legend(fontsize="small")
    for axis in axes.flat[len(panels):]:
        axis.set_visible(False)
    figure.suptitle(title)
    save(figure, path)
