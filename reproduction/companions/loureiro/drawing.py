"""Regimes of erf committees from the numbers of reproduction/companions/loureiro/numbers.py."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from workbench.plots.style import BLACK, BLUE, GREEN, ORANGE, new_figure, save


def draw_regimes(data, path: Path) -> None:
    """Excess risk in the classical and the high-dimensional regimes; below the mean-field reduction against the full ODE with
    its error, how SGD approaches its limits, and two time scales."""
    figure = new_figure(20.0, 8.4)
    grid = figure.subplots(2, 4)
    axes = [*grid[0], *grid[1]]
    for axis in axes[len(data.regimes) : 4]:
        axis.set_axis_off()
    for axis, regime in zip(axes, data.regimes):
        excess = regime.paths.risk - regime.noise / 2.0
        for i, one in enumerate(excess):
            axis.plot(regime.paths.t, one, color=BLUE, linewidth=0.6, alpha=0.5, label="SGD (exact chain)" if i == 0 else None)
        axis.plot(regime.ode.t, regime.ode.risk - regime.noise / 2.0, color=BLACK, linewidth=1.6, label="ODE")
        axis.plot(regime.flow.t, regime.flow.risk, color=ORANGE, linestyle="--", linewidth=1.2,
                  label=r"gradient flow, $\gamma\to0$")
        axis.set_title(regime.title, fontsize=9)
    axes = axes[4:]
    reduction = data.reduction
    shift = 0.5e-3
    axes[0].plot(reduction.full.t, reduction.full.risk - shift, color=BLACK, linewidth=1.6, label="full ODE")
    axes[0].plot(reduction.reduced.t, reduction.reduced.risk - shift, color=GREEN, linestyle="--",
                 label=r"reduction $Q = MP^{-1}M^\top + {\rm diag}$")
    axes[0].set_title(f"mean field and high dimension: p = {reduction.widths[-1]}, k = 2", fontsize=9)
    for (rate, one), color in zip(data.time_scales.items(), (BLUE, ORANGE, GREEN)):
        axes[3].plot(one.t, one.risk, color=color, label=rf"$\varepsilon$ = {rate:g}")
    for i, one in enumerate(data.fast_chain.risk):
        axes[3].plot(data.fast_chain.t, one, color=GREEN, linewidth=0.6, alpha=0.6, label="exact chain" if i == 0 else None)
    axes[3].set_title("two time scales: second layer at ε times the rate, k = 1, p = 10", fontsize=9)
    for axis in (*grid[0][: len(data.regimes)], axes[0], axes[3]):
        axis.set(xscale="log", yscale="log", xlabel="t", ylabel="excess risk")
        axis.legend(fontsize=8)
    axes[1].plot(reduction.widths, reduction.overlap, "o-", color=BLUE, label="mean |M - reduced|, largest over time")
    axes[1].plot(reduction.widths, reduction.off_diagonal, "s-", color=ORANGE, label="largest off-diagonal of Q - reduced")
    p = reduction.widths.astype(float)
    axes[1].plot(p, reduction.overlap[0] * p[0] / p, color="0.5", linewidth=0.8, linestyle=":", label="1/p")
    axes[1].set_xlabel("p")
    axes[1].set_xticks(reduction.widths, [str(width) for width in reduction.widths])
    axes[1].set_title("error of the reduction (d = 10 000 random students)", fontsize=9)
    axes[1].set_ylim(bottom=0.5 * float(np.min(reduction.overlap)))
    for one, color, label in ((data.mean_field, ORANGE, "from gradient flow, against p (d = 20 + p)"),
                              (data.dimensions, BLUE, "from the ODE, against d (p = 4)")):
        axes[2].errorbar(one.x, one.distance, 2 * one.error, fmt="o", color=color, capsize=3,
                         label=f"{label}: slope {one.fit.slope:.2f}")
        axes[2].plot(one.x, np.exp(one.fit.intercept) * one.x.astype(float) ** one.fit.slope, color=color, linewidth=0.8)
    axes[2].set_xlabel("p or d")
    axes[2].set_title(r"mean of $\max_t |M - M_{\rm limit}|$", fontsize=9)
    for axis in axes[1:3]:
        axis.set(xscale="log", yscale="log")
        axis.legend(fontsize=8)
    axes[1].minorticks_off()
    save(figure, path)
