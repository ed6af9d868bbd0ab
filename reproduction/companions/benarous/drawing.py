"""Figures 1 to 3 of Ben Arous, Gheissari and Jagannath from the numbers of reproduction/companions/benarous/numbers.py."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from workbench.plots.style import AMBER, BLACK, BLUE, GREEN, ORANGE, PINK, SKY, new_figure, save


def _flow(axes, portrait) -> None:
    """Streamlines, and the stable (basin boundaries) and unstable curves of the saddles."""
    axes.streamplot(
        portrait.x, portrait.y, portrait.dx, portrait.dy, color="0.8", linewidth=0.6, arrowsize=0.7, density=1.1, zorder=0
    )
    for curves, style, label in ((portrait.stable_curves, "--", "stable set of a saddle"),
                                 (portrait.unstable_curves, "-", "unstable set")):
        for i, curve in enumerate(curves):
            axes.plot(*curve.T, style, color=PINK if style == "--" else GREEN, linewidth=1.4, label=label if i == 0 else None)


def draw_spiked(panels, path: Path) -> None:
    """Figure 1: m against time above, (m, r2) with the phase portrait below; one column per model."""
    figure = new_figure(4.6 * len(panels), 8.0)
    grid = figure.subplots(2, len(panels), squeeze=False)
    for (upper, lower), panel in zip(grid.T, panels):
        upper.plot(panel.t, panel.m.T, color=BLUE, linewidth=0.6, alpha=0.7)
        if panel.band.size:
            reach = min(1.0, 1.3 * np.abs(panel.m).max())
            for k, style in ((1, "-"), (2, "--")):
                for side in (1, -1):
                    upper.plot(panel.t, side * k * panel.band, style, color=ORANGE, linewidth=1.2,
                               label=f"{k} s.d. of the OU limit" if side == 1 else None)
            upper.set_ylim(-reach, reach)
        named = set()
        for point in panel.points:
            kind = "stable fixed point" if point.stable else "unstable fixed point"
            label = None if kind in named else kind
            named.add(kind)
            upper.axhline(point.m, color=BLACK, linewidth=0.7, linestyle="-" if point.stable else ":")
            lower.plot(point.m, point.r2, "x" if point.stable else "o", color=BLACK, markersize=8, markerfacecolor="none",
                       markeredgewidth=1.8, label=label, zorder=5)
        model = panel.model
        upper.set(title=rf"order {model.order}, $\lambda = {model.signal:g}$, $n = {panel.dimension}$", xlabel="t = steps / n",
                  ylabel="m")
        if panel.band.size:
            upper.legend(fontsize=8, loc="upper left")
        _flow(lower, panel.portrait)
        for m, r2 in zip(panel.m, panel.r2):
            lower.plot(m, r2, color=BLUE, linewidth=0.6, alpha=0.6)
            lower.plot(m[-1], r2[-1], ".", color=BLUE, markersize=5)
        lower.set(xlim=(panel.portrait.x[0], panel.portrait.x[-1]), ylim=(panel.portrait.y[0] - 0.05, panel.portrait.y[-1]),
                  xlabel="m", ylabel=r"$r_\perp^2$")
        lower.legend(fontsize=8, loc="upper right")
    save(figure, path)


def _bars(axes, fraction) -> None:
    """Observed fractions with 95 % intervals, and crosses at the predictions."""
    low, high = fraction.interval
    heights = np.array([fraction.value, 1.0 - fraction.value])
    error = np.array([[fraction.value - low, high - fraction.value], [high - fraction.value, fraction.value - low]]).T
    axes.bar([0, 1], heights, color=[SKY, AMBER], width=0.6)
    axes.errorbar([0, 1], heights, error, fmt="none", color=BLACK, capsize=5, label="95 % binomial interval")
    axes.plot([0, 1], [fraction.predicted, 1.0 - fraction.predicted], "x", color=ORANGE, markersize=10, markeredgewidth=2.5,
              label="predicted")
    axes.set_xticks([0, 1], ["optimal", "not optimal"])
    axes.set(ylim=(0, max(0.7, 1.15 * heights.max())), ylabel=f"fraction of {fraction.runs} runs")
    axes.legend(fontsize=8)


def _ring_plane(axes, data) -> None:
    """Endpoints over the rings and isolated fixed points, with the flow where there is one."""
    if data.portrait is not None:
        _flow(axes, data.portrait)
    angle = np.linspace(0, np.pi / 2, 100)
    for k, side in enumerate((1, -1)):
        axes.plot(side * data.radius * np.cos(angle), side * data.radius * np.sin(angle), color=PINK, linewidth=2.5,
                  label="rings of fixed points" if k == 0 else None)
    if data.portrait is None:  # XOR: a neuron may share its mean with a third one, or serve nu and have no m along mu
        r = data.radius
        for x, y in (([0, 0], [-r, r]), ([-r, r], [0, 0]), ([-r, -r], [0, r]), ([r, r], [0, -r]), ([0, r], [-r, -r]),
                     ([0, -r], [r, r])):
            axes.plot(x, y, color=PINK, linewidth=1, linestyle=":")
    axes.plot(*data.endpoints[~data.optimal].T, ".", color=AMBER, markersize=4, label="runs, not optimal")
    axes.plot(*data.endpoints[data.optimal].T, ".", color=BLUE, markersize=4, label="runs, optimal")
    axes.plot(*data.points.T, "x", color=BLACK, markersize=12, markeredgewidth=1.5, zorder=1,
              label=r"isolated points, $\lambda = \infty$")
    reach = 1.5 * data.radius
    axes.set(xlim=(-reach, reach), ylim=(-reach, reach), xlabel=f"${data.names[0]}$", ylabel=f"${data.names[1]}$", aspect="equal")
    axes.legend(fontsize=7, loc="upper right")


def _cloud(axes, data, i: int, j: int) -> None:
    """Fluctuations of two variables at the last time, with the 1 and 2 s.d. ellipses of the SDE (a line where degenerate)."""
    for (snr, last), color in zip(data.finite.items(), (AMBER, GREEN)):
        last = last - last.mean(axis=0)     # at finite snr the ring itself drifts
        axes.plot(last[:, i], last[:, j], ".", color=color, markersize=3, alpha=0.4,
                  label=rf"chain, $\lambda = {snr:g}$, less its mean")
    axes.plot(data.paths[:, -1, i], data.paths[:, -1, j], ".", color=BLUE, markersize=4, alpha=0.6,
              label=r"SGD, $\lambda = \infty$")
    values, vectors = np.linalg.eigh(data.covariance[np.ix_([i, j], [i, j])])
    angle = np.linspace(0, 2 * np.pi, 200)
    circle = vectors @ (np.sqrt(np.maximum(values, 0))[:, None] * np.stack([np.cos(angle), np.sin(angle)]))
    for k in (1, 2):
        axes.plot(*(k * circle), color=ORANGE, linewidth=1.5, label="SDE, 1 and 2 s.d." if k == 1 else None)
    axes.set(xlabel=rf"$\sqrt{{N}}(\delta {data.names[i]})$", ylabel=rf"$\sqrt{{N}}(\delta {data.names[j]})$")
    axes.set_aspect("equal", adjustable="datalim")
    axes.set_title(f"fluctuations about a ring at t = {data.t[-1]:g}", fontsize=10)
    axes.legend(fontsize=8)


def draw_mixture(data, path: Path) -> None:
    """Figures 2 and 3: fractions, endpoints, fluctuations in time and in the plane (two planes for XOR)."""
    xor = len(data.names) == 4
    figure = new_figure(14.5 if xor else 10.0, 9.0 if not xor else 8.8)
    grid = figure.subplots(2, 3 if xor else 2)
    _bars(grid[0, 0], data.fraction)
    grid[0, 0].set_title(rf"$N = {data.dimension}$, $\lambda = {data.snr:g}$", fontsize=10)
    _ring_plane(grid[0, 1], data)
    series = grid[1, 0]
    series.plot(data.t, data.paths[:20, :, 0].T, color=BLUE, linewidth=0.5, alpha=0.6)
    series.plot(data.t, data.paths[:, :, 0].std(0), color=GREEN, linewidth=2, label="s.d. of SGD")
    for side in (1, -1):
        series.plot(data.t, side * data.deviation, color=ORANGE, linewidth=1.5, label="s.d. of the SDE" if side == 1 else None)
    reach = 4.5 * data.deviation.max()
    series.plot(data.t, np.where(data.printed < reach, data.printed, np.nan), "--", color=BLACK, linewidth=1.2,
                label="with the printed sign")
    series.set(ylim=(-reach, reach), xlabel="t", ylabel=rf"$\sqrt{{N}}(\delta {data.names[0]})$")
    series.set_title(r"fluctuations about a ring, $\lambda = \infty$", fontsize=10)
    series.legend(fontsize=8)
    _cloud(grid[1, 1], data, 0, 1)
    if xor:
        _cloud(grid[1, 2], data, 0, 2)
        spread = grid[0, 2]
        values = np.linalg.eigvalsh(np.cov(data.paths[:, -1].T))[::-1]
        predicted = np.linalg.eigvalsh(data.covariance)[::-1]
        spread.bar(np.arange(4) - 0.18, values, width=0.36, color=BLUE, label="SGD")
        spread.bar(np.arange(4) + 0.18, predicted, width=0.36, color=ORANGE, label="SDE (rank 2)")
        spread.set(xlabel="eigenvalue number", ylabel=r"eigenvalues of $N\,$Cov(m)", xticks=range(4))
        spread.legend(fontsize=8)
    save(figure, path)
