"""Heat maps of the two-time kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize, TwoSlopeNorm

from dmft.result import Kernels

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
    axis.figure.colorbar(mesh, ax=axis, shrink=0.8)


def _colours(values: np.ndarray) -> dict[str, Any]:
    """Colours of the bulk of the values: a few large entries near the origin must not hide the rest. Two colours with white
    at zero where both signs matter."""
    good = values[np.isfinite(values)]
    if not good.size:
        return {"norm": Normalize(0, 1), "cmap": "cividis"}
    low, high = np.quantile(good, (0.01, 0.99))
    if low < -0.05 * high < 0:
        return {"norm": TwoSlopeNorm(0.0, low, high), "cmap": "PuOr"}
    return {"norm": Normalize(min(low, high - 1e-12), high), "cmap": "cividis"}
