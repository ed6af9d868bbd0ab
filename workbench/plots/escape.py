"""Pictures of random starts: V = N <m^2>, its growth and collapse, and the share of runs that have reached a level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from dmft.result.comparison import Curve, instances_curve, squared_overlaps
from dmft.result.escape import EscapeLaw
from dmft.result.theory import Theory
from sgd_sim.result import SimulationResult
from workbench.inspection.titles import solution_text
from workbench.plots.curves import draw_curve, time_axis
from workbench.plots.style import BAND, BLACK, Figure, colours, new_figure, save


def draw(theory: Theory, laws: Sequence[EscapeLaw], path: Path | None) -> Figure:
    """Left V against time on a logarithmic scale, with its error; right P(t_b <= t) at each dimension with its lower bound."""
    assert theory.V is not None and theory.V_error is not None
    eta, count = theory.run.algorithm.first_rate, len(theory.replicas["m"])
    figure = new_figure(11.0, 4.6)
    left, right = figure.subplots(1, 2)
    draw_curve(left, Curve(theory.t, theory.V, theory.V_error, count), eta, False, BLACK, r"$V = N\langle m^2\rangle$")
    for law, colour in zip(laws, colours(len(laws))):
        left.axhline(law.N * law.b**2, color=colour, linestyle=":", linewidth=1)
        low, high = law.probability - BAND * law.probability_error, law.probability + BAND * law.probability_error
        right.fill_between(law.t, low, high, color=colour, alpha=0.3, linewidth=0)
        right.plot(law.t, law.probability, color=colour, label=f"$N = {law.N}$")
        right.plot(law.t, law.bound, color=colour, linestyle="--", linewidth=1)
    growth = laws[0].growth
    if growth is not None:
        late = theory.t >= theory.t[-1] / 2
        left.plot(theory.t[late], growth.v * np.exp(2 * growth.rate * theory.t[late]), color=BLACK, linestyle="--",
                  label=rf"$\propto e^{{2\gamma t}}$, $\gamma = {growth.rate:.3g}$")
    left.set(yscale="log", ylabel=r"$N\langle m^2\rangle$ (dotted: $N b^2$)")
    left.legend(fontsize="small")
    right.plot([], [], color=BLACK, linestyle="--", linewidth=1, label="lower bound (erfc)")
    right.set_ylabel(rf"share of runs with $|m| \geq {laws[0].b:g}$ by $t$")
    right.set_ylim(bottom=0.0)
    right.legend(fontsize="small")
    time_axis(right, False, eta)
    figure.suptitle("\n".join(filter(None, (theory.run.title, solution_text(theory)))), fontsize="medium")
    return save(figure, path)


def _variance(theory: Theory) -> Curve:
    assert theory.V is not None and theory.V_error is not None
    return Curve(theory.t, theory.V, theory.V_error, len(theory.replicas["m"]))


def draw_growth(theories: Mapping[str, Theory], path: Path | None) -> Figure:
    """V of several algorithms against time: straight lines are powers on the left, exponentials on the right."""
    figure = new_figure(11.0, 4.6)
    left, right = figure.subplots(1, 2)
    for axis, log in ((left, True), (right, False)):
        for (name, theory), colour in zip(theories.items(), colours(len(theories))):
            draw_curve(axis, _variance(theory), theory.run.algorithm.first_rate, log, colour, name)
        axis.set(yscale="log", ylabel=r"$N\langle m^2\rangle$")
    left.legend(title="bands: 2 standard errors", fontsize="small", title_fontsize="small")
    return save(figure, path)


def draw_alphas(theories: Mapping[tuple[str, float], Theory], path: Path | None) -> Figure:
    """V against time at several alpha, a panel for each algorithm."""
    names = list(dict.fromkeys(name for name, _ in theories))
    figure = new_figure(5.5 * len(names), 4.6)
    for axis, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names):
        found = [(alpha, theory) for (other, alpha), theory in theories.items() if other == name]
        for (alpha, theory), colour in zip(found, colours(len(found))):
            draw_curve(axis, _variance(theory), theory.run.algorithm.first_rate, True, colour, rf"$\alpha = {alpha:g}$")
        axis.set(yscale="log", ylabel=r"$N\langle m^2\rangle$", title=name)
        axis.legend(fontsize="small")
    return save(figure, path)


def draw_collapse(theory: Theory, simulations: Mapping[int, SimulationResult], path: Path | None) -> Figure:
    """N <m^2> of simulations at several N on the theory's V: they fall on one curve while m is small."""
    figure = new_figure(7.0, 4.8)
    axis, eta = figure.subplots(), theory.run.algorithm.first_rate
    draw_curve(axis, _variance(theory), eta, False, BLACK, "theory")
    for (N, simulation), colour in zip(simulations.items(), colours(len(simulations))):
        squares = squared_overlaps(simulation.t, simulation.m, N, simulation.run.problem.start_variance)
        curve = instances_curve(simulation.t, squares)
        step = max(1, len(curve.t) // 30)
        axis.errorbar(curve.t[::step], curve.mean[::step], BAND * curve.error[::step], color=colour, fmt="o", markersize=3,
                      capsize=2, label=f"$N = {N}$, {curve.count} runs")
    axis.set(yscale="log", ylabel=r"$N\langle m^2\rangle$", title=theory.run.summary)
    axis.legend(title="band and bars: 2 standard errors", fontsize="small", title_fontsize="small")
    time_axis(axis, False, eta)
    return save(figure, path)


def draw_passage(theory: Theory, simulations: Mapping[int, SimulationResult], level: float, path: Path | None) -> Figure:
    """Share of runs whose |m| sqrt(N) has reached `level`: paths of the Gaussian process, its lower bound, and simulations."""
    largest = max(simulations)
    law = theory.escape(level / np.sqrt(largest), largest)
    figure = new_figure(7.0, 4.8)
    axis = figure.subplots()
    axis.plot(law.t, law.probability, color=BLACK, label="theory, sampled paths")
    axis.plot(law.t, law.bound, color=BLACK, linestyle="--", linewidth=1, label="lower bound (erfc)")
    for (N, simulation), colour in zip(simulations.items(), colours(len(simulations))):
        share = np.mean(np.maximum.accumulate(np.abs(simulation.m) * np.sqrt(N) >= level, axis=1), axis=0)
        error = 2 * np.sqrt(share * (1 - share) / len(simulation.m))
        axis.fill_between(simulation.t, share - error, share + error, color=colour, alpha=0.25, linewidth=0)
        axis.plot(simulation.t, share, color=colour, linewidth=1, label=f"simulation, $N = {N}$")
    axis.set(ylabel=rf"share of runs with $|m|\sqrt{{N}} \geq {level:g}$ by $t$", title=theory.run.summary)
    axis.legend(title="bands: 2 standard errors", fontsize="small", title_fontsize="small")
    time_axis(axis, False, theory.run.algorithm.first_rate)
    return save(figure, path)
