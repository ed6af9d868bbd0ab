"""Every kind of result as named curves over time, each a mean with its standard error."""

from __future__ import annotations

import numpy as np

from dmft.model.curves import TABLE
from dmft.model.experiment import observables_of
from dmft.result.comparison import Curve
from workbench.inspection.kinds import Opened, kind_of

# The curves that are shown first; all others of a theory are diagnostics.
MAIN = tuple(curve.name for curve in TABLE if curve.compared)


def opened_curves(opened: Opened) -> dict[str, Curve]:
    """Curves by name; empty for kinds without a time axis. Components of an array are named M[0,1]."""
    return kind_of(opened.header).curves(opened.result)


def own_curves(opened: Opened) -> tuple[str, ...]:
    """Names of the observables of a run, which are shown with the main curves."""
    return observables_of(opened.run) if opened.run is not None else ()


def decades(t: np.ndarray) -> np.ndarray:
    """Indices of the first time, of the times nearest to 1, 2, 5 in every decade, and of the last time; each once."""
    last = t.size - 1
    if last < 1:
        return np.arange(t.size)
    first = np.floor(np.log10(t[1])) if t[1] > 0 else 0.0
    wanted = [digit * 10.0**power for power in np.arange(first, np.log10(t[-1]) + 1) for digit in (1.0, 2.0, 5.0)]
    wanted = [time for time in wanted if t[1] * (1 - 1e-9) <= time <= t[-1] * (1 + 1e-9)]
    nearest = [int(np.argmin(np.abs(t - time))) for time in wanted]
    return np.unique([0, *nearest, last])
