"""Processes in finite dimension: what the worker of an ensemble (instances.py) asks of one instance, and of several that step
together, and how what moves in them is kept as bytes.

A process takes its steps in any pieces: advance(3) and advance(4) end where advance(7) does, bit for bit, unless `flat` is asked
for in between. So a long stretch can be cut wherever a stop signal or a checkpoint wants it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

Moving = Sequence[np.ndarray | np.random.Generator]

_WORD = (1 << 64) - 1


class Process(Protocol):
    """One instance on its way. `advance` should release the interpreter lock (Numba `nogil`), so that instances
    run in threads. A process that has the attribute `moving` as well can go on from a checkpoint; another begins again."""

    def advance(self, steps: int) -> None:
        """Take that many SGD steps."""

    def flat(self) -> np.ndarray:
        """The statistics now, (layout.size,)."""


@dataclass
class KernelProcess:
    """kernel(*state, steps, *args) moves the state in place; read(*state) gives the flat statistics."""

    kernel: Callable
    state: tuple[np.ndarray, ...]
    args: tuple
    read: Callable[..., np.ndarray]

    def advance(self, steps: int) -> None:
        self.kernel(*self.state, steps, *self.args)

    def flat(self) -> np.ndarray:
        return self.read(*self.state)

    @property
    def moving(self) -> Moving:
        """The arrays that the kernel moves, and the generators it draws from."""
        return (*self.state, *(item for item in self.args if isinstance(item, np.random.Generator)))


class Batch(Protocol):
    """Instances that step together."""

    def advance(self, steps: int) -> None:
        """Take that many steps with each of them."""

    def flat(self) -> np.ndarray:
        """The statistics now, (instances, layout.size)."""

    def snapshot(self) -> np.ndarray:
        """All that moves, (instances, bytes) of uint8, the same number of bytes for any batch of a run; 0 where a process
        cannot be taken up again."""

    def restore(self, lines: np.ndarray) -> None:
        """Go to where `snapshot` was taken."""


@dataclass
class Single:
    """A batch of one process."""

    process: Process

    def advance(self, steps: int) -> None:
        self.process.advance(steps)

    def flat(self) -> np.ndarray:
        return self.process.flat()[None]

    def snapshot(self) -> np.ndarray:
        return to_bytes(getattr(self.process, "moving", ()))[None]

    def restore(self, lines: np.ndarray) -> None:
        from_bytes(getattr(self.process, "moving", ()), lines[0])


def to_bytes(moving: Moving) -> np.ndarray:
    """A copy of all that moves, as uint8."""
    arrays = [_words(item) if isinstance(item, np.random.Generator) else item for item in moving]
    return np.frombuffer(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays), np.uint8)


def from_bytes(moving: Moving, kept: np.ndarray) -> None:
    """Put back, in place, what `to_bytes` kept of the same things."""
    content, first = kept.tobytes(), 0
    for item in moving:
        like = _words(item) if isinstance(item, np.random.Generator) else item
        array = np.frombuffer(content, like.dtype, like.size, first).reshape(like.shape)
        first += like.nbytes
        if isinstance(item, np.random.Generator):
            _set_words(item, array)
        else:
            item[...] = array


def _words(generator: np.random.Generator) -> np.ndarray:
    """Where a generator of dmft.core.streams stands: two numbers of 128 bits, and half a word that may be left over."""
    state = generator.bit_generator.state
    inner = state["state"]
    halves = [part for number in (inner["state"], inner["inc"]) for part in (number & _WORD, number >> 64)]
    return np.array([*halves, state["has_uint32"], state["uinteger"]], np.uint64)


def _set_words(generator: np.random.Generator, words: np.ndarray) -> None:
    low, high, low_inc, high_inc, has_half, half = (int(word) for word in words)
    state = generator.bit_generator.state
    inner = {"state": high << 64 | low, "inc": high_inc << 64 | low_inc}
    generator.bit_generator.state = {**state, "state": inner, "has_uint32": has_half, "uinteger": half}
