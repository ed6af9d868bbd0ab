"""A theory compared with simulations of the same experiment: what `dmft.compare` returns and `dmft compare` prints."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from dmft.core import store
from dmft.core.averages import ERROR_ROUNDING, error_text, number_text
from dmft.core.errors import FileError, UserError
from dmft.files import layouts
from dmft.model.curves import NETWORK, TABLE, asked_for, components, meanings
from dmft.model.data import starts_at_random
from dmft.model.experiment import observables_of
from dmft.model.runfile import Run, changes, parse_run
from dmft.result import pictures
from dmft.result.comparison import (
    AGREE,
    BLIND_SHARE,
    CANNOT_TELL,
    DISAGREE,
    DIVERGED,
    VERDICTS,
    Comparison,
    Curve,
    compare,
    instances_curve,
    judged_together,
    squared_overlaps,
)
from dmft.result.systematic import WORDS
from dmft.result.theory import Columns, Theory, theory_of
from sgd_sim.result import SimulatedKernels, SimulationResult, load
from workbench.inspection.against_fields import FieldComparison, fields_against
from workbench.inspection.against_kernels import KernelComparison, kernels_against, simulated_kernels, theory_kernels
from workbench.inspection.by_component import compared
from workbench.inspection.own_data import AS_GIVEN, ERROR, interpolated, is_table, own_arrays, read_table

OBSERVABLES = tuple(curve.name for curve in TABLE if curve.compared)
NETWORK_OBSERVABLES = tuple(curve.name for curve in NETWORK if curve.compared)
# Keys in which the runs of the files may differ and still be the same experiment.
_MAY_DIFFER = ("title", "algorithm.t_max")
_SOUND = ("done", "converged", "noise floor", "deterministic")     # outcomes of a complete theory
_MOST_NAMED = 6                                   # times named one by one in a note
NOTED_LOSSES = 0.1          # lost samples are noted if a simulation has at least this many lost data samples on average


@dataclass(frozen=True)
class Side:
    """One half of a comparison, from a file or from an object in memory."""

    name: str
    run: Run
    arrays: dict[str, np.ndarray] = field(repr=False)
    outcome: str = ""
    attrs: Mapping[str, Any] = field(default_factory=dict, repr=False)
    warnings: Sequence[str] = ()  # of a theory
    own: bool = False  # numbers that did not come from this package
    dimension: int = 0  # of a simulation; 0 where a user's own numbers do not say

    def array(self, name: str) -> np.ndarray:
        """A dataset; FileError when this half does not have it."""
        if name not in self.arrays:
            usual = NETWORK_OBSERVABLES if self.run.has_network else OBSERVABLES
            others = ", ".join(other for other in (*usual, *self.run.theory.observables) if other in self.arrays) or "none"
            why = "; a loss that declares no labels has none (docs/howto-own.md)" if name in ("mse", "error") else ""
            raise FileError(f"{self.name}: has no '{name}'{why}; observables in it: {others}")
        return self.arrays[name]


@dataclass(frozen=True)
class AgainstSimulations:
    """Theory against simulations, one Comparison per observable; print it for the table, `.verdict` for the answer."""

    run: Run                    # of the theory
    dimensions: list[int]
    comparisons: list[Comparison]
    left_out: dict[str, np.ndarray] = field(repr=False)     # observable -> times at which a side is not finite
    outcome: str
    notes: list[str] = field(repr=False)
    systematic: dict[str, tuple[float, float]]    # what it is of which observable of the theory -> its largest estimate, its error
    attrs: Mapping[str, Any] = field(default_factory=dict, repr=False)      # what the observables of the theory mean
    kernels: list[KernelComparison] = field(default_factory=list, repr=False)
    fields: FieldComparison | None = field(default=None, repr=False)
    columns: tuple[Columns | None, list[SimulatedKernels]] = field(default=(None, []), repr=False)   # for pictures, with `kernels`

    @property
    def tables(self) -> list[Comparison]:
        """All that is compared: observables, kernels, fields."""
        return [*self.comparisons, *(kernel.pairs for kernel in self.kernels), *([self.fields.pairs] if self.fields else [])]

    @property
    def max_z(self) -> float:
        """The largest |z| over all observables, kernels and times; NaN where nothing has an error bar."""
        return float(np.fmax.reduce([result.worst for result in self.tables]))

    @property
    def verdict(self) -> str:
        """agree, cannot tell, disagree or diverged: the worst of the observables."""
        return max((self._verdict(result) for result in self.tables), key=VERDICTS.index)

    def _verdict(self, result: Comparison) -> str:
        gone = self.outcome.startswith("diverged") or self.left_out.get(result.observable, np.zeros(0)).size
        return DIVERGED if gone else result.verdict

    def plot(self, path: str | Path | None = None) -> Any:
        """Draw theory, simulations and z; returns the matplotlib Figure, written to `path` when one is given."""
        return pictures.draw("workbench.plots.compare", self, path)

    def __str__(self) -> str:
        lines = [*self.notes]
        for result in self.comparisons:
            lines += self._table(result)
        lines += map(str, [*self.kernels, *([self.fields] if self.fields else [])])
        lines += [f"estimated {what}: up to {size:.2g} +- {error:.1g}" for what, (size, error) in self.systematic.items()]
        return "\n".join([*lines, *self.verdict_lines()])

    def __repr__(self) -> str:
        names = ", ".join(result.observable for result in self.tables)
        return f"<theory against simulation, {self.where}: {names}: {self.verdict}, max |z| = {self.max_z:.2f}>"

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}\nmax |z| = {self.max_z:.2f}</pre>"

    @property
    def where(self) -> str:
        """What the theory is held against: a dimension, several carried to infinity, or numbers of the user's own."""
        if len(set(self.dimensions)) > 1:
            return "N -> infinity"
        return f"N = {self.dimensions[0]}" if self.dimensions[0] else "your data"

    def _table(self, result: Comparison) -> list[str]:
        lines = [f"{result.observable}: theory against simulation, {self.where}",
                 f"{'t':>10}  {'theory':>12} +- {'error':<9}  {'simulation':>12} +- {'error':<9}  {'z':>7}"]
        a, b = result.theory, result.simulation
        for i, t in enumerate(result.t):
            lines.append(f"{t:10.4g}  {a.mean[i]:12.6f} +- {error_text(a.error[i], '<9.2g')}  "
                         f"{b.mean[i]:12.6f} +- {error_text(b.error[i], '<9.2g')}  {number_text(result.z[i], '7.2f')}")
        freedom = result.degrees_of_freedom
        instances = f"instances at {len(self.dimensions)} dimensions" if len(self.dimensions) > 1 else f"{b.count} instances"
        most = f"{freedom.min():.0f} or more" if b.count >= AS_GIVEN else f"{freedom.min():.0f} to {freedom.max():.0f}"
        lines.append(f"{a.count} replicas, {'error bars as given' if b.count >= AS_GIVEN else instances}: z has {most} degrees of "
                     f"freedom (Student); 99 % of {'tables' if result.among < 2 else f'all {result.among} tables together'} stay "
                     f"below |z| = {result.bound:.1f}")
        if b.count < 2:
            lines.append("note: one instance gives no error bar of the simulation, and no z; take more instances")
        elif a.count < 2:
            lines.append("note: one replica gives no error bar of the theory; z uses that of the simulation alone")
        return lines

    def verdict_lines(self) -> list[str]:
        """The verdict in words, one line, and what to do about it."""
        by_verdict = {word: [r for r in self.tables if self._verdict(r) == word] for word in VERDICTS}
        names = {word: ", ".join(r.observable for r in found) for word, found in by_verdict.items()}
        if self.verdict == AGREE:
            return ["verdict: agree: theory and simulation agree within their errors"]
        if self.verdict == DIVERGED:
            return [f"verdict: diverged: {self._diverged(by_verdict[DIVERGED])}"]
        if self.verdict == DISAGREE:
            lines = [f"verdict: disagree: theory and simulation differ in {names[DISAGREE]} by more than their errors"]
            if len(set(self.dimensions)) == 1 and self.dimensions[0]:
                lines.append("a finite dimension shifts simulations by O(1/N): give simulations at several N to extrapolate")
            return lines
        where = "; ".join(r.observable + ("" if r.tests else f" at t = {_times(r.t[r.blind])}") for r in by_verdict[CANNOT_TELL])
        unknown = any(np.isnan(r.z).all() for r in by_verdict[CANNOT_TELL])
        why = "is not known" if unknown else f"is above {100 * BLIND_SHARE:g} % of the largest value in the simulation"
        return [f"verdict: cannot tell: the combined error of {where} {why}",
                "more replicas, samples or instances make the errors smaller"]

    def _diverged(self, found: list[Comparison]) -> str:
        parts = []
        for result in found:
            if lost := self.left_out.get(result.observable, np.zeros(0)).size:
                parts.append(f"{result.observable} is not finite at {lost} of {lost + result.t.size} common times")
            if result.blown_up.any():
                since = "" if result.tests else f" from t = {result.t[result.blown_up][0]:g} on"
                parts.append(f"the theory's {result.observable} has blown up{since}")
        if not parts:
            parts = [f"the theory, after the last common time t = {found[0].t[-1]:g}"]
        rest = {AGREE: "up to there they agree", DISAGREE: "up to there they differ, too",
                CANNOT_TELL: "up to there the errors are too large to tell", DIVERGED: "its error bars mean nothing there"}
        return "; ".join([*parts, rest[max((result.verdict for result in found), key=VERDICTS.index)]])


def against_simulations(theory: Theory | str | Path, simulations: Sequence[Any],
                        observables: Sequence[str] = (), kernels: bool = False, fields: bool = False) -> AgainstSimulations:
    """Compare at the times that all have; simulations at several dimensions are extrapolated to N = infinity. A simulation is a
    result, a file, or (dimension, table) with numbers of the user's own (own_data.py). Without observables: m, or V from a random
    start, where m is 0, C_12 and a user's own that all have; all that a user's numbers tell. kernels: C, M_C and R, too; fields:
    quantiles of the fields of snapshots."""
    ours = _theory(theory)
    theirs = [_own(ours, simulation) if isinstance(simulation, tuple) or is_table(simulation) else _simulation(simulation)
              for simulation in simulations]
    for side in (side for side in theirs if side.own):
        observables = observables or [name for name in side.arrays if name != "t" and not name.endswith(ERROR)]
    own = [name for name in (*asked_for(ours.run.theory), *observables_of(ours.run))
           if all(name in side.arrays for side in (ours, *theirs))]
    usual = [name for name in compared(ours.run) if all(name in side.arrays for side in (ours, *theirs))] if (
        ours.run.has_network) else ["V" if "V" in ours.arrays else "m"]
    observables = _expanded(ours, observables or [*usual, *own])
    notes = [note for side in theirs for note in _differences(ours.run, side)]
    notes += [f"note: {ours.name}: {text}" for text in ours.warnings]
    if ours.outcome not in _SOUND:
        notes.append(f"note: {ours.name}: the outcome of the theory is '{ours.outcome}'")
    dimensions = [side.dimension for side in theirs]
    if len(theirs) > 1 and not all(dimensions):
        raise UserError("compare: several are carried to infinite dimension; say the dimension of your own numbers (--dimension N)")
    notes += [f"note: {side.name}: all instances share one data set (landscape = \"shared\"): their errors leave out what changes "
              "from one data set to another, of order 1/sqrt(N)" for side in theirs if side.run.simulation.landscape == "shared"]
    notes += _left_behind(ours, max(dimensions))
    names = f"{ours.name} and {', '.join(side.name for side in theirs)}"
    comparisons, left_out, tolerance = [], {}, 1e-3 * ours.run.algorithm.first_rate
    for name in observables:
        curves = []
        for side in theirs:
            curves.append(_instances(side, name))
            gone = len(side.array(name)) - curves[-1].count
            if gone > 0:
                notes.append(f"note: {side.name}: {gone} diverged or unfinished instances left out")
        mine = _curve(ours, name)
        for side in theirs:
            mine = interpolated(mine, side.array("t"), tolerance) if side.own else mine
            beyond = side.array("t").size - mine.t.size if side.own else 0
            notes += [f"note: {side.name}: {beyond} times beyond those of the theory left out"] if beyond else []
        result = compare(name, mine, curves, dimensions, tolerance)
        if result.t.size == 0:
            raise FileError(f"{names}: no time in common; simulate with the same learning_rate")
        left_out[name] = result.t[~result.usable]
        if not result.usable.any():
            raise FileError(f"{names}: no common time at which {name} is finite on both sides; nothing to compare")
        if left_out[name].size:
            notes.append(f"note: {name}: t = {_times(left_out[name])} left out, where theory or simulation is not finite "
                         "(diverged)")
        comparisons.append(result.where(result.usable))
    pairs = [simulated_kernels(side.name, side.arrays) for side in theirs] if kernels else []
    found = kernels_against(theory_kernels(ours.arrays), int(_got_through(ours).sum()), pairs, dimensions,
                            tolerance) if kernels else []
    if kernels and not found:
        raise FileError(f"{names}: no pair of times in common; give both the same theory.waiting_times or kernel_points")
    largest = {f"{words} of the theory's {name}": size for name in observables for what, words in WORDS.items()
               if (size := _largest(ours.arrays, f"{what}/{name}"))}
    return AgainstSimulations(ours.run, dimensions, judged_together(comparisons), left_out, ours.outcome,
                              list(dict.fromkeys(notes)), largest, meanings(ours.attrs), found,
                              _fields(theory, simulations) if fields else None,
                              _columns(ours, theirs) if kernels else (None, []))


def _largest(arrays: Mapping[str, np.ndarray], name: str) -> tuple[float, float] | None:
    """The largest of an estimate, with its error; None where there is none, or rounding alone."""
    size = np.abs(arrays.get(name, np.zeros(1)))
    if not np.isfinite(size).any() or np.nanmax(size) < ERROR_ROUNDING:
        return None
    at = int(np.nanargmax(size))
    return float(size[at]), float(arrays.get(f"{name}_error", np.full(size.shape, np.nan))[at])


def _stored(path: str | Path, kind: str) -> Side:
    stored = store.load(path)
    if stored.kind != kind:
        raise FileError(f"{path}: its kind is {stored.kind}, but a {kind} file is wanted (dmft compare THEORY.h5 SIM.h5 ...)")
    run = parse_run(stored.run_text, str(path), any_loss=True)
    layouts.check(stored, needed=("t",), observables=run.theory.observables)
    arrays = _by_component(run, stored.arrays, kind) | (_squares(run, stored.arrays) if kind == "simulation" else {})
    return Side(str(path), run, arrays, str(stored.attrs.get("outcome", "unknown")), stored.attrs, _warnings(stored),
                dimension=run.simulation.dimension)


def _warnings(stored: store.Stored) -> list[str]:
    """Of a theory file that has everything; others are compared as far as they go."""
    try:
        return theory_of(stored).warnings if stored.kind == "theory" else []
    except FileError:
        return []


def _theory(source: Theory | str | Path) -> Side:
    if not isinstance(source, Theory):
        return _stored(source, "theory")
    return Side("the theory", source.run, _by_component(source.run, source.datasets, "theory"), source.outcome, source.attrs,
                source.warnings)


def _simulation(source: SimulationResult | str | Path) -> Side:
    if not isinstance(source, SimulationResult):
        return _stored(source, "simulation")
    arrays = _by_component(source.run, {"t": source.t, **source.curves}, "simulation")
    for place, part in (("kernels", source.kernels), ("columns", source.columns)):
        arrays |= {f"{place}/{name}": array for name, array in (vars(part) if part else {}).items()}
    arrays |= _squares(source.run, arrays)
    dimension = source.run.simulation.dimension
    return Side(f"the simulation at N = {dimension}", source.run, arrays, dimension=dimension)


def _own(theory: Side, source: Any) -> Side:
    """Numbers of the user's own, (dimension, table) or a table."""
    dimension, table = source if isinstance(source, tuple) else (None, source)
    name, given = read_table(table)
    arrays = own_arrays(name, given, theory.arrays, str(theory.run.problem.start))
    return Side(name, theory.run, arrays, own=True, dimension=dimension or 0)


def _by_component(run: Run, arrays: Mapping[str, np.ndarray], kind: str) -> dict[str, np.ndarray]:
    """The arrays of a file with those of a network's curves that are matrices by their components: m[0,1], m[0,1]_error,
    bias/m[0,1]."""
    found = dict(arrays)
    if not run.has_network:
        return found
    for curve in NETWORK:
        for before, after in itertools.product(("", *(f"{what}/" for what in WORDS)), ("", "_error")):
            if curve.axes and (array := arrays.get(f"{before}{curve.name}{after}")) is not None:
                leading = 1 if kind == "theory" else 2
                found |= {f"{before}{name}{after}": part for name, part in components(curve.name, array, leading).items()}
    return found


def _expanded(theory: Side, names: Sequence[str]) -> list[str]:
    """Names with those of a network's matrices replaced by those of their components."""
    matrices = {curve.name for curve in NETWORK if curve.axes} if theory.run.has_network else set()
    return [part for name in names for part in (components(name, theory.array(name), 1) if name in matrices else [name])]


def _squares(run: Run, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """{"V": N m^2} of a simulation from a random start, named as in the theory, whose V is its mean; {} for other starts."""
    if not starts_at_random(run.problem) or "m" not in arrays:
        return {}
    return {"V": squared_overlaps(arrays["t"], arrays["m"], run.simulation.dimension, run.problem.start_variance)}


def _curve(side: Side, name: str) -> Curve:
    return Curve(side.array("t"), side.array(name), side.array(f"{name}_error"), int(_got_through(side).sum()))


def _fields(theory: Theory | str | Path, simulations: Sequence[SimulationResult | str | Path]) -> FieldComparison:
    ours = theory if isinstance(theory, Theory) else theory_of(store.load(theory))
    theirs = [(f"the simulation at N = {each.run.simulation.dimension}" if isinstance(each, SimulationResult) else str(each),
               (each if isinstance(each, SimulationResult) else load(each)).snapshots) for each in simulations]
    return fields_against(ours.snapshots, theirs, 1e-3 * ours.run.algorithm.first_rate)


def _columns(theory: Side, simulations: Sequence[Side]) -> tuple[Columns | None, list[SimulatedKernels]]:
    """The columns at waiting times, for pictures."""
    ours, *theirs = ({name.removeprefix("columns/"): array for name, array in side.arrays.items() if name.startswith("columns/")}
                     for side in (theory, *simulations))
    return Columns(**ours) if ours else None, [SimulatedKernels(**each) for each in theirs]


def _got_through(side: Side) -> np.ndarray:
    """(replicas,) bool: those that did not diverge, over which the theory takes its means (all, if all diverged)."""
    m = side.arrays.get("replicas/m", np.zeros((1, 1)))
    whole = np.isfinite(m.reshape(len(m), -1)).all(axis=1)
    return whole if whole.any() else np.ones_like(whole)


def _left_behind(theory: Side, dimension: int) -> list[str]:
    """Notes on replicas that diverged, and on lost samples [lost] if simulations of that dimension are expected to have some."""
    good, lost, notes = _got_through(theory), theory.arrays.get("lost"), []
    if not good.all():
        notes.append(f"note: {theory.name}: {int((~good).sum())} of {good.size} replicas diverged; "
                     "means and errors are those of the others")
    share = float(np.nanmax(lost, initial=0.0)) if lost is not None else 0.0
    if (data := theory.run.problem.alpha * dimension * share) > NOTED_LOSSES:
        notes.append(f"note: {theory.name}: at N = {dimension} a simulation has {data:.2g} data samples on average that leave "
                     "their trapping region, as some of the theory's did, and diverges with them; take a smaller learning rate")
    return notes


def _instances(side: Side, name: str) -> Curve:
    if side.own and (error := side.arrays.get(f"{name}{ERROR}")) is not None:
        return Curve(side.array("t"), side.array(name)[0], error, AS_GIVEN)
    curve = instances_curve(side.array("t"), side.array(name))
    if curve.count == 0:
        raise FileError(f"{side.name}: every instance diverged; nothing to compare, take a smaller learning_rate")
    return curve


def _differences(theory: Run, simulation: Side) -> list[str]:
    found = [f"{key} {old} / {new}" for key, old, new in changes(theory, simulation.run)
             if not key.startswith(("theory.", "simulation.")) and key not in _MAY_DIFFER]
    return [f"note: {simulation.name} is another experiment than the theory: {', '.join(found)}"] if found else []


def _times(t: np.ndarray) -> str:
    return ", ".join(f"{time:g}" for time in t) if t.size <= _MOST_NAMED else f"{t[0]:g} ... {t[-1]:g} ({t.size} times)"
