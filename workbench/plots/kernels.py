"""Heat maps of the two-time kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize, SymLogNorm

from dmft.result.theory import Kernels
from workbench.plots.curves import decade_ticks, time_ticks

TITLES = {"M_C": "$M_C(t, t')$", "M_R": "$M_R(t, t')$", "C": "$C(t, t')$", "R": "$R(t, t')$"}


def draw_kernel(axis: Axes, kernels: Kernels, name: str, eta: float) -> None:
    """One kernel over t' (right) and t (up); responses live below the diagonal only."""
    values = getattr(kernels, name)
    if name in ("M_R", "R"):
        values = np.where(np.tri(len(values), k=-1, dtype=bool), values, np.nan)
    t = kernels.t
    last = float(t[-1])
    if kernels.exact.all():
        # Saved times are not equidistant: each reaches half-way to its neighbours, in the logarithm after the first step.
        middles = np.where(t[:-1] > 0, np.sqrt(t[1:] * t[:-1]), 0.5 * (t[1:] + t[:-1]))
        edges = np.concatenate(([-0.35 * eta if t[0] == 0 else t[0]], middles, [last * last / middles[-1]]))
    else:  # averages over cells of t', each from its first time to that of the next
        edges = np.append(t, last * last / t[-2])
    colours = colours_of(values)
    mesh = axis.pcolormesh(edges, edges, values, rasterized=True, **colours)
    axis.set_xscale("symlog", linthresh=eta, linscale=0.35)
    axis.set_yscale("symlog", linthresh=eta, linscale=0.35)
    averages = "" if kernels.exact.all() else ", averages over cells of $t'$"
    axis.set(title=f"{TITLES[name]}{averages}", xlabel="$t'$", ylabel="$t$", xlim=(edges[0], edges[-1]), ylim=(edges[0], edges[-1]))
    axis.set_box_aspect(1)
    time_ticks(axis.xaxis, eta, last)
    time_ticks(axis.yaxis, eta, last)
    bar = axis.figure.colorbar(mesh, ax=axis, shrink=0.8)
    _few_labels(bar, colours["norm"])


def _few_labels(bar: Any, norm: Normalize) -> None:
    """Decades on a logarithmic colour bar, so that labels do not collide; around zero the largest ones alone."""
    if isinstance(norm, SymLogNorm):
        assert norm.vmin is not None and norm.vmax is not None
        decades = decade_ticks(3.0 * norm.linthresh, norm.vmax)[0][-3:]
        bar.set_ticks([*(-tick for tick in reversed(decades) if -tick >= norm.vmin), 0.0, *decades])
    elif isinstance(norm, LogNorm):
        assert norm.vmin is not None and norm.vmax is not None
        bar.set_ticks(decade_ticks(norm.vmin, norm.vmax)[0])
    else:
        return
    bar.ax.yaxis.set_major_formatter(lambda value, _: f"{value:.3g}")
    bar.minorticks_off()


def colours_of(values: np.ndarray) -> dict[str, Any]:
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
