"""simulate(run): the instances of a run as a job of the driver (dmft.core.driver)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dmft.core import store
from dmft.core.device import gpu
from dmft.core.driver import Ended, drive
from dmft.core.errors import ResultWarning, UserError
from dmft.core.parallel import Comm, world
from dmft.core.parts import Part
from dmft.core.stopping import Stop
from dmft.files.layouts import CHECKPOINTS
from dmft.model.callbacks import Callback
from dmft.model.resume import grown
from dmft.model.runfile import Run, load_run
from dmft.model.support import check_support
from dmft.model.two_times import simulated_steps
from sgd_sim import archive
from sgd_sim.callbacks import simulation_hook
from sgd_sim.gpu.trajectories import gpu_batches
from sgd_sim.instances import Instances
from sgd_sim.landscape import sizes
from sgd_sim.memory import check_memory
from sgd_sim.recording import times_of
from sgd_sim.result import SimulationResult, load, make_result
from sgd_sim.states import States, empty_states, grown_states


def simulate(run: Run | str | Path, output: str | Path | None = None, resume: bool = False, quiet: bool = False,
             stop: Stop | None = None, attrs: dict[str, Any] | None = None, comm: Comm | None = None,
             callback: Callback | None = None) -> SimulationResult:
    """Run every instance that the [simulation] section of a run, or of a run file, asks for. Under MPI every rank must call it,
    and gets the whole result. With `comm` the same holds for that group of ranks.

    output: file for the result, with checkpoints beside it; None keeps everything in memory. resume: continue from the checkpoint,
    or extend a finished result by more instances or a later end. quiet: no progress. stop: polled a few times a second
    (core.stopping.StopSignals); when it is set, a checkpoint is written and Stopped is raised. callback: called on the root a few
    times a second with a model.callbacks.Reached, means over the instances of this rank.
    """
    run = run if isinstance(run, Run) else load_run(run)
    return simulate_job(run, output, resume, quiet, stop, attrs, comm, callback).result


def simulate_job(run: Run, output: str | Path | None = None, resume: bool = False, quiet: bool = True,
                 stop: Stop | None = None, attrs: dict[str, Any] | None = None, comm: Comm | None = None,
                 callback: Callback | None = None) -> Ended[SimulationResult]:
    """`simulate`; the answer also says whether there was anything left to do."""
    comm = comm or world()
    check(run, comm)
    ended = drive(SimulationJob(run), output, resume, quiet, stop, attrs, comm, simulation_hook(run, callback))
    if ended.worked and comm.is_root:
        _warn(ended.result)
    return ended


def check(run: Run, comm: Comm) -> None:
    """UserError for a run that cannot be simulated here: not meant for it, no such device, not enough memory."""
    check_support(run, "simulation")
    kept, n = simulated_steps(run).size, run.simulation.dimension
    if kept and not run.has_network and n < (least := 1 << kept.bit_length()):
        raise UserError(f"[simulation] kernels = true: {kept} waiting times need a dimension of at least {least}, for as many "
                        f"independent forces; dimension is {n}, or list fewer theory.waiting_times")
    if run.simulation.device == "gpu":
        gpu_batches(run, np.arange(1), np.zeros(1), gpu("simulation", *comm.on_node()))
    else:
        check_memory(run, comm)


def _warn(result: SimulationResult) -> None:
    diverged, at = int(result.diverged.sum()), result.states.diverged_at
    if diverged:
        warnings.warn(f"{diverged} of {result.instances} instances diverged, the first at t = "
                      f"{times_of(result.run, at[at >= 0].min()):g}; a smaller learning_rate may help",
                      ResultWarning, stacklevel=4)


class SimulationJob:
    """All instances of one run as a job of the driver: one part of work, shared by all ranks, each with a worker of its own."""

    kind = "simulation"
    checkpoint_layout = CHECKPOINTS[kind]
    wanted = 1

    def __init__(self, run: Run, make_worker: Callable[[Run, States, Comm], Instances] = Instances):
        self.run, self.states, self.make_worker = run, empty_states(run), make_worker
        self.run_text, self.checkpoint_interval = run.to_toml(), run.simulation.checkpoint_interval
        self.finished = 0

    def compare(self, stored_text: str, source: str) -> list[str]:
        return grown(stored_text, self.run, self.kind, source)

    def take_up(self, header: store.Stored, grew: Sequence[str]) -> bool:
        """Take the states of a finished result; those of a checkpoint are restored by the worker."""
        if not header.is_checkpoint:
            self.states = grown_states(archive.load(header.path)[1], self.run)
        return True

    def pending(self) -> list[int]:
        return [] if self.finished else [0]

    def label(self, indices: Sequence[int]) -> str:
        return "sgd-sim"

    def worker(self, index: int, group: Comm) -> Instances:
        return self.make_worker(self.run, self.states, group)

    def enter(self, index: int, solution: Part) -> None:
        samples = sizes(self.run.simulation.dimension, self.run.problem.alpha)[1]
        self.states = States.from_arrays(self.states.record, self.states.kept, solution.own, samples)

    def state(self) -> dict[str, Any]:
        return {}

    def finish(self, attrs: dict[str, Any], output: Path | None) -> SimulationResult:
        if output:
            archive.save(output, self.run, self.states, attrs)
        return make_result(self.run, self.states)

    def load(self, output: Path) -> SimulationResult:
        return load(output)
