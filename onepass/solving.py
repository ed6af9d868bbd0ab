"""The ODE as a job of the driver (dmft.core.driver): one path, or one from each of several random starts (a quenched average)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dmft.core.store import Stored
from onepass import ode
from onepass.dynamics import Dynamics
from onepass.ensemble import CHECKPOINT_INTERVAL, InstancesJob, assemble
from onepass.instances import Walk
from onepass.process import Batch, Single
from onepass.result import Trajectory, load


class OdeProcess:
    """The ODE as a process whose steps are the times of the result. It is integrated as a whole, at the first step."""

    def __init__(self, model: Dynamics, x0: np.ndarray, t: np.ndarray, options: Mapping[str, Any]):
        self.model, self.x0, self.t, self.options = model, x0, t, options
        self.path, self.place = np.zeros((0, x0.size)), 0

    def advance(self, steps: int) -> None:
        if not len(self.path):
            self.path = ode.integrate(self.model, self.x0, self.t, **self.options).x
        self.place += steps

    def flat(self) -> np.ndarray:
        return self.path[self.place]


class SolveJob(InstancesJob):
    """Paths of the ODE from x0 (size,) or (starts, size). A result is taken as it is or computed again: no path is continued."""

    def __init__(self, model: Dynamics, x0: np.ndarray, t: np.ndarray, options: Mapping[str, Any], run_text: str,
                 compare: Callable[[str, str], list[str]]):
        starts = np.atleast_2d(x0)

        def path(indices: np.ndarray, step: int) -> Batch:
            return Single(OdeProcess(model, starts[indices[0]], t, options))

        super().__init__(Walk(starts, np.arange(len(t)), path, False), "ode", 1, run_text, CHECKPOINT_INTERVAL)
        self.model, self.t, self.single, self.options, self.compare = model, t, x0.ndim == 1, options, compare

    def take_up(self, header: Stored, grew: Sequence[str]) -> bool:
        return header.is_checkpoint and not grew

    def finish(self, attrs: dict[str, Any], output: Path | None) -> Trajectory:
        found: Trajectory
        if self.single:
            outcome = "done" if np.isfinite(self.flat[0]).all() else "diverged"
            found = Trajectory(self.t, self.model.with_observables(self.model.layout.unpack(self.flat[0])), "ode", self.run_text,
                               {"outcome": outcome})
        else:
            found = assemble(self.model, self.t, self.flat, "ode", {})
        found.run_text = self.run_text
        if output:
            found.attrs.update(self.options, **attrs)
            found.save(output)
        return found

    def load(self, output: Path) -> Trajectory:
        return load(output)
