"""The callback of sgd_sim.simulate: means over the instances while they are stepped."""

from __future__ import annotations

import numpy as np

from dmft.core.averages import finite_mean
from dmft.core.driver import Hook
from dmft.model.callbacks import Callback, Reached, read_only
from dmft.model.runfile import Run
from sgd_sim.instances import Instances
from sgd_sim.recording import recorded_rows, times_of


def hook_of(run: Run, callback: Callback | None) -> Hook | None:
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
        curves = {name: read_only(part[:, row, :count]) for row, name in enumerate(recorded_rows(run))}
        m, loss = (float(finite_mean(curves[name])[-1]) for name in ("m", "loss"))
        callback(Reached(float(times[-1]), m, loss, times, curves, 0, share))

    return hook
