"""One-pass SGD on a multi-index teacher, y = g(w*_1.x, ..., w*_k.x) + sqrt(Delta) z for any g, with the variants of SGD.

Student f = (1/p) sum_j a_j s(w_j.x) with a fixed second layer, x ~ N(0, I/d), |w|^2 = O(d), M = W W*^T/d, Q = W W^T/d. A
step takes a mini-batch of b samples and time tau = gamma/(p d). Each sample is used `uses` times in a row: a use kicks by
    c_j = (gamma/p) rate a_j E s'(l_j) along x and moves the sample's own fields, l_j -> l_j + c_j |x|^2, |x|^2 -> 1,
so that the sum C_j of its kicks is a function of its fields L and of z (Dandi et al. 2024; Arnaboldi et al. 2024). Then
    dM_jr = (p/gamma) E[C_j ls_r] - lambda rate M_jr
    dQ_jl = (p/gamma) (E[C_j l_l + C_l l_j] + E[C_j C_l]/b) - 2 lambda rate Q_jl,
with weight decay lambda and rate(t) = (1 + t/t_0)^-kappa. The chain of (M, Q) stays exact and closed: fields and scalar
products of the samples of a batch follow from the overlaps and a Wishart matrix.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numba import njit

from dmft.core import streams
from dmft.core.errors import RunError
from onepass.layout import StatisticsLayout
from onepass.networks import overlaps
from onepass.networks.chain import complete_cholesky
from onepass.networks.field_moments import trapezoid_grid
from onepass.networks.hermite import multi_index_exponent
from onepass.networks.network import Network
from onepass.process import KernelProcess
from sgd_sim.models import links
from sgd_sim.models.activations import Activation, activation
from sgd_sim.models.networks import embed

NODES = {2: 61, 3: 41, 4: 25}  # of the rule, by number of fields


@njit(cache=True, error_model="numpy")
def _kicks(s, ds, y, fields, square, a, scale, uses, kick, total):
    """Sum over the uses of a sample of its kicks, into total (p,); fields (p,) are moved on the way."""
    p = len(a)
    total[:] = 0.0
    for _ in range(uses):
        error = y
        for j in range(p):
            error -= a[j] * s(fields[j]) / p
        for j in range(p):
            kick[j] = scale * a[j] * error * ds(fields[j])
        for j in range(p):
            total[j] += kick[j]
            fields[j] += kick[j] * square


@njit(cache=True, error_model="numpy", nogil=True)
def _averages(s, ds, g, root, points, weights, label_noise, noise_weights, a, k, scale, uses):
    """E[C_j ls_r] (p, k), E[C_j l_l] (p, p), E[C_j C_l] (p, p), E[(y - f)^2]; root (p + k, p + k), student first."""
    p = len(a)
    n = p + k
    m, q, cc, risk = np.zeros((p, k)), np.zeros((p, p)), np.zeros((p, p)), 0.0
    u, teacher, moved, kick, total = np.empty(n), np.empty(k), np.empty(p), np.empty(p), np.empty(p)
    for index in range(len(weights)):
        for i in range(n):
            u[i] = 0.0
            for l in range(n):
                u[i] += root[i, l] * points[index, l]
        teacher[:] = u[p:]
        clean = g(teacher.ctypes, k)
        for z in range(len(label_noise)):
            w, y = weights[index] * noise_weights[z], clean + label_noise[z]
            error = y
            for j in range(p):
                error -= a[j] * s(u[j]) / p
            risk += w * error * error
            moved[:] = u[:p]
            _kicks(s, ds, y, moved, 1.0, a, scale, uses, kick, total)
            for j in range(p):
                for r in range(k):
                    m[j, r] += w * total[j] * u[p + r]
                for l in range(p):
                    q[j, l] += w * total[j] * u[l]
                    cc[j, l] += w * total[j] * total[l]
    return m, q, cc, risk


@njit(cache=True, error_model="numpy", nogil=True)
def _chain(om, clock, steps, s, ds, g, a, gamma, noise, weight_decay, rate_decay, sphere, uses, batch, dimension, rng):
    """Advance om = [[P, M^T], [M, Q]], teacher first, in place. The part of a sample across all weights enters through the
    scalar products of such parts, rows of Bartlett's triangular factor of a Wishart matrix."""
    p = len(a)
    n = om.shape[0]
    k = n - p
    factor = np.zeros((n, n))
    white, across = np.empty((batch, n)), np.zeros((batch, batch))
    fields, total = np.empty((batch, n)), np.empty((batch, p))
    teacher, moved, kick = np.empty(k), np.empty(p), np.empty(p)
    for _ in range(steps):
        rate = (1.0 + clock[0] / rate_decay[0]) ** -rate_decay[1]
        complete_cholesky(om, factor, 0)
        for b in range(batch):
            square = 0.0
            for i in range(n):
                white[b, i] = rng.standard_normal()
                square += white[b, i] ** 2
                fields[b, i] = 0.0
                for l in range(i + 1):
                    fields[b, i] += factor[i, l] * white[b, l]
            for c in range(b):
                across[b, c] = rng.standard_normal()
                square += across[b, c] ** 2
            rest = rng.chisquare(dimension - n - b) if dimension - n - b > 0 else 0.0
            across[b, b] = np.sqrt(rest)
            square = (square + rest) / dimension
            teacher[:] = fields[b, :k]
            y = g(teacher.ctypes, k) + np.sqrt(noise) * rng.standard_normal()
            moved[:] = fields[b, k:]
            _kicks(s, ds, y, moved, square, a, gamma / p * rate, uses, kick, total[b])
        keep = 1.0 - gamma * rate * weight_decay / (p * dimension)
        for j in range(p):
            for r in range(k):
                om[k + j, r] *= keep
                for b in range(batch):
                    om[k + j, r] += total[b, j] * fields[b, r] / (batch * dimension)
                om[r, k + j] = om[k + j, r]
            for l in range(j + 1):
                change = 0.0
                for b in range(batch):
                    change += keep * (total[b, j] * fields[b, k + l] + total[b, l] * fields[b, k + j]) / batch
                    for c in range(batch):
                        product = 0.0
                        for i in range(n):
                            product += white[b, i] * white[c, i]
                        for i in range(min(b, c) + 1):
                            product += across[b, i] * across[c, i]
                        change += total[b, j] * total[c, l] * product / (dimension * batch * batch)
                om[k + j, k + l] = keep * keep * om[k + j, k + l] + change / dimension
                om[k + l, k + j] = om[k + j, k + l]
        if sphere:
            for j in range(k, n):
                kick[j - k] = 1.0 / np.sqrt(om[j, j])
            for j in range(k, n):
                for i in range(n):
                    om[j, i] *= kick[j - k]
                    om[i, j] *= kick[j - k]
        clock[0] += gamma / (p * dimension)


@dataclass(frozen=True)
class MultiIndexNetwork(Network):
    """See the module. `link`: "product", "staircase" (u1 + u1 u2 + ...), "hermite3", or a function g(u, k) that Numba
    compiles; `activation` as in Committee; `uses` of each sample in a row, `batch` size b, `weight_decay` lambda, `rate_decay`
    = (t_0, kappa). Statistics a, M, Q and `clock`, the time. The ODE averages over all fields: up to p + k = 4; chain and
    simulate take any width. There is no SDE."""

    link: Any = "product"
    width: int = 1
    teacher_width: int = 1
    gamma: float = 0.1
    noise: float = 0.0
    activation: Any = "erf"
    constraint: str = "none"
    teacher_overlaps: tuple[tuple[float, ...], ...] | None = None
    uses: int = 1
    batch: int = 1
    weight_decay: float = 0.0
    rate_decay: tuple[float, float] = (1.0, 0.0)
    _functions: tuple[Activation, links.Link] = field(init=False, repr=False, compare=False)

    second_layer = "fixed"
    second_layer_rate = 0.0
    teacher_weights = None

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "_functions", (activation(self.activation), links.link(self.link)))
        for name in ("uses", "batch"):
            if int(getattr(self, name)) != getattr(self, name) or getattr(self, name) < 1:
                raise RunError(f"{name} = {getattr(self, name)}; need an integer >= 1")
        if not (np.isfinite(self.weight_decay) and self.weight_decay >= 0.0):
            raise RunError(f"weight_decay = {self.weight_decay}; need a finite number >= 0")
        if len(self.rate_decay) != 2:
            raise RunError(f"rate_decay = {self.rate_decay}; need two numbers, (t_0, exponent)")
        t_0, kappa = self.rate_decay
        if not (t_0 > 0.0 and kappa >= 0.0 and np.isfinite(kappa)):
            raise RunError(f"rate_decay = {self.rate_decay}; need (t_0 > 0, exponent >= 0)")

    @property
    def layout(self) -> StatisticsLayout:
        p, k = self.width, self.teacher_width
        return StatisticsLayout({"a": (p,), "M": (p, k), "Q": (p, p), "clock": ()}, frozenset({"Q"}))

    def information_exponent(self) -> tuple[int, list[tuple[int, ...]]]:
        """Of the link, for orthonormal teacher vectors: the degree, and the products of directions that have it."""
        return multi_index_exponent(lambda z: links.evaluate(self._functions[1].g, z), self.teacher_width)

    def start(self, initial, dimension=None) -> np.ndarray:
        return super().start({"clock": np.zeros(()), **initial}, dimension)

    def random_start(self, dimension: int, instances: int, seed: int = 1) -> dict[str, np.ndarray]:
        return {**super().random_start(dimension, instances, seed), "clock": np.zeros(instances)}

    def _mean_kicks(self, s: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray, float, float]:
        """E[C ls], E[C l], E[C C] for one set of statistics, E[(y - f)^2], and the rate."""
        om = overlaps.omega(s["M"], s["Q"], self.P)
        if len(om) not in NODES:
            raise RunError(
                f"width + teacher_width = {len(om)}: the ODE of a multi-index teacher averages over up to {max(NODES)} fields at "
                "once; chain(...) and simulate(...) take any number"
            )
        values, vectors = np.linalg.eigh(om)
        root = np.ascontiguousarray((vectors * np.sqrt(np.clip(values, 0.0, None))) @ vectors.T)
        z, w = np.polynomial.hermite_e.hermegauss(9 if self.uses > 1 else 3) if self.noise else (np.zeros(1), np.ones(1))
        rate = float((1.0 + s["clock"] / self.rate_decay[0]) ** -self.rate_decay[1])
        student, teacher = self._functions
        m, q, cc, risk = _averages(
            student.s, student.ds, teacher.g, root, *trapezoid_grid(len(om), NODES[len(om)]), np.sqrt(self.noise) * z, w / w.sum(),
            s["a"], self.teacher_width, self.gamma / self.width * rate, self.uses,
        )  # fmt: skip
        return m, q, cc, risk, rate

    def _rows(self, x: np.ndarray) -> list[dict[str, np.ndarray]]:
        return [self.layout.unpack(row) for row in x.reshape(-1, x.shape[-1])]

    def bracket_means(self, x: np.ndarray) -> dict[str, np.ndarray]:
        m, q = np.empty(x.shape[:-1] + self.layout.shapes["M"]), np.empty(x.shape[:-1] + self.layout.shapes["Q"])
        per_time = self.width / self.gamma
        for index, s in zip(np.ndindex(x.shape[:-1]), self._rows(x), strict=True):
            along, own, square, _, rate = self._mean_kicks(s)
            decay = self.weight_decay * rate
            m[index] = per_time * along - decay * s["M"]
            q[index] = per_time * (own + own.T + square / self.batch) - 2.0 * decay * s["Q"]
        ones = np.ones(x.shape[:-1])
        return {"a": np.zeros(x.shape[:-1] + (self.width,)), "M": m, "Q": q, "clock": ones}

    def covariance(self, x: np.ndarray) -> np.ndarray:
        raise RunError("a multi-index network has no SDE; chain(...) is exact and as fast")

    def observables(self, statistics: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """risk = E[(y - f)^2]/2, label noise included, where the fields are few enough."""
        if self.width + self.teacher_width not in NODES:
            return {}
        flat = self.layout.pack(statistics)
        risk = np.full(flat.shape[:-1], np.nan)
        for index, s in zip(np.ndindex(flat.shape[:-1]), self._rows(flat), strict=True):
            if np.isfinite(flat[index]).all():
                risk[index] = 0.5 * self._mean_kicks(s)[3]
        return {"risk": risk}

    def _arguments(self, *middle) -> tuple:
        student, teacher = self._functions
        return (student.s, student.ds, teacher.g, *middle, self.gamma, self.noise, self.weight_decay,
                (float(self.rate_decay[0]), float(self.rate_decay[1])), self.sphere, self.uses, self.batch)  # fmt: skip

    def chain_process(self, x0: np.ndarray, dimension: int, seed: int, instance: int) -> KernelProcess:
        s, k = self.layout.unpack(x0), self.teacher_width
        om = np.zeros((k + self.width, k + self.width))
        om[:k, :k], om[k:, :k], om[:k, k:], om[k:, k:] = self.P, s["M"], s["M"].T, s["Q"]

        def read(om: np.ndarray, clock: np.ndarray) -> np.ndarray:
            return self.layout.pack({"a": s["a"], "M": om[k:, :k], "Q": om[k:, k:], "clock": clock[0]})

        rng = streams.generator(seed, "multi-index-chain", instance)
        return KernelProcess(_chain, (om, np.array([s["clock"]], float)), (*self._arguments(s["a"]), dimension, rng), read)

    def sgd_process(self, x0: np.ndarray, dimension: int, seed: int, instance: int) -> KernelProcess:
        s, p = self.layout.unpack(x0), self.width
        frame = streams.generator(seed, "onepass-frame", instance)
        vectors = embed(overlaps.omega(s["M"], s["Q"], self.P), dimension, frame)
        w_star = np.ascontiguousarray(vectors[p:])

        def read(w: np.ndarray, clock: np.ndarray) -> np.ndarray:
            q, m = w @ w.T / dimension, w @ w_star.T / dimension
            return self.layout.pack({"a": s["a"], "M": m, "Q": q, "clock": clock[0]})

        state = (np.ascontiguousarray(vectors[:p]), np.array([s["clock"]], float))
        rng = streams.generator(seed, "multi-index-sgd", instance)
        return KernelProcess(links.advance, state, (*self._arguments(w_star, s["a"]), rng), read)
