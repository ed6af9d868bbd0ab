"""What a model says about its statistics: names, checks, drift, noise, and processes in finite dimension.

The ODE (ode.py), the SDE (sde.py) and ensembles of independent instances (ensemble.py) ask for nothing else; model.py
puts them together. `drift`, `covariance` and `retract` act on each flat vector alone: its result must not depend, by a bit, on
the others.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from onepass.layout import StatisticsLayout
from onepass.process import Process


class Dynamics:
    """Flat states X have shape (..., layout.size), leading axes are instances or times."""

    # Statistics are of order one; an instance beyond this has exploded, even if it was recorded before it became infinite.
    largest_statistic: ClassVar[float] = 1e6

    @property
    def layout(self) -> StatisticsLayout:
        """Names, shapes and symmetry of the statistics."""
        raise NotImplementedError

    def start(self, initial: Mapping[str, np.ndarray], dimension: int | None = None) -> np.ndarray:
        """Check the initial statistics (names, shapes, validity, dimension large enough) and pack them."""
        raise NotImplementedError

    def drift(self, x: np.ndarray) -> np.ndarray:
        """dX/dt, (..., size)."""
        raise NotImplementedError

    def covariance(self, x: np.ndarray) -> np.ndarray:
        """Covariance (..., size, size) of [X(after one step) - X] / tau at leading order."""
        raise NotImplementedError

    def time_step(self, dimension: int) -> float:
        """tau: the time one SGD step takes."""
        raise NotImplementedError

    def step_constant(self) -> float:
        """lim n tau(n): the time of a step in dimension n is this over n."""
        raise NotImplementedError

    def movable(self) -> np.ndarray:
        """Which entries (size,) of the flat vector the dynamics can change at all."""
        return np.ones(self.layout.size, bool)

    def longest_step(self, x0: np.ndarray, t: np.ndarray) -> float:
        """Step of the SDE from the starts x0 (instances, size) over the times t, where none is asked for."""
        return min(0.01, max(t[-1] / 200.0, 1e-12))

    def chain_process(self, x0: np.ndarray, dimension: int, seed: int, instance: int) -> Process:
        """One instance of the exact Markov chain of the statistics."""
        raise NotImplementedError

    def sgd_process(self, x0: np.ndarray, dimension: int, seed: int, instance: int) -> Process:
        """One instance of SGD itself, with weights and data in the given dimension."""
        raise NotImplementedError

    def retract(self, x: np.ndarray) -> np.ndarray:
        """Put a state back onto the constraint (the sphere) after a step of the SDE."""
        return x

    def check_deterministic(self, x0: np.ndarray) -> None:
        """Warn of a start that the ODE can never leave."""

    def observables(self, statistics: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Further arrays computed from the statistics, e.g. the risk."""
        return {}

    def with_observables(self, statistics: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {**statistics, **self.observables(statistics)}

    def to_toml(self) -> str:
        """The model as the [model] section of a run file."""
        lines = ["[model]", f'kind = "{type(self).__name__}"']
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if field.name.startswith("_"):
                continue
            if isinstance(value, bool):
                text = str(value).lower()
            elif isinstance(value, str):
                text = f'"{value}"'
            elif isinstance(value, (int, float)):
                text = repr(value)
            elif isinstance(value, (tuple, list, np.ndarray)):
                text = str(np.asarray(value).tolist())
            else:
                continue
            lines.append(f"{field.name} = {text}")
        return "\n".join(lines) + "\n"
