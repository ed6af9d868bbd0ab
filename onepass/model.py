"""A model of one-pass SGD: its dynamics, and the four ways to follow it.

A model is a frozen dataclass of parameters. It gives `layout`, `start`, `drift`, `time_step` and, as far as it has
them, `covariance` (SDE), `chain_process` (exact finite-dimensional law) and `sgd_process` (real data); solve, diffuse,
chain and simulate follow.

diffuse, chain and simulate share their last arguments. output: file for the result, with checkpoints beside it; None keeps
everything in memory. resume: go on from the checkpoint, or extend a finished result by more instances. quiet: no progress. stop:
polled a few times a second (dmft.core.stopping.StopSignals); raises Stopped after a checkpoint. Under MPI every rank must call
them, and gets the whole ensemble; instances are spread over ranks and threads, which changes no number.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np

from dmft.core.errors import RunError, did_you_mean
from dmft.core.stopping import Stop
from onepass import ode
from onepass.dynamics import Dynamics
from onepass.ensemble import EnsembleJob, assemble, run_job
from onepass.request import request
from onepass.result import Ensemble, Trajectory

Output = str | Path | None


def _parameters(cls: type) -> set[str]:
    """Names that a model takes; where it hands what it does not know to its base, those of the base, too."""
    names: set[str] = set()
    for each in cls.__mro__:
        parameters = inspect.signature(vars(each).get("__init__", lambda **_: None)).parameters.values()
        names |= {one.name for one in parameters if one.kind is not one.VAR_KEYWORD}
        if not any(one.kind is one.VAR_KEYWORD for one in parameters):
            break
    return names


class Model(Dynamics):
    """Base of all models."""

    def __new__(cls, *_: Any, **fields: Any) -> Self:
        known = _parameters(cls)
        for name in fields.keys() - known:
            raise RunError(f"{cls.__name__} has no parameter {name!r}{did_you_mean(name, known)}")
        return super().__new__(cls)

    def solve(self, initial: Mapping[str, np.ndarray], times, **options) -> Trajectory:
        """The ODE from `initial` (see ode.integrate for rtol, atol, events, method)."""
        return ode.solve(self, initial, times, **self.ode_options(**options))

    def quenched(self, starts: Mapping[str, np.ndarray], times, **options) -> Ensemble:
        """The ODE from each of several starts (arrays with starts first, as `random_start` gives them); .mean() is the quenched
        average, .error() its error."""
        x0, t = np.atleast_2d(self.start(starts)), ode.increasing_times(times)
        flat = np.stack([ode.integrate(self, one, t, **self.ode_options(**options)).x for one in x0])
        return assemble(self, t, flat, "ode", {})

    def diffuse(self, dimension: int, instances: int, initial, times, seed: int = 1, *, step=None, threads=None,
                output: Output = None, resume: bool = False, quiet: bool = False, stop: Stop | None = None) -> Ensemble:
        """Paths of the SDE (see sde.SdePaths). Their steps are at most `step` long (default: `longest_step` of the model)."""
        asked = request(self, "sde", dimension, instances, initial, times, seed, step, threads)
        return run_job(EnsembleJob(asked), output, resume, quiet, stop).result

    def chain(self, dimension: int, instances: int, initial, times, seed: int = 1, *, threads=None, output: Output = None,
              resume: bool = False, quiet: bool = False, stop: Stop | None = None) -> Ensemble:
        """Paths of the exact chain of the statistics: the law of SGD in that dimension, without its vectors."""
        asked = request(self, "chain", dimension, instances, initial, times, seed, threads=threads)
        return run_job(EnsembleJob(asked), output, resume, quiet, stop).result

    def simulate(self, dimension: int, instances: int, initial, times, seed: int = 1, *, threads=None, output: Output = None,
                 resume: bool = False, quiet: bool = False, stop: Stop | None = None) -> Ensemble:
        """SGD on real data in that dimension."""
        asked = request(self, "sgd", dimension, instances, initial, times, seed, threads=threads)
        return run_job(EnsembleJob(asked), output, resume, quiet, stop).result
