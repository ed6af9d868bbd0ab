"""Reference lines for a curve: where gradient descent ends, and what Bayes-optimal learning reaches."""

from __future__ import annotations

from functools import lru_cache

from matplotlib.axes import Axes

from dmft.model.runfile import Run
from dmft.statics.bayes import known_bayes
from dmft.statics.limits import known_limits
from workbench.plots.style import BLACK

_limits, _best = lru_cache(maxsize=32)(known_limits), lru_cache(maxsize=32)(known_bayes)


def draw_references(axis: Axes, run: Run, observable: str) -> bool:
    """Draw the limit of gradient descent (dashed) and Bayes-optimal errors on new samples (dotted); True if there is either."""
    name = observable.removesuffix("_fresh")
    limits = _limits(run)
    best = _best(run) if name in ("mse", "error") else {}
    if name in limits:
        axis.axhline(limits[name], color=BLACK, linestyle="--", linewidth=0.8, label="limit of gradient descent")
    if best.get(name, 0.0) > 0.0:  # perfect recovery needs no line
        axis.axhline(best[name], color=BLACK, linestyle=":", linewidth=1.0, label="Bayes-optimal")
    return name in limits or best.get(name, 0.0) > 0.0
