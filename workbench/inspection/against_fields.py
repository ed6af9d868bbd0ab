"""The law of the fields of a theory against simulations: quantiles at the times of theory.snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dmft.core.averages import error_text, number_text
from dmft.core.errors import FileError
from dmft.result.comparison import Comparison, Curve, common_times, instances_curve, of_table
from dmft.result.snapshots import Snapshots
from sgd_sim.snapshots import SimulatedSnapshots

SHARES = np.array([0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95])


@dataclass(frozen=True)
class FieldComparison:
    """Quantiles of the aligned field f sign(h0) over training samples, at the times that all have."""

    t: np.ndarray           # (S,)
    pairs: Comparison       # over (S, SHARES), flattened

    def __str__(self) -> str:
        lines = ["fields: quantiles of f sign(h0) over training samples",
                 f"{'t':>10}  {'share':>5}  {'theory':>12} +- {'error':<9}  {'simulation':>12} +- {'error':<9}  {'z':>7}"]
        a, b = self.pairs.theory, self.pairs.simulation
        for k, (t, share) in enumerate((t, share) for t in self.t for share in SHARES):
            lines.append(f"{t:10.4g}  {share:5.2f}  {a.mean[k]:12.6f} +- {error_text(a.error[k], '<9.2g')}  "
                         f"{b.mean[k]:12.6f} +- {error_text(b.error[k], '<9.2g')}  {number_text(self.pairs.z[k], '7.2f')}")
        return "\n".join([*lines, f"fields: {self.pairs.verdict}; {self.pairs.z.size} quantiles, so correlated that they count as "
                                  f"{self.pairs.tests:.3g}; max |z| = {self.pairs.worst:.2f}, 99 % of tables stay below "
                                  f"{self.pairs.bound:.1f}"])


def fields_against(theory: Snapshots | None, simulations: Sequence[tuple[str, SimulatedSnapshots | None]],
                   tolerance: float) -> FieldComparison:
    """Quantiles of all sides; several dimensions are carried to infinity. simulations: each with its name."""
    missing = [name for name, one in (("the theory", theory), *simulations) if one is None]
    if missing or theory is None:
        raise FileError(f"{missing[0]}: has no snapshots of fields; list times in [theory] snapshots and run it again")
    measured = [one for _, one in simulations if one is not None]
    grids = [Curve(t, t, t, 0) for t in (theory.t, *(one.t for one in measured))]
    t = common_times(grids, tolerance)
    if not t.size:
        raise FileError("snapshots: no time in common; give theory and simulation the same [theory] snapshots")
    tables = [theory.quantiles(SHARES), *(one.quantiles(SHARES) for one in measured)]
    ours, *theirs = (table[:, np.searchsorted(grid.t, t - tolerance)].reshape(-1, t.size * SHARES.size)
                     for table, grid in zip(tables, grids))
    solved = instances_curve(np.arange(t.size * SHARES.size), ours)
    return FieldComparison(t, of_table("fields", solved, theirs, [one.run.simulation.dimension for one in measured]))
