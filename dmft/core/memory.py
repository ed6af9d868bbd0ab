"""How much memory this process may use."""

from __future__ import annotations

import os
from pathlib import Path

from dmft.core.parallel import Comm

OVERHEAD = 300 << 20       # interpreter, compiled code


def available_bytes() -> int:
    """Bytes this process may still use, by the machine and by its control group."""
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for line in _lines("/proc/meminfo"):
        if line.startswith("MemAvailable:"):
            free = int(line.split()[1]) << 10
    limit, used = _lines("/sys/fs/cgroup/memory.max"), _lines("/sys/fs/cgroup/memory.current")
    if limit and limit[0].isdigit() and used:
        files = sum(int(line.split()[1]) for line in _lines("/sys/fs/cgroup/memory.stat")
                    if line.startswith(("active_file ", "inactive_file ")))   # page cache, given back when memory is wanted
        free = min(free, int(limit[0]) - int(used[0]) + files)
    return free


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


def free_bytes(comm: Comm) -> int:
    """What this process may use when the ranks of a machine share its memory evenly."""
    return available_bytes() // comm.on_node()[1] - OVERHEAD
