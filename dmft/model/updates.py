"""The update rule: how a step follows from the gradient and the weights of the last two steps. Eq. [momentum].

    y_n = w_n + l_n (w_n - w_{n-1})
    u   = A_n y_n - B_n w_{n-1} - eta_n (gradient(y_n) + lambda_n y_n) + noise

Every rule that is linear in the last two weights and in one gradient can be written so; it is a class with the coefficients A, B
and l of every step, and a name for run files. Theory and simulator read these numbers alone. Rules that are not linear (Adam, the
sign of the gradient) have no such theory.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from dmft.core.errors import RunError
from dmft.model.registry import Physics, References

Steps = Any  # a number, or an array (steps,)


class LinearUpdate(Physics, key="update", section="algorithm"):
    """A rule; `class Mine(LinearUpdate, name="mine")` makes it known. Its methods get all steps n at once, (steps,), and the
    momentum beta of each, which is 0 at the first step."""

    lacks = {"nesterov": "(a rule of its own)"}

    def coefficients(self, n: np.ndarray, beta: np.ndarray) -> tuple[Steps, Steps, Steps]:
        """A_n, B_n and the look-ahead l_n. At the first step w_{n-1} = w_n."""
        raise NotImplementedError

    def gain(self, n: np.ndarray, beta: np.ndarray) -> Steps:
        """What the learning rate is multiplied by; times are those of the learning rate itself."""
        return 1.0

    def cooling(self, n: np.ndarray, beta: np.ndarray) -> Steps:
        """The variance of the noise over 2 T eta. With momentum 1 - beta, so that the temperature is T for small eta."""
        return 1.0 - beta


class HeavyBall(LinearUpdate, name="heavy_ball"):
    """Remembers the displacement that was made, w_n - w_{n-1}."""

    references: ClassVar[References] = (("polyak1964some", "momentum (heavy ball)"),)

    def coefficients(self, n: np.ndarray, beta: np.ndarray) -> tuple[Steps, Steps, Steps]:
        return 1.0 + beta, beta, 0.0  # [momentum]


class Nesterov(LinearUpdate, name="nesterov"):
    """Takes the gradient where the momentum leads."""

    def coefficients(self, n: np.ndarray, beta: np.ndarray) -> tuple[Steps, Steps, Steps]:
        return 1.0, 0.0, beta  # [momentum]


@dataclass(frozen=True)
class Update:
    """The numbers of a rule at every step, (steps,). Whoever asks for a step after the last one gets those of the last."""

    A: np.ndarray
    B: np.ndarray
    ahead: np.ndarray  # l
    cooling: np.ndarray
    gain: np.ndarray

    @classmethod
    def of(cls, rule: LinearUpdate, beta: np.ndarray) -> Update:
        """From the momentum of every step; the first step has no displacement to keep."""
        n, kept = np.arange(len(beta)), np.array(beta, dtype=np.float64)
        kept[0] = 0.0
        columns = *rule.coefficients(n, kept), rule.cooling(n, kept), rule.gain(n, kept)
        A, B, ahead, *rest = (np.array(np.broadcast_to(column, n.shape), dtype=np.float64) for column in columns)
        A[0], B[0], ahead[0] = A[0] - B[0], 0.0, 0.0
        return cls(A, B, ahead, *rest)

    def after(self, steps: int) -> Update:
        """These numbers after so many plain steps."""
        return Update(*(np.concatenate((np.full(steps, 0.0 if field.name in ("B", "ahead") else 1.0), getattr(self, field.name)))
                        for field in fields(self)))

    @property
    def looks_ahead(self) -> bool:
        """Whether a gradient is taken at another point than the weights."""
        return bool(np.any(self.ahead))

    @property
    def plain(self) -> bool:
        """Whether no step needs the weights of the step before, as in [sgd-step]."""
        return not np.any(self.B) and not self.looks_ahead

    def heat(self, temperature: np.ndarray, eta: np.ndarray) -> np.ndarray:
        """Variance of the thermal noise of every step, 2 T eta (1 - beta) with momentum."""
        return 2 * temperature * eta * self.cooling  # [momentum]

    def inertia(self, n: int) -> float:
        """A_n, the coefficient of the point where the gradient is taken."""
        return float(self.A[min(n, len(self.A) - 1)])

    def recoil(self, n: int) -> float:
        """B_n, the coefficient of the weights of the step before, which is subtracted."""
        return float(self.B[min(n, len(self.B) - 1)])

    def lookahead(self, n: int) -> float:
        """l_n of y_n = w_n + l_n (w_n - w_{n-1})."""
        return float(self.ahead[min(n, len(self.ahead) - 1)])

    def shares(self, n: int) -> tuple[float, float, float]:
        """Coefficients of y_n, of -y_{n-1} and of w_n in the step, for the theory, whose past is that of the points y where
        gradients are taken: w_{n-1} is y_{n-1} unless the rule looks ahead, and w_n - (y_n - w_n)/l_n if it does."""
        A, B, ahead = self.inertia(n), self.recoil(n), self.lookahead(n)
        if not B or not self.looks_ahead:
            return A, B, 0.0
        if not ahead:
            raise RunError(f"update rule: step {n} looks back (B = {B:g}) but not ahead, while others look ahead: no theory; let "
                           "all steps look ahead, or none")
        return A + B / ahead, 0.0, -B * (1 + 1 / ahead)  # [momentum]

    def unchanged(self, n: int) -> bool:
        """Whether step n has the coefficients of the step before it."""
        return all(getattr(self, field.name)[n] == getattr(self, field.name)[n - 1] for field in fields(self))
