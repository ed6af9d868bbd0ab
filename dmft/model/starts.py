"""Where the weights start: warm, with a given overlap m0 with the teacher; random; or spectral."""

from __future__ import annotations

from dataclasses import dataclass

WARM, RANDOM, SPECTRAL = "warm", "random", "spectral"
STARTS = (WARM, RANDOM, SPECTRAL)


@dataclass(frozen=True)
class Start:
    """The kind of start, and its overlap where that is given."""

    kind: str
    m0: float | None

    @property
    def overlap(self) -> float:
        """m(0) in the limit of infinite dimension, as far as the start gives it; 0 for a random one."""
        return self.m0 or 0.0

    @property
    def random(self) -> bool:
        """Whether m is of order 1/sqrt(N), and the theory follows its fluctuations (equations/random_start.py)."""
        return self.kind == RANDOM
