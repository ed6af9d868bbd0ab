"""The picture of a one-pass result: every statistic over time."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dmft.result.comparison import Curve
from workbench.inspection.by_component import mirrored, varies
from workbench.plots.curves import draw_curve
from workbench.plots.style import Figure, colours, new_figure, save

PANEL_COLUMNS = 3


MOST_NAMED = 24         # a panel with more lines has no legend


def draw(curves: dict[str, Curve], title: str, path: Path | None) -> Figure:
    """One panel per statistic, its components as lines; of a symmetric matrix the upper half. What stays constant is only named."""
    panels: dict[str, list[str]] = {}
    for name in curves:
        if not mirrored(name, curves):
            panels.setdefault(name.split("[")[0], []).append(name)
    still = [panel for panel, names in panels.items() if not any(varies(curves[name].mean) for name in names)]
    if len(still) < len(panels):
        panels = {panel: names for panel, names in panels.items() if panel not in still}
        title = "\n".join(filter(None, (title, f"constant, not drawn: {', '.join(still)}" if still else "")))
    if any(np.any(curve.error > 0) for curve in curves.values()):
        title += "; bands: 2 standard errors"
    columns = min(PANEL_COLUMNS, len(panels))
    rows = -(-len(panels) // columns)
    figure = new_figure(1.0 + 5.0 * columns, 0.5 + 3.8 * rows)
    axes = figure.subplots(rows, columns, squeeze=False)
    for axis, (panel, names) in zip(axes.flat, panels.items()):
        for name, colour in zip(names, colours(len(names))):
            draw_curve(axis, curves[name], 0.0, False, colour, name if len(names) > 1 else "")
        axis.set_ylabel(panel)
        if not any(np.isfinite(curves[name].mean).any() for name in names):
            axis.text(0.5, 0.5, "nothing finite", transform=axis.transAxes, ha="center")
        if 1 < len(names) <= MOST_NAMED:
            axis.legend(fontsize="x-small" if len(names) > 6 else "small", ncols=1 + (len(names) - 1) // 6)
    for axis in axes.flat[len(panels):]:
        axis.set_visible(False)
    figure.suptitle(title)
    return save(figure, path)
