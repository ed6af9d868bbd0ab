"""Every kind of result as named curves over time, each a mean with its standard error."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from dmft.inspection.opening import Opened
from dmft.result.comparison import Curve
from dmft.result.theory import THEORY_CURVES, Theory

# The curves that are shown first; all others of a theory are diagnostics.
MAIN = ("m", "V", "loss", "mse", "error", "q")
MOST_COMPONENTS = 64        # components of a one-pass statistic that are shown one by one


def curves_of(opened: Opened) -> dict[str, Curve]:
    """Curves by name; empty for kinds without a time axis. Components of an array are named M[0,1]."""
    result = opened.result
    if isinstance(result, Theory):
        found = result.curves
        return {name: Curve(result.t, found[name], found[f"{name}_error"], int(result.averaged.sum()))
                for name in THEORY_CURVES if name in found}
    if opened.kind == "simulation":
        mean, error = result.mean(), result.error()
        return {name: Curve(result.t, mean[name], error[name], result.instances)
                for name in result.curves}
    return _onepass(result) if opened.kind == "onepass" else {}


def _onepass(result: Any) -> dict[str, Curve]:
    ensemble = hasattr(result, "instances")
    mean = result.mean().arrays if ensemble else result.arrays
    error = result.error().arrays if ensemble and result.instances > 1 else {}
    found = {}
    for name, array in mean.items():
        bars = error.get(name, np.full(array.shape, np.nan) if ensemble else np.zeros(array.shape))
        count = result.instances if ensemble else 1
        for index in list(product(*map(range, array.shape[1:])))[:MOST_COMPONENTS]:
            label = f"{name}[{','.join(map(str, index))}]" if index else name
            found[label] = Curve(result.t, array[(slice(None), *index)], bars[(slice(None), *index)], count)
    return found


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
