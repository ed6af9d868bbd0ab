"""Networks by the names of the papers: the model of network.py with other defaults, and what is known of each alone."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from onepass.networks.mean_field import MeanFieldCommittee
from onepass.networks.network import Network


class Committee(Network):
    """A network as it is, with a network as teacher."""

    def reduced(self) -> MeanFieldCommittee:
        """The mean-field and high-dimensional reduction of its equations (mean_field.py)."""
        return MeanFieldCommittee(self)


class MultiIndexNetwork(Network):
    """A network whose teacher is any function of a few directions."""

    def __init__(self, link: Any = "product", width: int = 1, teacher_width: int = 1, gamma: float = 0.1, noise: float = 0.0,
                 activation: Any = "erf", **others: Any):
        super().__init__(activation, width, teacher_width, gamma, noise, link=link, **others)


class QuadraticNetwork(Network):
    """Squares in student and teacher (phase retrieval and its kin); every moment of the overlaps' increments is closed."""

    def __init__(self, width: int, teacher_width: int = 1, gamma: float = 0.1, noise: float = 0.0, second_layer: str = "fixed",
                 constraint: str = "none", teacher_weights: Any = None, teacher_overlaps: Any = None,
                 second_layer_rate: float = 1.0, **others: Any):
        super().__init__(**{"activation": "quadratic", **others}, width=width, teacher_width=teacher_width, gamma=gamma,
                         noise=noise, second_layer=second_layer, constraint=constraint, teacher_weights=teacher_weights,
                         teacher_overlaps=teacher_overlaps, second_layer_rate=second_layer_rate)

    @classmethod
    def from_bocchi(cls, width: int, teacher_width: int, eta: float) -> QuadraticNetwork:
        """The network of Bocchi et al.: loss (y - yhat)^2, learning rate eta, a = a* = 1, orthonormal teacher, no
        noise. It is this model with gamma = 2 eta; their time alpha = steps/d is t = 2 eta alpha/p here
        (`time_of_alpha`) and their risk is twice `risk`."""
        return cls(width=width, teacher_width=teacher_width, gamma=2.0 * eta)

    def time_of_alpha(self, alpha: Any) -> np.ndarray:
        """The time t after alpha d steps."""
        return self.gamma * np.asarray(alpha, float) / self.width

    def stability_limit(self) -> float:
        """The recovery of an orthonormal teacher by a student with a = 1 is stable for gamma below p k/(2(k+2));
        NaN where that formula does not apply."""
        plain_teacher = np.allclose(self.P, np.eye(self.teacher_width)) and np.allclose(self.a_star, 1.0)
        if not (self.plain and plain_teacher) or self.second_layer == "trained" or self.width < self.teacher_width:
            return np.nan
        if self.constraint == "sphere" and self.teacher_width > 1:
            return np.nan
        return self.width * self.teacher_width / (2.0 * (self.teacher_width + 2.0))

    def start(self, initial: Mapping[str, np.ndarray], dimension: int | None = None) -> np.ndarray:
        limit = self.stability_limit()
        if self.gamma > limit and np.allclose(initial.get("a", 1.0), 1.0):
            warnings.warn(
                f"gamma = {self.gamma:g} is above the stability limit {limit:g}: the teacher will not be recovered",
                stacklevel=4,
            )
        return super().start(initial, dimension)

    def check_deterministic(self, x0: np.ndarray) -> None:
        if not np.any(self.layout.unpack(x0)["M"]):
            warnings.warn(
                "M = 0 at t = 0: the ODE stays there for ever; start from M != 0, or let fluctuations leave it with "
                "chain(...) or diffuse(...)",
                stacklevel=4,
            )
