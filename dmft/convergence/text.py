"""A convergence study as text for a terminal."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dmft.convergence.axis import Axis, order_text
from dmft.convergence.fits import contraction
from dmft.model.data import data_of, data_text, is_sampled
from dmft.model.runfile import Run

_MEANING = {
    "samples": "distance of one replica from the finest point; expected to fall as samples^-1/2",
    "learning_rate": "distance from the finest point; expected of first order in learning_rate",
    "blocks_per_level": "distance from the finest point, the same random numbers",
    "mixing": "distance from the smallest mixing, the same random numbers; the fixed point does not depend on it",
}


def study_text(run: Run, outcome: str, axes: Mapping[str, Axis]) -> str:
    """Heading and one table per axis: distances, how many standard errors they are, fitted orders."""
    solved = f"{run.theory.replicas} replicas of {run.theory.samples} samples" if is_sampled(run.problem) else "without samples"
    head = (f"convergence of {run.algorithm.kind}, {data_text(run.problem)}, eta = {run.algorithm.rate_text}, "
            f"{run.theory.method}, {solved}: {outcome}")
    energy = data_of(run.problem).meanings.get("loss", {}).get("name", "loss") if run.known else "loss"
    return "\n\n".join([head, *(_axis(axis, energy) for axis in axes.values())])


def _axis(axis: Axis, energy: str) -> str:
    measure = "replica_distance" if axis.name == "samples" else "distance"
    ordered = any(np.isfinite(order) for order, _ in axis.orders.values())
    lines = [f"{axis.name}: {_MEANING.get(axis.name, 'distance from the largest value, the same random numbers')}",
             f"{axis.t.size} common times, kernels on {axis.kernel_t.size}; relative distance, (rms difference in standard errors)",
             f"{'':<10}" + "".join(f"{value:>18g}" for value in axis.values) + (f"{'order':>16}" if ordered else "")]
    for q in axis.quantities:
        pairs = zip(axis.table[measure][q], axis.table["z_rms"][q])
        cells = [f"{distance:.2e} {'(' + _short(z) + ')':<7}" for distance, z in pairs]
        name, order = energy if q == "loss" else q, f"{order_text(axis.orders[q]):>16}" if ordered else ""
        lines.append(f"{name:<10}" + "".join(f"{cell:>18}" for cell in cells) + order)
    bad = [f"{value:g}: {outcome}" for value, outcome in zip(axis.values, axis.outcomes)
           if outcome in ("diverged", "sweep limit")]
    lines += [f"not usable: {', '.join(bad)}"] if bad else []
    lines += ["beyond the error bars of the finest point:", *(f"  {line}" for line in axis.beyond)] if axis.beyond else []
    if axis.name == "learning_rate" and not ordered:
        lines.append("an order needs three learning rates")
    if axis.main in axis.limit:
        m, error = axis.limit[axis.main], axis.limit[f"{axis.main}_error"]
        loss, loss_error = axis.limit["loss"], axis.limit["loss_error"]
        first = f"{axis.main}({axis.t[-1]:g}) = {m[-1]:.6f} +- {error[-1]:.2g}, " if axis.main != "loss" else ""
        lines.append(f"limit learning_rate -> 0 (Richardson): {first}{energy}({axis.t[-1]:g}) = {loss[-1]:.6g} +- "
                     f"{loss_error[-1]:.2g}")
    if axis.residuals is not None:
        for value, line in zip(axis.values, axis.residuals):
            good = line[np.isfinite(line)]
            if good.size:
                lines.append(f"{value:>12g}: {good.size} sweeps, last residual {good[-1]:.1e}, "
                             f"contraction {contraction(line):.3f} per sweep")
    return "\n".join(lines)


def _short(value: float) -> str:
    return "-" if not np.isfinite(value) else f"{value:.2g}" if value == 0 or 0.01 <= value < 1000 else f"{value:.0e}"
