"""A Process (see ensemble.py) made of a Numba kernel and the arrays it moves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


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
