"""Figures of Bocchi et al. on wide quadratic networks from the numbers of reproduction/companions/bocchi/numbers.py."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from workbench.plots.style import BLACK, BLUE, CYCLE, ORANGE, new_figure, save


def draw_overlaps(data, path: Path) -> None:
    """Figure 1: overlaps with the teacher, between students, norms, risk; lines ODE, dashes mean of the chain."""
    figure = new_figure(11.0, 7.5)
    axes = figure.subplots(2, 2).ravel()
    mean, error = data.ensemble.mean(), data.ensemble.error()
    p = data.ode.Q.shape[1]
    upper = np.triu_indices(p, 1)
    parts = (
        (r"teacher-student $\rho_{kl}$", data.ode.M.reshape(len(data.alpha), -1), mean.M.reshape(len(data.alpha), -1),
         error.M.reshape(len(data.alpha), -1)),
        (r"student-student $Q_{kk'}$", data.ode.Q[:, *upper], mean.Q[:, *upper], error.Q[:, *upper]),
        (r"norms $Q_{kk}$", np.einsum("tii->ti", data.ode.Q), np.einsum("tii->ti", mean.Q), np.einsum("tii->ti", error.Q)),
        ("risk", 2 * data.ode.risk[:, None], 2 * mean.risk[:, None], 2 * error.risk[:, None]),
    )  # fmt: skip
    for axis, (label, ode, chain, bar) in zip(axes, parts):
        for i in range(ode.shape[1]):
            color = CYCLE[i % len(CYCLE)]
            axis.plot(data.alpha, ode[:, i], color=color, linewidth=1.0)
            axis.plot(data.alpha, chain[:, i], color=color, linewidth=1.0, linestyle="--")
            axis.fill_between(data.alpha, chain[:, i] - bar[:, i], chain[:, i] + bar[:, i], color=color, alpha=0.2, linewidth=0)
        axis.set(xlabel=r"$\alpha$", ylabel=label)
    axes[3].axhline(data.plateau_risk, color=BLACK, linestyle=":", linewidth=0.8, label="plateau")
    axes[3].set_yscale("log")
    axes[3].legend(fontsize=8)
    figure.suptitle(f"{data.title}: ODE (solid), mean of the exact chain (dashed), band: its standard error", fontsize=10)
    save(figure, path)


def draw_rates(data, path: Path) -> None:
    """Figure 2: samples to halve the risk; best learning rate by width."""
    figure = new_figure(10.0, 4.2)
    left, right = figure.subplots(1, 2)
    finite = np.isfinite(data.first.alpha)
    left.errorbar(data.first.etas[finite], data.first.alpha[finite], 2 * np.nan_to_num(data.first.error[finite]), fmt="o-",
                  markersize=3, capsize=2, color=BLUE)
    left.axvline(data.limits[0], color=ORANGE, linestyle="--", linewidth=1.0, label=r"stability $pp^*/(4(p^*+2))$")
    left.axvline(data.first.best, color=BLACK, linestyle=":", linewidth=1.0, label="best")
    left.set(xlabel=r"$\eta$", ylabel=r"$\alpha_c$ (risk halved), $p = p^* = 3$", yscale="log")
    right.plot(data.widths, data.best, "o", color=BLUE, label=f"best, slope {data.slope:.3f}")
    right.plot(data.widths, data.limits, color=ORANGE, linestyle="--", label="stability limit")
    right.set(xlabel="p", ylabel=r"$\eta$")
    for axis in (left, right):
        axis.legend(fontsize=8)
    save(figure, path)


def draw_selection(data, path: Path) -> None:
    """Figures 3 and 4: distance to the predicted solution, risk, and the entries of S(t)."""
    figure = new_figure(12.0, 7.5)
    axes = figure.subplots(2, 2).ravel()
    for i in reversed(range(len(data.distance))):
        color, width = (BLACK, 1.8) if i == 0 else ("0.6", 0.8)
        label = {0: "predicted start", 1: "other starts"}.get(i)
        axes[0].plot(data.t, data.distance[i], color=color, linewidth=width, label=label)
        axes[1].plot(data.t, data.risk[i], color=color, linewidth=width, label=label)
    axes[0].set_ylabel(r"$|\rho(t) - \bar\rho|$")
    axes[1].set(ylabel="risk", yscale="log")
    axes[0].legend(fontsize=8)
    names = ("orthonormal students: conserved", "iid students, N = 100: not conserved")
    for axis, s, name in zip(axes[2:], (data.s_orthonormal, data.s_iid), names):
        axis.plot(data.t, s.reshape(len(data.t), -1), linewidth=1.0)
        axis.set_ylabel("entries of S(t)")
        axis.set_title(name, fontsize=9)
    for axis in axes:
        axis.set_xlabel(r"$t = \eta\alpha$")
    save(figure, path)


def draw_dimensions(data, path: Path) -> None:
    """Figures 5 and 6."""
    figure = new_figure(10.0, 4.2)
    left, right = figure.subplots(1, 2)
    left.plot(data.widths, data.outputs, "o-", color=BLUE, markersize=3)
    left.axvline(data.n, color="0.6", linewidth=0.8)
    left.set_ylabel(f"degrees of freedom of the outputs, N = {data.n}")
    for (k, values), color in zip(data.solutions.items(), CYCLE):
        right.plot(data.widths, values, "o-", markersize=3, color=color, label=f"p* = {k}")
    right.set_ylabel("dimension of the solution manifold")
    right.legend(fontsize=8)
    for axis in (left, right):
        axis.set_xlabel("p")
        axis.set_xticks(range(0, int(data.widths[-1]) + 1, 4))
    save(figure, path)
