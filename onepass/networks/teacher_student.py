"""A two-layer student and its two-layer teacher: parameters, checks, layout of the overlaps, random starts.

The chain and SGD in finite dimension (chain.py) need no more than this; network.py adds the equations of motion.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dmft.core.errors import RunError
from dmft.model.activations import Activation
from onepass.layout import StatisticsLayout
from onepass.model import Model
from onepass.networks import overlaps


def check_choice(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise RunError(f"{name} = {value!r}; allowed: {', '.join(allowed)}")


class TeacherStudent(Model):
    """A student of `width` units with statistics a, M, Q against a teacher (a*, P)."""

    width: int
    teacher_width: int
    gamma: float
    noise: float
    second_layer: str
    constraint: str
    teacher_weights: tuple[float, ...] | None
    teacher_overlaps: tuple[tuple[float, ...], ...] | None
    second_layer_rate: float

    def __post_init__(self) -> None:
        for name in ("width", "teacher_width"):
            if getattr(self, name) < 1:
                raise RunError(f"{name} = {getattr(self, name)}; need at least 1")
        if not (np.isfinite(self.gamma) and self.gamma > 0):
            raise RunError(f"gamma = {self.gamma}; the learning rate must be positive")
        if not (np.isfinite(self.noise) and self.noise >= 0):
            raise RunError(f"noise = {self.noise}; the variance of the label noise must not be negative")
        check_choice("second_layer", self.second_layer, ("fixed", "trained"))
        check_choice("constraint", self.constraint, ("none", "sphere"))
        k = self.teacher_width
        if self.teacher_weights is not None:
            weights = np.asarray(self.teacher_weights, float)
            if weights.shape != (k,):
                raise RunError(f"teacher_weights has shape {weights.shape}; expected ({k},)")
            if not np.isfinite(weights).all() or not weights.any():
                raise RunError(f"teacher_weights = {weights.tolist()}; need finite numbers, not all 0: there is nothing to learn")
            object.__setattr__(self, "teacher_weights", tuple(weights.tolist()))
        if self.teacher_overlaps is not None:
            p = np.asarray(self.teacher_overlaps, float)
            if p.shape != (k, k):
                raise RunError(f"teacher_overlaps has shape {p.shape}; expected ({k}, {k})")
            overlaps.check_covariance(p, "teacher_overlaps")
            if np.diagonal(p).min() <= 0.0:
                unit = int(np.argmin(np.diagonal(p)))
                raise RunError(f"teacher_overlaps: teacher unit {unit} has norm 0 and no direction; leave it out")
            object.__setattr__(self, "teacher_overlaps", tuple(map(tuple, p.tolist())))

    @property
    def P(self) -> np.ndarray:
        """Teacher overlaps (k, k)."""
        return np.eye(self.teacher_width) if self.teacher_overlaps is None else np.array(self.teacher_overlaps)

    @property
    def a_star(self) -> np.ndarray:
        """Teacher's second layer (k,)."""
        return np.ones(self.teacher_width) if self.teacher_weights is None else np.array(self.teacher_weights)

    @property
    def plain_teacher(self) -> bool:
        """True if the teacher has orthonormal vectors and unit weights."""
        return bool(np.allclose(self.P, np.eye(self.teacher_width)) and np.allclose(self.a_star, 1.0))

    @property
    def sphere(self) -> bool:
        return self.constraint == "sphere"

    @property
    def rate_of_a(self) -> float:
        """Rate factor of the second layer, 0 when it is fixed."""
        return self.second_layer_rate if self.second_layer == "trained" else 0.0

    def activations(self) -> tuple[Activation, Activation]:
        """The activations of student and teacher."""
        raise NotImplementedError

    @property
    def layout(self) -> StatisticsLayout:
        return overlaps.network_layout(self.width, self.teacher_width)

    def time_step(self, dimension: int) -> float:
        return self.gamma / (self.width * dimension)

    def step_constant(self) -> float:
        return self.gamma / self.width

    def movable(self) -> np.ndarray:
        """All entries but a fixed second layer and, on the sphere, the norms."""
        moves = {name: np.ones(shape) for name, shape in self.layout.shapes.items()}
        moves["a"][:] = self.rate_of_a > 0.0
        if self.sphere:
            moves["Q"] -= np.eye(self.width)
        return self.layout.pack(moves) > 0.0

    def start(self, initial: Mapping[str, np.ndarray], dimension: int | None = None) -> np.ndarray:
        return overlaps.check_start(initial, self.layout, self.P, self.sphere, dimension)

    def random_start(self, dimension: int, instances: int, seed: int = 1) -> dict[str, np.ndarray]:
        """Overlaps of random students (iid normal weights, or uniform on the sphere), instances first."""
        return overlaps.random_overlaps(self.width, self.P, dimension, instances, seed, self.sphere)
