"""The picture of a theory result: curves, both estimates of nu_hat, aging, kernels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from dmft.equations.kernels import KERNELS
from dmft.model.curves import KNOWN, label_of
from dmft.model.data import fixed_norm
from dmft.result.comparison import Curve
from dmft.result.systematic import systematic_errors
from dmft.result.theory import Theory
from workbench.inspection.by_component import by_component
from workbench.inspection.titles import solution_text
from workbench.plots import network
from workbench.plots.aging import draw_correlation, draw_response
from workbench.plots.curves import draw_curve, log_where_positive
from workbench.plots.kernels import draw_kernel
from workbench.plots.references import draw_references
from workbench.plots.style import BLUE, GREEN, ORANGE, PINK, Figure, new_figure, save

MOST_IN_TITLE = 3  # systematic errors in a title


def draw(theory: Theory, path: Path | None) -> Figure:
    """Three rows: m and loss on logarithmic and linear time; multipliers, residual or mse, aging; the four kernels. Observables
    follow. A network has a picture of its own."""
    if theory.run.has_network:
        errors = {name: theory.curves[f"{name}_error"] for name in theory.names}
        curves = by_component(theory.t, theory.curves, errors, theory.names, int(theory.averaged.sum()))
        return network.draw(theory.run, curves, f"replicas of {theory.run.theory.samples} samples", path)
    eta = theory.run.algorithm.first_rate
    own = [name for name in theory.names if name not in KNOWN or KNOWN[name].value]
    rows = 3 + -(-len(own) // 4)
    figure = new_figure(19.0, 4.0 * rows)
    axes = figure.subplots(rows, 4)
    first = "m" if theory.V is None else "V"
    for axis, (name, log) in zip(axes[0], ((first, True), (first, False), ("loss", True), ("loss", False))):
        draw_curve(axis, _curve(theory, name), eta, log)
        axis.set_ylabel(label_of(name, theory.attrs))
        if draw_references(axis, theory.run, name):
            axis.legend(fontsize="small")
        if name == "loss":
            log_where_positive(axis, theory.loss)
    _multipliers(axes[1, 0], theory, eta)
    if theory.history is not None and len(theory.history):
        draw_residuals(axes[1, 1], theory.history, theory.run.theory.tolerance)
    else:
        name = next(name for name in ("gain", "mse", "error", "q") if name in theory.curves)
        draw_curve(axes[1, 1], _curve(theory, name), eta, True)
        axes[1, 1].set_ylabel(label_of(name))
        if draw_references(axes[1, 1], theory.run, name):
            axes[1, 1].legend(fontsize="small")
    draw_correlation(axes[1, 2], theory.columns, eta)
    draw_response(axes[1, 3], theory.columns, eta)
    for axis, name in zip(axes[2], KERNELS):
        draw_kernel(axis, theory.kernels, name, eta)
    for i, axis in enumerate(axes[3:].flat):
        if i < len(own):
            draw_curve(axis, _curve(theory, own[i]), eta, True)
            axis.set_ylabel(label_of(own[i], theory.attrs))
        else:
            axis.set_visible(False)
    certain = [f"{one.title}: {one}" for one in systematic_errors(theory.datasets) if one.certain]
    beyond = f"beyond the bands: {'; '.join(certain[:MOST_IN_TITLE])}" if certain else ""
    figure.suptitle("\n".join(filter(None, (theory.run.title, solution_text(theory), beyond))))
    return save(figure, path)


def _curve(theory: Theory, name: str) -> Curve:
    curves = theory.curves
    return Curve(theory.t, curves[name], curves[f"{name}_error"], int(theory.averaged.sum()))


def _multipliers(axis: Axes, theory: Theory, eta: float) -> None:
    """nu_hat, both ways where the norm is fixed, where A.19 is an estimate of it, with delta_nu and mu beside it."""
    fixed = fixed_norm(theory.run.problem) is not None
    first = (("nu_hat", r"$\hat\nu$ (A.29)", BLUE, "-"), ("nu_hat_direct", r"$\hat\nu$ (A.19)", ORANGE, "--"))
    shown = first if fixed else (("nu_hat", r"$\hat\nu$", BLUE, "-"),)
    for name, label, color, style in (*shown, ("delta_nu", r"$\delta\nu$", GREEN, "-"), ("mu", r"$\mu$", PINK, "-")):
        draw_curve(axis, _curve(theory, name), eta, True, color, label, style)
    axis.set_ylabel("multipliers")
    axis.legend(fontsize="small")


def draw_residuals(axis: Axes, history: np.ndarray, tolerance: float) -> None:
    """Residual before mixing against sweep, one line per replica."""
    for line in history.T:
        axis.plot(np.arange(1, len(line) + 1), line, color=BLUE, alpha=0.5)
    if tolerance > 0:
        axis.axhline(tolerance, color=ORANGE, linestyle="--", label="tolerance")
        axis.legend(fontsize="small")
    axis.set(yscale="log", xlabel="sweep", ylabel="residual before mixing")


