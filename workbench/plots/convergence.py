"""The picture of a convergence study: distances against the parameter, beside curves or residuals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter, NullLocator

from dmft.convergence.axis import EXPECTED, INDEPENDENT, Axis
from dmft.convergence.study import Study
from workbench.plots.curves import draw_band, tidy_ticks, time_axis
from workbench.plots.style import BLACK, Figure, colours, new_figure, save

MARKS = "os^vD<>pP"
PARAMETER = {"samples": "samples $K$", "learning_rate": r"learning rate $\eta$", "blocks_per_level": "blocks per level",
             "mixing": "mixing"}


def draw(study: Study, path: Path | None) -> Figure:
    """One row per axis: distances in norm; in standard errors; and m at several points, or residuals against sweeps."""
    figure = new_figure(17.0, 0.8 + 4.6 * len(study.axes))
    axes = figure.subplots(len(study.axes), 3, squeeze=False)
    for row, axis in zip(axes, study.axes.values()):
        _distances(row[0], axis)
        _in_errors(row[1], axis)
        if axis.residuals is not None:
            _residuals(row[2], axis)
        else:
            _curves(row[2], axis, study.run.algorithm.first_rate)
    run = study.run
    what = f"convergence of {run.summary}, {run.theory.replicas} replicas"
    figure.suptitle(f"{run.title}\n{what}" if run.title else what)
    return save(figure, path)


def _parameter_axis(panel: Axes, axis: Axis) -> None:
    panel.set(xscale="log", xlabel=PARAMETER[axis.name])
    panel.xaxis.set_minor_locator(NullLocator())
    panel.xaxis.set_minor_formatter(NullFormatter())
    # Labels closer than a fifth of a decade would overlap: only the first of them is shown.
    shown: list[float] = []
    for value in sorted(axis.values):
        if not shown or value > 1.55 * shown[-1]:
            shown.append(float(value))
    panel.set_xticks(axis.values, [f"{value:g}" if value in shown else "" for value in axis.values])


def _distances(panel: Axes, axis: Axis) -> None:
    """Relative distances of all quantities; dashed: the expected order."""
    measure = "replica_distance" if axis.name == "samples" else "distance"
    shown = np.zeros(0)
    for k, (q, colour) in enumerate(zip(axis.quantities, colours(len(axis.quantities)))):
        distance = np.where(axis.table[measure][q] > 0, axis.table[measure][q], np.nan)
        if np.isfinite(distance).any():
            order, error = axis.orders[q]
            note = f"  {order:.2f}" + (rf" $\pm$ {error:.2f}" if np.isfinite(error) else "") if np.isfinite(order) else ""
            panel.plot(axis.values, distance, MARKS[k] + "-", color=colour, markersize=5, linewidth=1.2,
                       label=f"${q}$".replace("nu_hat", r"\hat\nu").replace("delta_nu", r"\delta\nu").replace("mu", r"\mu")
                       .replace("$loss$", "loss") + note)
            shown = np.append(shown, distance[np.isfinite(distance)])
    if axis.name in EXPECTED and shown.size:
        power = -EXPECTED[axis.name] if axis.name == "samples" else EXPECTED[axis.name]
        guide = shown.max() * (axis.values / axis.values[0]) ** power * 1.6
        panel.plot(axis.values, guide, "--", color=BLACK, linewidth=1, label=f"slope {power:g}")
    panel.set_yscale("log")
    tidy_ticks(panel.yaxis)
    panel.set_ylabel("relative distance of one replica" if axis.name == "samples" else "relative distance from the finest")
    _parameter_axis(panel, axis)
    if shown.size:
        fitted = any(np.isfinite(order) for order, _ in axis.orders.values())
        panel.legend(fontsize="x-small", title="fitted order" if fitted else None, title_fontsize="x-small", loc="upper left",
                     bbox_to_anchor=(1.0, 1.0))


def _in_errors(panel: Axes, axis: Axis) -> None:
    last = axis.finest
    for k, (q, colour) in enumerate(zip(axis.quantities, colours(len(axis.quantities)))):
        panel.plot(axis.values[:last], axis.table["z_rms"][q][:last], MARKS[k] + "-", color=colour, markersize=5, linewidth=1.2)
    panel.axhline(1.0, color=BLACK, linestyle="--", linewidth=1)
    panel.set_yscale("log")
    tidy_ticks(panel.yaxis)
    panel.set_ylabel(f"rms difference / {'its standard error' if axis.name in INDEPENDENT else 'error bar of the finest'}")
    _parameter_axis(panel, axis)


def _curves(panel: Axes, axis: Axis, eta: float) -> None:
    """m (V from a random start) at every point, and in the limit of small steps, less that of the finest point."""
    name, error = axis.main, f"{axis.main}_error"
    finest = axis.curves[name][axis.finest]
    lines = [(f"{axis.name} = {value:g}", axis.curves[name][i], axis.curves[error][i]) for i, value in enumerate(axis.values)]
    if name in axis.limit:
        lines.append((r"limit $\eta \to 0$", axis.limit[name], axis.limit[error]))
    for i, ((label, values, errors), color) in enumerate(zip(lines, colours(len(lines)))):
        draw_band(panel, axis.t, values - finest, errors, color, label, ("-", "--", "-.", ":")[i % 4], 0.2)
    panel.set_ylabel(f"${name}$ minus ${name}$ of the finest (bands: 2 standard errors)")
    time_axis(panel, True, eta)
    panel.legend(fontsize="small")


def _residuals(panel: Axes, axis: Axis) -> None:
    assert axis.residuals is not None
    for value, line, colour in zip(axis.values, axis.residuals, colours(len(axis.values))):
        panel.plot(np.arange(1, len(line) + 1), line, color=colour, label=f"{axis.name} = {value:g}")
    panel.set(yscale="log", xlabel="sweep", ylabel="residual before mixing (worst replica)")
    panel.legend(fontsize="small")
