"""One-pass SGD on a multi-index teacher, y = g(w*_1.x, ..., w*_k.x) + sqrt(Delta) z for any g, with the variants of SGD.

Student f = (1/p) sum_j a_j s(w_j.x) with a fixed second layer, x ~ N(0, I/d), |w|^2 = O(d), M = W W*^T/d, Q = W W^T/d. A
step takes a mini-batch of b samples and time tau = gamma/(p d). Each sample is used `uses` times in a row: a use kicks by
    c_j = (gamma/p) rate a_j E s'(l_j) along x and moves the sample's own fields, l_j -> l_j + c_j |x|^2, |x|^2 -> 1,
E = -dl/df the pull of a loss l(y, f) (y - f for the square), cut to [-clip, clip], so that the sum C_j of its kicks is a
function of its fields L and of z (Dandi et al. 2024; Arnaboldi et al. 2024). Then
    dM_jr = (p/gamma) E[C_j ls_r] - lambda rate M_jr
    dQ_jl = (p/gamma) (E[C_j l_l + C_l l_j] + E[C_j C_l]/b) - 2 lambda rate Q_jl,
with weight decay lambda and rate(t) = (1 + t/t_0)^-kappa, times a factor that changes in steps. (M, Q) is an exact Markov chain
in every dimension: the fields and scalar products of the samples of a batch follow from the overlaps and a Wishart matrix.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dmft.core import streams
from dmft.core.averages import standard_error
from dmft.core.errors import ResultWarning, RunError
from dmft.model import links
from dmft.model.activations import Activation, activation
from onepass.layout import StatisticsLayout
from onepass.networks import multi_index_kernels as kernels
from onepass.networks import overlaps
from onepass.networks.activation_kinds import check_integrable, kinks
from onepass.networks.hermite import multi_index_exponent
from onepass.networks.multi_index_rules import FieldRule, field_rule, smooth_link
from onepass.networks.multi_index_wide import MOST_DIRECTIONS, check_wide, wide_mean_kicks, wide_risk
from onepass.networks.network import Network
from onepass.process import KernelProcess
from onepass.result import Trajectory
from sgd_sim.models import multi_index as sgd
from sgd_sim.models.networks import embed
from sgd_sim.models.output_losses import SQUARE_LOSS, OutputLoss, output_loss, pulls_at_zero

ROUGH_DRIFT = 2e-3    # error of the drift, over its largest entry, above which the user is warned


@dataclass(frozen=True)
class MultiIndexNetwork(Network):
    """See the module for the equations; statistics are a, M, Q and `clock`, the time.

    link: "product", "staircase" (u1 + u1 u2 + ...), "hermite3", "parity" (product of signs), "erf", "tanh", "relu", "quadratic"
    (the mean of that function, a committee), or a function g(u, k) that Numba compiles. activation: as in Committee. uses: of
    each sample in a row. batch: size b. weight_decay: lambda. rate_decay: (t_0, kappa). rate_steps: ((time, factor), ...), each
    factor from its time on. loss: "square", "absolute", "logcosh", "logistic" (labels y = +-1), or a pair (l(y, f), -dl/df).
    clip: largest size of the pull. Averages of the ODE are those of multi_index_rules.py; `accuracy` gives their error."""

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
    rate_steps: tuple[tuple[float, float], ...] = ()
    loss: Any = "square"
    clip: float = float("inf")
    _functions: tuple[Activation, links.Link, OutputLoss] = field(init=False, repr=False, compare=False)
    _smooth: bool = field(init=False, repr=False, compare=False)

    second_layer = "fixed"
    second_layer_rate = 0.0
    teacher_weights = None

    def __post_init__(self) -> None:
        super().__post_init__()
        student, teacher, loss = activation(self.activation), links.link(self.link), output_loss(self.loss)
        check_integrable(student)
        object.__setattr__(self, "_functions", (student, teacher, loss))
        self._check_link()
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
        pairs = all(np.shape(one) == (2,) for one in self.rate_steps)
        steps = np.array(self.rate_steps, float).reshape(-1, 2) if pairs else np.full((1, 2), np.nan)
        if not np.isfinite(steps).all() or (steps < 0.0).any() or (np.diff(steps[:, 0]) <= 0.0).any():
            raise RunError(f"rate_steps = {self.rate_steps}; need pairs (time, factor >= 0), times rising")
        object.__setattr__(self, "rate_steps", tuple(map(tuple, steps.tolist())))
        if not self.clip > 0.0:
            raise RunError(f"clip = {self.clip}; the largest pull must be positive (inf: no clipping)")
        smooth = loss.smooth and np.isinf(self.clip) and not kinks(student) and smooth_link(teacher, self.teacher_width)
        object.__setattr__(self, "_smooth", bool(smooth))

    def _check_link(self) -> None:
        """Refuse links without finite mean square, and constant ones: there is no direction to learn."""
        name = self._functions[1].name
        z = np.random.default_rng(3).standard_normal((4096, self.teacher_width))
        values = links.evaluate(self._functions[1].g, np.concatenate([z, 4.0 * z[:64], 8.0 * z[:8]]))
        if not np.isfinite(values).all():
            raise RunError(f"link {name!r}: not finite on normal fields; its averages do not exist")
        if np.ptp(values[:4096]) <= 1e-12 * max(1.0, float(np.abs(values).max())):
            raise RunError(f"link {name!r}: constant, a teacher without direction; there is nothing to learn")
        radius = np.linspace(-10.0, 10.0, 2001)
        for direction in z[:8] / np.linalg.norm(z[:8], axis=1, keepdims=True):
            with np.errstate(over="ignore", invalid="ignore"):
                pull = pulls_at_zero(self._functions[2], links.evaluate(self._functions[1].g, radius[:, None] * direction))
                density = np.exp(-0.5 * radius**2) * np.clip(pull, -self.clip, self.clip) ** 4
                if not np.isfinite(density).all() or density[np.abs(radius) > 8.0].sum() > 1e-3 * density.sum():
                    raise RunError(
                        f"link {name!r} with loss {self._functions[2].name!r} is not integrable: the fourth moment of the pull "
                        "does not exist or hangs on fields beyond eight standard deviations; take one that grows more slowly"
                    )

    @property
    def layout(self) -> StatisticsLayout:
        p, k = self.width, self.teacher_width
        return StatisticsLayout({"a": (p,), "M": (p, k), "Q": (p, p), "clock": ()}, frozenset({"Q"}))

    def information_exponent(self) -> tuple[int, list[tuple[int, ...]]]:
        """Information exponent of the link for orthonormal teacher vectors: the degree, and the products of directions that
        have it."""
        return multi_index_exponent(lambda z: links.evaluate(self._functions[1].g, z), self.teacher_width)

    def start(self, initial, dimension=None) -> np.ndarray:
        x = super().start({"clock": np.zeros(()), **initial}, dimension)
        if dimension is None and self._few_at_a_time:
            check_wide(self.width, self.teacher_width)
        if dimension is None and x.ndim == 1 and (error := self.accuracy(initial)) > ROUGH_DRIFT:
            warnings.warn(f"the drift of this multi-index network is known to {100 * error:.1g} % only (quasi-random points); "
                          "chain(...) is exact", ResultWarning, stacklevel=4)  # fmt: skip
        return x

    def random_start(self, dimension: int, instances: int, seed: int = 1) -> dict[str, np.ndarray]:
        return {**super().random_start(dimension, instances, seed), "clock": np.zeros(instances)}

    @property
    def _plain(self) -> bool:
        """True if kicks are linear in the error y - f: square loss, no clipping, every sample used once."""
        return self.uses == 1 and self._functions[2] is SQUARE_LOSS and np.isinf(self.clip)

    @property
    def _few_at_a_time(self) -> bool:
        """True if the averages can be taken over a few fields at a time (multi_index_wide.py)."""
        return self._plain and self._smooth and self.width + self.teacher_width > 4 and self.teacher_width <= MOST_DIRECTIONS

    def _rule(self) -> FieldRule:
        nodes = 3 if self._plain else 9
        return field_rule(self.width + self.teacher_width, self.noise > 0.0, self._smooth, nodes)

    def _mean_kicks(self, s: dict[str, np.ndarray], rule: FieldRule | None = None) -> tuple:
        """E[C ls] (p, k), E[C l] (p, p), E[C C] (p, p), E[(y - f)^2], E[l] and the rate, for one set of statistics."""
        rate = self._rate(s)
        if self._few_at_a_time:
            om = overlaps.omega(s["M"], s["Q"], self.P)
            return *wide_mean_kicks(*self._functions[:2], om, s["a"], self.teacher_width, self._scale(s), self.noise), rate
        functions, rest = self._average_arguments(s, rule or self._rule())
        arguments = (*functions, self._functions[2].value, *rest)
        return *kernels.mean_kicks(*arguments), rate

    def _average_arguments(self, s: dict[str, np.ndarray], rule: FieldRule) -> tuple[Any, Any]:
        """Arguments of the averages of multi_index_kernels.py: the compiled functions, and all others."""
        student, teacher, loss = self._functions
        values, vectors = np.linalg.eigh(overlaps.omega(s["M"], s["Q"], self.P))
        root = np.ascontiguousarray((vectors * np.sqrt(np.clip(values, 0.0, None))) @ vectors.T)
        points, weights, noise, noise_weights, _ = rule
        return (student.s, student.ds, teacher.g), (
            loss.pull, float(self.clip), root, points, weights, np.sqrt(self.noise) * noise, noise_weights, s["a"],
            self.teacher_width, self._scale(s), self.uses,
        )  # fmt: skip

    def _rate(self, s: dict[str, np.ndarray]) -> float:
        """The factor of the learning rate now."""
        return float(sgd.rate_at(float(s["clock"]), self._decay, self._steps, 0.0))

    @property
    def _decay(self) -> tuple[float, float]:
        return float(self.rate_decay[0]), float(self.rate_decay[1])

    @property
    def _steps(self) -> np.ndarray:
        return np.array(self.rate_steps, float).reshape(-1, 2)

    def change_times(self) -> np.ndarray:
        return self._steps[:, 0]

    def _scale(self, s: dict[str, np.ndarray]) -> float:
        """Prefactor (gamma/p) rate of the kicks."""
        return self.gamma / self.width * self._rate(s)

    def solve(self, initial, times, **options) -> Trajectory:
        """The ODE from `initial` (see ode.solve). With quasi-random points the drift has small kinks, where a point crosses a
        kink of the functions: then a method of low order and rtol >= 1e-5 are best."""
        if not self._few_at_a_time and self._rule().parts > 1:
            options = {"method": "RK45", "atol": 1e-8, **options, "rtol": max(options.get("rtol", 0.0), 1e-5)}
        return super().solve(initial, times, **options)

    def accuracy(self, initial) -> float:
        """Error of the drift at a start, over its largest entry, from the scatter of independent sets of points. 0 where a product
        rule is used, whose error is 1e-6 or less for the built-in functions."""
        if self._few_at_a_time or (rule := self._rule()).parts == 1:
            return 0.0
        x = super().start({"clock": np.zeros(()), **initial})
        parts = np.stack([self._drift_of(self.layout.unpack(x), rule.part(i)) for i in range(rule.parts)])
        return float(np.max(standard_error(parts)) / max(np.abs(parts.mean(0)).max(), 1e-300))

    def _drift_of(self, s: dict[str, np.ndarray], rule: FieldRule) -> np.ndarray:
        """Brackets of M and Q as one vector."""
        along, own, square, *_ = self._mean_kicks(s, rule)
        return np.concatenate([along.ravel(), (own + own.T + square / self.batch).ravel()])

    def _rows(self, x: np.ndarray) -> list[dict[str, np.ndarray]]:
        return [self.layout.unpack(row) for row in x.reshape(-1, x.shape[-1])]

    def bracket_means(self, x: np.ndarray) -> dict[str, np.ndarray]:
        m, q = np.empty(x.shape[:-1] + self.layout.shapes["M"]), np.empty(x.shape[:-1] + self.layout.shapes["Q"])
        per_time = self.width / self.gamma
        for index, s in zip(np.ndindex(x.shape[:-1]), self._rows(x), strict=True):
            along, own, square, _, _, rate = self._mean_kicks(s)
            decay = self.weight_decay * rate
            m[index] = per_time * along - decay * s["M"]
            q[index] = per_time * (own + own.T + square / self.batch) - 2.0 * decay * s["Q"]
        ones = np.ones(x.shape[:-1])
        return {"a": np.zeros(x.shape[:-1] + (self.width,)), "M": m, "Q": q, "clock": ones}

    def covariance(self, x: np.ndarray) -> np.ndarray:
        """Covariance of the brackets: that of one sample, with C C/b in place of C C, divided by the batch size b."""
        out = np.zeros(x.shape + x.shape[-1:])
        moving = np.flatnonzero(self._moved)
        for index, s in zip(np.ndindex(x.shape[:-1]), self._rows(x), strict=True):
            functions, rest = self._average_arguments(s, self._noise_rule())
            arguments = (*functions, *rest, self.batch)
            found = kernels.kick_covariance(*arguments)
            out[(*index, *np.ix_(moving, moving))] = (self.width / self.gamma) ** 2 * found / self.batch
        return self.project_covariance(out, self.layout.unpack(x))

    @property
    def _moved(self) -> np.ndarray:
        """(size,) bool: the entries of M and Q in the flat vector."""
        names = {name: np.full(shape, name in ("M", "Q")) for name, shape in self.layout.shapes.items()}
        return self.layout.pack(names) > 0.0

    def movable(self) -> np.ndarray:
        """Not the clock, which always runs and is no part of a fixed point."""
        moves = super().movable()
        moves[self.layout.slice("clock")] = False
        return moves

    def _noise_rule(self) -> FieldRule:
        """The rule for the covariance: the product rule, or a quarter of the quasi-random points (error about one per cent)."""
        return self._rule().part(0)

    def observables(self, statistics: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """risk = E[(y - f)^2]/2, label noise included, and `loss` = E[l(y, f)] for another loss than the square. Only the first
        part of the quasi-random points is used, since ensembles need many evaluations."""
        flat = self.layout.pack(statistics)
        found = np.full((2,) + flat.shape[:-1], np.nan)
        for index, s in zip(np.ndindex(flat.shape[:-1]), self._rows(flat), strict=True):
            if np.isfinite(flat[index]).all():
                found[(slice(None), *index)] = self._risk_and_loss(s)
        return {"risk": 0.5 * found[0]} | ({} if self._functions[2] is SQUARE_LOSS else {"loss": found[1]})

    def _risk_and_loss(self, s: dict[str, np.ndarray]) -> tuple[float, float]:
        if self._few_at_a_time:
            om = overlaps.omega(s["M"], s["Q"], self.P)
            square = wide_risk(*self._functions[:2], om, s["a"], self.teacher_width) + self.noise
            return square, 0.5 * square
        return self._mean_kicks(s, self._rule().part(0))[3:5]

    def _arguments(self, *middle) -> tuple:
        student, teacher, loss = self._functions
        rule = sgd.StepRule(float(self.clip), self.gamma, self.noise, self.weight_decay, self._decay, self._steps, self.sphere,
                              self.uses, self.batch)  # fmt: skip
        return student.s, student.ds, teacher.g, loss.pull, *middle, rule

    def chain_process(self, x0: np.ndarray, dimension: int, seed: int, instance: int) -> KernelProcess:
        s, k = self.layout.unpack(x0), self.teacher_width
        om = np.zeros((k + self.width, k + self.width))
        om[:k, :k], om[k:, :k], om[:k, k:], om[k:, k:] = self.P, s["M"], s["M"].T, s["Q"]

        def read(om: np.ndarray, clock: np.ndarray) -> np.ndarray:
            return self.layout.pack({"a": s["a"], "M": om[k:, :k], "Q": om[k:, k:], "clock": clock[0]})

        rng = streams.generator(seed, "multi-index-chain", instance)
        return KernelProcess(kernels.chain, (om, np.array([s["clock"]], float)), (*self._arguments(s["a"]), dimension, rng), read)

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
        return KernelProcess(sgd.advance, state, (*self._arguments(w_star, s["a"]), rng), read)
