"""Physics as users write it, for tests of every loop that reads it. Importing this file registers it, as a plug-in would."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dmft.model.updates import LinearUpdate


class TwoShares(LinearUpdate, name="two_shares"):
    """Looks ahead by beta, and keeps another quarter of the last displacement: w_n + (beta + 1/4) (w_n - w_{n-1}) - eta g."""

    def coefficients(self, n, beta):  # 1/4 (w_n - w_{n-1}) in terms of y_n = w_n + beta (w_n - w_{n-1}) and w_{n-1}
        return 1 + 0.25 / (1 + beta), 0.25 / (1 + beta), beta


@dataclass(frozen=True)
class Radius:
    """|w| = radius sqrt(N)."""

    radius: float
    decay: ClassVar[float] = 0.0
    fixes_norm: ClassVar[bool] = True
    rescales: ClassVar[bool] = True

    def start_variance(self, m0: float) -> float:
        return self.radius**2 - m0**2

    def scale(self, norm: float) -> float:
        return self.radius / np.sqrt(norm) if norm > 0 else np.nan
