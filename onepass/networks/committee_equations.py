"""Two-layer networks with a general activation.

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

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dmft.core.errors import RunError
from dmft.model.activations import ERF, Activation, activation
from onepass.networks import overlaps
from onepass.networks.activation_kinds import MOST_KINKS, check_integrable, kinks, quadrature_error, two_slopes
from onepass.networks.field_moments import erf_covariance, erf_moments, mean_square_error, tensor_moments
from onepass.networks.kinked_moments import kinked_moments, kinked_square
from onepass.networks.network import Network
from onepass.networks.smooth_moments import check_work, smooth_moments
from onepass.networks.two_slope_moments import two_slope_moments, two_slope_square

MOST_TENSOR_FIELDS = 3  # up to so many fields one product rule over all of them is fastest
FEWEST_NODES_WITH_KINKS = 24
ROUGH_RULE = 1e-5  # relative error of the rule above which the user is warned


def _with_derivative(what: Any, derivative: Any) -> Activation:
    """An Activation from a name, a pair (s, s'), or a function s and its derivative."""
    if callable(what) and not isinstance(what, tuple):
        if derivative is None:
            raise RunError("activation is a function: give its derivative too, as a pair (s, s') or derivative = s'")
        return activation((what, derivative))
    return activation(what)


@dataclass(frozen=True)
class CommitteeEquations(Network):
    """See the module. `activation` and `teacher_activation` (default: the same): "erf" (erf(x/sqrt 2)), "relu", "tanh",
    "quadratic", or a pair (s, s') of scalar functions that Numba compiles (or s with `derivative` s'). Averages are closed
    for erf and for functions of two slopes (ReLU and its kin) in student and teacher; other smooth functions take a
    trapezoid rule with `nodes` nodes a field, over all fields up to p + k = 3 and over at most four at a time beyond; functions
    with kinks take rules that are cut there, `nodes`/2 to a panel. The other parameters are those of QuadraticNetwork;
    `second_layer_rate` is the rate factor of a trained second layer."""

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
    _slopes: tuple[tuple[float, float] | None, ...] = field(init=False, repr=False, compare=False)
    _kinks: tuple[tuple[float, ...], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        student = _with_derivative(self.activation, self.derivative)
        teacher = student
        if self.teacher_activation is not None:
            teacher = _with_derivative(self.teacher_activation, self.teacher_derivative)
        object.__setattr__(self, "_pair", (student, teacher))
        object.__setattr__(self, "_slopes", (two_slopes(student), two_slopes(teacher)))
        for part in self._pair:
            check_integrable(part)
        cut = () if self.closed_form else (kinks(student), kinks(teacher))
        object.__setattr__(self, "_kinks", cut if any(cut) else ())
        if self.nodes < 5:
            raise RunError(f"nodes = {self.nodes}; need at least 5")

    def activations(self) -> tuple[Activation, Activation]:
        return self._pair

    @property
    def closed_form(self) -> bool:
        """True if the averages have closed forms: erf, or two slopes, in both student and teacher."""
        return self._erf or self._two_slopes

    @property
    def _erf(self) -> bool:
        return all(part is ERF for part in self._pair)

    @property
    def _two_slopes(self) -> bool:
        return None not in self._slopes

    def _omega_and_c(self, s: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        c = np.concatenate([-s["a"] / self.width, self.a_star / self.teacher_width])
        return overlaps.omega(s["M"], s["Q"], self.P), c

    def moments(self, s: dict[str, np.ndarray], diagonal: bool = False):
        """es, f, g, j2 and square of field_moments.py for one set of statistics."""
        om, c = self._omega_and_c(s)
        if self._erf:
            return erf_moments(om, c, self.width, diagonal)
        if self._two_slopes:
            student, teacher = self._slopes
            return two_slope_moments(om, c, self.width, student, teacher, diagonal)
        if self._kinks:
            return kinked_moments(*self._pair, self._kinks, om, c, self.width, self.nodes, diagonal)
        if len(om) <= MOST_TENSOR_FIELDS:
            return tensor_moments(*self._pair, om, c, self.width, self.nodes)
        return smooth_moments(*self._pair, om, c, self.width, self.nodes, diagonal)

    def _mean_square(self, s: dict[str, np.ndarray]) -> float:
        om, c = self._omega_and_c(s)
        if self._erf:
            return c @ erf_covariance(om) @ c
        if self._two_slopes:
            student, teacher = self._slopes
            return two_slope_square(om, c, self.width, student, teacher)
        if self._kinks:
            return kinked_square(*self._pair, self._kinks, om, c, self.width, self.nodes)
        return mean_square_error(*self._pair, om, c, self.width, self.nodes)

    def check_rule(self, diagonal: bool = False) -> None:
        """Refuse or warn before integrating: widths beyond any rule, too few nodes."""
        if self.closed_form:
            return
        for part in () if self._kinks else self._pair:
            error = quadrature_error(part, self.nodes)
            if error > ROUGH_RULE:
                warnings.warn(f"activation {part.name!r}: averages with nodes = {self.nodes} are off by about {error:.1e}; "
                              "take more nodes", stacklevel=5)  # fmt: skip
        for part, places in zip(self._pair, self._kinks, strict=False):
            if len(places) > MOST_KINKS:
                raise RunError(
                    f"activation {part.name!r}: jumps at {len(places)} places or more; the averages of the ODE are cut at up to "
                    f"{MOST_KINKS}; chain(...) and simulate(...) take any activation"
                )
        if self._kinks and self.nodes < FEWEST_NODES_WITH_KINKS:
            warnings.warn(f"nodes = {self.nodes}: averages over panels of {self.nodes // 2} nodes are off by 1e-5 and more; take "
                          f"at least {FEWEST_NODES_WITH_KINKS}", stacklevel=5)  # fmt: skip
        if self._kinks or self.width + self.teacher_width > MOST_TENSOR_FIELDS:
            check_work(self.width, self.width + self.teacher_width, diagonal)

    def brackets_of(self, s: dict[str, np.ndarray], diagonal: bool = False) -> dict[str, np.ndarray]:
        """Mean brackets for one set of statistics; with `diagonal`, the term of Q in gamma on the diagonal only."""
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

    def start(self, initial, dimension=None) -> np.ndarray:
        if dimension is None:
            self.check_rule()
        return super().start(initial, dimension)

    def observables(self, statistics: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """risk = E[(y - f)^2]/2, label noise included."""
        flat = self.layout.pack(statistics)
        risk = np.full(flat.shape[:-1], np.nan)
        for index in np.ndindex(*risk.shape):
            if np.isfinite(flat[index]).all():
                risk[index] = (self._mean_square(self.layout.unpack(flat[index])) + self.noise) / 2.0
        return {"risk": risk}
