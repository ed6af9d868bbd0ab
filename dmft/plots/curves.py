"""Curves over time with their error bands, on logarithmic and linear axes."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import XAxis, YAxis
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from dmft.plots.style import BLUE
from dmft.result.comparison import Curve

LABELS = {"m": "overlap $m$", "loss": "training loss", "mse": "mean square error", "q": "squared norm $q$",
          "nu_hat": r"$\hat\nu$", "mse_fresh": "error on fresh samples"}
SIGMAS = 2.0    # half width of a band


def draw_curve(axis: Axes, curve: Curve, eta: float, log: bool, color: str = BLUE, label: str = "", style: str = "-") -> None:
    """Line and band; on a logarithmic axis against t + eta, so that t = 0 is seen."""
    x = curve.t + (eta if log else 0.0)
    band = SIGMAS * np.nan_to_num(curve.error)
    axis.fill_between(x, curve.mean - band, curve.mean + band, color=color, alpha=0.3, linewidth=0)
    axis.plot(x, curve.mean, style, color=color, label=label or None)
    time_axis(axis, log)


def time_axis(axis: Axes, log: bool, label: str = "t") -> None:
    """Call it when everything is drawn: short spans get ticks of their own, or their labels would overlap."""
    axis.set_xlabel(rf"${label} + \eta$" if log else f"${label}$")
    if log:
        axis.set_xscale("log")
        tidy_ticks(axis.xaxis)


def tidy_ticks(axis: XAxis | YAxis) -> None:
    """Ticks 1, 2, 5 in plain numbers on a logarithmic axis of a short span."""
    low, high = axis.get_view_interval()
    if high < 200 * low:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())


def log_where_positive(axis: Axes, values: np.ndarray) -> None:
    """A logarithmic vertical axis when the values are positive and span more than a decade."""
    good = values[np.isfinite(values)]
    if good.size and good.min() > 0 and good.max() > 10 * good.min():
        axis.set_yscale("log")
