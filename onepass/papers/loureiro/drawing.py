"""Regimes of erf committees from the numbers of onepass/papers/loureiro/numbers.py."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dmft.plots.style import BLACK, BLUE, GREEN, ORANGE, new_figure, save


def draw_regimes(data, path: Path) -> None:
    """Excess risk in the classical and the high-dimensional regime; the mean-field reduction against the full ODE."""
    figure = new_figure(12.0, 8.0)
    axes = figure.subplots(2, 2).ravel()
    for axis, regime in zip(axes, (data.classical, data.high_dimensional)):
        excess = regime.paths.risk - regime.noise / 2.0
        for i, one in enumerate(excess):
            axis.plot(regime.paths.t, one, color=BLUE, linewidth=0.6, alpha=0.5, label="SGD (exact chain)" if i == 0 else None)
        axis.plot(regime.ode.t, regime.ode.risk - regime.noise / 2.0, color=BLACK, linewidth=1.6, label="ODE")
        axis.plot(regime.flow.t, regime.flow.risk, color=ORANGE, linestyle="--", linewidth=1.2,
                  label=r"gradient flow, $\gamma\to0$")
        axis.set_title(regime.title, fontsize=9)
    reduction = data.reduction
    shift = 0.5e-3
    axes[2].plot(reduction.full.t, reduction.full.risk - shift, color=BLACK, linewidth=1.6, label="full ODE")
    axes[2].plot(reduction.reduced.t, reduction.reduced.risk - shift, color=GREEN, linestyle="--",
                 label=r"reduction $Q = MP^{-1}M^\top + {\rm diag}$")
    axes[2].set_title(f"mean field and high dimension: p = {reduction.widths[-1]}, k = 2", fontsize=9)
    for axis in axes[:3]:
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xlabel("t")
        axis.set_ylabel("excess risk")
        axis.legend(fontsize=8)
    axes[3].plot(reduction.widths, reduction.overlap, "o-", color=BLUE, label="mean |M - reduced|, largest over time")
    axes[3].plot(reduction.widths, reduction.off_diagonal, "s-", color=ORANGE, label="largest off-diagonal of Q - reduced")
    p = reduction.widths.astype(float)
    axes[3].plot(p, reduction.overlap[0] * p[0] / p, color="0.5", linewidth=0.8, linestyle=":", label="1/p")
    axes[3].set_xscale("log")
    axes[3].set_yscale("log")
    axes[3].set_xlabel("p")
    axes[3].set_xticks(reduction.widths, [str(width) for width in reduction.widths])
    axes[3].minorticks_off()
    axes[3].legend(fontsize=8)
    axes[3].set_title("error of the reduction (d = 10 000 random students)", fontsize=9)
    axes[3].set_ylim(bottom=0.5 * float(np.min(reduction.overlap)))
    save(figure, path)
