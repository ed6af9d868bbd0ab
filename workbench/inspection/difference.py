"""The difference of two files: what differs in their runs, and which curves and kernels differ by more than chance explains.

Each dataset is judged twice, by single entries and by stretches of its past, each with its bound for that many tests (Student,
Bonferroni). Stretches are what tells files with few replicas apart: among thousands of correlated entries some have a far too
small error by chance, and a bound for single entries must allow for them (27 errors in a kernel of 250 times, 4 replicas). A
stretch compares sums of squares, sum (b - a)^2 / sum error^2, which no single error rules. If all its entries move as one, this is
the square of a Student variable; with all other correlations that were tried it is large less often.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dmft.core import store
from dmft.equations.kernels import COLUMNS
from dmft.model.runfile import changes
from dmft.result.comparison import CHANCE, Comparison, Curve, chance_bounds, common_indices, of_pair
from dmft.result.systematic import shown
from dmft.result.theory import Columns, Theory
from workbench.inspection.curves import opened_curves
from workbench.inspection.kinds import Opened

RUNNING_TIMES = "wall_times"        # a dataset of running times, which is not compared


@dataclass(frozen=True)
class Judged:
    """The test of a dataset that is furthest out: |z|, the bound that chance exceeds in half of CHANCE of all datasets at most, and
    where. NaN and nowhere without error bars."""

    z: float = float("nan")
    bound: float = float("nan")
    at: str = ""

    @property
    def ratio(self) -> float:
        """z over its bound."""
        return self.z / self.bound


@dataclass(frozen=True)
class DatasetDifference:
    """A curve or a kernel at the times that both files have."""

    name: str
    entries: int
    relative: float                             # the largest |b - a| over the largest |a| (absolute where a is 0)
    relative_at: str
    single: Judged                              # of all entries
    stretch: Judged                             # of all stretches: root mean squares
    one_sided: list[tuple[float, float]]        # where one of the two alone is finite: first and last t

    @property
    def ratio(self) -> float:
        """The larger of the two |z| over its bound; NaN without error bars."""
        return max(self.single.ratio, self.stretch.ratio)


@dataclass(frozen=True)
class Difference:
    """Everything in which two files a and b differ; run and provenance as (key, in a, in b)."""

    run: list[tuple[str, Any, Any]]
    provenance: list[tuple[str, Any, Any]]
    only_a: list[str]                           # datasets in a alone, for files of the same kind
    only_b: list[str]
    compared: list[DatasetDifference]           # curves and kernels, worst first
    same_numbers: bool                          # both drew the same random numbers: errors of a and b are correlated
    datasets: list[str] | None = None           # for studies, which have no curves: datasets that differ
    systematic: tuple[list[str], ...] = ()      # of a and b, in words: what their error bars leave out

    @property
    def verdict(self) -> str:
        """One line: the same numbers, differ, cannot be judged, or agree."""
        both = " where both are finite" if any(found.one_sided for found in self.compared) else ""
        apart = [found.name for found in self.compared if found.ratio > 1.0]
        blind = [found for found in self.compared if found.relative and np.isnan(found.ratio)]
        if self.datasets is not None:
            whole = not self.datasets and not self.only_a and not self.only_b
            return "the same numbers (running times aside)" if whole else f"{len(self.datasets)} datasets differ"
        if not self.compared:
            return "no curves in common"
        if not any(found.relative for found in self.compared):
            return f"the same numbers{both}"
        if apart:
            return f"differ beyond their errors: {', '.join(apart)}"
        if blind:
            worst = max(blind, key=lambda found: found.relative)
            return (f"differ, and cannot be judged without error bars: {', '.join(found.name for found in blind)}; the largest "
                    f"relative difference is {worst.relative:.2g} ({worst.name} at {worst.relative_at})")
        if self.same_numbers:
            return (f"no difference beyond their errors{both}; but both have the same random numbers, which keep them closer than "
                    "chance would: only another seed can tell that they agree")
        return f"agree within their errors{both}"


def difference(a: Opened, b: Opened) -> Difference:
    """What differs from a to b; for files of different kinds, in what they have in common."""
    run = changes(a.run, b.run) if a.run is not None and b.run is not None else _attributes(
        {"run": a.header.run_text}, {"run": b.header.run_text})
    mine, others = opened_curves(a), opened_curves(b)
    tolerance = 1e-6 + 1e-3 * min((c.t[1] - c.t[0] for c in (*mine.values(), *others.values()) if c.t.size > 1), default=0.0)
    compared = [curve_difference(name, mine[name], others[name], tolerance) for name in mine if name in others]
    if isinstance(a.result, Theory) and isinstance(b.result, Theory):
        compared += _kernels(a.result, b.result, tolerance)
    compared = sorted((found for found in compared if found.entries),
                      key=lambda found: (-np.nan_to_num(found.ratio, nan=-1.0), -found.relative))
    shapes = a.header.shapes, b.header.shapes
    alike = a.kind == b.kind and a.live == b.live
    return Difference(run, _attributes(a.header.attrs, b.header.attrs), sorted(set(shapes[0]) - set(shapes[1]) if alike else ()),
                      sorted(set(shapes[1]) - set(shapes[0]) if alike else ()), compared,
                      None not in _drawn(a) and _drawn(a) == _drawn(b),
                      _datasets(a, b) if alike and a.kind == "convergence" else None,
                      tuple(shown(each.result.datasets) if isinstance(each.result, Theory) else [] for each in (a, b)))


def _drawn(opened: Opened) -> tuple[Any, ...]:
    """What names the random numbers of a file; None in it where nothing was drawn, or nobody knows what."""
    run, attrs = opened.run, opened.header.attrs
    if run is not None and opened.kind == "theory":
        return opened.kind, run.theory.seed, run.theory.samples
    if run is not None and opened.kind == "simulation":
        return opened.kind, run.simulation.seed, run.simulation.dimension
    return opened.kind, attrs.get("seed"), attrs.get("dimension")


def _datasets(a: Opened, b: Opened) -> list[str]:
    """Datasets in both whose numbers are not the same, without running times."""
    one, two = store.load(a.path).arrays, store.load(b.path).arrays
    return [name for name in one if name in two and not name.endswith(RUNNING_TIMES)
            and not np.array_equal(one[name], two[name], equal_nan=one[name].dtype.kind == two[name].dtype.kind == "f")]


def _attributes(a: dict[str, Any], b: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    return [(key, a.get(key), b.get(key)) for key in sorted({*a, *b}) if str(a.get(key)) != str(b.get(key))]


def curve_difference(name: str, a: Curve, b: Curve, tolerance: float) -> DatasetDifference:
    """A curve of two files at the times that both have."""
    i, j = common_indices(a.t, b.t, tolerance)
    return _judge(name, a.where(i), b.where(j), np.arange(i.size))


def _kernels(a: Theory, b: Theory, tolerance: float) -> list[DatasetDifference]:
    """The kernels that both have, at the saved times that both have."""
    ours, others = kernels_of(a), kernels_of(b)
    maps = [kernel_difference(name, ours[name], others[name], tolerance) for name in ours if name in others]
    if a.columns is None or b.columns is None:
        return maps
    entries = [*np.ndindex((a.run.network.units,) * 2)] if a.run.has_network else [()]
    return maps + [column_difference(name, a.columns, b.columns, (int(a.averaged.sum()), int(b.averaged.sum())), tolerance, entry)
                   for entry in entries for name in COLUMNS]


def kernels_of(theory: Theory) -> dict[str, Curve]:
    """Kernels between single times by name, mean and error (P, P) over t (P,), with the count of replicas; averages over cells of
    t' are other cells in each file."""
    arrays, count = theory.kernels.single.arrays, int(theory.averaged.sum())
    names = [name for name in arrays if f"{name}_error" in arrays]
    if theory.run.has_network:
        pairs = np.ndindex((theory.run.network.units,) * 2)
        return {f"{name}[{r},{q}]": Curve(arrays["t"], arrays[name][..., r, q], arrays[f"{name}_error"][..., r, q], count)
                for r, q in pairs for name in names}
    return {name: Curve(arrays["t"], arrays[name], arrays[f"{name}_error"], count) for name in names}


def column_difference(name: str, a: Columns, b: Columns, counts: tuple[int, int], tolerance: float,
                      entry: tuple[int, ...] = ()) -> DatasetDifference:
    """A kernel of two solutions at the times and waiting times that both have. entry: the pair of units, of a network."""
    rows, waits = common_indices(a.t, b.t, tolerance), common_indices(a.t_w, b.t_w, tolerance)
    row, wait = np.nonzero(a.t[rows[0]][:, None] >= a.t_w[waits[0]] + (tolerance if name in ("M_R", "R", "chi") else -tolerance))

    def part(columns: Columns, which: int) -> Curve:
        row_here, place = rows[which][row], (rows[which][row], waits[which][wait], *entry)
        return Curve(columns.t[row_here], getattr(columns, name)[place], getattr(columns, f"{name}_error")[place], counts[which])

    of = f"[{','.join(map(str, entry))}]" if entry else ""
    return _judge(f"{name}{of}(t, t_w)", part(a, 0), part(b, 1), wait, a.t_w[waits[0][wait]])


def kernel_difference(name: str, a: Curve, b: Curve, tolerance: float) -> DatasetDifference:
    """One kernel of two solutions, its mean and error (P, P) over t (P,); responses without their empty diagonal."""
    i, j = common_indices(a.t, b.t, tolerance)
    row, column = np.tril_indices(i.size, -1 if name.startswith(("M_R", "R")) else 0)

    def part(kernel: Curve, index: np.ndarray) -> Curve:
        place = index[row], index[column]
        return Curve(kernel.t[index[row]], kernel.mean[place], kernel.error[place], kernel.count)

    return _judge(name, part(a, i), part(b, j), column, a.t[i[column]])


def _judge(name: str, a: Curve, b: Curve, index: np.ndarray, past: np.ndarray | None = None) -> DatasetDifference:
    """Two aligned datasets of entries (n,). index: of the time that stretches part, t of a curve and t' of a kernel; they double in
    length. past: t' of a kernel."""
    finite = np.isfinite(a.mean) & np.isfinite(b.mean)
    one_sided = _stretches(np.unique(a.t), np.isin(np.unique(a.t), a.t[np.isfinite(a.mean) != np.isfinite(b.mean)]))
    a, b, index, past = a.where(finite), b.where(finite), index[finite], None if past is None else past[finite]
    if not a.t.size:
        return DatasetDifference(name, 0, 0.0, "", Judged(), Judged(), one_sided)

    def where(i: int) -> str:
        return f"t = {a.t[i]:g}" + ("" if past is None else f", t' = {past[i]:g}")

    gap = np.abs(b.mean - a.mean)
    worst = int(np.argmax(gap))
    relative = float(gap[worst] / (np.abs(a.mean).max() or 1.0))
    known = np.flatnonzero(np.isfinite(a.error) & np.isfinite(b.error))
    if not known.size or max(a.count, b.count) < 2:
        return DatasetDifference(name, gap.size, relative, where(worst), Judged(), Judged(), one_sided)
    time, doubling = a.t if past is None else past, np.frexp(index[known])[1]
    parts = [known[doubling == level] for level in np.unique(doubling)]
    rows = [Curve(np.array([time[part[0]] for part in parts]), np.array([_rms(values[part]) for part in parts]),
                  np.array([_rms(error[part]) for part in parts]), count)
            for values, error, count in ((gap, a.error, a.count), (np.zeros_like(gap), b.error, b.count))]

    def stretch(i: int) -> str:
        first, last = time[parts[i]].min(), time[parts[i]].max()
        return ("t = " if past is None else "t' = ") + span(first, last)

    return DatasetDifference(name, gap.size, relative, where(worst), _furthest(of_pair(name, a.where(known), b.where(known)),
                             lambda i: where(known[i])), _furthest(of_pair(name, *rows), stretch), one_sided)


def _furthest(tests: Comparison, where: Callable[[int], str]) -> Judged:
    """The |z| that is largest in units of its bound. Welch's degrees of freedom serve sides of equal counts; with unequal ones they
    promise too much where the side of few repetitions has the larger error and its estimate is small by chance: there the degrees
    of freedom of the smaller side hold. A side without any error is exact and does not count. (Equal counts, with errors that
    differ threefold: 1.5 times the promised rate if all entries move as one, by 2 million drawn pairs of 4 replicas.)"""
    counts = {side.count for side in (tests.theory, tests.simulation) if side.error.any()}
    freedom = tests.degrees_of_freedom if len(counts) < 2 else np.full(tests.z.shape, max(min(counts) - 1.0, 1.0))
    bounds, z = chance_bounds(tests.z.size, freedom, CHANCE / 2.0), np.abs(tests.z)
    i = int(np.argmax(z / bounds))
    return Judged(float(z[i]), float(bounds[i]), where(i))


def _rms(values: np.ndarray) -> float:
    largest = np.abs(values).max() or 1.0       # squares of what explodes are not finite
    return float(largest * np.sqrt(np.mean((values / largest) ** 2)))


def _stretches(t: np.ndarray, marked: np.ndarray) -> list[tuple[float, float]]:
    """First and last time of each run of marked times."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], marked.astype(int), [0]))))
    return [(float(t[first]), float(t[end - 1])) for first, end in zip(edges[::2], edges[1::2])]


def span(first: float, last: float) -> str:
    """A stretch of time for people."""
    return f"{first:g}" if first == last else f"{first:g} .. {last:g}"
