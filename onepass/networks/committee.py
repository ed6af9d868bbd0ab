"""Two-layer networks with a general smooth activation.

Student f = (1/p) sum_i a_i s(w_i.x), teacher y = (1/k) sum_r a*_r s*(w*_r.x) + sqrt(Delta) z, x ~ N(0, I_d),
M = W W*^T, Q = W W^T, loss (y - f)^2/2, E = y - f. One step of SGD is
    w_i += (gamma/(p d)) a_i E s'(l_i) x,    a_i += rate (gamma/(p d)) E s(l_i),
and takes time gamma/(p d) (equivalently x ~ N(0, I/d), |w|^2 = d Q and rate gamma). For d -> infinity
    da_i  = rate E[E s(l_i)]
    dM_ir = a_i E[s'(l_i) ls_r E]
    dQ_ij = a_i E[s'(l_i) l_j E] + a_j E[s'(l_j) l_i E] + (gamma/p) a_i a_j E[s'(l_i) s'(l_j) (E0^2 + Delta)],
with E0 the error without label noise.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import ndtri
from scipy.stats import qmc

from dmft.core.errors import RunError
from onepass.networks import overlaps
from onepass.networks.field_moments import (
    erf_covariance,
    erf_moments,
    mean_square_error,
    tensor_moments,
    trapezoid_grid,
)
from onepass.networks.network import Network
from sgd_sim.models.activations import Activation, activation, apply


@lru_cache(maxsize=4)
def sobol_normals(fields: int, log2_points: int) -> np.ndarray:
    """Quasi-random standard normals (2^log2_points, fields), the same at every call."""
    points = qmc.Sobol(fields, scramble=True, rng=np.random.default_rng(20221)).random_base2(log2_points)
    return ndtri(points)


def _with_derivative(what: Any, derivative: Any) -> Activation:
    """An activation by name or pair, or as a function with its derivative given apart."""
    if callable(what) and not isinstance(what, tuple):
        if derivative is None:
            raise RunError("activation is a function: give its derivative too, as a pair (s, s') or derivative = s'")
        return activation((what, derivative))
    return activation(what)


@dataclass(frozen=True)
class Committee(Network):
    """See the module. `activation` and `teacher_activation` (default: the same): "erf" (erf(x/sqrt 2); closed form
    when both are), "tanh", or a pair (s, s') of scalar functions that Numba compiles (or s with `derivative` s').
    Other than erf, averages take `nodes`^(p+k) points: seconds an evaluation at p + k = 4, refused beyond. The other
    fields are those of QuadraticNetwork; `second_layer_rate` is the rate factor of a trained second layer."""

    activation: Any = "erf"
    width: int = 1
    teacher_width: int = 1
    gamma: float = 0.1
    noise: float = 0.0
    second_layer: str = "fixed"
    constraint: str = "none"
    teacher_activation: Any = None
    teacher_weights: tuple[float, ...] | None = None
    teacher_overlaps: tuple[tuple[float, ...], ...] | None = None
    second_layer_rate: float = 1.0
    nodes: int = 41
    derivative: Any = None
    teacher_derivative: Any = None
    _pair: tuple[Activation, Activation] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        student = _with_derivative(self.activation, self.derivative)
        teacher = student
        if self.teacher_activation is not None:
            teacher = _with_derivative(self.teacher_activation, self.teacher_derivative)
        object.__setattr__(self, "_pair", (student, teacher))
        if self.nodes < 5:
            raise RunError(f"nodes = {self.nodes}; need at least 5")

    def activations(self) -> tuple[Activation, Activation]:
        return self._pair

    @property
    def closed_form(self) -> bool:
        return all(part.name == "erf" for part in self._pair)

    def _omega_and_c(self, s: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        c = np.concatenate([-s["a"] / self.width, self.a_star / self.teacher_width])
        return overlaps.omega(s["M"], s["Q"], self.P), c

    def moments(self, s: dict[str, np.ndarray], diagonal: bool = False):
        """The averages of onepass.field_moments for one set of statistics."""
        om, c = self._omega_and_c(s)
        if self.closed_form:
            return erf_moments(om, c, self.width, diagonal)
        return tensor_moments(*self._pair, om, c, self.width, self.nodes)

    def _mean_square(self, s: dict[str, np.ndarray]) -> float:
        om, c = self._omega_and_c(s)
        if self.closed_form:
            return c @ erf_covariance(om) @ c
        return mean_square_error(*self._pair, om, c, self.width, self.nodes)

    def brackets_of(self, s: dict[str, np.ndarray], diagonal: bool = False) -> dict[str, np.ndarray]:
        """Mean brackets for one set of statistics; with `diagonal` the gamma-term of Q on its diagonal only."""
        p, a = self.width, s["a"]
        es, f, g, j2, _ = self.moments(s, diagonal)
        cross = a[:, None] * f[:, :p]
        noise = self.gamma / p * a[:, None] * a * (g + self.noise * j2)
        return {"a": self.rate_of_a * es, "M": a[:, None] * f[:, p:], "Q": cross + cross.T + noise}

    def bracket_means(self, x: np.ndarray) -> dict[str, np.ndarray]:
        rows = [self.brackets_of(self.layout.unpack(row)) for row in x.reshape(-1, x.shape[-1])]
        return {
            name: np.stack([row[name] for row in rows]).reshape(x.shape[:-1] + shape)
            for name, shape in self.layout.shapes.items()
        }

    def covariance(self, x: np.ndarray, log2_points: int = 11) -> np.ndarray:
        """Covariance of the brackets, from 2^11 quasi-random points (accuracy one or two per cent, enough for a
        correction of relative order d^-1/2; positive semi-definite by construction)."""
        rows = x.reshape(-1, x.shape[-1])
        out = np.stack([self._covariance_of(self.layout.unpack(row), log2_points) for row in rows])
        out = out.reshape(x.shape + x.shape[-1:])
        return self.project_covariance(out, self.layout.unpack(x))

    def _covariance_of(self, s: dict[str, np.ndarray], log2_points: int) -> np.ndarray:
        p, a = self.width, s["a"]
        values, vectors = np.linalg.eigh(overlaps.omega(s["M"], s["Q"], self.P))
        normals = sobol_normals(len(values) + 1, log2_points)
        fields = normals[:, :-1] @ ((vectors * np.sqrt(np.clip(values, 0.0, None))) @ vectors.T)
        student, teacher = self._pair
        slope, value = apply(student.ds, fields[:, :p]), apply(student.s, fields[:, :p])
        error = apply(teacher.s, fields[:, p:]) @ self.a_star / self.teacher_width - value @ a / p
        error += np.sqrt(self.noise) * normals[:, -1]
        kick = a * slope * error[:, None]
        cross = kick[:, :, None] * fields[:, None, :p]
        b = self.layout.pack(
            {
                "a": self.rate_of_a * error[:, None] * value,
                "M": kick[:, :, None] * fields[:, None, p:],
                "Q": cross + np.swapaxes(cross, 1, 2) + self.gamma / p * kick[:, :, None] * kick[:, None, :],
            }
        )
        return np.cov(b, rowvar=False, bias=True)

    def start(self, initial, dimension=None) -> np.ndarray:
        if not self.closed_form and dimension is None:
            trapezoid_grid(self.width + self.teacher_width, self.nodes)  # refuse before integrating
        return super().start(initial, dimension)

    def observables(self, statistics: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """risk = E[(y - f)^2]/2, label noise included."""
        flat = self.layout.pack(statistics)
        risk = np.full(flat.shape[:-1], np.nan)
        for index in np.ndindex(*risk.shape):
            if np.isfinite(flat[index]).all():
                risk[index] = (self._mean_square(self.layout.unpack(flat[index])) + self.noise) / 2.0
        return {"risk": risk}

    def reduced(self):
        """The mean-field and high-dimensional reduction of these equations (see onepass.mean_field)."""
        from onepass.networks.mean_field import MeanFieldCommittee

        return MeanFieldCommittee(self)
