"""What a run will need: which history to keep, and whether it fits into memory."""

from __future__ import annotations

import os

from dmft.core.errors import UserError
from dmft.history import History

FULL_STEPS = 200  # up to here the full history costs little more than the dyadic one
FULL_BYTES = 1 << 30  # and its tangents must stay below this
HALF = 1.5  # the solution with half the samples, for the bias, runs along


def bytes_per_sample(history: History, stein: bool, itemsize: int = 8) -> int:
    """Resident numbers of one sample: packed tangents, and a few arrays over slots."""
    return history.packed * itemsize + (4 + stein) * history.slots * 8 + 200


def blocks_per_level(history: str, per_level: int, steps: int, samples: int) -> int | None:
    """The setting `theory.history` resolved: None for the full history."""
    if history == "auto":
        small = steps <= FULL_STEPS and samples * bytes_per_sample(History(steps), True) <= FULL_BYTES
        history = "full" if small else "dyadic"
    return None if history == "full" else per_level


def available_bytes() -> int:
    """Memory that can be had now, by the kernel's own estimate; a lot where it gives none."""
    try:
        with open("/proc/meminfo") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 1 << 62


def check_memory(samples_here: int, per_sample: int, history: str, available: int | None = None) -> None:
    """UserError, with the largest sample count that fits, when the samples on this machine would not."""
    room = 0.9 * (available_bytes() if available is None else available)
    need = HALF * samples_here * per_sample
    if need > room:
        fits = int(room / (HALF * per_sample))
        remedy = 'theory.history = "dyadic" or ' if history == "full" else ""
        raise UserError(
            f"[theory] samples: the {history} history needs {need / 2**30:.1f} GiB here and {room / 2**30:.1f} GiB are "
            f"free; take {remedy}at most {fits} samples a rank group on this machine, or more nodes"
        )
