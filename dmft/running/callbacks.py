"""The callback of dmft.solve: what a replica has reached, after every step of the march or sweep of the iteration."""

from __future__ import annotations

import numpy as np

from dmft.core.driver import Hook
from dmft.model.callbacks import Callback, Reached, read_only
from dmft.model.runfile import Run
from dmft.running.replica import Replica


def hook_of(run: Run, callback: Callback | None) -> Hook | None:
    """The hook of the driver, which is called between steps on the root; it calls the callback when there are new values."""
    if callback is None:
        return None
    clock, last = run.algorithm.clock.t, (-1, -1, 0)

    def hook(replica: Replica, share: float) -> None:
        nonlocal last
        found = np.isfinite(replica.whole.curves["loss" if run.has_network else "m"])
        count = int(found.sum())
        here = (replica.index, replica.whole.n, count)
        if not count or here == last:
            return
        last = here
        curves = {name: read_only(curve[:count]) for name, curve in replica.whole.curves.items()}
        m = curves["m"][-1] if run.has_network else float(curves["m"][-1])
        loss = float(curves["loss"][-1])
        callback(Reached(float(clock[count - 1]), m, loss, read_only(clock[:count]), curves, replica.index, share))

    return hook
