"""The aging view: how correlation and response depend on the time since a waiting time t_w."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from dmft.result.theory import Kernels
from workbench.inspection.aging import correlation_slice, integrated_response, waiting_times
from workbench.plots.curves import time_axis
from workbench.plots.style import BAND, CYCLE


def draw_correlation(axis: Axes, kernels: Kernels, eta: float) -> None:
    """C(t_w + tau, t_w) against tau, for several waiting times t_w."""
    for color, w in zip(CYCLE, waiting_times(kernels)):
        tau, value, error = correlation_slice(kernels, w)
        _line(axis, tau, value, error, color, f"$t_w = {kernels.t[w]:.3g}$")
    axis.set_ylabel(r"$C(t_w + \tau, t_w)$")
    time_axis(axis, True, eta, r"\tau")
    axis.legend(fontsize="small")


def draw_response(axis: Axes, kernels: Kernels, eta: float) -> None:
    """Response at t_w + tau to a force that acts from t_w on."""
    for color, w in zip(CYCLE, waiting_times(kernels)):
        tau, value, error = integrated_response(kernels, w)
        _line(axis, tau, value, error, color, f"$t_w = {kernels.t[w]:.3g}$")
    axis.set_ylabel(r"$\int_{t_w}^{t_w+\tau} R(t_w + \tau, s)\, \mathrm{d}s$")
    time_axis(axis, True, eta, r"\tau")
    axis.legend(fontsize="small")


def _line(axis: Axes, x: np.ndarray, value: np.ndarray, error: np.ndarray, color: str, label: str) -> None:
    band = BAND * np.nan_to_num(error)
    axis.fill_between(x, value - band, value + band, color=color, alpha=0.25, linewidth=0)
    axis.plot(x, value, color=color, label=label)
