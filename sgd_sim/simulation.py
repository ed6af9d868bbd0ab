"""simulate(run): the whole ensemble in memory."""

from __future__ import annotations

import numpy as np

from dmft.core.device import gpu
from dmft.core.parallel import world
from dmft.core.progress import Progress
from dmft.model.runfile import Run
from sgd_sim.ensemble import Ensemble
from sgd_sim.gpu.trajectories import gpu_batches
from sgd_sim.memory import check_memory
from sgd_sim.result import SimulationResult, make_result
from sgd_sim.states import empty_states


def simulate(run: Run, quiet: bool = True) -> SimulationResult:
    """Run every instance that the [simulation] section asks for. Under MPI every rank gets the whole result."""
    check(run)
    comm, states = world(), empty_states(run)
    with Progress(1.0, "simulate", quiet) as progress:
        Ensemble(run, states, comm, report=progress.update).go()
    return make_result(run, comm.bcast(states))


def check(run: Run) -> None:
    """UserError for a run that cannot be simulated here: no such device, not enough memory."""
    if run.simulation.device == "gpu":
        gpu_batches(run, np.arange(1), np.zeros(1), gpu("simulation", *world().on_node()))
    else:
        check_memory(run, world())
