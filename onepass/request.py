"""The request for an ensemble of independent instances: its checks, its description as text, and the walk that the worker runs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dmft.core import schema
from dmft.core.errors import RunError
from onepass.dynamics import Dynamics
from onepass.instances import Walk
from onepass.ode import increasing_times
from onepass.process import Batch, Process, Single
from onepass.sde import SdeGrid, SdePaths
from onepass.stretches import changes


@dataclass(frozen=True)
class EnsembleRequest:
    """A checked request: `process` of a model from x0 (instances, size), recorded at the times t. `step` is the longest step of
    the SDE (None: the model's default)."""

    model: Dynamics
    process: str                # chain, sgd or sde
    dimension: int
    x0: np.ndarray
    t: np.ndarray
    seed: int
    step: float | None = None
    threads: int | None = None

    def walk(self) -> Walk:
        """The instances, their starts and their steps, for the worker (instances.py)."""
        model, dimension, seed = self.model, self.dimension, self.seed
        tau = model.time_step(dimension)
        if self.process == "sde":
            grid = self.grid

            def paths(indices: np.ndarray, step: int) -> Batch:
                return SdePaths(model, tau, grid, self.x0[indices], seed, indices.tolist(), step)

            return Walk(self.x0, grid.records, paths, True)
        begin: Callable[..., Process] = model.chain_process if self.process == "chain" else model.sgd_process

        def single(indices: np.ndarray, step: int) -> Batch:
            return Single(begin(self.x0[indices[0]].copy(), dimension, seed, int(indices[0])))

        return Walk(self.x0, step_counts(self.t, tau), single, False)

    @property
    def longest_step(self) -> float:
        """The longest step of the SDE: the one asked for, or the model's default."""
        return self.step or self.model.longest_step(self.x0, self.t)

    @property
    def grid(self) -> SdeGrid:
        """The steps of the SDE."""
        return SdeGrid(self.t, self.longest_step, changes(self.model, self.x0, float(self.t[-1])))

    def first(self, instances: int) -> EnsembleRequest:
        """The same ensemble with fewer instances."""
        return replace(self, x0=self.x0[:instances])

    def attrs(self) -> dict[str, Any]:
        """Attributes of the result: dimension, seed and, for the SDE, its step."""
        step = {"step": self.longest_step} if self.process == "sde" else {}
        return {"dimension": self.dimension, "seed": self.seed, **step}

    def to_toml(self) -> str:
        """Everything that the numbers depend on, as TOML; for most models of the package this is a valid run file. Starts that
        differ between instances are given by a hash."""
        if (self.x0 == self.x0[0]).all():
            initial = {name: array.tolist() for name, array in self.model.layout.unpack(self.x0[0]).items()}
        else:
            initial = {"hash": hashlib.sha256(self.x0.tobytes()).hexdigest()}
        simulation = {"process": self.process, "dimension": int(self.dimension), "instances": len(self.x0), "seed": int(self.seed)}
        step = {} if self.step is None else {"step": float(self.step)}
        sections = {"time": {"times": self.t.tolist()}, "initial": initial, "simulation": simulation | step}
        return self.model.to_toml() + schema.dump({}, sections)

    def grown(self, stored_text: str, source: str) -> list[str]:
        """["simulation.instances"] when this ensemble is the stored one with more instances; RunError for any other change."""
        stored = _keys(stored_text, source)
        before = stored.get("simulation.instances")
        count = before if isinstance(before, int) and before > 0 else len(self.x0)
        first = self.first(count)
        ours = _keys(first.to_toml(), "this ensemble")
        changed = sorted(key for key in {*stored, *ours} if stored.get(key) != ours.get(key))
        if changed:
            raise RunError(f"{source}: holds another ensemble ({', '.join(changed)}); name another output, or start afresh")
        self.check_growth(first, source)
        return ["simulation.instances"] if len(self.x0) > count else []

    def check_growth(self, before: EnsembleRequest, source: str) -> None:
        """RunError unless the instances of a smaller ensemble are the first ones of this."""
        count = len(before.x0)
        if not np.array_equal(before.x0, self.x0[:count]):
            raise RunError(f"{source}: random starts of this model change with simulation.instances; --force starts afresh")
        if self.process == "sde" and (before.longest_step, before.grid.lengths) != (self.longest_step, self.grid.lengths):
            raise RunError(f"{source}: the step of the SDE follows from all starts, and those of the new instances change it; "
                           "--force starts afresh")


def _keys(text: str, source: str) -> dict[str, Any]:
    """{"section.key": value} of TOML text."""
    document = schema.read_toml(text, source)
    return {f"{name}.{key}" if key else name: value for name, table in document.items()
            for key, value in (table.items() if isinstance(table, dict) else [("", table)])}


def request(model: Dynamics, process: str, dimension: int, instances: int, initial: Mapping[str, np.ndarray], times, seed: int,
            step: float | None = None, threads: int | None = None) -> EnsembleRequest:
    """A request, after all checks. Recording times of chain and SGD are rounded to the nearest whole step."""
    t = increasing_times(times)
    return EnsembleRequest(model, process, dimension, instance_starts(model, initial, instances, dimension), t, seed, step, threads)


def instance_starts(model: Dynamics, initial: Mapping[str, np.ndarray], instances: int, dimension: int) -> np.ndarray:
    """Starting statistics (instances, size) from one start for all instances, or from arrays with instances first."""
    if instances < 1:
        raise RunError(f"instances = {instances}; need at least 1")
    x0 = model.start(initial, dimension)
    if x0.ndim > 1 and x0.shape[0] != instances:
        raise RunError(f"the initial arrays hold {x0.shape[0]} instances, but instances = {instances}")
    return np.array(np.broadcast_to(x0, (instances, model.layout.size)))


def step_counts(t: np.ndarray, tau: float) -> np.ndarray:
    """Number of steps nearest to each time."""
    return np.rint(t / tau).astype(np.int64)
