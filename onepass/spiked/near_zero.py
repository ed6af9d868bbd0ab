"""The spiked tensor near m = 0: the diffusive limit of u = (sqrt(n) m, r2), Ben Arous et al. 2022, eq. 3.2, for every c.

    dm~  = 2k m~ (S - r2^{k-1}) dt - 2 beta m~ dt + (4 k c r2^{k-1})^{1/2} dB
    dr2  = -4k r2^{k-1} (r2 - c) dt - 4 beta r2 dt

S = lambda for k = 2 and 0 for k >= 3 at fixed signal. With the diverging signal lambda_n = Lambda n^{(k-2)/2} the signal
term is 2k Lambda m~^{k-1}, that is S = Lambda m~^{k-2}: for k >= 3 this is not an Ornstein-Uhlenbeck process, and there is
no critical Lambda; at r2 = c = 1 a start beyond m~ = Lambda^{-1/(k-2)} escapes along the drift. For even k so does one
beyond the mirror image; for odd k the drift points back to zero at every m~ < 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onepass.effective.dynamics import EffectiveModel
from onepass.effective.rescaled import Rescaled
from onepass.layout import StatisticsLayout
from onepass.spiked.parameters import SpikedParameters
from onepass.spiked.tensor import SpikedTensor


@dataclass(frozen=True)
class SpikedNearZero(SpikedParameters, EffectiveModel):
    """Statistics m (meaning sqrt(n) m) and r2. `diverging`: `signal` is Lambda of lambda_n = Lambda n^{(k-2)/2}.

    solve and diffuse are those of the limit, which has no n (`dimension` is ignored); `at(n)` has the SGD. With a diverging
    signal of order >= 3 the limit explodes in finite time: such paths are NaN from there on, and marked as diverged."""

    diverging: bool = False

    @property
    def layout(self) -> StatisticsLayout:
        return StatisticsLayout({"m": (), "r2": ()})

    def at(self, dimension: int) -> Rescaled:
        """The model in dimension n with the same rescaled statistics, for chain and simulate."""
        signal = self.signal * float(dimension) ** (0.5 * (self.order - 2)) if self.diverging else self.signal
        base = SpikedTensor(self.order, signal, self.step, self.ridge)
        return Rescaled(base, {"m": np.array(0.0), "r2": np.array(0.0)}, {"m": 0.5}, dimension)

    def time_step(self, dimension: int) -> float:
        """1 in every dimension: the noise of the limit does not depend on n, see `covariance`."""
        return 1.0

    def population_drift(self, x: np.ndarray) -> np.ndarray:
        k, m, r2 = self.order, x[..., 0], x[..., 1]
        decay = 2.0 * k * r2 ** (k - 1) + 2.0 * self.ridge
        with np.errstate(over="ignore", invalid="ignore"):  # of paths that diverge
            push = 2.0 * k * self.signal * m ** (k - 1) if self.diverging or k == 2 else 0.0
            return np.stack([decay * m - push, 2.0 * decay * r2], axis=-1)

    def corrector(self, x: np.ndarray) -> np.ndarray:
        return np.stack([np.zeros_like(x[..., 0]), 4.0 * self.order * self.step * x[..., 1] ** (self.order - 1)], axis=-1)

    def covariance(self, x: np.ndarray) -> np.ndarray:
        """lim n delta J V J^T: 4 k c r2^{k-1} for m, no noise in r2."""
        out = np.zeros(x.shape + (2,))
        out[..., 0, 0] = 4.0 * self.order * self.step * np.maximum(x[..., 1], 0.0) ** (self.order - 1)
        return out
