"""What keeps the weights bounded: the sphere, or a ridge. Theory and simulator both use these classes.

A step makes u from w_n; the constraint turns it into w_{n+1} = a u. The simulator compiles `scale` for its loops, for a GPU as
well: it is scalar code with numbers and fields of the class alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

CONSTRAINTS = ("sphere", "ridge")  # names in run files


class Constraint(Protocol):
    """The properties that theory and simulator ask for."""

    @property
    def decay(self) -> float:
        """lambda: every step subtracts eta lambda w from the weights."""

    @property
    def fixes_norm(self) -> bool:
        """Whether |w|^2 = N holds after every step; the exact identity of [dmft-nu] applies where it does."""

    @property
    def rescales(self) -> bool:
        """Whether `scale` can be another number than 1; the simulator does not ask for it otherwise."""

    def start_variance(self, m0: float) -> float:
        """Variance of h(0), the part of the start normal to w0."""

    def scale(self, norm: float) -> float:
        """a_n from the norm q_u + m_u^2 of the step before projection; NaN for a norm that is not positive. Eq. [dmft-a]."""

    def multiplier(self, a: float, eta: float) -> float:
        """nu_hat_n. Eq. [dmft-nu]."""


@dataclass(frozen=True)
class Sphere:
    """|w|^2 = N after every step: a_n = sqrt(N)/|u|, the discrete form of eq. A.29."""

    decay: ClassVar[float] = 0.0
    fixes_norm: ClassVar[bool] = True
    rescales: ClassVar[bool] = True

    def start_variance(self, m0: float) -> float:
        """w = m0 w0 + sqrt(1 - m0^2) z with |z|^2 = N."""
        return 1 - m0**2

    def scale(self, norm: float) -> float:
        return 1 / np.sqrt(norm) if norm > 0 else np.nan

    def multiplier(self, a: float, eta: float) -> float:
        return (1 / a - 1) / eta


@dataclass(frozen=True)
class Ridge:
    """A penalty (lambda/2)|w|^2 and no projection. Eq. [ridge]."""

    decay: float
    variance: float = 1.0  # of the start
    fixes_norm: ClassVar[bool] = False
    rescales: ClassVar[bool] = False

    def start_variance(self, m0: float) -> float:
        """w = m0 w0 + sqrt(r) z with z ~ N(0, I), eq. C.2 where r = 1."""
        return self.variance

    def scale(self, norm: float) -> float:
        return 1.0

    def multiplier(self, a: float, eta: float) -> float:
        return self.decay


def constraint_of(name: str, ridge: float, start_variance: float = 1.0) -> Constraint:
    """The constraint of a run file's [problem]."""
    return Sphere() if name == "sphere" else Ridge(ridge, start_variance)
