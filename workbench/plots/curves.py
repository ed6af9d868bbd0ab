"""Curves over time with their error bands, and axes with readable ticks."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import XAxis, YAxis
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullFormatter

from dmft.result.comparison import Curve
from workbench.plots.style import BAND, BLUE

SHORT = 2.3         # on an axis of fewer decades than this 1, 2 and 5 are labelled
MOST_LABELS = 6     # of a logarithmic axis of many decades


def draw_band(axis: Axes, x: np.ndarray, mean: np.ndarray, error: np.ndarray, color: str, label: str = "", style: str = "-",
              alpha: float = 0.25) -> None:
    """Line and band of 2 standard errors over x."""
    band = BAND * np.nan_to_num(error)
    axis.fill_between(x, mean - band, mean + band, color=color, alpha=alpha, linewidth=0)
    axis.plot(x, mean, style, color=color, label=label or None)


def draw_curve(axis: Axes, curve: Curve, eta: float, log: bool, color: str = BLUE, label: str = "", style: str = "-") -> None:
    """Line and band over t."""
    draw_band(axis, curve.t, curve.mean, curve.error, color, label, style, 0.3)
    time_axis(axis, log, eta)


FLAT = 1e-9         # relative span of what is constant up to rounding


def time_axis(axis: Axes, log: bool, eta: float, label: str = "t") -> None:
    """Scale and label the axis of time; `log`: linear up to the first step eta, so that t = 0 is visible, then logarithmic. What is
    constant up to rounding (q on the sphere) is shown as constant. To be called when everything is drawn."""
    axis.set_xlabel(f"${label}$")
    low, high = axis.dataLim.intervaly
    if 0.0 <= high - low < FLAT * abs(high):
        half = 0.05 * abs(high) / (1.0 + 2.0 * axis.get_ymargin())
        axis.update_datalim([(axis.dataLim.x0, high - half), (axis.dataLim.x0, high + half)])
        axis.autoscale_view()  # limits that were set would hide the curves that follow
    if log:
        last = max(axis.dataLim.x1, 2.0 * eta)
        axis.set_xscale("symlog", linthresh=eta, linscale=0.35)
        axis.set_xlim(-0.35 * eta, 1.15 * last)
        time_ticks(axis.xaxis, eta, last)


def time_ticks(axis: XAxis | YAxis, eta: float, last: float) -> None:
    """Ticks of a time axis that is linear below eta: 0, and round times from eta to the last."""
    major, minor = decade_ticks(eta * (1 - 1e-9), last * (1 + 1e-9))
    # On a long axis a label beside eta would touch that of 0.
    roomy = np.log10(last / eta) < 3.0
    _set_ticks(axis, [0.0, *(tick for tick in major if roomy or tick >= 2.0 * eta)], minor)


def _set_ticks(axis: XAxis | YAxis, major: list[float], minor: list[float]) -> None:
    axis.set_major_locator(FixedLocator(major))
    axis.set_minor_locator(FixedLocator(minor))
    axis.set_major_formatter(FuncFormatter(lambda value, _: _plain(value)))
    axis.set_minor_formatter(NullFormatter())


def decade_ticks(low: float, high: float) -> tuple[list[float], list[float]]:
    """Labelled and unlabelled ticks of a logarithmic axis: 1, 2, 5 on a short span, else at most MOST_LABELS decades."""
    first, last = int(np.floor(np.log10(low))), int(np.ceil(np.log10(high)))
    every_tick = [digit * 10.0**power for power in range(first, last + 1) for digit in range(1, 10)]
    inside = [tick for tick in every_tick if low <= tick <= high]
    span = np.log10(high / low)
    digits = (1, 2, 5) if span <= SHORT else (1,)
    every = 1 if span <= SHORT else -(-int(np.ceil(span)) // MOST_LABELS)
    major = [tick for tick in inside if _digit(tick) in digits and _power(tick) % every == 0]
    if len(major) < 2:          # so short a span is nearly linear
        major = [float(tick) for tick in MaxNLocator(3, steps=[1, 2, 5, 10]).tick_values(low, high) if low <= tick <= high]
    return major, [tick for tick in inside if tick not in major]


def _power(tick: float) -> int:
    return int(np.floor(np.log10(tick) + 1e-9))


def _digit(tick: float) -> int:
    return round(tick / 10.0 ** _power(tick))


def _plain(value: float) -> str:
    """0.05, 1, 200 as they are; powers of ten beyond."""
    if value == 0.0 or 1e-3 <= abs(value) < 1e4:
        return f"{value:g}"
    power = _power(abs(value))
    lead = value / 10.0**power
    return f"$10^{{{power}}}$" if round(lead, 6) == 1 else rf"${lead:g}\cdot 10^{{{power}}}$"


def tidy_ticks(axis: XAxis | YAxis) -> None:
    """Readable labels on a logarithmic axis, at its present limits: 1, 2, 5 in plain numbers on a short span, else decades."""
    low, high = axis.get_view_interval()
    if low > 0:
        major, minor = decade_ticks(low, high)
        _set_ticks(axis, major, minor)


def log_where_positive(axis: Axes, values: np.ndarray) -> None:
    """A logarithmic vertical axis when the values are positive and span more than a decade."""
    good = values[np.isfinite(values)]
    if good.size and good.min() > 0 and good.max() > 10 * good.min():
        axis.set(yscale="log", ylim=(0.5 * good.min(), 1.4 * good.max()))
        tidy_ticks(axis.yaxis)
