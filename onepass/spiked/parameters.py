"""Parameters of a spiked tensor, and what they may be."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dmft.core.errors import RunError


@dataclass(frozen=True)
class SpikedParameters:
    """Order k of the tensor, signal lambda, step constant c (delta = c/n), ridge beta."""

    order: int
    signal: float
    step: float = 1.0
    ridge: float = 0.0

    def __post_init__(self):
        if int(self.order) != self.order or self.order < 2:
            raise RunError(f"order = {self.order}; need an integer >= 2")
        if not (self.signal >= 0 and np.isfinite(self.signal)):
            raise RunError(f"signal = {self.signal}; need a finite number >= 0")
        if not (self.step >= 0 and np.isfinite(self.step)):
            raise RunError(f"step = {self.step}; need a finite number >= 0 (0: the population flow)")
        if not (self.ridge >= 0 and np.isfinite(self.ridge)):
            raise RunError(f"ridge = {self.ridge}; need a finite number >= 0")
