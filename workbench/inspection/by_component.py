"""The curves of a network, some of them matrices, as plain curves of their components."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from dmft.model.curves import components
from dmft.result.comparison import Curve


def by_component(t: np.ndarray, mean: Mapping[str, np.ndarray], error: Mapping[str, np.ndarray], names: Iterable[str],
                 count: int) -> dict[str, Curve]:
    """Curves by name, m[0,1] and so on, from means and errors (time, ...) of these names; count: of replicas or instances."""
    return {part: Curve(t, value, bar, count) for name in names
            for (part, value), bar in zip(components(name, mean[name], 1).items(), components(name, error[name], 1).values(),
                                          strict=True)}
