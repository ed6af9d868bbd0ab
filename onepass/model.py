"""A model of one-pass SGD: its dynamics, and the four ways to follow it.

A model is a frozen dataclass of parameters. It gives `layout`, `start`, `drift`, `time_step` and, as far as it has
them, `covariance` (SDE), `chain_process` (exact finite-dimensional law) and `sgd_process` (real data); solve, diffuse,
chain and simulate follow.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from onepass import ensemble, ode, sde
from onepass.dynamics import Dynamics
from onepass.process import Process
from onepass.result import Ensemble, Trajectory


class Model(Dynamics):
    """Base of all models."""

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
