"""The difference of two files: what differs in their runs, and where curves and kernels differ by more than their errors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dmft.core import store
from dmft.equations.kernels import KERNELS
from dmft.model.runfile import changes
from dmft.result.comparison import Curve, common_indices, compare
from dmft.result.theory import Kernels, Theory
from workbench.inspection.checks import in_errors
from workbench.inspection.curves import curves_of
from workbench.inspection.kinds import Opened

KERNEL_SIGMAS = 5.0


@dataclass(frozen=True)
class CurveDifference:
    """The largest difference b - a of a curve, and the times where |z| exceeds what chance explains."""

    name: str
    common: int                                 # times in both
    largest: float
    at: float                                   # its time
    z: float                                    # largest |z| anywhere; NaN where neither has an error bar
    bound: float                                # |z| that chance exceeds with probability 1 %
    apart: list[tuple[float, float]] = field(default_factory=list)    # stretches with |z| > bound: first and last time
    one_sided: list[tuple[float, float]] = field(default_factory=list)    # where one of the two alone is finite


@dataclass(frozen=True)
class KernelDifference:
    """Distance of a kernel at the saved times that both files have."""

    name: str
    common: int
    relative: float                             # |b - a| / |a|, Frobenius
    z: float                                    # root mean square of the difference in standard errors
    share: float                                # of entries that differ by more than KERNEL_SIGMAS standard errors


@dataclass(frozen=True)
class Difference:
    """Everything in which two files a and b differ; run and provenance as (key, in a, in b)."""

    run: list[tuple[str, Any, Any]]
    provenance: list[tuple[str, Any, Any]]
    only_a: list[str]                           # datasets in a alone, for files of the same kind
    only_b: list[str]
    curves: list[CurveDifference]
    kernels: list[KernelDifference]
    datasets: list[str] | None = None           # for studies, which have no curves: datasets that differ


TIMES = "wall_times"        # a dataset of running times, which is not compared


def difference(a: Opened, b: Opened) -> Difference:
    """What differs from a to b; for files of different kinds, in what they have in common."""
    run = changes(a.run, b.run) if a.run is not None and b.run is not None else _attributes(
        {"run": a.header.run_text}, {"run": b.header.run_text})
    mine, others = curves_of(a), curves_of(b)
    tolerance = 1e-6 + 1e-3 * min((c.t[1] - c.t[0] for c in (*mine.values(), *others.values()) if c.t.size > 1), default=0.0)
    curves = [found for name in mine if name in others if (found := _curve(name, mine[name], others[name], tolerance))]
    kernels = []
    if isinstance(a.result, Theory) and isinstance(b.result, Theory):
        kernels = [kernel_difference(name, a.result.kernels, b.result.kernels, tolerance) for name in KERNELS]
    shapes = a.header.shapes, b.header.shapes
    alike = a.kind == b.kind and a.live == b.live
    return Difference(run, _attributes(a.header.attrs, b.header.attrs), sorted(set(shapes[0]) - set(shapes[1]) if alike else ()),
                      sorted(set(shapes[1]) - set(shapes[0]) if alike else ()), curves, kernels,
                      _datasets(a, b) if alike and a.kind == "convergence" else None)


def _datasets(a: Opened, b: Opened) -> list[str]:
    """Datasets in both whose numbers are not the same, without running times."""
    one, two = store.load(a.path).arrays, store.load(b.path).arrays
    return [name for name in one if name in two and not name.endswith(TIMES)
            and not np.array_equal(one[name], two[name], equal_nan=one[name].dtype.kind == two[name].dtype.kind == "f")]


def _attributes(a: dict[str, Any], b: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    return [(key, a.get(key), b.get(key)) for key in sorted({*a, *b}) if str(a.get(key)) != str(b.get(key))]


def _finite(curve: Curve) -> Curve:
    good = np.isfinite(curve.mean)
    return Curve(curve.t[good], curve.mean[good], curve.error[good], curve.count)


def _one_sided(a: Curve, b: Curve, tolerance: float) -> list[tuple[float, float]]:
    i, j = common_indices(a.t, b.t, tolerance)
    return _stretches(a.t[i], np.isfinite(a.mean[i]) != np.isfinite(b.mean[j]))


def _curve(name: str, a: Curve, b: Curve, tolerance: float) -> CurveDifference | None:
    one_sided = _one_sided(a, b, tolerance)
    a, b = _finite(a), _finite(b)
    if not a.t.size or not b.t.size:
        return None
    result = compare(name, a, [b], [1], tolerance)
    if not result.t.size:
        return None
    gap = result.simulation.mean - result.theory.mean
    worst = int(np.argmax(np.abs(gap)))
    return CurveDifference(name, result.t.size, float(gap[worst]), float(result.t[worst]), result.worst, result.bound,
                           _stretches(result.t, np.abs(result.z) > result.bound), one_sided)


def _stretches(t: np.ndarray, marked: np.ndarray) -> list[tuple[float, float]]:
    """First and last time of each run of marked times."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], marked.astype(int), [0]))))
    return [(float(t[first]), float(t[end - 1])) for first, end in zip(edges[::2], edges[1::2])]


def kernel_difference(name: str, a: Kernels, b: Kernels, tolerance: float) -> KernelDifference:
    """One kernel of two solutions on the saved times that both have; responses without their empty diagonal."""
    i, j = common_indices(a.t, b.t, tolerance)
    lower = np.tril_indices(i.size, -1 if name in ("M_R", "R") else 0)

    def part(kernels: Kernels, index: np.ndarray, label: str) -> np.ndarray:
        return getattr(kernels, label)[np.ix_(index, index)][lower]

    one, two = part(a, i, name), part(b, j, name)
    error = np.hypot(part(a, i, f"{name}_error"), part(b, j, f"{name}_error"))
    good = np.isfinite(one) & np.isfinite(two)
    gap = np.where(good, two - one, 0.0)
    # Where all replicas agree up to rounding (C(t,t) = 1) a difference in units of the error means nothing.
    z = in_errors(gap, error, 1e-9)
    z = z[np.isfinite(z) & good & (error > 1e-9)]
    norm = float(np.linalg.norm(one[good]))
    return KernelDifference(name, i.size, float(np.linalg.norm(gap)) / norm if norm else 0.0,
                            float(np.sqrt(np.mean(z**2))) if z.size else float("nan"),
                            float(np.mean(np.abs(z) > KERNEL_SIGMAS)) if z.size else float("nan"))
