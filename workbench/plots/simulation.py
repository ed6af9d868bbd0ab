"""The picture of a simulation: every instance, mean, median, and the share that has found the teacher."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from dmft.model.curves import KNOWN, label_of
from dmft.result.comparison import Curve
from sgd_sim.result import SOLVED, SimulationResult
from workbench.plots.curves import draw_curve, log_where_positive, time_axis
from workbench.plots.style import BLACK, BLUE, GREEN, ORANGE, Figure, new_figure, save

MOST_LINES = 200


def draw(result: SimulationResult, path: Path | None) -> Figure:
    """Upper row on logarithmic, lower on linear time: m, loss, share of instances below thresholds of the loss, observables."""
    eta = result.run.algorithm.first_rate
    own = [name for name in result.curves if name not in KNOWN or KNOWN[name].value]
    figure = new_figure(15.0 + 5.0 * len(own), 8.0)
    axes = figure.subplots(2, 3 + len(own))
    for row, log in zip(axes, (True, False)):
        for axis, name in zip((*row[:2], *row[3:]), ("m", "loss", *own)):
            _instances(axis, result, name, eta, log)
        _shares(row[2], result, eta, log)
    run = result.run
    what = (f"{run.summary}, N = {run.simulation.dimension}, "
            f"{result.instances} instances, {int(result.diverged.sum())} diverged; bands: 2 standard errors of the mean")
    figure.suptitle(f"{run.title}\n{what}" if run.title else what)
    return save(figure, path)


def _instances(axis: Axes, result: SimulationResult, name: str, eta: float, log: bool) -> None:
    values = result.curve(name)
    axis.plot(result.t, values[:MOST_LINES].T, color=BLACK, alpha=max(0.08, min(0.5, 8.0 / len(values))), linewidth=0.7)
    draw_curve(axis, Curve(result.t, result.mean()[name], result.error()[name], result.instances), eta, log, BLUE, "mean")
    axis.plot(result.t, result.median()[name], "--", color=ORANGE, label="median")
    axis.set_ylabel(label_of(name, result.attrs))
    axis.plot([], [], color=BLACK, alpha=0.5, linewidth=0.7, label="instances")
    if name == "loss":
        log_where_positive(axis, values)
    axis.legend(fontsize="small")


def _shares(axis: Axes, result: SimulationResult, eta: float, log: bool) -> None:
    thresholds = sorted({SOLVED, *_decades_below(result.loss)}, reverse=True)
    for color, style, threshold in zip((BLUE, ORANGE, GREEN), ("-", "--", ":"), thresholds):
        share = result.share_below(threshold)
        axis.fill_between(result.t, share.low, share.high, color=color, alpha=0.2, linewidth=0)
        axis.plot(result.t, share.share, style, color=color, label=f"loss < {threshold:g}")
    axis.set(ylim=(-0.03, 1.03), ylabel="share of instances (95 % Wilson)")
    time_axis(axis, log, eta)
    axis.legend(fontsize="small")


def _decades_below(loss: np.ndarray) -> list[float]:
    """Thresholds of the loss that divide the instances: powers of ten around the median at the last time."""
    last = loss[:, -1][np.isfinite(loss[:, -1])]
    middle = float(np.median(last)) if last.size else 0.0
    if middle <= SOLVED:
        return [1e-3]
    power = np.floor(np.log10(middle))
    return [10.0 ** (power + 1), 10.0**power]
