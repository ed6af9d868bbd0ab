"""What quadratic networks and general committees share: teacher, checks, projection on the sphere."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dmft.core import streams
from dmft.core.errors import RunError
from onepass.ensemble import Process
from onepass.layout import Layout
from onepass.model import Model
from onepass.networks import overlaps
from onepass.networks.chain import NetworkChain, sgd_instance
from sgd_sim.models.activations import Activation


def choice(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise RunError(f"{name} = {value!r}; allowed: {', '.join(allowed)}")


class Network(Model):
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
        choice("second_layer", self.second_layer, ("fixed", "trained"))
        choice("constraint", self.constraint, ("none", "sphere"))
        k = self.teacher_width
        if self.teacher_weights is not None:
            weights = np.asarray(self.teacher_weights, float)
            if weights.shape != (k,):
                raise RunError(f"teacher_weights has shape {weights.shape}; expected ({k},)")
            object.__setattr__(self, "teacher_weights", tuple(weights.tolist()))
        if self.teacher_overlaps is not None:
            p = np.asarray(self.teacher_overlaps, float)
            if p.shape != (k, k):
                raise RunError(f"teacher_overlaps has shape {p.shape}; expected ({k}, {k})")
            overlaps.check_covariance(p, "teacher_overlaps")
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
        """Orthonormal vectors, unit weights."""
        return bool(np.allclose(self.P, np.eye(self.teacher_width)) and np.allclose(self.a_star, 1.0))

    @property
    def sphere(self) -> bool:
        return self.constraint == "sphere"

    @property
    def rate_of_a(self) -> float:
        """Rate factor of the second layer, 0 when it is fixed."""
        return self.second_layer_rate if self.second_layer == "trained" else 0.0

    def activations(self) -> tuple[Activation, Activation]:
        """Student's and teacher's."""
        raise NotImplementedError

    @property
    def layout(self) -> Layout:
        return overlaps.network_layout(self.width, self.teacher_width)

    def time_step(self, dimension: int) -> float:
        return self.gamma / (self.width * dimension)

    def start(self, initial: Mapping[str, np.ndarray], dimension: int | None = None) -> np.ndarray:
        return overlaps.check_start(initial, self.layout, self.P, self.sphere, dimension)

    def random_start(self, dimension: int, instances: int, seed: int = 1) -> dict[str, np.ndarray]:
        """Overlaps of random students (iid normal weights, or uniform on the sphere), instances first."""
        return overlaps.random_overlaps(self.width, self.P, dimension, instances, seed, self.sphere)

    def bracket_means(self, x: np.ndarray) -> dict[str, np.ndarray]:
        """Means of the brackets of a, M and Q before any projection on the sphere."""
        raise NotImplementedError

    def drift(self, x: np.ndarray) -> np.ndarray:
        b = self.bracket_means(x)
        if self.sphere:
            s = self.layout.unpack(x)
            norm = 0.5 * np.diagonal(b["Q"], axis1=-2, axis2=-1)
            b["M"] = b["M"] - s["M"] * norm[..., :, None]
            b["Q"] = b["Q"] - s["Q"] * (norm[..., :, None] + norm[..., None, :])
        return self.layout.pack(b)

    def project_covariance(self, c: np.ndarray, s: dict[str, np.ndarray]) -> np.ndarray:
        """On the sphere C -> J C J^T with dM_jr -> dM_jr - M_jr dQ_jj/2, dQ_jl -> dQ_jl - Q_jl (dQ_jj + dQ_ll)/2."""
        if not self.sphere:
            return c
        p, k = self.width, self.teacher_width
        rows, columns = np.triu_indices(p)
        diagonal = self.layout.slice("Q").start + np.flatnonzero(rows == columns)
        j = np.zeros(c.shape)
        j[...] = np.eye(c.shape[-1])
        units = np.repeat(np.arange(p), k)
        first_m = self.layout.slice("M").start
        j[..., first_m + np.arange(p * k), diagonal[units]] -= 0.5 * s["M"].reshape(s["M"].shape[:-2] + (p * k,))
        first_q = self.layout.slice("Q").start
        entries = first_q + np.arange(len(rows))
        half = 0.5 * s["Q"][..., rows, columns]
        j[..., entries, diagonal[rows]] -= half
        j[..., entries, diagonal[columns]] -= half
        return j @ c @ np.swapaxes(j, -1, -2)

    def retract(self, x: np.ndarray) -> np.ndarray:
        return self.layout.pack(overlaps.on_sphere(self.layout.unpack(x))) if self.sphere else x

    def chain_process(self, x0: np.ndarray, dimension: int, seed: int, instance: int) -> Process:
        rng = streams.generator(seed, "onepass-chain", instance)
        return NetworkChain(self, *self.activations(), x0, dimension, rng)

    def sgd_process(self, x0: np.ndarray, dimension: int, seed: int, instance: int) -> Process:
        return sgd_instance(self, *self.activations(), x0, dimension, seed, instance)
