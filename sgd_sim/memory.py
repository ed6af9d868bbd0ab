"""The memory that a run needs against the memory that there is, checked before the work begins."""

from __future__ import annotations

from dmft.core.errors import UserError
from dmft.core.memory import free_bytes
from dmft.core.parallel import Comm
from dmft.model.runfile import Run
from dmft.model.two_times import kernel_bytes, snapshot_steps
from sgd_sim.landscape import data_bytes, sizes
from sgd_sim.recording import record_steps
from sgd_sim.states import copies_of, parameters, remembers

LARGE = 256 << 20          # instances with larger data run one at a time, their rows spread over the threads
SMALL = 4 << 20            # the rows of smaller data are not spread: threads would take longer to synchronise than to work


def check_memory(run: Run, comm: Comm) -> None:
    """UserError when not even one instance fits."""
    need, have = _instance_bytes(run) + _states_bytes(run), free_bytes(comm)
    if need > have:
        raise UserError(f"simulation.dimension = {run.simulation.dimension} at alpha = {run.problem.alpha:g} needs "
                        f"{need / 1e9:.1f} GB, {max(have, 0) / 1e9:.1f} GB are free for each process; "
                        "lower dimension, alpha or instances, or use a machine with more memory")


def hold_together(run: Run, threads: int, comm: Comm) -> bool:
    """True if every thread can work on an instance of its own: one landscape for all, or data that are not LARGE and fit."""
    need = _instance_bytes(run)
    return run.simulation.landscape == "shared" or (need <= LARGE and need * threads <= free_bytes(comm))


def _instance_bytes(run: Run) -> int:
    return data_bytes(run.simulation.dimension, run.problem.alpha)


def _states_bytes(run: Run) -> int:
    """Bytes of the weights, mini-batches and two-time quantities of all instances."""
    n, m = parameters(run), sizes(run.simulation.dimension, run.problem.alpha)[1]
    line = 8 * n * (1 + remembers(run) + snapshot_steps(run).size) + m
    path = 4 * n * record_steps(run).size if run.simulation.clones else 0
    return run.simulation.instances * (copies_of(run) * (line + path) + kernel_bytes(run))
