"""Curves that are matrices, as those of networks, as plain curves of their components, and which of these are worth a picture."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from dmft.model.curves import NETWORK, components
from dmft.model.runfile import Run
from dmft.result.comparison import Curve


def by_component(t: np.ndarray, mean: Mapping[str, np.ndarray], error: Mapping[str, np.ndarray], names: Iterable[str],
                 count: int) -> dict[str, Curve]:
    """Curves by name, m[0,1] and so on, from means and errors (time, ...) of these names; count: of replicas or instances."""
    return {part: Curve(t, value, bar, count) for name in names
            for (part, value), bar in zip(components(name, mean[name], 1).items(), components(name, error[name], 1).values(),
                                          strict=True)}


def compared(run: Run) -> list[str]:
    """What is compared of a network: all that theory and simulation have, C(t,t) too, since m alone does not tell a wrong
    response; but second layer and intercepts only where they are trained."""
    fixed = [name for name, rate in (("a", run.network.train), ("beta", run.network.train_intercepts)) if not rate]
    return [curve.name for curve in NETWORK if curve.compared and curve.name not in fixed]


def varies(values: np.ndarray) -> bool:
    """Whether the finite values differ by more than rounding; so do those of which none is finite, which the picture says."""
    finite = values[np.isfinite(values)]
    return not finite.size or bool(np.ptp(finite) > 1e-12 * np.abs(finite).max())


def mirrored(name: str, curves: Mapping[str, Curve]) -> bool:
    """True of an entry below the diagonal that is the same curve as its mirror image: Q[1,0] beside Q[0,1]."""
    base, _, index = name.rstrip("]").partition("[")
    words = index.split(",")
    if len(words) != 2 or int(words[0]) <= int(words[1]):
        return False
    other = curves.get(f"{base}[{words[1]},{words[0]}]")
    return other is not None and np.array_equal(other.mean, curves[name].mean, equal_nan=True)
