"""The law of the fields in a simulation: from the weights that were kept at the times of theory.snapshots, and data made again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dmft.core.errors import UserError
from dmft.model.data import data_of
from dmft.model.runfile import Run
from dmft.model.two_times import snapshot_steps
from sgd_sim.landscape import Landscape, make_landscape
from sgd_sim.recording import times_of
from sgd_sim.states import States


@dataclass(frozen=True, eq=False, repr=False)
class SimulatedSnapshots:
    """Weights of every instance at some times; fields follow from them and from the data, which their seed makes again."""

    run: Run
    t: np.ndarray       # (S,)
    w: np.ndarray       # (instances, S, N), NaN where an instance did not get there
    b: np.ndarray       # (instances, S)

    def __repr__(self) -> str:
        return f"<SimulatedSnapshots of {len(self.w)} instances at t = {', '.join(f'{t:g}' for t in self.t)}>"

    def landscape(self, instance: int) -> Landscape:
        """The data of an instance, made again."""
        simulation, problem = self.run.simulation, self.run.problem
        if not self.run.known:
            raise UserError("snapshots: the data of this run are a plug-in's; load it first (--plugin FILE.py)")
        index = 0 if simulation.landscape == "shared" else instance
        return make_landscape(simulation.seed, index, simulation.dimension, problem.alpha, False, simulation.precision,
                              data_of(problem))

    def fields(self, instance: int, landscape: Landscape | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """f (M, S), labels y (M,) and teacher's fields (M,) of an instance."""
        found, n = landscape or self.landscape(instance), self.run.simulation.dimension
        X = found.data[:found.h0.size, :n]
        return X @ self.w[instance].T / np.sqrt(n) + self.b[instance], found.h0, found.teacher

    def quantiles(self, shares: np.ndarray) -> np.ndarray:
        """(instances, S, shares) of the aligned field f sign(h0) over training samples; NaN for instances that diverged."""
        found = np.full((*self.w.shape[:2], len(shares)), np.nan)
        for i in np.flatnonzero(np.isfinite(self.w).all(axis=(1, 2))):
            f, _, teacher = self.fields(int(i))
            found[i] = np.quantile(f * np.sign(teacher)[:, None], shares, axis=0).T
        return found


def snapshots_of(run: Run, states: States) -> SimulatedSnapshots | None:
    """The snapshots of all instances; None where the run asks for none."""
    if not run.theory.snapshots or not states.snapshot_w.shape[1]:
        return None
    return SimulatedSnapshots(run, times_of(run, snapshot_steps(run)), states.snapshot_w[::states.copies],
                              states.snapshot_b[::states.copies])
