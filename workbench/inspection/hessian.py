"""The Hessian along a run, from a theory or from simulated instances, as numbers over time with their errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from dmft.core.averages import mean_and_error
from dmft.core.errors import UserError
from dmft.model.runfile import Run
from dmft.result.hessian import HessianLaw
from dmft.result.theory import Theory
from sgd_sim.hessian import DENSE, InstanceHessian, hessians
from sgd_sim.result import SimulationResult

Told = Callable[[float], None]
HESSIAN_COLUMNS = (("lower_edge", "lower edge"), ("lowest", "lowest"), ("lowest_overlap", "overlap^2"), ("largest", "largest"),
         ("largest_overlap", "overlap^2"), ("soft", "soft (sphere)"), ("soft_overlap", "overlap^2"))


@dataclass(frozen=True)
class HessianAlong:
    """Means and errors (S,) by name, at times t (S,); the laws or the instances behind them."""

    title: str
    run: Run
    t: np.ndarray
    values: dict[str, tuple[np.ndarray, np.ndarray]]
    laws: list[HessianLaw] = field(default_factory=list, repr=False)
    instances: list[list[InstanceHessian]] = field(default_factory=list, repr=False)

    def __str__(self) -> str:
        shown = [(name, words) for name, words in HESSIAN_COLUMNS if name in self.values]
        lines = [self.title, f"{'t':>8}" + "".join(f"  {words:>20}" for _, words in shown)]
        for i, t in enumerate(self.t):
            cells = (f"{self.values[name][0][i]:.4f} +- {self.values[name][1][i]:.4f}" for name, _ in shown)
            lines.append(f"{t:8.4g}" + "".join(f"  {cell:>20}" for cell in cells))
        for reason in dict.fromkeys(law.unknown for law in self.laws if law.unknown):
            at = ", ".join(f"{law.t:g}" for law in self.laws if law.unknown == reason)
            lines.append(f"note: outliers are not known at t = {at} ({reason}): lowest and largest are the edges of the bulk")
        alpha = self.run.problem.alpha
        if any(self.run.theory.samples < 2 * alpha * law.dimension for law in self.laws):
            lines.append(f"note: fewer samples a replica than twice the {alpha * self.laws[0].dimension:.0f} data samples whose "
                         "tails are asked for: outliers may be those of single samples; take more theory.samples, or a "
                         "smaller --dimension")
        return "\n".join(lines)


def theory_along(theory: Theory, dimension: int | None, told: Told) -> HessianAlong:
    """At all snapshots of a theory."""
    if theory.snapshots is None:
        raise UserError("hessian: this theory has no snapshots; solve with [theory] snapshots = [...] and hessian = true")
    laws = []
    for i, t in enumerate(theory.snapshots.t):
        laws.append(theory.hessian(float(t), dimension))
        told((i + 1) / theory.snapshots.t.size)
    values = {}
    for name in laws[0].replicas:
        pairs = np.array([law.mean(name) for law in laws])
        values[name] = (pairs[:, 0], pairs[:, 1])
    title = f"theory: {theory.run.summary}, tails of N = {laws[0].dimension}, {len(theory.snapshots.f)} replicas"
    return HessianAlong(title, theory.run, theory.snapshots.t, values, laws)


def simulated_along(simulation: SimulationResult, count: int, told: Told) -> HessianAlong:
    """Of the first instances of a simulation that got to all snapshots."""
    found = simulation.snapshots
    if found is None:
        raise UserError("hessian: this simulation has no snapshots; simulate with [theory] snapshots = [...]")
    chosen = np.flatnonzero(np.isfinite(found.w).all(axis=(1, 2)))[:max(count, 1)]
    if not chosen.size:
        raise UserError("hessian: no instance of this simulation got to all of its snapshots")
    instances = []
    for k, i in enumerate(chosen):
        instances.append(hessians(found, int(i)))
        told((k + 1) / chosen.size)
    numbers = {"lowest": lambda one: one.eigenvalues[0], "lowest_overlap": lambda one: one.overlaps[0],
               "largest": lambda one: one.eigenvalues[-1], "largest_overlap": lambda one: one.overlaps[1],
               "soft": lambda one: one.soft, "soft_overlap": lambda one: one.soft_overlap}
    values = {}
    for name, number in numbers.items():
        table = np.array([[number(one) for one in each] for each in instances])
        if np.isfinite(table).all():
            mean, error = mean_and_error(table)
            values[name] = (mean, error)
    how = "dense" if simulation.run.simulation.dimension <= DENSE else "Lanczos, both ends"
    n = simulation.run.simulation.dimension
    title = f"simulation: {simulation.run.summary}, N = {n}, {chosen.size} instances ({how})"
    return HessianAlong(title, simulation.run, found.t, values, [], instances)
