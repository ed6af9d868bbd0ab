"""Data labelled by a teacher: inputs x ~ N(0, I), labels from the teacher's field h0 = x.w0/sqrt(N).

A data model is the law of (k, y, sd) of a sample, x = sd (k w0/sqrt(N) + part normal to w0), together with the loss v(f, y)
of the field f = x.w/sqrt(N), what a prediction is, and the errors on new samples that follow from m and q. Here k = y = h0
and sd = 1. Phase retrieval (labels "abs": a sample tells |h0|) and linear regression (labels "field") are the first two.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dmft.model.losses import Loss
from dmft.model.observables import field_error, generalization, magnitude_error

Metric = Callable[[np.ndarray, np.ndarray], np.ndarray]
_EVEN_AT = ((0.3, 0.7), (1.1, 0.4), (1.7, -1.3))


class Labelled(NamedTuple):
    """Samples as their data model draws them, each (count,)."""

    k: np.ndarray  # coefficient of the input along w0, in units of sd
    y: np.ndarray  # label
    sd: np.ndarray  # spread of the input


@dataclass(frozen=True)
class Teacher:
    """A loss, and which labels it learns from: "abs", "field", or "" for a user's loss that does not say."""

    loss: Loss

    @property
    def even(self) -> bool:
        """Whether v(f, y) = v(-f, y): samples may then come in mirrored pairs, and m = 0 stays 0."""
        return all(self.loss.v(f, y) == self.loss.v(-f, y) for f, y in _EVEN_AT)

    @property
    def stein(self) -> bool:
        """Whether the control variate [stein] of mu holds; labels that jump spoil it."""
        return self.loss.stein

    @property
    def signed(self) -> bool:
        """Whether label and prediction have a sign: h0 and h rather than |h0| and |h|."""
        return self.loss.labels == "field"

    def draw(self, h0: np.ndarray) -> Labelled:
        """Samples from standard normals (perhaps drawn too wide, and weighted)."""
        return Labelled(h0, h0, np.ones_like(h0))

    def errors(self, m: np.ndarray, q: np.ndarray) -> dict[str, np.ndarray]:
        """Errors on new samples by name; none where the loss does not say what its labels are. Eq. [mse]."""
        known = {"abs": magnitude_error, "field": field_error}
        return {"mse": known[self.loss.labels](m, q)} if self.loss.labels else {}

    def generalization(self, f: Metric, m: np.ndarray, q: np.ndarray) -> np.ndarray:
        """Average of f(label, prediction) over a new sample, eq. B.6."""
        return generalization(f, m, q, self.signed)
