"""Ensembles of independent instances (exact chain, direct SGD, SDE) as jobs of the driver (dmft.core.driver)."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dmft.core import schema, store
from dmft.core.driver import Ended, drive
from dmft.core.errors import ResultWarning, RunError
from dmft.core.parallel import Comm, world
from dmft.core.parts import Part
from dmft.core.stopping import Stop
from dmft.model import layouts
from onepass.dynamics import Dynamics
from onepass.instances import EnsembleWorker, Walk
from onepass.ode import increasing_times
from onepass.process import Batch, Process, Single
from onepass.result import Ensemble, load
from onepass.sde import SdeGrid, SdePaths

CHECKPOINT_INTERVAL = 60.0      # seconds, for ensembles asked for in Python


@dataclass(frozen=True)
class EnsembleRequest:
    """An ensemble as it is asked for, checked: `process` of a model from x0 (instances, size), recorded at the times t. `step` is
    the longest of the SDE (None: the model's choice)."""

    model: Dynamics
    process: str                # chain, sgd or sde
    dimension: int
    x0: np.ndarray
    t: np.ndarray
    seed: int
    step: float | None = None
    threads: int | None = None

    def walk(self) -> Walk:
        """What the worker runs."""
        model, dimension, seed = self.model, self.dimension, self.seed
        tau = model.time_step(dimension)
        if self.process == "sde":
            grid = SdeGrid(self.t, self.longest_step)

            def paths(indices: np.ndarray, step: int) -> Batch:
                return SdePaths(model, tau, grid, self.x0[indices], seed, indices.tolist(), step)

            return Walk(self.x0, grid.ends, paths, True)
        begin: Callable[..., Process] = model.chain_process if self.process == "chain" else model.sgd_process

        def single(indices: np.ndarray, step: int) -> Batch:
            return Single(begin(self.x0[indices[0]].copy(), dimension, seed, int(indices[0])))

        return Walk(self.x0, step_counts(self.t, tau), single, False)

    @property
    def longest_step(self) -> float:
        """Of the SDE."""
        return self.step or self.model.longest_step(self.x0, self.t)

    def first(self, instances: int) -> EnsembleRequest:
        """The same ensemble with fewer instances."""
        return replace(self, x0=self.x0[:instances])

    def attrs(self) -> dict[str, Any]:
        """For the attributes of the result."""
        step = {"step": self.longest_step} if self.process == "sde" else {}
        return {"dimension": self.dimension, "seed": self.seed, **step}

    def to_toml(self) -> str:
        """All that the numbers depend on, as far as text can tell: a run file for most models of the package. Starts that differ
        between instances are told by a hash."""
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
        stored = schema.read_toml(stored_text, source)
        before = stored.get("simulation", {}).get("instances", 0)
        first = self.first(max(1, before))
        ours = schema.read_toml(first.to_toml(), "this ensemble")
        changed = [f"{section}.{key}" for section in sorted({*stored, *ours})
                   for key in sorted({*stored.get(section, {}), *ours.get(section, {})})
                   if stored.get(section, {}).get(key) != ours.get(section, {}).get(key)]
        if changed:
            raise RunError(f"{source}: holds another ensemble ({', '.join(changed)}); name another output, or start afresh")
        self.check_growth(first, source)
        return ["simulation.instances"] if len(self.x0) > before else []

    def check_growth(self, before: EnsembleRequest, source: str) -> None:
        """RunError unless the instances of a smaller ensemble are the first ones of this."""
        count = len(before.x0)
        if not np.array_equal(before.x0, self.x0[:count]):
            raise RunError(f"{source}: random starts of this model change with simulation.instances; --force starts afresh")
        if self.process == "sde" and before.longest_step != self.longest_step:
            raise RunError(f"{source}: the step of the SDE follows from the largest start, which is among the new instances; "
                           "--force starts afresh")


def request(model: Dynamics, process: str, dimension: int, instances: int, initial: Mapping[str, np.ndarray], times, seed: int,
          step: float | None = None, threads: int | None = None) -> EnsembleRequest:
    """Check what is asked for. Recording times of chain and SGD are rounded to the nearest whole step."""
    t = increasing_times(times)
    return EnsembleRequest(model, process, dimension, instance_starts(model, initial, instances, dimension), t, seed, step, threads)


def instance_starts(model: Dynamics, initial: Mapping[str, np.ndarray], instances: int, dimension: int) -> np.ndarray:
    """Starting statistics (instances, size): one start for all, or arrays with instances first."""
    if instances < 1:
        raise RunError(f"instances = {instances}; need at least 1")
    x0 = model.start(initial, dimension)
    if x0.ndim > 1 and x0.shape[0] != instances:
        raise RunError(f"the initial arrays hold {x0.shape[0]} instances, but instances = {instances}")
    return np.array(np.broadcast_to(x0, (instances, model.layout.size)))


def step_counts(t: np.ndarray, tau: float) -> np.ndarray:
    """Number of steps nearest to each time."""
    return np.rint(t / tau).astype(np.int64)


def assemble(model: Dynamics, t: np.ndarray, flat: np.ndarray, source: str, attrs: dict) -> Ensemble:
    """Ensemble from flat statistics (instances, times, size); an instance that exploded is NaN from there on."""
    with np.errstate(invalid="ignore"):
        lost = np.logical_or.accumulate(~(np.abs(flat) <= model.largest_statistic).all(axis=2), axis=1)
    diverged = lost[:, -1]
    flat = np.where(lost[:, :, None], np.nan, flat)
    arrays = model.with_observables(model.layout.unpack(flat))
    outcome = "diverged" if diverged.any() else "done"
    return Ensemble(t, arrays, source, model.to_toml(), {"outcome": outcome, **attrs}, diverged=diverged)


class EnsembleJob:
    """All instances of an ensemble: a single worker on all ranks. `run_text` describes the run in its files, `compare` says what
    grew since a stored one (defaults: those of the ensemble itself)."""

    kind = "onepass"
    wanted = 1

    def __init__(self, wanted: EnsembleRequest, run_text: str | None = None, compare: Callable[[str, str], list[str]] | None = None,
                 checkpoint_interval: float = CHECKPOINT_INTERVAL):
        self.request, self.checkpoint_interval = wanted, checkpoint_interval
        self.run_text = wanted.to_toml() if run_text is None else run_text
        self.compare = compare or wanted.grown
        self.flat = np.zeros((0, wanted.t.size, wanted.model.layout.size))      # finished instances
        self.finished = 0

    def take_up(self, header: store.Stored, grew: Sequence[str]) -> bool:
        """Everything in a checkpoint is the worker's."""
        layout = self.request.model.layout
        if header.is_checkpoint:
            layouts.check(header, {"time": self.request.t.size, "statistic": layout.size})
        else:
            paths = load(header.path)
            if not isinstance(paths, Ensemble):
                raise RunError(f"{header.path}: one path ({paths.source}), not an ensemble; name another file with -o")
            self.flat = layout.pack({name: paths[name] for name in layout.shapes})
        return True

    def pending(self) -> list[int]:
        return [] if self.finished else [0]

    def label(self, indices: Sequence[int]) -> str:
        return self.request.process

    def worker(self, index: int, group: Comm) -> EnsembleWorker:
        return EnsembleWorker(self.request.walk(), self.flat, group, self.request.threads)

    def enter(self, index: int, solution: Part) -> None:
        self.flat = solution.own["flat"]

    def state(self) -> dict[str, Any]:
        return {}

    def finish(self, attrs: dict[str, Any], output: Path | None) -> Ensemble:
        result = assemble(self.request.model, self.request.t, self.flat, self.request.process, self.request.attrs())
        result.run_text = self.run_text
        if output:
            result.attrs.update(attrs)
            result.save(output)
        return result

    def load(self, output: Path) -> Ensemble:
        found = load(output)
        assert isinstance(found, Ensemble)
        return found


def run_job(job: EnsembleJob, output: str | Path | None = None, resume: bool = False, quiet: bool = True,
            stop: Stop | None = None, attrs: dict[str, Any] | None = None, comm: Comm | None = None) -> Ended[Ensemble]:
    """Run an ensemble to its end, with word of whether there was anything to do. A ResultWarning tells of diverged instances."""
    comm = comm or world()
    ended = drive(job, output, resume, quiet, stop, attrs, comm)
    lost, instances = int(ended.result.diverged.sum()), ended.result.instances
    if ended.worked and output and lost and comm.is_root:
        warnings.warn(f"{lost} of {instances} instances diverged; a smaller gamma or step may help", ResultWarning, stacklevel=3)
    return ended
