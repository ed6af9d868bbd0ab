"""Threshold curves: m, and the share of successes, at fixed times against the scanned key; one curve per other setting."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from workbench.plots.style import BAND, Figure, colours, new_figure, save
from workbench.scans.scan import Scan, value_of

_NAMES = {"simulation.dimension": "N", "problem.alpha": r"$\alpha$", "problem.m0": r"$m_0$",
          "algorithm.learning_rate": r"$\eta$"}

MAP_TICKS = 5  # on an axis of a map


def draw(scan: Scan, path: Path | None, against: str | None = None) -> Figure:
    """A column per time; m above, the share of instances below the threshold beneath when there are simulations. A map over two
    keys where they make a plane, unless one is chosen for the axis."""
    shares = bool(np.isfinite(scan.arrays["share"]).any())
    figure = new_figure(0.8 + 3.4 * max(len(scan.times), 1.5), 3.4 * (1 + shares) + 0.4)
    axes = figure.subplots(1 + shares, len(scan.times), sharex=True, sharey="row", squeeze=False)
    if against is None and (plane := scan.plane()):
        _draw_maps(scan, plane, axes)
        return save(figure, path)
    against = against or scan.axis()
    groups = _groups(scan, against)
    settings = list(dict.fromkeys(setting for setting, _, _ in groups))
    palette = dict(zip(settings, colours(len(settings))))       # theory and simulation of one setting share a colour
    x = np.array([_number(value_of(row, against)) for row in scan.rows])
    for column, time in enumerate(scan.times):
        axes[0, column].set_title(f"t = {time:g}")
        axes[-1, column].set_xlabel(_label(against))
        for setting, kind, rows in groups:
            line, colour = "-" if kind == "theory" else "o--", palette[setting]
            axes[0, column].errorbar(x[rows], scan.overlaps[rows, column],
                                     BAND * np.nan_to_num(scan.arrays["m_error"][rows, column]), fmt=line, color=colour,
                                     markersize=4, linewidth=1, capsize=2, label=f"{kind}, {setting}" if setting else kind)
            if shares and kind == "simulation":
                share, low, high = (scan.arrays[name][rows, column] for name in ("share", "share_low", "share_high"))
                bars = np.maximum([share - low, high - share], 0.0)
                axes[1, column].errorbar(x[rows], share, bars, fmt=line, color=colour, markersize=4, linewidth=1, capsize=2)
    axes[0, 0].set_ylabel(f"{_overlap(scan)} (bars: 2 standard errors)")
    if shares:
        axes[1, 0].set_ylabel(f"share with loss < {scan.threshold:g} (95 %)")
    axes[0, -1].legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.01, 1.0))    # beside the panels: curves fill them
    return save(figure, path)


def _draw_maps(scan: Scan, plane: tuple[str, str], axes: np.ndarray) -> None:
    """m, and the share of instances below the threshold, over two keys."""
    (x, across), (y, up) = ((key, np.unique(scan.numeric()[key])) for key in plane)
    column, row = (np.searchsorted(values, scan.numeric()[key]) for key, values in ((x, across), (y, up)))
    m = scan.overlaps
    blank = "" if np.isfinite(m).all() else " (blank: diverged)"
    what = [(m, _overlap(scan) + blank, (np.nanmin(m, initial=np.inf), np.nanmax(m, initial=-np.inf))),
            (scan.arrays["share"], f"share with loss < {scan.threshold:g}", (0.0, 1.0))]
    for line, (values_at, label, (least, most)) in zip(axes, what):
        for k, axis in enumerate(line):
            table = np.full((up.size, across.size), np.nan)
            table[row, column] = values_at[:, k]
            mesh = axis.pcolormesh(across, up, table, shading="nearest", vmin=least, vmax=most)
            axis.set_title(f"t = {scan.times[k]:g}")
            for values, ticks in ((across, axis.set_xticks), (up, axis.set_yticks)):
                ticks(values[::-(-values.size // MAP_TICKS)])      # where there are points, and never at the edge of a panel
        line[0].set_ylabel(_label(y))
        line[0].figure.colorbar(mesh, ax=list(line), label=label)
    for axis in axes[-1]:
        axis.set_xlabel(_label(x))


def _groups(scan: Scan, against: str) -> list[tuple[str, str, np.ndarray]]:
    """(setting, kind, rows) of each curve: rows that differ in the key of the axis alone."""
    found: dict[tuple[str, str], list[int]] = {}
    for i, row in enumerate(scan.rows):
        words = [f"{_label(key)} = {value_of(row, key)}" for key in scan.parameters
                 if key != against and value_of(row, key) is not None]
        found.setdefault((", ".join(words), row.kind), []).append(i)
    return [(setting, kind, np.array(rows)) for (setting, kind), rows in found.items()]


def _overlap(scan: Scan) -> str:
    """What `m` of a table is; of a network, scans.gathering.overlap_size."""
    return "rms overlap of the units" if scan.rows[0].run.has_network else "overlap m"


def _label(key: str) -> str:
    return _NAMES.get(key, key.partition(".")[2])


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else float("nan")
