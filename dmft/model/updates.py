"""How the next position is made from the gradient: u = A_n w_n - eta (gradient + lambda w_n) + noise.

The plain step has A = 1. Momentum is another rule: it adds -B_n w_{n-1} (algorithms that remember a displacement).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class Update(Protocol):
    """The coefficients of a step."""

    def inertia(self, n: int) -> float:
        """A_n, the coefficient of the present position."""


@dataclass(frozen=True)
class PlainStep:
    """u = w_n - eta (gradient + lambda w_n) + noise. Eq. [sgd-step]."""

    def inertia(self, n: int) -> float:
        return 1.0
