"""Two-layer networks with quadratic activation learning a quadratic teacher (phase retrieval and its kin).

Student f = (1/p) sum_j a_j l_j^2, teacher y = (1/k) sum_r a*_r ls_r^2 + sqrt(Delta) z, x ~ N(0, I/d), |w*|^2 = d,
M = W W*^T/d, Q = W W^T/d, loss (y - f)^2/2. With E = y - f one step of SGD is
    w_j += (2 gamma/p) a_j E l_j x,   a_j += rate (gamma/(p d)) E l_j^2,
on the sphere followed by w_j -> sqrt(d) w_j/|w_j|; a step takes time gamma/(p d). So each statistic changes, per
unit time, by a bracket
    a_j: rate E l_j^2      M_jr: 2 a_j E l_j ls_r      Q_jl: 2 (a_j + a_l) E l_j l_l + (4 gamma/p) a_j a_l E^2 l_j l_l
whose mean is the ODE and whose covariance is the noise of the SDE.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dmft.model.activations import Activation, activation
from onepass.networks import moments, overlaps
from onepass.networks.network import Network


@dataclass(frozen=True)
class QuadraticNetwork(Network):
    """See the module. `second_layer` "fixed" | "trained", `constraint` "none" | "sphere"; `teacher_weights` a*
    (default ones), `teacher_overlaps` P (default identity), `second_layer_rate` multiplies the rate gamma/d of a."""

    width: int
    teacher_width: int = 1
    gamma: float = 0.1
    noise: float = 0.0
    second_layer: str = "fixed"
    constraint: str = "none"
    teacher_weights: tuple[float, ...] | None = None
    teacher_overlaps: tuple[tuple[float, ...], ...] | None = None
    second_layer_rate: float = 1.0

    @classmethod
    def from_bocchi(cls, width: int, teacher_width: int, eta: float) -> QuadraticNetwork:
        """The network of Bocchi et al.: loss (y - yhat)^2, learning rate eta, a = a* = 1, orthonormal teacher, no
        noise. It is this model with gamma = 2 eta; their time alpha = steps/d is t = 2 eta alpha/p here
        (`time_of_alpha`) and their risk is twice `risk`."""
        return cls(width=width, teacher_width=teacher_width, gamma=2.0 * eta)

    def time_of_alpha(self, alpha):
        """The time t after alpha d steps."""
        return self.gamma * np.asarray(alpha, float) / self.width

    def activations(self) -> tuple[Activation, Activation]:
        return activation("quadratic"), activation("quadratic")

    def stability_limit(self) -> float:
        """The recovery of an orthonormal teacher by a student with a = 1 is stable for gamma below p k/(2(k+2));
        NaN where that formula does not apply."""
        if not self.plain_teacher or self.second_layer == "trained" or self.width < self.teacher_width:
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

    def _fields(self, s: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Omega (..., p+k, p+k) and the diagonal (..., p+k) of A."""
        c = np.empty(s["a"].shape[:-1] + (self.width + self.teacher_width,))
        c[..., : self.width] = -s["a"] / self.width
        c[..., self.width :] = self.a_star / self.teacher_width
        return overlaps.omega(s["M"], s["Q"], self.P), c

    def bracket_means(self, x: np.ndarray) -> dict[str, np.ndarray]:
        """Means of the brackets of a, M and Q before any projection on the sphere."""
        p = self.width
        s = self.layout.unpack(x)
        om, c = self._fields(s)
        e1, e2, _ = moments.error_moments(om, c, self.noise)
        a = s["a"]
        pair = a[..., :, None] * a[..., None, :]
        return {
            "a": self.rate_of_a * np.diagonal(e1, axis1=-2, axis2=-1)[..., :p],
            "M": 2.0 * a[..., :, None] * e1[..., :p, p:],
            "Q": 2.0 * (a[..., :, None] + a[..., None, :]) * e1[..., :p, :p]
            + (4.0 * self.gamma / p) * pair * e2[..., :p, :p],
        }

    def covariance(self, x: np.ndarray) -> np.ndarray:
        """Exact covariance of the brackets for every width, from moments of order up to 12; on the sphere carried
        through the projection."""
        p, layout = self.width, self.layout
        s = self.layout.unpack(x)
        om, c = self._fields(s)
        rows, columns = np.triu_indices(p)
        units = np.arange(p)
        first = np.concatenate([units, np.repeat(units, self.teacher_width), rows])
        second = np.concatenate([units, p + np.tile(np.arange(self.teacher_width), p), columns])
        a = s["a"]
        linear = np.concatenate(
            [np.full_like(a, self.rate_of_a), np.repeat(2.0 * a, self.teacher_width, -1), 2.0 * (a[..., rows] + a[..., columns])],
            axis=-1,
        )
        square = np.zeros_like(linear)
        square[..., layout.slice("Q")] = (4.0 * self.gamma / p) * a[..., rows] * a[..., columns]
        f2, f3, f4 = (moments.pair_moments(om, c, self.noise, first, second, n) for n in (2, 3, 4))
        cross = linear[..., :, None] * square[..., None, :]
        second_moment = (
            linear[..., :, None] * linear[..., None, :] * f2
            + (cross + np.swapaxes(cross, -1, -2)) * f3
            + square[..., :, None] * square[..., None, :] * f4
        )
        mean = layout.pack(self.bracket_means(x))
        return self.project_covariance(second_moment - mean[..., :, None] * mean[..., None, :], s)

    def observables(self, statistics: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """risk = E[(y - f)^2]/2, label noise included."""
        om, c = self._fields(statistics)
        return {"risk": moments.error_moments(om, c, self.noise)[2] / 2.0}
