"""Figures of "Escaping mediocrity" from the numbers of reproduction/companions/arnaboldi/numbers.py."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dmft.core.averages import mean_and_error
from workbench.plots.curves import tidy_ticks
from workbench.plots.style import BLACK, BLUE, CYCLE, GREEN, ORANGE, PINK, new_figure, save


def _row(panels: int):
    """A figure of that many panels side by side."""
    figure = new_figure(6.0 * panels, 4.2)
    return figure, figure.subplots(1, panels, squeeze=False)[0]


def _risk_panel(axis, t, excess, ode, color, label) -> None:
    for i, path in enumerate(excess[:30]):
        axis.plot(t, path, color=color, linewidth=0.6, alpha=0.5, label=label if i == 0 else None)
    axis.plot(t, ode, color=BLACK, linewidth=1.6, label="ODE")
    axis.set(xlabel="t", ylabel=r"excess risk $R - \Delta/2$")


def draw_paths(data, path: Path) -> None:
    """Figures 1 and 5: SGD left, SDE middle, exit times right."""
    figure = new_figure(12.0, 4.0)
    axes = figure.subplots(1, 3)
    shift = data.noise / 2.0
    for axis, (name, ensemble), color in zip(axes, data.ensembles.items(), (BLUE, ORANGE)):
        _risk_panel(axis, ensemble.t, ensemble.risk - shift, data.ode.risk - shift, color, name)
        axis.axvline(data.exits["ODE"][0], color=BLACK, linestyle=":", linewidth=1.0, label="exit of the ODE")
        axis.axhline((1 - data.threshold) * (data.ode.risk[0] - shift), color="0.6", linewidth=0.8)
        axis.legend(fontsize=8)
    for i, times in enumerate(data.exits.values()):
        good = times[np.isfinite(times)]
        color = (BLACK, BLUE, ORANGE, GREEN)[i]
        axes[2].plot(np.full(good.size, i), good, "o", color=color, markersize=3, alpha=0.5)
        if good.size > 1:
            mean, error = mean_and_error(good)
            axes[2].errorbar([i + 0.2], [mean], [2 * error], fmt="s", color=color, capsize=3)
    axes[2].set_xticks(range(len(data.exits)), list(data.exits))
    axes[2].set(xlim=(-0.5, len(data.exits) - 0.3), ylabel="exit time")
    axes[2].set_title(f"T = {data.threshold:g}; squares: mean, 2 standard errors", fontsize=9)
    axes[0].set_title(data.title, fontsize=9)
    axes[1].set_title("the same start", fontsize=9)
    save(figure, path)


def draw_ratios(data, path: Path) -> None:
    """Figure 2: measured exit time over formula."""
    figure = new_figure(7.0, 4.5)
    axis = figure.subplots()
    for i, p in enumerate(data.widths):
        for formula, marker in ((data.annealed, "s"), (data.quenched, "o")):
            ratio = data.measured[i] / formula[i]
            axis.errorbar(data.dimensions, ratio, 2 * data.error[i] / formula[i], fmt=f"{marker}-", markersize=4, capsize=2,
                          linewidth=0.8, color=CYCLE[i], label=f"p = {p}" if marker == "o" else None)
    axis.axhline(1.0, color=BLACK, linewidth=0.8)
    axis.set(xscale="log", xlabel="d", ylabel="measured exit time / formula")
    axis.set_title(rf"squares: annealed, circles: quenched; $\gamma/p$ = {data.rate:g}, T = {data.threshold:g}", fontsize=9)
    axis.legend(fontsize=8)
    save(figure, path)


def draw_largest(panels, path: Path) -> None:
    """Figure 3: the largest overlap, second layer fixed or trained; logarithmic, so that the start is seen."""
    figure, axes = _row(len(panels))
    for axis, panel in zip(axes, panels):
        for layer, color in (("fixed", BLUE), ("trained", GREEN)):
            axis.plot(panel.t, panel.chain[layer].T, color=color, linewidth=0.6, alpha=0.6)
            style = "-" if layer == "fixed" else "--"
            axis.plot(panel.t, panel.ode[layer], style, color=color, linewidth=1.8, label=f"{layer} second layer")
        axis.set(yscale="log", xlabel="t", ylabel=r"$\max_j |m_j|$")
        axis.set_title(f"p = {panel.width}, d = 1000 (thick: ODE, thin: exact chain)", fontsize=9)
        axis.legend(fontsize=8)
    save(figure, path)


def draw_runs(panels, path: Path) -> None:
    """Figure 4: ODE and SGD runs."""
    figure, axes = _row(len(panels))
    for axis, panel in zip(axes, panels):
        shift = panel.noise / 2.0
        sgd = panel.ensembles["SGD"]
        _risk_panel(axis, sgd.t, sgd.risk - shift, panel.ode.risk - shift, BLUE, "SGD")
        axis.set_title(panel.title, fontsize=9)
        axis.set_yscale("log")
        axis.legend(fontsize=8)
    save(figure, path)


def draw_scalings(data, path: Path) -> None:
    """Escape by information exponent, distance from the ODE, steps by width."""
    figure = new_figure(14.0, 4.4)
    left, middle, right = figure.subplots(1, 3)
    for (exponent, escape), color in zip(data.escapes.items(), CYCLE):
        fit = escape.fit
        left.errorbar(escape.dimensions, escape.steps, 2 * escape.errors, fmt="o", markersize=4, capsize=2, color=color,
                      label=f"exponent {exponent}: slope {fit.slope:.2f}")
        x = np.asarray(escape.dimensions, float)
        left.plot(x, np.exp(fit.intercept) * x**fit.slope, color=color, linewidth=0.8)
    left.set(xlabel="d", ylabel="steps until |m| = 1/2")
    middle.plot(data.tau, data.distance, "o", color=BLUE, markersize=4)
    x = np.sort(data.tau)
    middle.plot(x, np.exp(data.fit.intercept) * x**data.fit.slope, color=BLACK, linewidth=0.8,
                label=f"slope {data.fit.slope:.3f} $\\pm$ {data.fit.slope_error:.3f}")
    middle.set(xlabel=r"$\gamma/(p d)$", ylabel=r"mean of $\max_t |M - M_{\rm ODE}|$")
    gain = data.gain
    for key, found, formula, color in (("formal", gain.formal, gain.formal_formula, PINK),
                                       ("honest", gain.honest, gain.honest_formula, GREEN)):
        label = r"$\gamma_{\rm opt}$ (formal)" if key == "formal" else rf"$\gamma$ = {gain.rate:g} p"
        steps = np.array([one.mean for one in found]) * gain.steps_per_time[key]
        errors = np.array([one.error for one in found]) * gain.steps_per_time[key]
        right.errorbar(gain.widths, steps, 2 * errors, fmt="o", markersize=4, capsize=2, color=color, label=label)
        right.plot(gain.widths, formula, color=color, linewidth=0.8)
        for p, y, one in zip(gain.widths, steps, found):
            if one.share < 1.0:
                right.annotate(f"{100 * one.share:.0f} % exit", (p, y if np.isfinite(y) else formula.min()), fontsize=7,
                               xytext=(3, 6), textcoords="offset points")
    right.set(xlabel="p", ylabel="steps to exit")
    right.set_title(f"T = 0.1, d = {gain.dimension}; lines: annealed formula", fontsize=9)
    for axis in (left, middle, right):
        axis.set(xscale="log", yscale="log")
        for side in (axis.xaxis, axis.yaxis):
            tidy_ticks(side)
        axis.legend(fontsize=8)
    save(figure, path)


def draw_exits(data, path: Path) -> None:
    """Exit times of the chain over each formula, a column per network; and by second layer."""
    figure = new_figure(12.0, 4.6)
    left, right = figure.subplots(1, 2, width_ratios=[2.2, 1.0])
    markers = {"annealed": "s", "quenched": "o", "nonlinear": "^", "noisy": "D"}
    labels = {"annealed": "annealed", "quenched": "quenched", "nonlinear": "quenched, exact ODE", "noisy": "with the noise of SGD"}
    for i, case in enumerate(data.cases):
        for j, (name, marker) in enumerate(markers.items()):
            value = getattr(case, name)
            left.errorbar([i + 0.12 * (j - 1.5)], [case.chain.mean / value], [2 * case.chain.error / value], fmt=marker, capsize=3,
                          color=CYCLE[j], markersize=5, label=labels[name] if i == 0 else None)
    left.axhline(1.0, color=BLACK, linewidth=0.8)
    left.set_xticks(range(len(data.cases)), [case.title.replace(", ", "\n") for case in data.cases],
                    fontsize=7)
    left.set(xlim=(-0.6, len(data.cases) - 0.4), ylabel="exit time of the chain / formula (2 standard errors)")
    left.legend(fontsize=8)
    for i, layers in enumerate(data.layers.values()):
        for j, (layer, color) in enumerate((("fixed", BLUE), ("trained", GREEN))):
            found = layers[layer]
            right.errorbar([i + 0.1 * (2 * j - 1)], [found.mean], [2 * found.error], fmt="o", color=color, capsize=3,
                           label=f"{layer} second layer" if i == 0 else None)
    right.set_xticks(range(len(data.layers)), [f"p = {p}" for p in data.layers])
    right.set(xlim=(-0.5, len(data.layers) - 0.5), ylabel=rf"time at which $\max_j |m_j|$ = {data.level:g}")
    right.legend(fontsize=8)
    save(figure, path)


def draw_landscape(data, path: Path) -> None:
    """Figure 6: the risk on the sphere (w* upwards), in the plane of w along and across w*, and the spectrum at the start."""
    figure = new_figure(14.0, 4.4)
    ball = figure.add_subplot(1, 3, 1, projection="3d")
    plane, spectrum = figure.add_subplot(1, 3, 2), figure.add_subplot(1, 3, 3)
    levels = np.concatenate([np.linspace(0.0, 1.5, 13), np.linspace(2.0, 6.0, 5)])
    filled = plane.contourf(data.axis, data.axis, data.plane, levels=levels, cmap="viridis", extend="max")
    polar, azimuth = np.meshgrid(data.polar, data.azimuth, indexing="ij")
    colors = ball.plot_surface(np.sin(polar) * np.cos(azimuth), np.sin(polar) * np.sin(azimuth), np.cos(polar),
                               rstride=2, cstride=2, facecolors=filled.cmap(data.sphere / data.sphere.max()), shade=False)
    colors.set_edgecolor("none")
    ball.set_title("risk on the sphere: dark at ±w*, a flat bright belt at m = 0", fontsize=9)
    ball.set_axis_off()
    ball.set_box_aspect((1, 1, 1), zoom=1.5)
    figure.colorbar(filled, ax=plane, label=r"$R - \Delta/2$")
    for point in data.points:
        for sign in (1, -1) if point.name == "orthogonal" else (1,):
            plane.plot(sign * point.w[0], sign * point.w[1], "o", color=ORANGE, markersize=6)
            plane.annotate(point.name, sign * point.w[:2], fontsize=8, color="white", xytext=(5, 4), textcoords="offset points")
    plane.set(xlabel="w along w*", ylabel="w across w*", aspect="equal", title="no constraint")
    for value, count in data.spectrum:
        spectrum.bar([value], [count], width=0.5, color=PINK if value < 0 else BLUE)
        spectrum.annotate(f"{value:g}: {count}", (value, count), fontsize=9, ha="center", xytext=(0, 4), textcoords="offset points")
    spectrum.set(yscale="log", xlim=(-6, 2), ylim=(0.5, 5 * data.dimension), xlabel="eigenvalue", ylabel="number of directions")
    spectrum.set_title(f"Hessian on the sphere at the start, m = 0, d = {data.dimension}", fontsize=9)
    save(figure, path)
