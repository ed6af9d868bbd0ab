"""The view of fluctuation and dissipation: response against correlation, and effective temperatures against the lag."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from dmft.result.fdt import FluctuationDissipation
from dmft.result.theory import Theory
from workbench.inspection.aging import shown_waiting_times
from workbench.inspection.titles import solution_text
from workbench.plots.curves import draw_band, time_axis
from workbench.plots.style import BAND, BLACK, CYCLE, Figure, new_figure, save

NOISY = 1.0     # errors above this share of the largest temperature are not drawn


def draw(theory: Theory, path: Path | None) -> Figure:
    """chi against C, T_eff and T_loc against the lag, for several waiting times."""
    found = theory.fdt()
    eta = theory.run.algorithm.first_rate
    figure = new_figure(15.0, 4.8)
    axes = figure.subplots(1, 3)
    shown = [j for j in shown_waiting_times(found.columns) if found.after("T_eff", j)[0].size] or [0]
    for colour, j in zip(CYCLE, shown):
        _parametric(axes[0], found, j, colour)
        for axis, name in zip(axes[1:], ("T_eff", "T_loc")):
            _temperature(axis, found, name, j, colour)
    _bath(axes, found, shown[0])
    axes[0].set(xlabel="$C(t, t_w)$", ylabel=r"$\chi(t, t_w)$", title="slope $-1/T_\\mathrm{eff}$")
    for axis, name, label in zip(axes[1:], ("eff", "loc"), ("secant from $t_w$ on", "local at $t_w$")):
        axis.set_title(f"$T_\\mathrm{{{name}}}$, {label}")
        time_axis(axis, True, eta, r"t - t_w")
        axis.legend(fontsize="small")
    figure.suptitle("\n".join(filter(None, (theory.run.title, solution_text(theory)))), fontsize="medium")
    return save(figure, path)


def _parametric(axis: Axes, found: FluctuationDissipation, j: int, colour: str) -> None:
    """chi against C after waiting time j."""
    C, chi = found.after("C", j)[1], found.after("chi", j)[1]
    axis.plot(C, chi, color=colour, label=f"$t_w = {found.t_w[j]:.4g}$")


def _temperature(axis: Axes, found: FluctuationDissipation, name: str, j: int, colour: str) -> None:
    """A temperature against the lag, as far as it is known to its own size."""
    tau, value, error = found.after(name, j)
    good = BAND * np.nan_to_num(error) < NOISY * np.nanmax(np.abs(value), initial=0.0)
    draw_band(axis, tau[good], value[good], error[good], colour, f"$t_w = {found.t_w[j]:.4g}$")


def _bath(axes: np.ndarray, found: FluctuationDissipation, j: int) -> None:
    """The bath a T at the end, where there is heat: a slope, and a level."""
    bath = found.bath[np.isfinite(found.bath)][-1:]
    if not bath.size or bath[0] <= 0.0:
        return
    C = found.after("C", j)[1]
    axes[0].plot(C, (C[0] - C) / bath[0], "--", color=BLACK, linewidth=1, label=f"$aT = {bath[0]:.3g}$")
    axes[0].legend(fontsize="small")
    for axis in axes[1:]:
        axis.axhline(bath[0], color=BLACK, linestyle="--", linewidth=1, label=f"$aT = {bath[0]:.3g}$")
