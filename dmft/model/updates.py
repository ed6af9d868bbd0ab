"""The update rule: u = A_n w_n - B_n w_{n-1} - eta_n (gradient + lambda_n w_n) + noise. Eq. [momentum].

Heavy ball remembers the displacement that was made, w_n - w_{n-1}: A = 1 + beta, B = beta. Nesterov's variant takes the gradient
at y_n = w_n + beta_n (w_n - w_{n-1}), and u = y_n - eta_n (gradient(y_n) + lambda_n y_n) + noise. The noise has variance
2 T eta (1 - beta), so that the temperature is T for small eta.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Update:
    """The coefficients of every step."""

    beta: np.ndarray  # (steps,) share of the last displacement that is kept; 0 where there was none
    nesterov: bool

    @classmethod
    def of(cls, beta: np.ndarray, nesterov: bool) -> Update:
        """From the momentum of every step; the first step has no displacement to keep."""
        kept = beta.copy()
        kept[0] = 0.0
        return cls(kept, nesterov)

    @property
    def plain(self) -> bool:
        """Whether there is no momentum at any step. Eq. [sgd-step]."""
        return not np.any(self.beta)

    def inertia(self, n: int) -> float:
        """A_n, the coefficient of the present position."""
        return 1.0 if self.nesterov else 1.0 + float(self.beta[min(n, len(self.beta) - 1)])

    def recoil(self, n: int) -> float:
        """B_n, the coefficient of the position before, which is subtracted."""
        return 0.0 if self.nesterov else float(self.beta[min(n, len(self.beta) - 1)])

    def lookahead(self, n: int) -> float:
        """beta_n of y_n = w_n + beta_n (w_n - w_{n-1}); 0 unless Nesterov."""
        return float(self.beta[min(n, len(self.beta) - 1)]) if self.nesterov else 0.0
