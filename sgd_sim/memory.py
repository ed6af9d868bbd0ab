"""What a run needs in memory and what there is; said before the work begins."""

from __future__ import annotations

import os
from pathlib import Path

from dmft.core.config import Run
from dmft.core.errors import UserError
from dmft.core.parallel import Comm
from sgd_sim.landscape import data_bytes, sizes

LARGE = 256 << 20          # larger data: one instance at a time, rows over threads
SMALL = 4 << 20            # smaller data: a step is over before threads have met
OVERHEAD = 300 << 20       # interpreter, compiled code


def available_bytes() -> int:
    """Memory this process may still use: of the machine and of its control group."""
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for line in _lines("/proc/meminfo"):
        if line.startswith("MemAvailable:"):
            free = int(line.split()[1]) << 10
    limit, used = _lines("/sys/fs/cgroup/memory.max"), _lines("/sys/fs/cgroup/memory.current")
    if limit and limit[0].isdigit() and used:
        files = sum(int(line.split()[1]) for line in _lines("/sys/fs/cgroup/memory.stat")
                    if line.startswith(("active_file ", "inactive_file ")))   # given back when memory is wanted
        free = min(free, int(limit[0]) - int(used[0]) + files)
    return free


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


def check_memory(run: Run, comm: Comm) -> None:
    """UserError when not even one instance fits."""
    need, have = _instance_bytes(run) + _states_bytes(run), _free_bytes(comm)
    if need > have:
        raise UserError(f"simulation.dimension = {run.simulation.dimension} at alpha = {run.problem.alpha:g} needs "
                        f"{need / 1e9:.1f} GB, {max(have, 0) / 1e9:.1f} GB are free for each process; "
                        "lower dimension, alpha or instances, or use a machine with more memory")


def hold_together(run: Run, threads: int, comm: Comm) -> bool:
    """Whether each thread can hold an instance of its own."""
    need = _instance_bytes(run)
    return run.simulation.landscape == "shared" or (need <= LARGE and need * threads <= _free_bytes(comm))


def _instance_bytes(run: Run) -> int:
    return data_bytes(run.simulation.dimension, run.problem.alpha)


def _states_bytes(run: Run) -> int:
    """Weights and mini-batches of all instances."""
    n, m = sizes(run.simulation.dimension, run.problem.alpha)
    return run.simulation.instances * (8 * n + m)


def _free_bytes(comm: Comm) -> int:
    """What this process may use when the ranks of a machine share its memory evenly."""
    cores = len(os.sched_getaffinity(0))
    ranks = max(1, cores // comm.threads()) if comm.size > 1 else 1
    return available_bytes() // ranks - OVERHEAD
