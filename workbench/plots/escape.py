"""The picture of random starts: V = N <m^2>, and the share of runs that have reached a level."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dmft.result.comparison import Curve
from dmft.result.escape import EscapeLaw
from dmft.result.theory import Theory
from workbench.inspection.titles import solution_text
from workbench.plots.curves import draw_band, draw_curve, time_axis
from workbench.plots.style import BLACK, Figure, colours, new_figure, save


def draw(theory: Theory, laws: Sequence[EscapeLaw], path: Path | None) -> Figure:
    """Left V against time on a logarithmic scale, with its error; right P(t_b <= t) at each dimension with its lower bound."""
    assert theory.V is not None and theory.V_error is not None
    eta, count = theory.run.algorithm.first_rate, len(theory.replicas["m"])
    figure = new_figure(11.0, 4.6)
    left, right = figure.subplots(1, 2)
    draw_curve(left, Curve(theory.t, theory.V, theory.V_error, count), eta, False, BLACK, r"$V = N\langle m^2\rangle$")
    for law, colour in zip(laws, colours(len(laws))):
        left.axhline(law.N * law.b**2, color=colour, linestyle=":", linewidth=1)
        draw_band(right, law.t, law.probability, law.probability_error, colour, f"$N = {law.N}$", alpha=0.3)
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
