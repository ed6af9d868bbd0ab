"""Two-time kernels of a theory against simulations: z over pairs of times, with a bound that knows how correlated these are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dmft.core.averages import number_text
from dmft.core.errors import FileError
from dmft.files.layouts import SIMULATED_KERNELS
from dmft.result.comparison import Comparison, Curve, common_times, of_table
from dmft.result.theory import Kernels
from sgd_sim.result import SimulatedKernels

TABLE_TIMES = 16     # of a printed table


@dataclass(frozen=True)
class KernelComparison:
    """One kernel at pairs of times t >= t' that theory and simulations have."""

    t: np.ndarray           # (P,)
    row: np.ndarray         # (pairs,) where t and t' of a pair stand among these
    column: np.ndarray
    pairs: Comparison       # over all pairs
    name: str               # of the kernel
    units: tuple[int, ...]  # of a network, between which of its units

    def table(self, values: np.ndarray) -> np.ndarray:
        """(P, P): one value a pair, t down and t' across, NaN where there is none."""
        found = np.full((self.t.size, self.t.size), np.nan)
        found[self.row, self.column] = values
        return found

    def __str__(self) -> str:
        name, pairs = self.pairs.observable, self.pairs
        shown = np.unique(np.linspace(0, self.t.size - 1, min(self.t.size, TABLE_TIMES)).round().astype(int))
        z = self.table(pairs.z)[np.ix_(shown, shown)]
        lines = [f"{name}(t, t'): z = (theory - simulation)/error, t down, t' across",
                 f"{'':>10}" + "".join(f"{t:7.3g}" for t in self.t[shown])]
        lines += [f"{t:10.4g}" + "".join(f"{number_text(x, '7.2f')}" for x in z[i, :i + 1]) for i, t in enumerate(self.t[shown])]
        return "\n".join([*lines, self.summary()])

    @property
    def rms(self) -> float:
        """Of z over all pairs."""
        z = self.pairs.z
        return float(np.sqrt(np.nanmean(z**2))) if np.isfinite(z).any() else np.nan

    @property
    def largest_errors(self) -> tuple[float, float]:
        """Of theory and of simulation over all pairs."""
        theory, simulation = (float(np.nanmax(side.error, initial=0.0)) for side in (self.pairs.theory, self.pairs.simulation))
        return theory, simulation

    def summary(self) -> str:
        """The table in one line."""
        pairs, largest = self.pairs, self.largest_errors
        return (f"{pairs.observable}: {pairs.verdict}; {pairs.z.size} pairs of times, so correlated that they count as "
                f"{pairs.tests:.3g}; rms z = {self.rms:.2f}, max |z| = {pairs.worst:.2f}, 99 % of tables stay below "
                f"{pairs.bound:.1f}; errors up to {largest[0]:.2g} (theory) and {largest[1]:.2g} (simulation)")


def theory_kernels(arrays: Mapping[str, np.ndarray]) -> Kernels:
    """The kernels of a theory file between single times."""
    names = {name.removeprefix("kernels/"): array for name, array in arrays.items() if name.startswith("kernels/")}
    return Kernels(**{name: array for name, array in names.items() if name in Kernels.__annotations__}).single


def simulated_kernels(name: str, arrays: Mapping[str, np.ndarray]) -> SimulatedKernels:
    """The kernels of a simulation file; FileError where it has none."""
    if "kernels/C" not in arrays:
        raise FileError(f"{name}: has no two-time quantities; simulate with [simulation] kernels = true")
    found = {key: arrays[f"kernels/{key}"] for key in ("t", *SIMULATED_KERNELS) if f"kernels/{key}" in arrays}
    return SimulatedKernels(t_w=found["t"], **found)


def kernels_against(theory: Kernels, count: int, simulations: Sequence[SimulatedKernels], dimensions: Sequence[int],
                    tolerance: float) -> list[KernelComparison]:
    """C, M_C and R between the times that all have, each with a comparison; of networks C alone, between every two units. Several
    dimensions are carried to infinity. count: of the replicas behind the theory. Empty where there is no common time."""
    grids = [Curve(t, t, t, 0) for t in (theory.t, *(one.t for one in simulations))]
    t = common_times(grids, tolerance)
    places = [np.searchsorted(grid.t, t - tolerance) for grid in grids]
    found = []
    for name in (name for name in SIMULATED_KERNELS if all(getattr(one, name) is not None for one in simulations)):
        row, column = np.tril_indices(t.size, -1 if name == "R" else 0)      # R(t, t) is 0 on both sides
        at = [(place[row], place[column]) for place in places]
        for units in np.ndindex(getattr(theory, name).shape[2:]):
            mean, error = (getattr(theory, each)[(*at[0], *units)] for each in (name, f"{name}_error"))
            ours = Curve(np.arange(row.size), mean, error, count)
            values = [getattr(one, name)[(slice(None), *pair, *units)] for one, pair in zip(simulations, at[1:])]
            known = np.isfinite(ours.mean) & np.all([np.isfinite(each).any(axis=0) for each in values], axis=0)
            if not known.any():     # M_C of the last time alone
                continue
            label = f"{name}[{','.join(map(str, units))}]" if units else name
            result = of_table(label, ours.where(known), [each[:, known] for each in values], dimensions)
            found.append(KernelComparison(t, row[known], column[known], result, name, units))
    return found
