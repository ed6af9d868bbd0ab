"""The tiny protocol of a model, and what every model can do with it.

A model is a frozen dataclass of parameters. It gives `layout`, `start`, `drift`, `time_step`, and, as far as it
has them, `covariance` (SDE), `chain_process` (exact finite-dimensional law) and `sgd_process` (real data);
solve, diffuse, chain and simulate follow.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from onepass import ensemble, ode, sde
from onepass.ensemble import Process
from onepass.layout import Layout
from onepass.result import Ensemble, Trajectory


class Model:
    """Base of all models. Flat states X have shape (..., layout.size), leading axes are instances or times."""

    @property
    def layout(self) -> Layout:
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

    def chain_process(self, x0: np.ndarray, dimension: int, seed: int, instance: int) -> Process:
        """One instance of the exact Markov chain of the statistics."""
        raise NotImplementedError

    def sgd_process(self, x0: np.ndarray, dimension: int, seed: int, instance: int) -> Process:
        """One instance of SGD itself, with weights and data in the given dimension."""
        raise NotImplementedError

    def retract(self, x: np.ndarray) -> np.ndarray:
        """Back onto the constraint (sphere) after a step of the SDE."""
        return x

    def check_deterministic(self, x0: np.ndarray) -> None:
        """Warn of starts that the ODE cannot leave."""

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

    def solve(self, initial: Mapping[str, np.ndarray], times, **options) -> Trajectory:
        """The ODE from `initial` (see ode.solve for rtol, atol, events, method)."""
        return ode.solve(self, initial, times, **options)

    def diffuse(self, dimension: int, instances: int, initial, times, seed: int = 1, step=None) -> Ensemble:
        """Paths of the SDE (see sde.diffuse)."""
        return sde.diffuse(self, dimension, instances, initial, times, seed, step)

    def chain(self, dimension: int, instances: int, initial, times, seed: int = 1, threads=None) -> Ensemble:
        """Paths of the exact chain of the statistics: the law of SGD in that dimension, without its vectors."""

        def begin(x0: np.ndarray, instance: int) -> Process:
            return self.chain_process(x0, dimension, seed, instance)

        return ensemble.run_ensemble(self, begin, "chain", dimension, instances, initial, times, seed, threads)

    def simulate(self, dimension: int, instances: int, initial, times, seed: int = 1, threads=None) -> Ensemble:
        """SGD on real data in that dimension."""

        def begin(x0: np.ndarray, instance: int) -> Process:
            return self.sgd_process(x0, dimension, seed, instance)

        return ensemble.run_ensemble(self, begin, "sgd", dimension, instances, initial, times, seed, threads)
