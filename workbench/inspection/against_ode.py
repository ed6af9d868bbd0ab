"""The ODE held against an ensemble of the same model: entry by entry, with a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from dmft.core.averages import error_text
from dmft.core.errors import FileError
from dmft.result.comparison import (
    AGREE,
    BLIND_SHARE,
    CANNOT_TELL,
    DISAGREE,
    DIVERGED,
    SIMULATION_ROUNDING,
    VERDICTS,
    Comparison,
    Curve,
    chance_bounds,
    compare,
    instances_curve,
)
from onepass.result import Ensemble, Trajectory
from onepass.runfile import parse_run

_SAME_TIME = 1e-9
_MOST_ENTRIES_NAMED = 3        # entries named one by one in a note


@dataclass(frozen=True)
class AgainstOde:
    """One ensemble against the ODE, one Comparison per entry that varies, at the times where both are finite. Print it for the
    table (per statistic and time the entry that is furthest off), `.verdict` for the answer."""

    name: str
    paths: Ensemble = field(repr=False)
    statistics: dict[str, list[Comparison]] = field(repr=False)
    left_out: list[str] = field(repr=False)         # entries and times at which a side is not finite

    @property
    def comparisons(self) -> list[Comparison]:
        return [entry for entries in self.statistics.values() for entry in entries if entry.t.size]

    @property
    def max_z(self) -> float:
        """The largest |z| in the table; NaN where nothing could be compared."""
        return max((entry.worst for entry in self.comparisons), default=float("nan"))

    @property
    def bound(self) -> float:
        """|z| that chance exceeds anywhere, over all entries and times, with probability 1 % at most (Student, Bonferroni)."""
        count = sum(entry.t.size for entry in self.comparisons)
        return max((float(chance_bounds(count, entry.degrees_of_freedom).max()) for entry in self.comparisons),
                   default=float("nan"))

    @property
    def blind(self) -> list[str]:
        """Statistics whose error is above BLIND_SHARE of their largest value in the simulation, and could hide a wrong ODE."""
        found = []
        for name, entries in self.statistics.items():
            scale = max((entry.scale for entry in entries), default=0.0)
            errors = [float(entry.simulation.error.max(initial=0.0)) for entry in entries]
            if max(errors, default=0.0) > BLIND_SHARE * scale + SIMULATION_ROUNDING:
                found.append(name)
        return found

    @property
    def verdict(self) -> str:
        """One of VERDICTS: diverged where a side is not finite; disagree where |z| exceeds `bound`; cannot tell where the errors
        are so large that they could hide a disagreement."""
        if self.left_out:
            return DIVERGED
        if self.max_z > self.bound:
            return DISAGREE
        return CANNOT_TELL if self.blind or not self.comparisons else AGREE

    def __str__(self) -> str:
        paths, lost = self.paths, int(self.paths.diverged.sum())
        lines = [f"{self.name}: {paths.source}, d = {paths.attrs.get('dimension')}, {paths.instances} instances",
                 f"{'t':>10}  {'entry':<10} {'ODE':>13}  {'simulation':>13} +- {'error':<9}  {'z':>7}"]
        for entries in self.statistics.values():
            for t in sorted({float(t) for entry in entries for t in entry.t}):
                c, i = max(((c, i) for c in entries for i in np.flatnonzero(c.t == t)), key=lambda pair: abs(pair[0].z[pair[1]]))
                lines.append(f"{t:10.4g}  {c.observable:<10} {c.theory.mean[i]:13.7f}  {c.simulation.mean[i]:13.7f} +- "
                             f"{error_text(c.simulation.error[i], '<9.2g')}  {c.z[i]:7.2f}")
        if self.left_out:
            more = f" and {len(self.left_out) - _MOST_ENTRIES_NAMED} more" if len(self.left_out) > _MOST_ENTRIES_NAMED else ""
            lines.append(f"note: {self.name}: {', '.join(self.left_out[:_MOST_ENTRIES_NAMED])}{more} left out, where the ODE or "
                         "the simulation is not finite")
        if lost:
            lines.append(f"note: {self.name}: {lost} of {paths.instances} instances diverged and are left out of the means")
        if self.comparisons:
            lines.append(f"{paths.instances - lost} instances: 99 % of tables stay below |z| = {self.bound:.1f} (Student, "
                         f"{len(self.comparisons)} entries at up to {max(entry.t.size for entry in self.comparisons)} times)")
        return "\n".join(lines)


def against_ode(ode: Trajectory, paths: Ensemble, names: Sequence[str], name: str) -> AgainstOde:
    """Compare these statistics of an ensemble with the ODE; FileError if the two have no time in common."""
    statistics, left_out = {}, []
    for statistic in names:
        found = entries(ode, paths, statistic)
        if found and found[0].t.size == 0:
            raise FileError(f"{name}: no time in common with the ODE")
        left_out += [f"{entry.observable} at t = {t:g}" for entry in found for t in entry.t[~entry.usable]]
        statistics[statistic] = [entry.where(entry.usable) for entry in found]
    return AgainstOde(name, paths, statistics, left_out)


def from_each_start(paths: Ensemble) -> tuple[Trajectory, Ensemble]:
    """Like with like where every instance has a start of its own: the mean of the ODEs from all starts, and the ensemble with each
    instance moved by the difference of this mean to its own ODE, so that error bars are those of instances against their ODEs."""
    run = parse_run(paths.run_text)
    starts, shapes = run.start(paths.instances), run.model.layout.shapes
    found = [run.solve({name: start[i] if start.ndim > len(shapes[name]) else start for name, start in starts.items()}, paths.t)
             for i in range(paths.instances)]
    each = {name: np.array([one.arrays[name] for one in found]) for name in paths.arrays if name in found[0].arrays}
    mean = {name: array[~paths.diverged].mean(axis=0) for name, array in each.items()}
    moved = {name: paths.arrays[name] - each[name] + mean[name] for name in each}
    return Trajectory(paths.t, mean, "ode", paths.run_text), replace(paths, arrays=moved)


def entries(ode: Trajectory, paths: Ensemble, name: str) -> list[Comparison]:
    """One comparison per entry of a statistic that varies; symmetric entries once."""
    flat_ode = ode[name].reshape(len(ode.t), -1)
    flat = paths[name][~paths.diverged].reshape(int((~paths.diverged).sum()), len(paths.t), -1)
    shape = ode[name].shape[1:]
    found = []
    for i in range(flat_ode.shape[1]):
        index = tuple(int(j) for j in np.unravel_index(i, shape)) if shape else ()
        if name in ("Q", "R") and index[0] > index[1]:
            continue
        if not np.ptp(flat[..., i]):
            continue
        theory = Curve(ode.t, flat_ode[:, i], np.zeros(len(ode.t)), 10**9)
        label = name + (f"[{','.join(map(str, index))}]" if index else "")
        found.append(compare(label, theory, [instances_curve(paths.t, flat[..., i])], [1], _SAME_TIME))
    return found


def verdict_lines(found: Sequence[AgainstOde]) -> list[str]:
    """The worst verdict over several ensembles, in words, and what to do about it."""
    verdict = max((one.verdict for one in found), key=VERDICTS.index)
    concerned = [one for one in found if one.verdict == verdict]
    where = ", ".join(one.name for one in concerned)
    if verdict == AGREE:
        return ["verdict: agree: ODE and simulation agree within their errors"]
    if verdict == DISAGREE:
        return [f"verdict: disagree: the ODE and {where} differ by more than their errors",
                "a finite dimension d shifts simulations by O(1/d): simulate in a larger one to see whether the difference shrinks"]
    if verdict == DIVERGED:
        return [f"verdict: diverged: the ODE or {where} is not finite at {sum(len(one.left_out) for one in concerned)} places"]
    blind = ", ".join(dict.fromkeys(name for one in concerned for name in one.blind)) or "everything"
    return [f"verdict: cannot tell: the error of {blind} is above {100 * BLIND_SHARE:g} % of its largest value in {where}",
            "more instances make the errors smaller"]
