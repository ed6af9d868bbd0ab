"""Two-layer networks that learn from a stream of samples, with the variants of SGD: the one model of all networks here.

Student f = (1/p) sum_j a_j s(l_j), l_j = w_j.x, x ~ N(0, I/d), |w|^2 = O(d). Teacher y = (1/k) sum_r a*_r s*(ls_r) + sqrt(Delta) z,
ls_r = w*_r.x, or y = g(ls_1, ..., ls_k) + sqrt(Delta) z with any link g. Statistics a, M = W W*^T/d, Q = W W^T/d. A step takes a
mini-batch of b samples and the time tau = gamma/(p d). Each sample is used `uses` times in a row: a use kicks by
    c_j = (gamma/p) rate a_j E s'(l_j) along x and moves the sample's own fields, l_j -> l_j + c_j |x|^2, |x|^2 -> 1,
E = -dl/df the pull of a loss l(y, f) (y - f for the square), cut to [-clip, clip]; C_j is the sum of these kicks over the uses
(Dandi et al. 2024; Arnaboldi et al. 2024). The second layer moves by rate_a tau rate E s(l_j). Then
    da_j  = rate_a rate (E[E s(l_j)] - lambda a_j)
    dM_jr = (p/gamma) E[C_j ls_r] - lambda rate M_jr
    dQ_jl = (p/gamma) (E[C_j l_l + C_l l_j] + E[C_j C_l]/b) - 2 lambda rate Q_jl,
with weight decay lambda and rate(t) = (1 + t/t_0)^-kappa, times a factor that changes in steps. On the sphere every w_j is
brought back to |w_j|^2 = d after a step. With friction phi > 0 the same step moves a velocity, dv = phi (dw of SGD - v dt),
dw = v dt, whose overlaps V = v W*^T/d, VW = v W^T/d, VV = v v^T/d are statistics too. (a, M, Q, ...) is an exact Markov chain in
every dimension.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dmft.core import streams
from dmft.core.errors import RunError
from onepass.layout import StatisticsLayout
from onepass.model import Model
from onepass.networks import kick_kernels, overlaps
from onepass.networks.averages import FieldAverages, averages_of, warn_of
from onepass.networks.chain import NetworkChain, check_memory, sgd_instance
from onepass.networks.exponents import multi_index_exponent
from onepass.networks.parameters import NetworkParameters
from onepass.process import KernelProcess, Process
from sgd_sim.models import multi_index as sgd
from sgd_sim.models.networks import embed
from sgd_sim.models.output_losses import SQUARE_LOSS


@dataclass(frozen=True)
class Network(NetworkParameters, Model):
    """A network with its equations of motion; see NetworkParameters for the keys."""

    @cached_property
    def averages(self) -> FieldAverages:
        """How averages over the fields are taken."""
        return averages_of(self)

    # --- statistics -------------------------------------------------------------------------------------------

    @property
    def layout(self) -> StatisticsLayout:
        return overlaps.network_layout(self.width, self.teacher_width, self.friction > 0.0, self.scheduled)

    def time_step(self, dimension: int) -> float:
        return self.gamma / (self.width * dimension)

    def step_constant(self) -> float:
        return self.gamma / self.width

    def change_times(self) -> np.ndarray:
        return self.step_rule.rate_steps[:, 0]

    def movable(self) -> np.ndarray:
        """All entries but a fixed second layer, on the sphere the norms, and the clock, which is no part of a fixed point."""
        moves = {name: np.full(shape, float(name != "clock")) for name, shape in self.layout.shapes.items()}
        moves["a"][:] = self.rate_of_a > 0.0
        if self.sphere:
            moves["Q"] -= np.eye(self.width)
        return self.layout.pack(moves) > 0.0

    def start(self, initial: Mapping[str, np.ndarray], dimension: int | None = None) -> np.ndarray:
        x = overlaps.check_start(initial, self.layout, self.P, self.sphere, dimension)
        if dimension is None:
            self.averages.check()
            if x.ndim == 1:
                warn_of(self.averages.accuracy(self.layout.unpack(x)))
        return x

    def accuracy(self, initial: Mapping[str, np.ndarray]) -> float:
        """Error of the drift at a start, over its largest entry. 0 where a closed form or a product rule is used, whose error is
        1e-6 or less for the built-in functions."""
        return self.averages.accuracy(self.layout.unpack(overlaps.check_start(initial, self.layout, self.P, self.sphere, None)))

    def random_start(self, dimension: int, instances: int, seed: int = 1, second_layer: str = "ones") -> dict[str, np.ndarray]:
        """Overlaps of random students (iid normal weights, or uniform on the sphere), instances first; the second layer by a law:
        "ones", "signs" (+-1), "bernoulli" (0 or 1), "normal"."""
        found = overlaps.random_overlaps(self.width, self.P, dimension, instances, seed, self.sphere)
        return found | {"a": overlaps.random_layer(second_layer, self.width, instances, seed)}

    def information_exponent(self) -> tuple[int, list[tuple[int, ...]]]:
        """Information exponent of the teacher: the degree, and the products of directions (those of `labels_of_normals`) that have
        it."""
        return multi_index_exponent(self.labels_of_normals, self.teacher_width)

    # --- equations of motion ----------------------------------------------------------------------------------

    def bracket_means(self, x: np.ndarray, rate: np.ndarray | None = None) -> dict[str, np.ndarray]:
        """Means of the brackets, the increments of the statistics per unit time, before any projection on the sphere. rate (...):
        factor of the learning rate in place of that of the schedule."""
        return self.brackets_of(self.layout.unpack(x), rate=rate)

    def brackets_of(self, s: dict[str, np.ndarray], diagonal: bool = False,
                    rate: np.ndarray | None = None) -> dict[str, np.ndarray]:
        """The same from the statistics by name; with `diagonal`, the term of Q in gamma on the diagonal only."""
        rate = self.rate(s) if rate is None else rate
        es, along, own, square = self.averages.means(s, rate, diagonal)
        decay, square = (self.weight_decay * rate)[..., None, None], square / self.batch
        found = {"a": self.rate_of_a * rate[..., None] * (es - self.weight_decay * s["a"])}
        if self.scheduled:
            found["clock"] = np.ones_like(rate)
        if self.friction > 0.0:
            return found | self._velocity_brackets(s, along, own, square, decay)
        own = own - decay * s["Q"]
        return found | {"M": along - decay * s["M"], "Q": own + np.swapaxes(own, -1, -2) + square}

    def _velocity_brackets(self, s: dict[str, np.ndarray], along: np.ndarray, own: np.ndarray, square: np.ndarray,
                           decay: np.ndarray) -> dict[str, np.ndarray]:
        """With a velocity v. The field v_l.x of a velocity enters no kick, so that E[C_j v_l.x] follows from E[C_j L] by the
        regression of v_l.x on the fields L = (l, ls)."""
        phi = self.friction
        om = overlaps.omega(s["M"], s["Q"], self.P)
        regression = np.concatenate([s["VW"], s["V"]], -1) @ np.linalg.pinv(om, hermitian=True)      # (p, p + k)
        on_velocity = np.concatenate([own, along], -1) @ np.swapaxes(regression, -1, -2) - decay * np.swapaxes(s["VW"], -1, -2)
        work = on_velocity - s["VV"]
        return {"M": s["V"], "Q": s["VW"] + np.swapaxes(s["VW"], -1, -2),
                "V": phi * (along - decay * s["M"] - s["V"]),
                "VW": phi * (own - decay * s["Q"] - s["VW"]) + s["VV"],
                "VV": phi * (work + np.swapaxes(work, -1, -2)) + phi**2 * square}  # fmt: skip

    def drift(self, x: np.ndarray, rate: np.ndarray | None = None) -> np.ndarray:
        b = self.bracket_means(x, rate)
        if self.sphere:
            s = self.layout.unpack(x)
            norm = 0.5 * np.diagonal(b["Q"], axis1=-2, axis2=-1)
            b["M"] = b["M"] - s["M"] * norm[..., :, None]
            b["Q"] = b["Q"] - s["Q"] * (norm[..., :, None] + norm[..., None, :])
        return self.layout.pack(b)

    def covariance(self, x: np.ndarray) -> np.ndarray:
        """Covariance of the brackets; on the sphere carried through the projection, C -> J C J^T with
        dM_jr -> dM_jr - M_jr dQ_jj/2, dQ_jl -> dQ_jl - Q_jl (dQ_jj + dQ_ll)/2."""
        if self.friction > 0.0:
            raise RunError("friction: the SDE of a velocity is not known here; chain(...) has the exact law")
        s, p, k = self.layout.unpack(x), self.width, self.teacher_width
        c: np.ndarray = np.zeros(x.shape + x.shape[-1:])
        moving = self.layout.slice("Q").stop       # all but the clock
        c[..., :moving, :moving] = self.averages.covariance(s, self.rate(s))
        if not self.sphere:
            return c
        rows, columns = np.triu_indices(p)
        first_m, first_q = self.layout.slice("M").start, self.layout.slice("Q").start
        diagonal = first_q + np.flatnonzero(rows == columns)
        j = np.zeros(c.shape)
        j[...] = np.eye(c.shape[-1])
        j[..., first_m + np.arange(p * k), diagonal[np.repeat(np.arange(p), k)]] -= 0.5 * s["M"].reshape(x.shape[:-1] + (p * k,))
        entries, half = first_q + np.arange(len(rows)), 0.5 * s["Q"][..., rows, columns]
        j[..., entries, diagonal[rows]] -= half
        j[..., entries, diagonal[columns]] -= half
        return j @ c @ np.swapaxes(j, -1, -2)

    def retract(self, x: np.ndarray) -> np.ndarray:
        return self.layout.pack({**self.layout.unpack(x), **overlaps.on_sphere(self.layout.unpack(x))}) if self.sphere else x

    def observables(self, statistics: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """risk = E[(y - f)^2]/2, label noise included, and `loss` = E[l(y, f)] for another loss than the square."""
        flat = self.layout.pack(statistics)
        found, finite = np.full((2,) + flat.shape[:-1], np.nan), np.isfinite(flat).all(axis=-1)
        if finite.any():
            found[:, finite] = self.averages.errors(self.layout.unpack(flat[finite]))
        return {"risk": 0.5 * found[0]} | ({} if self.output is SQUARE_LOSS else {"loss": found[1]})

    def ode_options(self, **options: Any) -> dict[str, Any]:
        """With quasi-random points the drift has small kinks, where a point crosses a kink of the functions: then a method of low
        order and rtol >= 1e-5 are best."""
        if self.averages.quasi_random:
            return {"method": "RK45", "atol": 1e-8, **options, "rtol": max(options.get("rtol", 0.0), 1e-5)}
        return options

    # --- finite dimension -------------------------------------------------------------------------------------

    def chain_process(self, x0: np.ndarray, dimension: int, seed: int, instance: int) -> Process:
        if self.plain:
            return NetworkChain(self, self.layout, x0, dimension, streams.generator(seed, "onepass-chain", instance))
        s, k, p = self.layout.unpack(x0), self.teacher_width, self.width
        om = np.ascontiguousarray(overlaps.gram(s, self.P))

        def read(om: np.ndarray, clock: np.ndarray, a: np.ndarray) -> np.ndarray:
            w, v = slice(k, k + p), slice(k + p, None)
            found = {"a": a, "M": om[w, :k], "Q": om[w, w], "clock": clock[0]}
            return self.layout.pack(found | ({"V": om[v, :k], "VW": om[v, w], "VV": om[v, v]} if self.friction > 0.0 else {}))

        state = (om, np.array([s.get("clock", 0.0)], float), s["a"].copy())
        rng = streams.generator(seed, "multi-index-chain", instance)
        return KernelProcess(kick_kernels.chain, state, (self.student_and_teacher, k, self.step_rule, dimension, rng), read)

    def sgd_process(self, x0: np.ndarray, dimension: int, seed: int, instance: int) -> Process:
        check_memory(self, dimension)
        if self.plain:
            return sgd_instance(self, self.layout, x0, dimension, seed, instance)
        s, p, k = self.layout.unpack(x0), self.width, self.teacher_width
        velocity = self.friction > 0.0
        vectors = embed(overlaps.gram(s, self.P, student_first=True), dimension, streams.generator(seed, "onepass-frame", instance))
        w, w_star, v = (np.ascontiguousarray(part) for part in (vectors[:p], vectors[p : p + k], vectors[p + k :]))

        def read(w: np.ndarray, v: np.ndarray, clock: np.ndarray, a: np.ndarray) -> np.ndarray:
            found = {"a": a, "M": w @ w_star.T / dimension, "Q": w @ w.T / dimension, "clock": clock[0]}
            more = {"V": v @ w_star.T / dimension, "VW": v @ w.T / dimension, "VV": v @ v.T / dimension} if velocity else {}
            return self.layout.pack(found | more)

        state = (w, v, np.array([s.get("clock", 0.0)], float), s["a"].copy())
        rng = streams.generator(seed, "multi-index-sgd", instance)
        return KernelProcess(sgd.advance, state, (self.student_and_teacher, w_star, self.step_rule, rng), read)
