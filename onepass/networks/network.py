"""Equations of motion that quadratic networks and general committees share: the sphere, the chain, direct SGD."""

from __future__ import annotations

import numpy as np

from dmft.core import streams
from onepass.networks import overlaps
from onepass.networks.chain import NetworkChain, sgd_instance
from onepass.networks.teacher_student import TeacherStudent
from onepass.process import Process


class Network(TeacherStudent):
    """A student whose overlaps a, M, Q move by brackets: random increments per unit time, before any projection."""

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
