"""One-pass SGD of two-layer networks on real Gaussian data: the independent baseline of the onepass theory.

Student f(x) = (1/p) sum_j a_j s(w_j.x), teacher y = (1/k) sum_r a*_r s*(w*_r.x) + sqrt(Delta) z, x ~ N(0, I/d),
weights of norm O(sqrt d). With E = y - f one step is
    w_j += (gamma/p) a_j E s'(w_j.x) x,     a_j += rate (gamma/(p d)) E s(w_j.x),
then, on the sphere, w_j -> sqrt(d) w_j/|w_j|. Everything here is arrays and numbers; nothing of the theory is used.

The weights are read once a step: one loop over blocks applies the update of a sample, draws the next sample, and takes the
scalar products with it. So a step moves 2 p d numbers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from dmft.core import streams
from dmft.model.activations import Activation
from sgd_sim.kernels.fast_normals import BLOCK, buffers, fill_block


class Layers(NamedTuple):
    """Student and teacher. Weights are scale[j] * w[j], so that normalising them needs no second pass."""

    w: np.ndarray         # (p, d)
    w_star: np.ndarray    # (k, d)
    a: np.ndarray         # (p,)
    a_star: np.ndarray    # (k,)
    scale: np.ndarray     # (p,)
    kick: np.ndarray      # (p,) the update c_j of the last sample, which is not applied yet


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc"})
def _sgd(s, ds, s_star, layers, samples, numbers, stream, first, steps):
    """Take `steps` steps from sample number `first`. samples: the last one x, room for the next, and buffers to draw it; numbers:
    gamma, Delta, rate, and whether the weights are on the sphere."""
    (w, w_star, a, a_star, scale, kick), (x, x_next, work) = layers, samples
    p, d = w.shape
    k = w_star.shape[0]
    gamma, noise, rate, sphere = numbers
    root_d = np.sqrt(d)
    fields = np.empty(p)
    targets = np.empty(k)
    norms = np.empty(p)
    for n in range(steps + 1):
        fields[:] = 0.0
        targets[:] = 0.0
        norms[:] = 0.0
        for begin in range(0, d, BLOCK):
            end = min(begin + BLOCK, d)
            old = x[begin:end]
            new = x_next[begin : begin + BLOCK]
            if n < steps:
                fill_block(stream, first + n, begin, new, work)
            for j in range(p):
                row = w[j, begin:end]
                c = kick[j]
                dot = 0.0
                square = 0.0
                if sphere:
                    for i in range(end - begin):
                        v = row[i] + c * old[i]
                        row[i] = v
                        dot += v * new[i]
                        square += v * v
                else:
                    for i in range(end - begin):
                        v = row[i] + c * old[i]
                        row[i] = v
                        dot += v * new[i]
                fields[j] += dot
                norms[j] += square
            for r in range(k):
                row = w_star[r, begin:end]
                dot = 0.0
                for i in range(end - begin):
                    dot += row[i] * new[i]
                targets[r] += dot
        if sphere:
            for j in range(p):
                scale[j] = root_d / np.sqrt(norms[j])
        if n == steps:
            break
        z0, _ = streams.normal2(stream, first + n, -1)
        error = np.sqrt(noise) * z0
        for r in range(k):
            error += a_star[r] * s_star(targets[r] / root_d) / k
        for j in range(p):
            fields[j] *= scale[j] / root_d
            error -= a[j] * s(fields[j]) / p
        for j in range(p):  # x = x_next/sqrt(d)
            kick[j] = gamma / p * a[j] * error * ds(fields[j]) / (root_d * scale[j])
        if rate > 0.0:
            for j in range(p):
                a[j] += rate * gamma / (p * d) * error * s(fields[j])
        x, x_next = x_next, x
    kick[:] = 0.0


class NetworkSGD:
    """One instance: weights, teacher and the stream of its data. `w`, `w_star` have norm O(sqrt d)."""

    def __init__(self, w, w_star, a, a_star, student: Activation, teacher: Activation, *, gamma: float, noise: float,
                 rate: float, sphere: bool, seed: int, instance: int):  # fmt: skip
        p, d = np.shape(w)
        # a copy: the caller's w must not change
        self.layers = Layers(np.array(w, order="C"), np.ascontiguousarray(w_star), np.array(a, float), np.array(a_star, float),
                             np.ones(p), np.zeros(p))
        padded = -(-d // BLOCK) * BLOCK
        self.samples = (np.zeros(padded), np.zeros(padded), buffers())
        self.numbers = (float(gamma), float(noise), float(rate), bool(sphere))
        self.stream = streams.key(seed, "onepass-sgd", instance)
        self.steps = np.zeros(1, np.int64)  # an array, saved and restored like the others
        self.functions = (student.s, student.ds, teacher.s)

    def advance(self, steps: int) -> None:
        """Take that many steps, each on a new sample. On the sphere the weights stay scale * w until `overlaps` is called, so that
        a stretch of steps can be cut anywhere without changing a bit."""
        if steps <= 0:
            return
        _sgd(*self.functions, self.layers, self.samples, self.numbers, self.stream, self.steps[0], steps)
        self.steps += steps

    @property
    def moving(self) -> tuple[np.ndarray, ...]:
        """The state: arrays that change. The stream of the data has no state."""
        return self.layers.w, self.layers.scale, self.layers.a, self.steps

    def overlaps(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """a (p,), M = W W*^T/d (p, k), Q = W W^T/d (p, p)."""
        w, w_star, a, _, scale, _ = self.layers
        w *= scale[:, None]
        scale[:] = 1.0
        return a.copy(), w @ w_star.T / w.shape[1], w @ w.T / w.shape[1]


def embed(omega: np.ndarray, dimension: int, rng: np.random.Generator) -> np.ndarray:
    """Vectors (n, d) with Gram matrix d * omega, in a random frame."""
    values, vectors = np.linalg.eigh(omega)
    root = (vectors * np.sqrt(np.clip(values, 0.0, None))) @ vectors.T
    frame, _ = np.linalg.qr(rng.standard_normal((dimension, len(omega))))
    return np.sqrt(dimension) * root @ frame.T
