"""Finite-dimensional processes of two-layer networks: the exact chain of the overlaps, and SGD itself.

The chain. Under one-pass SGD with x ~ N(0, I/d) the overlaps alone are a Markov chain in every dimension: the
fields L ~ N(0, Omega) follow from Omega, and |x|^2 = (|g|^2 + chi^2_{d-p-k})/d with g the whitened fields. With
c_j = (gamma/p) a_j E s'(l_j) the update w_j += c_j x reads
    M_jr += c_j ls_r/d,   Q_jl += (c_j l_l + c_l l_j)/d + c_j c_l |x|^2/d,   a_j += rate (gamma/(p d)) E s(l_j).
A step costs O((p + k)^3) and does not depend on d.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from dmft.core import streams
from dmft.core.errors import RunError
from dmft.core.memory import available_bytes
from onepass.gaussian import lower_root
from onepass.layout import StatisticsLayout
from onepass.networks import overlaps
from onepass.networks.parameters import NetworkParameters
from onepass.process import Moving
from sgd_sim.models.networks import NetworkSGD, embed

LOST_PIVOT = 1e-15  # of the overlaps, relative: a vector that depends on the others


@njit(cache=True, nogil=True, error_model="numpy")
def _chain(s, ds, s_star, rng, om, factor, a, a_star, numbers, steps):
    """Advance om = [[P, M^T], [M, Q]] (teacher first: its rows of the factor never change) and a in place. numbers: gamma, Delta,
    rate, whether the weights are on the sphere, and the dimension."""
    k, p = len(a_star), len(a)
    n = p + k
    gamma, noise, rate, sphere, dimension = numbers
    g, field, c = np.empty(n), np.empty(n), np.empty(p)
    for _ in range(steps):
        lower_root(om, factor, k, LOST_PIVOT)
        square = rng.chisquare(dimension - n) if dimension > n else 0.0
        for i in range(n):
            g[i] = rng.standard_normal()
            square += g[i] * g[i]
            total = 0.0
            for l in range(i + 1):
                total += factor[i, l] * g[l]
            field[i] = total
        error = np.sqrt(noise) * rng.standard_normal() if noise > 0.0 else 0.0
        for r in range(k):
            error += a_star[r] * s_star(field[r]) / k
        for j in range(p):
            error -= a[j] * s(field[k + j]) / p
        for j in range(p):
            c[j] = gamma / p * a[j] * error * ds(field[k + j])
        for j in range(p):
            for i in range(k):
                om[k + j, i] += c[j] * field[i] / dimension
            for l in range(j + 1):
                om[k + j, k + l] += (
                    c[j] * field[k + l] + c[l] * field[k + j] + c[j] * c[l] * square / dimension
                ) / dimension
        if rate > 0.0:
            for j in range(p):
                a[j] += rate * gamma / (p * dimension) * error * s(field[k + j])
        if sphere:
            for j in range(p):
                c[j] = 1.0 / np.sqrt(om[k + j, k + j])
            for j in range(p):
                for i in range(k):
                    om[k + j, i] *= c[j]
                for l in range(j + 1):
                    om[k + j, k + l] *= c[j] * c[l]


class NetworkChain:
    """One instance of the exact chain."""

    def __init__(self, net: NetworkParameters, layout: StatisticsLayout, x0: np.ndarray, dimension: int, rng: np.random.Generator):
        self.net, self.layout, self.dimension, self.rng = net, layout, dimension, rng
        k, p = net.teacher_width, net.width
        start = layout.unpack(x0)
        self.om = np.zeros((k + p, k + p))
        self.om[:k, :k], self.om[k:, :k], self.om[k:, k:] = net.P, start["M"], start["Q"]
        self.factor = np.zeros_like(self.om)
        lower_root(np.ascontiguousarray(self.om[:k, :k]), self.factor[:k, :k], 0, LOST_PIVOT)
        self.a, self.a_star = start["a"].copy(), net.a_star
        self.functions = (net.pair[0].s, net.pair[0].ds, net.pair[1].s)

    def advance(self, steps: int) -> None:
        net = self.net
        numbers = (net.gamma, net.noise, net.rate_of_a, net.sphere, self.dimension)
        _chain(*self.functions, self.rng, self.om, self.factor, self.a, self.a_star, numbers, steps)

    @property
    def moving(self) -> Moving:
        """The overlaps, the second layer and the generator; the factor follows from the overlaps."""
        return self.om, self.a, self.rng

    def flat(self) -> np.ndarray:
        k = self.net.teacher_width
        return self.layout.pack({"a": self.a, "M": self.om[k:, :k], "Q": self.om[k:, k:].T})


class NetworkInstance(NetworkSGD):
    """Direct SGD that reports its overlaps as flat statistics."""

    layout: StatisticsLayout

    def flat(self) -> np.ndarray:
        a, m, q = self.overlaps()
        return self.layout.pack({"a": a, "M": m, "Q": q})


def check_memory(net: NetworkParameters, dimension: int) -> None:
    """RunError where an instance of SGD would not fit."""
    vectors = net.width * (2 if net.friction > 0.0 else 1) + net.teacher_width
    wanted = 8 * dimension * 4 * vectors  # bytes of the weights, and of the arrays that make them
    if wanted > available_bytes():
        raise RunError(
            f"dimension = {dimension}: an instance of SGD needs about {wanted / 2**30:.3g} GiB of memory; "
            "chain(...) has the same law and needs no vectors"
        )


def sgd_instance(net: NetworkParameters, layout: StatisticsLayout, x0: np.ndarray, dimension: int, seed: int, instance: int):
    """Weights in a random frame with the given overlaps, ready for SGD."""
    start = layout.unpack(x0)
    vectors = embed(
        overlaps.omega(start["M"], start["Q"], net.P), dimension, streams.generator(seed, "onepass-frame", instance)
    )
    process = NetworkInstance(
        vectors[: net.width], vectors[net.width :], start["a"], net.a_star, *net.pair, gamma=net.gamma,
        noise=net.noise, rate=net.rate_of_a, sphere=net.sphere, seed=seed, instance=instance,
    )  # fmt: skip
    process.layout = layout
    return process
