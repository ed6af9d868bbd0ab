"""What a run will need: which history to keep, and whether it fits into memory."""

from __future__ import annotations

from dmft.core.errors import UserError
from dmft.equations.history import History

FULL_STEPS = 200  # steps up to which the full history costs little more than the dyadic one
CLOSED_STEPS = 1000  # the same without samples
FULL_BYTES = 1 << 30  # bytes up to which the full history is chosen


FEWEST_BLOCKS = 2  # of a level


def bytes_per_sample(history: History, stein: bool, itemsize: int = 8, clones: bool = False) -> int:
    """Resident bytes of one sample without tangents: a few arrays over slots, of which that of g is in double always."""
    return (1 + clones) * (8 + 2 * itemsize) * history.slots + stein * itemsize * history.slots + 200


def bytes_of_tangents(history: History, itemsize: int = 8) -> int:
    """Resident bytes of the tangents of one sample."""
    return (history.packed + 2 * history.slots) * itemsize


def march_bytes(history: History, samples: int, carriers: int, stein: bool, itemsize: int = 8, clones: bool = False) -> float:
    """Resident bytes of a march. itemsize: of tangents and past; clones: whether samples have second copies."""
    return float(samples * bytes_per_sample(history, stein, itemsize, clones) + carriers * bytes_of_tangents(history, itemsize))


def blocks_per_level(history: str, per_level: int, steps: int, samples: int, carriers: int) -> int | None:
    """What the setting `theory.history` means for a run: the blocks per level, or None for the full history. samples: 0 where
    nothing is sampled."""
    if history == "auto":
        most = FULL_STEPS if samples else CLOSED_STEPS
        small = steps <= most and march_bytes(History(steps), samples, carriers, True) <= FULL_BYTES
        history = "full" if small else "dyadic"
    return None if history == "full" else per_level


def can_be_halved(per_level: int | None) -> bool:
    """Whether a history has blocks enough for a companion with half of them."""
    return per_level is not None and per_level >= 2 * FEWEST_BLOCKS


MEMORY_SHARE = 0.9  # of the memory that is free, what a run takes at most


def abreast(need: float, room: float, network: bool) -> int:
    """Replicas that a rank takes at a time on a card, each of which needs so many bytes of its room: as many as fit, one at least.
    Those of networks go in turn, the card at one while the host is at the other, for which two are enough."""
    fit = int(MEMORY_SHARE * room / need)
    return max(1, min(fit, 2) if network else fit)


def check_memory(need: float, room: float, samples_here: int, history: str) -> float:
    """The `need` of this rank; UserError, with the largest sample count that fits, when it exceeds the `room` there is."""
    if need <= MEMORY_SHARE * room:
        return need
    fits = int(MEMORY_SHARE * max(room, 0) / need * samples_here)
    if history == "iterate":
        remedy = 'take fewer steps, or method = "march", whose memory does not grow with the square of the steps'
    else:
        remedy = f"take at most {fits} samples for each rank here, or more nodes" if fits else "use a larger machine"
        if history == "full":
            remedy = f'take theory.history = "dyadic", or {remedy.removeprefix("take ")}'
    raise UserError(f"[theory] {history}: {need / 2**30:.1f} GiB are needed and {max(room, 0) / 2**30:.1f} GiB are free for "
                    f"each process; {remedy}")
