"""Physics as users write it, for tests of every loop that reads it. Importing this file registers it, as a plug-in would."""

from __future__ import annotations

import numpy as np

from dmft.core.schema import number, option
from dmft.model.channels import Channel
from dmft.model.constraints import Constraint
from dmft.model.updates import LinearUpdate


class TwoShares(LinearUpdate, name="two_shares"):
    """Looks ahead by beta, and keeps another quarter of the last displacement: w_n + (beta + 1/4) (w_n - w_{n-1}) - eta g."""

    def coefficients(self, n, beta):  # 1/4 (w_n - w_{n-1}) in terms of y_n = w_n + beta (w_n - w_{n-1}) and w_{n-1}
        return 1 + 0.25 / (1 + beta), 0.25 / (1 + beta), beta


class Radius(Constraint, name="radius"):
    """|w| = radius sqrt(N)."""

    radius: float = option(number(0.0, above=True), 1.0, "in units of sqrt(N)")

    @property
    def norm(self) -> float:
        return self.radius**2

    def scale(self, q: float) -> float:
        return self.radius / np.sqrt(q) if q > 0 else np.nan


class Bent(Channel, name="bent"):
    """h0 and its square, predicted by a straight line that is not the student's field."""

    def label(self, h0, zeta):
        return h0 + 0.3 * (h0**2 - 1.0) + zeta

    def predict(self, f):
        return 0.7 * f + 0.2
