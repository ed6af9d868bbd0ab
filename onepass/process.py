"""One instance of a finite-dimensional process: what drivers ask of it, and its usual form, a Numba kernel with its arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np


class Process(Protocol):
    """One instance on its way. `advance` should release the interpreter lock (Numba `nogil`), so that instances
    run in threads."""

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
