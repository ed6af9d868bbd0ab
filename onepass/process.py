"""Processes in finite dimension: the interface of one instance, and of several that step together, for the worker of an ensemble
(instances.py); and their state as bytes, for checkpoints.

Steps can be taken in any pieces: advance(3) and advance(4) end where advance(7) does, bit for bit, unless `flat` is called in
between. So a long stretch can be cut wherever a stop signal or a checkpoint falls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

Moving = Sequence[np.ndarray | np.random.Generator]

_WORD = (1 << 64) - 1


class Process(Protocol):
    """One instance. `advance` should release the interpreter lock (Numba `nogil`), so that instances run in threads. A process
    with an attribute `moving` (its state, see `to_bytes`) continues from checkpoints; one without it starts again."""

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
        """The state: arrays that the kernel changes, and generators that it draws from."""
        return (*self.state, *(item for item in self.args if isinstance(item, np.random.Generator)))


class Batch(Protocol):
    """Instances that step together."""

    def advance(self, steps: int) -> None:
        """Take that many steps with each of them."""

    def flat(self) -> np.ndarray:
        """The statistics now, (instances, layout.size)."""

    def snapshot(self) -> np.ndarray:
        """The state as uint8, (instances, bytes); the number of bytes is the same for all batches of a run, and 0 for processes
        that cannot continue from a checkpoint."""

    def restore(self, lines: np.ndarray) -> None:
        """Return to the state that `snapshot` gave."""


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
    """A copy of the state (arrays and random generators), as uint8."""
    arrays = [_words(item) if isinstance(item, np.random.Generator) else item for item in moving]
    return np.frombuffer(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays), np.uint8)


def from_bytes(moving: Moving, kept: np.ndarray) -> None:
    """Restore, in place, the state that `to_bytes` copied."""
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
    """State of a generator of dmft.core.streams: two numbers of 128 bits, and half a word that may not have been used yet."""
    state = generator.bit_generator.state
    inner = state["state"]
    halves = [part for number in (inner["state"], inner["inc"]) for part in (number & _WORD, number >> 64)]
    return np.array([*halves, state["has_uint32"], state["uinteger"]], np.uint64)


def _set_words(generator: np.random.Generator, words: np.ndarray) -> None:
    """The inverse of `_words`."""
    low, high, low_inc, high_inc, has_half, half = (int(word) for word in words)
    state = generator.bit_generator.state
    inner = {"state": high << 64 | low, "inc": high_inc << 64 | low_inc}
    generator.bit_generator.state = {**state, "state": inner, "has_uint32": has_half, "uinteger": half}
