"""Ensembles of independent instances (exact chain, direct SGD, SDE) as jobs of the driver (dmft.core.driver)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dmft.core import store
from dmft.core.driver import Ended, drive
from dmft.core.errors import ResultWarning, RunError
from dmft.core.parallel import Comm, world
from dmft.core.parts import Part
from dmft.core.stopping import Stop
from dmft.files import layouts
from onepass.dynamics import Dynamics
from onepass.instances import EnsembleWorker, Walk
from onepass.request import EnsembleRequest
from onepass.result import Ensemble, load

CHECKPOINT_INTERVAL = 60.0      # seconds, for ensembles asked for in Python


def assemble(model: Dynamics, t: np.ndarray, flat: np.ndarray, source: str, attrs: dict) -> Ensemble:
    """Ensemble from flat statistics (instances, times, size); an instance is NaN from the time at which it diverged."""
    with np.errstate(invalid="ignore"):
        lost = np.logical_or.accumulate(~(np.abs(flat) <= model.largest_statistic).all(axis=2), axis=1)
    diverged = lost[:, -1]
    flat = np.where(lost[:, :, None], np.nan, flat)
    arrays = model.with_observables(model.layout.unpack(flat))
    outcome = "diverged" if diverged.any() else "done"
    return Ensemble(t, arrays, source, model.to_toml(), {"outcome": outcome, **attrs}, diverged=diverged)


class InstancesJob:
    """Independent instances as one part of work, shared by all ranks. `flat` (instances, times, size): records of the finished
    instances; `process`: heading of the progress line."""

    kind = "onepass"
    checkpoint_layout = layouts.CHECKPOINTS[kind]
    wanted = 1

    def __init__(self, walk: Walk, process: str, threads: int | None, run_text: str, checkpoint_interval: float):
        self.walk, self.process, self.threads = walk, process, threads
        self.run_text, self.checkpoint_interval = run_text, checkpoint_interval
        self.flat = np.zeros((0, len(walk.steps), walk.x0.shape[1]))
        self.finished = 0

    def pending(self) -> list[int]:
        return [] if self.finished else [0]

    def label(self, indices: Sequence[int]) -> str:
        return self.process

    def worker(self, index: int, group: Comm) -> EnsembleWorker:
        return EnsembleWorker(self.walk, self.flat, group, self.threads)

    def enter(self, index: int, solution: Part) -> None:
        self.flat = solution.own["flat"]

    def state(self) -> dict[str, Any]:
        return {}


class EnsembleJob(InstancesJob):
    """All instances of an ensemble. `run_text` describes the run in its files, `compare` names the keys that grew since a stored
    run was made; by default both are those of the request itself."""

    def __init__(self, wanted: EnsembleRequest, run_text: str | None = None, compare: Callable[[str, str], list[str]] | None = None,
                 checkpoint_interval: float = CHECKPOINT_INTERVAL):
        text = wanted.to_toml() if run_text is None else run_text
        super().__init__(wanted.walk(), wanted.process, wanted.threads, text, checkpoint_interval)
        self.request = wanted
        self.compare = compare or wanted.grown

    def take_up(self, header: store.Stored, grew: Sequence[str]) -> bool:
        """Check the header of a checkpoint, whose contents the worker restores; of a finished result take its records."""
        layout = self.request.model.layout
        if header.is_checkpoint:
            layouts.check(header, {"time": self.request.t.size, "statistic": layout.size})
        else:
            paths = load(header.path)
            if not isinstance(paths, Ensemble):
                raise RunError(f"{header.path}: one path ({paths.source}), not an ensemble; name another file with -o")
            self.flat = layout.pack({name: paths[name] for name in layout.shapes})
        return True

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
    """Run an ensemble to its end; the answer also says whether there was anything left to do. A ResultWarning reports diverged
    instances."""
    comm = comm or world()
    ended = drive(job, output, resume, quiet, stop, attrs, comm)
    lost, instances = int(ended.result.diverged.sum()), ended.result.instances
    if ended.worked and output and lost and comm.is_root:
        warnings.warn(f"{lost} of {instances} instances diverged; a smaller gamma or step may help", ResultWarning, stacklevel=3)
    return ended
