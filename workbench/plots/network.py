"""The picture of a network: overlaps m and C, errors, and the matrix of overlaps at the end; of a theory or of a simulation."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from dmft.model.curves import NETWORK_KNOWN
from dmft.model.runfile import Run
from dmft.result.comparison import Curve
from workbench.inspection.by_component import compared
from workbench.plots.curves import draw_curve
from workbench.plots.style import BLACK, CYCLE, Figure, colours, new_figure, save

NAMED_CURVES = 9  # curves of a panel that are named
STYLES = ("-", "--", "-.", ":")  # by turns, so that curves on top of each other are both seen


def draw(run: Run, curves: Mapping[str, Curve], what: str, path: Path | None) -> Figure:
    """Four panels: m, C(t,t), errors, and m at the last time; a column more for what is trained besides. what: the curves are
    means over."""
    trained = [name for name in compared(run) if name in ("a", "beta")]
    figure, eta = new_figure(18.0 if trained else 12.0, 8.0), run.algorithm.first_rate
    axes = figure.subplots(2, 3 if trained else 2)
    matrices = [*zip(axes[0], ("m", "C")), *zip(axes[:, -1], trained)]
    for unused in axes[len(trained):, 2:].flat:
        unused.set_axis_off()
    for axis, base in matrices:
        shown = [name for name in curves if name.startswith(f"{base}[")]
        for name, colour, style in zip(shown, colours(len(shown)), itertools.cycle(STYLES)):
            label = name if len(shown) <= NAMED_CURVES else ""
            draw_curve(axis, curves[name], eta, False, colour, label, style)
        axis.set_ylabel(NETWORK_KNOWN[base].label)
        axis.autoscale(axis="y")  # the first curve may be constant, as norms on spheres are, and has set the limits to itself
    p, k = run.network.units, run.network.directions
    m = np.stack([np.stack([curves[f"m[{r},{s}]"].mean for s in range(k)], axis=1) for r in range(p)], axis=1)
    if "specialisation" in curves:
        draw_curve(axes[0, 0], curves["specialisation"], eta, False, BLACK, "specialisation", ":")
    for i, name in enumerate(name for name in ("loss", "mse", "mse_fresh") if name in curves):
        draw_curve(axes[1, 0], curves[name], eta, False, CYCLE[i], NETWORK_KNOWN[name].label)
    axes[1, 0].set_ylabel("errors")
    for axis in (axes[1, 0], *(axis for axis, _ in matrices)):
        if axis.get_legend_handles_labels()[0]:
            axis.legend(fontsize="small")
    reached = np.flatnonzero(np.isfinite(m).all(axis=(1, 2)))
    if reached.size:
        _matrix(figure, axes[1, 1], m[reached[-1]], curves["loss"].t[reached[-1]])
    title = f"{run.title}\n" if run.title else ""
    figure.suptitle(f"{title}{run.summary}; {p} units, {k} direction{'s' if k > 1 else ''}, {run.network.activation}\n"
                    f"{curves['loss'].count} {what}; bands: 2 standard errors", fontsize="medium")
    return save(figure, path)


def _matrix(figure: Figure, axis, m: np.ndarray, t: float) -> None:
    """The overlaps at one time as colours."""
    size = max(float(np.abs(m).max()), 1e-12)
    image = axis.imshow(m, cmap="RdBu_r", vmin=-size, vmax=size, aspect="equal")
    axis.set_xticks(range(m.shape[1]))
    axis.set_yticks(range(m.shape[0]))
    axis.set(xlabel="direction", ylabel="unit")
    axis.set_title(f"overlaps $m$ at $t$ = {t:g}", fontsize="medium")
    figure.colorbar(image, ax=axis)
