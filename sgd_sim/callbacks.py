"""The callback of sgd_sim.simulate: means over the instances while they are stepped."""

from __future__ import annotations

import numpy as np

from dmft.core.averages import finite_mean
from dmft.core.driver import Hook
from dmft.model.callbacks import Callback, Reached, read_only
from dmft.model.runfile import Run
from sgd_sim.instances import Instances
from sgd_sim.recording import network_curves, recorded_rows, times_of


def simulation_hook(run: Run, callback: Callback | None) -> Hook | None:
    """The hook that the driver calls a few times a second on the root. The callback gets the latest time t that an instance of
    this rank has recorded, the means of m and loss over the instances that have, and curves that are NaN beyond what an instance
    has recorded."""
    if callback is None:
        return None
    before = 0

    def hook(worker: Instances, share: float) -> None:
        nonlocal before
        own = worker.mine % worker.states.copies == 0             # the instances themselves, without second copies
        part = worker.solution().own["curves"][own]               # (instances, rows, times), a copy
        recorded = np.isfinite(part[:, 0])
        if recorded.sum() == before:
            return
        before = int(recorded.sum())
        count = int(np.flatnonzero(recorded.any(axis=0))[-1]) + 1
        times = times_of(run, worker.states.record[:count])
        rows = network_curves(run, part) if run.has_network else {name: part[:, row] for row, name in enumerate(recorded_rows(run))}
        curves = {name: read_only(array[:, :count]) for name, array in rows.items()}
        m, loss = finite_mean(curves["m"])[-1], float(finite_mean(curves["loss"])[-1])
        callback(Reached(float(times[-1]), m if run.has_network else float(m), loss, times, curves, 0, share))

    return hook
