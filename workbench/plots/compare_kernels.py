"""Two-time kernels: theory above, simulation below the diagonal; columns at waiting times; and z."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize

from dmft.result.comparison import AGREE
from workbench.inspection.against import AgainstSimulations
from workbench.inspection.against_kernels import KernelComparison
from workbench.plots.curves import time_axis
from workbench.plots.kernels import TITLES, colours_of
from workbench.plots.style import BAND, BLACK, CYCLE, ORANGE, Figure, new_figure

SHOWN_COLUMNS = 5
MOST_TICKS = 9


def draw_kernels(found: AgainstSimulations) -> Figure:
    """One column per kernel: the map, columns after some waiting times, z."""
    figure = new_figure(1.0 + 5.2 * len(found.kernels), 12.6)
    axes = figure.subplots(3, len(found.kernels), squeeze=False)
    for (upper, middle, lower), kernel in zip(axes.T, found.kernels):
        _triangles(upper, kernel)
        _columns(middle, found, kernel)
        _scores(lower, kernel)
    say_verdict(figure, found)
    return figure


def say_verdict(figure: Figure, found: AgainstSimulations) -> None:
    """The experiment and the verdict as the title."""
    title = f"{found.run.title}\n" if found.run.title else ""
    sizes = f"N = {', '.join(map(str, found.dimensions))}" if all(found.dimensions) else found.where
    what = f"{found.run.summary}, {sizes}"
    figure.suptitle(f"{title}{what}\nverdict: {found.verdict}; max |z| = {found.max_z:.2f}", fontsize="medium",
                    color=BLACK if found.verdict == AGREE else ORANGE)


def _triangles(axis: Axes, kernel: KernelComparison) -> None:
    """Simulation at (t, t') below the diagonal, theory mirrored above it."""
    below = kernel.table(kernel.pairs.simulation.mean)
    above = kernel.table(kernel.pairs.theory.mean).T
    both = np.where(np.tri(kernel.t.size, dtype=bool), below, above)
    mesh = axis.pcolormesh(both, **colours_of(both))
    axis.plot([0, kernel.t.size], [0, kernel.t.size], color="white", linewidth=1.5)
    _grid(axis, kernel, f"{_title(kernel)}: theory above, simulation below")
    axis.figure.colorbar(mesh, ax=axis, shrink=0.8)


def _scores(axis: Axes, kernel: KernelComparison) -> None:
    """z at every pair, white at 0 and full colour at the bound."""
    pairs = kernel.pairs
    mesh = axis.pcolormesh(kernel.table(pairs.z), cmap="RdBu_r", norm=Normalize(-pairs.bound, pairs.bound))
    _grid(axis, kernel, f"$z$: max {pairs.worst:.1f}, chance {pairs.bound:.1f}, {pairs.verdict}")
    axis.figure.colorbar(mesh, ax=axis, shrink=0.8)


def _grid(axis: Axes, kernel: KernelComparison, title: str) -> None:
    """Times, equally far apart, on both axes of a map."""
    shown = np.unique(np.linspace(0, kernel.t.size - 1, min(kernel.t.size, MOST_TICKS)).round().astype(int))
    words = [f"{t:.3g}" for t in kernel.t[shown]]
    axis.set(title=title, xlabel="$t'$", ylabel="$t$")
    axis.set_xticks(shown + 0.5, words, rotation=60)
    axis.set_yticks(shown + 0.5, words)
    axis.set_box_aspect(1)


def _title(kernel: KernelComparison) -> str:
    """Name of the kernel, of a network with its units, which count from 1 in pictures."""
    return TITLES[kernel.name] + (f" of units {', '.join(str(r + 1) for r in kernel.units)}" if kernel.units else "")


def _columns(axis: Axes, found: AgainstSimulations, kernel: KernelComparison) -> None:
    """Columns after some waiting times: the theory as lines, the simulation at the largest dimension as points."""
    ours, theirs = found.columns
    largest = theirs[int(np.argmax(found.dimensions))]
    eta = found.run.algorithm.first_rate
    early = np.flatnonzero(largest.t_w <= largest.t[-1] / 2)
    first = 1 if kernel.name == "R" else 0  # a response is 0 at equal times, by convention
    for colour, j in zip(CYCLE, np.unique(early[np.linspace(0, early.size - 1, SHOWN_COLUMNS).round().astype(int)])):
        tau, mean, error = (array[first:] for array in largest.after(kernel.name, j, *kernel.units))
        axis.errorbar(tau, mean, BAND * np.nan_to_num(error), color=colour, fmt="o", markersize=3, capsize=1.5,
                      label=f"$t' = {largest.t_w[j]:.4g}$")
        if ours is not None:
            for i in np.flatnonzero(np.abs(ours.t_w - largest.t_w[j]) < 1e-3 * eta):
                axis.plot(*(array[first:] for array in ours.after(kernel.name, int(i), *kernel.units)[:2]), color=colour)
    time_axis(axis, True, eta, "t - t'")
    axis.set_ylabel(_title(kernel))
    axis.legend(fontsize="small", title=f"lines: theory\npoints: N = {max(found.dimensions)}", title_fontsize="small")
