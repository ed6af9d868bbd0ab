"""Theory (line and band) against simulation (points and bars), with their distance in standard errors below."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dmft.plots.style import BLACK, BLUE, ORANGE, new_figure, save
from dmft.result.comparison import Comparison

LABELS = {"m": "overlap m", "loss": "training loss", "mse": "mean square error", "q": "squared norm q"}


def draw(comparisons: Sequence[Comparison], learning_rate: float, title: str, path: Path) -> None:
    """One column per observable; t + learning_rate on a logarithmic axis, so that t = 0 is seen."""
    figure = new_figure(1.0 + 5.0 * len(comparisons), 5.5)
    axes = figure.subplots(2, len(comparisons), sharex=True, squeeze=False, height_ratios=(3, 1))
    for (upper, lower), result in zip(axes.T, comparisons):
        x = result.t + learning_rate
        error = 2.0 * np.nan_to_num(result.theory.error)
        upper.fill_between(x, result.theory.mean - error, result.theory.mean + error, color=BLUE, alpha=0.3,
                           linewidth=0)
        upper.plot(x, result.theory.mean, color=BLUE, label="theory")
        upper.errorbar(x, result.simulation.mean, 2.0 * np.nan_to_num(result.simulation.error), color=ORANGE, fmt="o",
                       markersize=3.5, capsize=2, label="simulation")
        upper.set_ylabel(LABELS.get(result.observable, result.observable))
        upper.legend(title="bands and bars: 2 standard errors")
        lower.axhspan(-2, 2, color=BLACK, alpha=0.08, linewidth=0)
        lower.axhline(0.0, color=BLACK, linewidth=0.8)
        lower.plot(x, result.z, "o", color=ORANGE, markersize=3.5)
        lower.set_ylabel("z")
        lower.set_xlabel(r"$t + \eta$")
        lower.set_xscale("log")
    if title:
        figure.suptitle(title)
    save(figure, path)
