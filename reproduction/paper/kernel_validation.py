"""Two-time kernels of the theory against simulations carried to N = infinity: three algorithms, six by six times; a part of the
figure `validation`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reproduction.paper.computations import Data
from reproduction.paper.figure import Series
from workbench.inspection.against_kernels import kernels_against

KERNEL_KINDS = ("gd", "persistent_sgd", "langevin")
KERNEL_DIMENSIONS = (500, 1000, 2000)
KERNEL_TIMES = (0.0, 0.1, 0.3, 0.6, 1.2, 2.0)
KERNEL_ACCURACY = 0.002  # of C
ALPHA = 2

# Kernels between single times need a full history; both halves end at the last of these times.
_BOTH = {"algorithm.t_max": KERNEL_TIMES[-1], "theory.history": "full", "theory.waiting_times": list(KERNEL_TIMES),
         "simulation.kernels": True, "simulation.record": list(KERNEL_TIMES)}


def _name(kind: str, n: int | None = None) -> str:
    return f"kernels_{kind}" if n is None else f"kernels_{kind}_N{n}"


def kernel_series() -> list[Series]:
    """A theory and a simulation of every dimension, for each algorithm."""
    found = []
    for kind in KERNEL_KINDS:
        run = f"{kind}_alpha{ALPHA}"
        found.append(Series(_name(kind), run, f"kernels of {kind}", simulation=False))
        found += [Series(_name(kind, n), run, f"kernels of {kind}, N = {n}", theory=False) for n in KERNEL_DIMENSIONS]
    return found


def kernel_sizes(samples: int, replicas: int, instances: tuple[int, ...]) -> dict[str, dict[str, Any]]:
    """The changes of every series at one size; instances at each dimension."""
    found: dict[str, dict[str, Any]] = {}
    for kind in KERNEL_KINDS:
        found[_name(kind)] = {**_BOTH, "theory.samples": samples, "theory.replicas": replicas}
        found |= {_name(kind, n): {**_BOTH, "simulation.dimension": n, "simulation.instances": count}
                  for n, count in zip(KERNEL_DIMENSIONS, instances)}
    return found


def kernel_table(data: Mapping[str, Data]) -> list[str]:
    """Markdown: a row per algorithm and kernel; `not run` where a half is missing."""
    rows = ["| algorithm | kernel | pairs | rms z | largest | 99 % of chance | largest error: theory | simulation | verdict |",
            "|---|---|---|---|---|---|---|---|---|"]
    for kind in KERNEL_KINDS:
        theory = data[_name(kind)].theory if _name(kind) in data else None
        runs = [found.simulation for n in KERNEL_DIMENSIONS if (found := data.get(_name(kind, n))) and found.simulation]
        if theory is None or theory.kernels is None or len(runs) < len(KERNEL_DIMENSIONS):
            rows.append(f"| {kind} | | not run, or {len(runs)} of {len(KERNEL_DIMENSIONS)} dimensions | | | | | | |")
            continue
        tables = kernels_against(theory.kernels, theory.count, [one.kernels for one in runs if one.kernels is not None],
                                 [one.run.simulation.dimension for one in runs], 0.5 * theory.run.algorithm.first_rate)
        for one in tables:
            pairs = one.pairs
            exact = pairs.observable != "C" or one.largest_errors[1] <= KERNEL_ACCURACY
            rows.append(f"| {kind} | {pairs.observable} | {pairs.z.size} | {one.rms:.2f} | {pairs.worst:.2f} | {pairs.bound:.1f} | "
                        f"{one.largest_errors[0]:.2g} | {one.largest_errors[1]:.2g} | {pairs.verdict}"
                        f"{'' if exact else f', error > {KERNEL_ACCURACY}'} |")
    return rows
