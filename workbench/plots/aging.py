"""The aging view: how correlation and response depend on the time since a waiting time t_w."""

from __future__ import annotations

from matplotlib.axes import Axes

from dmft.result.theory import Columns
from workbench.inspection.aging import shown_waiting_times
from workbench.plots.curves import draw_band, time_axis
from workbench.plots.style import CYCLE


def draw_correlation(axis: Axes, columns: Columns | None, eta: float) -> None:
    """C(t_w + tau, t_w) against tau, for several waiting times t_w."""
    _draw(axis, columns, "C", eta, r"$C(t_w + \tau, t_w)$")


def draw_response(axis: Axes, columns: Columns | None, eta: float) -> None:
    """Response at t_w + tau to a force that acts from t_w on."""
    _draw(axis, columns, "chi", eta, r"$\chi(t_w + \tau, t_w) = \int_{t_w}^{t_w+\tau} R(t_w + \tau, s)\, \mathrm{d}s$")


def _draw(axis: Axes, columns: Columns | None, name: str, eta: float, label: str) -> None:
    """A column against the time since its waiting time, for several of these."""
    axis.set_ylabel(label)
    if columns is None:
        axis.text(0.5, 0.5, "a file of an earlier version:\nno columns at waiting times", ha="center", transform=axis.transAxes)
        return
    for color, j in zip(CYCLE, shown_waiting_times(columns)):
        draw_band(axis, *columns.after(name, j), color, f"$t_w = {columns.t_w[j]:.4g}$")
    time_axis(axis, True, eta, r"\tau")
    axis.legend(fontsize="small")
