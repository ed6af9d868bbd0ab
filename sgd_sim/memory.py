"""What a run needs in memory and what there is; said before the work begins."""

from __future__ import annotations

from dmft.core.errors import UserError
from dmft.core.memory import free_bytes
from dmft.core.parallel import Comm
from dmft.model.runfile import Run
from sgd_sim.landscape import data_bytes, sizes
from sgd_sim.states import remembers

LARGE = 256 << 20          # larger data: one instance at a time, rows over threads
SMALL = 4 << 20            # smaller data: a step is over before threads have met


def check_memory(run: Run, comm: Comm) -> None:
    """UserError when not even one instance fits."""
    need, have = _instance_bytes(run) + _states_bytes(run), free_bytes(comm)
    if need > have:
        raise UserError(f"simulation.dimension = {run.simulation.dimension} at alpha = {run.problem.alpha:g} needs "
                        f"{need / 1e9:.1f} GB, {max(have, 0) / 1e9:.1f} GB are free for each process; "
                        "lower dimension, alpha or instances, or use a machine with more memory")


def hold_together(run: Run, threads: int, comm: Comm) -> bool:
    """Whether each thread can hold an instance of its own."""
    need = _instance_bytes(run)
    return run.simulation.landscape == "shared" or (need <= LARGE and need * threads <= free_bytes(comm))


def _instance_bytes(run: Run) -> int:
    return data_bytes(run.simulation.dimension, run.problem.alpha)


def _states_bytes(run: Run) -> int:
    """Weights and mini-batches of all instances."""
    n, m = sizes(run.simulation.dimension, run.problem.alpha)
    return run.simulation.instances * (8 * n * (1 + remembers(run)) + m)
