"""Heat maps of the two-time kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize, SymLogNorm

from dmft.plots.curves import tidy_ticks
from dmft.result.theory import Kernels

TITLES = {"M_C": "$M_C(t, t')$", "M_R": "$M_R(t, t')$", "C": "$C(t, t')$", "R": "$R(t, t')$"}


def draw_kernel(axis: Axes, kernels: Kernels, name: str, eta: float) -> None:
    """One kernel over t' + eta (right) and t + eta (up); responses live below the diagonal only."""
    values = getattr(kernels, name)
    if name in ("M_R", "R"):
        values = np.where(np.tri(len(values), k=-1, dtype=bool), values, np.nan)
    x = kernels.t + eta
    colours = _colours(values)
    # Saved times are not equidistant: cells reach half-way to their neighbours, in the logarithm.
    edges = np.concatenate(([x[0] / np.sqrt(x[1] / x[0])], np.sqrt(x[1:] * x[:-1]), [x[-1] * np.sqrt(x[-1] / x[-2])]))
    mesh = axis.pcolormesh(edges, edges, values, rasterized=True, **colours)
    axis.set(xscale="log", yscale="log", aspect="equal", title=TITLES[name], xlabel=r"$t' + \eta$", ylabel=r"$t + \eta$")
    tidy_ticks(axis.xaxis)
    tidy_ticks(axis.yaxis)
    axis.figure.colorbar(mesh, ax=axis, shrink=0.8)


def _colours(values: np.ndarray) -> dict[str, Any]:
    """Kernels span decades near the origin: a logarithmic scale where the values do, linear near zero if they change sign;
    two colours with white at zero where both signs matter."""
    good = values[np.isfinite(values)]
    if not good.size or good.min() == good.max():
        return {"norm": Normalize(0, 1), "cmap": "cividis"}
    low, middle, high = np.quantile(good, (0.02, 0.5, 1.0))
    if high < 20 * abs(middle) or high <= 0:
        return {"norm": Normalize(good.min(), high), "cmap": "cividis"}
    if low > 1e-4 * high:
        return {"norm": LogNorm(low, high), "cmap": "cividis"}
    bound = max(high, -good.min())
    signed = -good.min() > 0.02 * high
    return {"norm": SymLogNorm(0.01 * high, vmin=-bound if signed else 0.0, vmax=bound), "cmap": "PuOr" if signed else "cividis"}
