"""What keeps the weights bounded: the sphere, or a ridge. Theory and simulator both use these classes.

A step makes u from w_n; the constraint turns it into w_{n+1} = a u. A new constraint is a class here, or in a user's file. The
simulator compiles `scale` for its loops, for a GPU as well: it is scalar code with numbers and fields of the class alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from dmft.core.schema import number, option
from dmft.model.clock import SCHEDULED
from dmft.model.registry import Physics, Refusal
from dmft.model.schedules import Setting


class Constraint(Physics, key="constraint"):
    """What theory and simulator ask a constraint for."""

    rescales: ClassVar[bool] = True  # whether `scale` can be another number than 1
    decay: ClassVar[Setting] = 0.0  # lambda, perhaps a schedule: every step subtracts eta lambda w from the weights. Eq. [ridge]

    @property
    def norm(self) -> float | None:
        """|w|^2/N after every step, where the constraint fixes it: the exact identity of [dmft-nu] then applies."""
        return None

    @property
    def fixes_norm(self) -> bool:
        """Whether |w|^2/N is given after every step."""
        return self.norm is not None

    def spread(self, m0: float) -> float:
        """Variance of h(0), the part of the start normal to w0: w = m0 w0 + sqrt(spread) z, with |z|^2 = N where the norm is fixed,
        else z ~ N(0, I)."""
        return 1.0 if self.norm is None else self.norm - m0**2

    def scale(self, q: float) -> float:
        """a_n from q = |u|^2/N of the step before projection; NaN for a q that is not positive. Scalar code that the simulator
        compiles, with numbers and fields of the class alone. Eq. [dmft-a]."""
        raise NotImplementedError(f"{type(self).__name__} has no scale(self, q)")

    def supports(self, use) -> Refusal:
        """A start must lie where the constraint lets it, and a step must end with a number."""
        for q in (0.5, 1.0, 2.0):
            try:
                float(self.scale(q))
            except (ArithmeticError, AttributeError, LookupError, NameError, NotImplementedError, TypeError, ValueError) as error:
                return f"scale(q) gives no number at q = {q:g}: {error}"
        m0 = use.start.overlap
        if self.norm is not None and m0**2 >= self.norm:
            return f"m0 = {m0:g} is beyond |w| = {self.norm**0.5:g} sqrt(N); take a smaller m0"
        return ""


class Sphere(Constraint, name="sphere"):
    """|w|^2 = N after every step: a_n = sqrt(N)/|u|, the discrete form of eq. A.29."""

    norm: ClassVar[float] = 1.0

    def scale(self, q: float) -> float:
        return 1 / np.sqrt(q) if q > 0 else np.nan


class Ridge(Constraint, name="ridge"):
    """A penalty (lambda/2)|w|^2 and no projection; the start is eq. C.2 where its variance is 1. Eq. [ridge]."""

    rescales: ClassVar[bool] = False
    lacks: ClassVar[Mapping[str, str]] = {"start_overlap": "(whose start is always i.i.d., eq. C.2)"}
    ridge: Setting = option(SCHEDULED["ridge"], doc="strength lambda of the ridge")
    start_variance: float = option(number(0.0, above=True), default=1.0, doc="variance of the start normal to the teacher")

    @property
    def decay(self) -> Setting:  # type: ignore[override]
        return self.ridge

    def spread(self, m0: float) -> float:
        return self.start_variance

    def scale(self, q: float) -> float:
        return 1.0
