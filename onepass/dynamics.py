"""The interface of a model: names of its statistics, checks, drift, noise, and its processes in finite dimension.

The ODE (ode.py), the SDE (sde.py) and ensembles of independent instances (ensemble.py) need nothing else; model.py
puts them together. `drift`, `covariance` and `retract` must treat every flat vector separately: the result for one of them must
not depend, not even in its last bit, on which others are in the same array.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from onepass.layout import StatisticsLayout
from onepass.process import Process


class Dynamics:
    """Base of everything that moves. Flat states X have shape (..., layout.size); leading axes are instances or times."""

    # Statistics are of order one. An instance with a larger one counts as diverged, although its numbers are still finite.
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
        """The limit of n tau(n) for n -> infinity: a step in dimension n takes this divided by n."""
        raise NotImplementedError

    def movable(self) -> np.ndarray:
        """(size,) bool: the entries of the flat vector that the dynamics can change."""
        return np.ones(self.layout.size, bool)

    def change_times(self) -> np.ndarray:
        """Values of the statistic `clock`, rising, at which drift and covariance jump: the steps of a schedule (stretches.py)."""
        return np.zeros(0)

    def longest_step(self, x0: np.ndarray, t: np.ndarray) -> float:
        """Default step of the SDE from the starts x0 (instances, size) over the times t."""
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

    def ode_options(self, **options: Any) -> dict[str, Any]:
        """Options of ode.integrate: those asked for, completed or bounded by what the model needs."""
        return options

    def observables(self, statistics: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Further arrays computed from the statistics, e.g. the risk."""
        return {}

    def with_observables(self, statistics: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The statistics and their observables together."""
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
