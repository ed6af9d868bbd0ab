"""Keys of a two-layer network and of the SGD that trains it: what they may be, which of them go together, and what they mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from dmft.core.errors import RunError
from dmft.model import links
from dmft.model.activations import Activation, activation, apply
from onepass.gaussian import symmetric_root
from onepass.networks import overlaps
from onepass.networks.activation_kinds import check_integrable
from sgd_sim.models import multi_index as sgd
from sgd_sim.models.output_losses import SQUARE_LOSS, OutputLoss, output_loss, pulls_at_zero


@dataclass(frozen=True)
class NetworkParameters:
    """Keys of a network; network.py has its equations.

    activation, teacher_activation (default: the same): "erf" (erf(x/sqrt 2)), "relu", "tanh", "quadratic", or a pair (s, s') of
    scalar functions that Numba compiles (or s with `derivative` s'). link, in place of a network as teacher: "product",
    "staircase" (u1 + u1 u2 + ...), "hermite3", "parity" (product of signs), "erf", "tanh", "relu", "quadratic" (the mean of that
    function), or a function g(u, k) that Numba compiles. second_layer: "fixed" | "trained", at second_layer_rate times the rate of
    the first; constraint: "none" | "sphere"; teacher_weights a* (default ones), teacher_overlaps P (default identity). uses: of
    each sample in a row. batch: size b. weight_decay: lambda. rate_decay: (t_0, kappa). rate_steps: ((time, factor), ...), each
    factor from its time on. loss: "square", "absolute", "logcosh", "logistic" (labels y = +-1), or a pair (l(y, f), -dl/df).
    clip: largest size of the pull. normalised: every gradient is divided by its norm. friction: phi of a velocity; 0: none.
    nodes: of the rules for averages (averages.py), whose error `accuracy` gives."""

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
    link: Any = None
    uses: int = 1
    batch: int = 1
    weight_decay: float = 0.0
    rate_decay: tuple[float, float] = (1.0, 0.0)
    rate_steps: tuple[tuple[float, float], ...] = ()
    loss: Any = "square"
    clip: float = float("inf")
    normalised: bool = False
    friction: float = 0.0

    def __post_init__(self) -> None:
        for name, value in _checked(self).items():
            object.__setattr__(self, name, value)
        _check_functions(self)

    def __getstate__(self) -> dict[str, Any]:
        """The keys alone: compiled functions, which follow from them, cannot be sent to other ranks."""
        return {key.name: getattr(self, key.name) for key in fields(self)}

    @cached_property
    def pair(self) -> tuple[Activation, Activation]:
        """The activations of student and teacher."""
        return _activation_pair(self)

    @cached_property
    def teacher_link(self) -> links.Link:
        """The link; of no meaning where a network is the teacher."""
        return links.link("product" if self.link is None else self.link)

    @cached_property
    def output(self) -> OutputLoss:
        """The loss."""
        return output_loss(self.loss)

    @property
    def student_and_teacher(self) -> sgd.StudentAndTeacher:
        """What the kernels need to know of both, and of the loss."""
        student, teacher = self.pair
        a_star = self.a_star if self.link is None else np.zeros(0)
        return sgd.StudentAndTeacher(student.s, student.ds, self.teacher_link.g, teacher.s, a_star, self.output.pull)

    def labels(self, fields: np.ndarray) -> np.ndarray:
        """Labels without noise of the teacher's fields (n, k), (n,)."""
        if self.link is None:
            return apply(self.pair[1].s, fields) @ self.a_star / self.teacher_width
        return links.evaluate(self.teacher_link.g, np.ascontiguousarray(fields, float))

    def labels_of_normals(self, z: np.ndarray) -> np.ndarray:
        """The same for independent normals z (n, k): the fields are P^1/2 z, those of orthonormal directions of the teacher's
        span, as close to its vectors as can be."""
        return self.labels(z @ symmetric_root(self.P))

    @property
    def P(self) -> np.ndarray:
        """Teacher overlaps (k, k)."""
        return np.eye(self.teacher_width) if self.teacher_overlaps is None else np.array(self.teacher_overlaps)

    @property
    def a_star(self) -> np.ndarray:
        """Teacher's second layer (k,)."""
        return np.ones(self.teacher_width) if self.teacher_weights is None else np.array(self.teacher_weights)

    @property
    def sphere(self) -> bool:
        return self.constraint == "sphere"

    @property
    def rate_of_a(self) -> float:
        """Rate factor of the second layer, 0 when it is fixed."""
        return float(self.second_layer_rate) if self.second_layer == "trained" else 0.0

    @property
    def linear(self) -> bool:
        """True if kicks are linear in the error y - f: square loss, no clipping, every sample used once."""
        return self.uses == 1 and self.output is SQUARE_LOSS and bool(np.isinf(self.clip)) and not self.normalised

    @property
    def scheduled(self) -> bool:
        """Whether the learning rate changes: then the time, `clock`, is a statistic; it always is of a teacher with a link."""
        return self.link is not None or bool(self.rate_steps) or self.rate_decay[1] != 0.0

    @property
    def plain(self) -> bool:
        """True if a step has none of the variants of SGD: chain.py has fast kernels for it."""
        return self.linear and not self.scheduled and self.batch == 1 and self.weight_decay == 0.0 and self.friction == 0.0

    def rate(self, s: Mapping[str, np.ndarray]) -> np.ndarray:
        """The factor of the learning rate now, (...)."""
        if not self.scheduled:
            return np.ones(s["a"].shape[:-1])
        steps = self.step_rule.rate_steps
        return np.array([sgd.rate_at(t, self.rate_decay, steps, 0.0) for t in s["clock"].ravel()]).reshape(s["clock"].shape)

    @cached_property
    def step_rule(self) -> sgd.StepRule:
        """What the kernels need to know of a step."""
        steps = np.array(self.rate_steps, float).reshape(-1, 2)
        return sgd.StepRule(float(self.clip), float(self.gamma), float(self.noise), float(self.weight_decay), self.rate_decay,
                            steps, self.sphere, self.uses, self.batch, self.rate_of_a, self.normalised, self.friction)


def _checked(net: NetworkParameters) -> dict[str, Any]:
    """Values to put in place of those given, of the same meaning; RunError for what cannot be."""
    for name in ("width", "teacher_width"):
        if getattr(net, name) < 1:
            raise RunError(f"{name} = {getattr(net, name)}; need at least 1")
    if not (np.isfinite(net.gamma) and net.gamma > 0):
        raise RunError(f"gamma = {net.gamma}; the learning rate must be positive")
    if not (np.isfinite(net.noise) and net.noise >= 0):
        raise RunError(f"noise = {net.noise}; the variance of the label noise must not be negative")
    for name, allowed in (("second_layer", ("fixed", "trained")), ("constraint", ("none", "sphere"))):
        if getattr(net, name) not in allowed:
            raise RunError(f"{name} = {getattr(net, name)!r}; allowed: {', '.join(allowed)}")
    if net.nodes < 5:
        raise RunError(f"nodes = {net.nodes}; need at least 5")
    for name in ("uses", "batch"):
        if int(getattr(net, name)) != getattr(net, name) or getattr(net, name) < 1:
            raise RunError(f"{name} = {getattr(net, name)}; need an integer >= 1")
    for name in ("weight_decay", "friction", "second_layer_rate"):
        if not (np.isfinite(getattr(net, name)) and getattr(net, name) >= 0.0):
            raise RunError(f"{name} = {getattr(net, name)}; need a finite number >= 0")
    if not net.clip > 0.0:
        raise RunError(f"clip = {net.clip}; the largest pull must be positive (inf: no clipping)")
    _check_together(net)
    return {**_teacher(net), **_schedule(net), "friction": float(net.friction)}


def _check_together(net: NetworkParameters) -> None:
    """Refuse what has no limit that a few overlaps describe, or none that is known here."""
    if net.link is not None and (net.teacher_activation is not None or net.teacher_weights is not None):
        raise RunError("link: a teacher with a link has no teacher_activation and no teacher_weights; take one of the two out")
    if net.teacher_link.noisy:
        raise RunError(f"link {net.teacher_link.name!r}: a function of noise, which one pass adds to labels; take a link g(u, k)")
    if net.normalised and net.batch > 1:
        raise RunError(f"normalised with batch = {net.batch}: the norm of a batch's gradient joins the fields of all its samples; "
                       "take batch = 1")
    for name, on in (("normalised", net.normalised), ("friction", net.friction > 0.0)):
        if on and net.second_layer == "trained":
            raise RunError(f'{name} with second_layer = "trained": known for the first layer alone; take second_layer = "fixed"')
    if net.friction > 0.0 and net.constraint == "sphere":
        raise RunError('friction with constraint = "sphere": a velocity on the sphere is not known here; take constraint = "none"')


def _teacher(net: NetworkParameters) -> dict[str, Any]:
    k, found = net.teacher_width, {}
    if net.teacher_weights is not None:
        weights = np.asarray(net.teacher_weights, float)
        if weights.shape != (k,):
            raise RunError(f"teacher_weights has shape {weights.shape}; expected ({k},)")
        if not np.isfinite(weights).all() or not weights.any():
            raise RunError(f"teacher_weights = {weights.tolist()}; need finite numbers, not all 0: there is nothing to learn")
        found["teacher_weights"] = tuple(weights.tolist())
    if net.teacher_overlaps is not None:
        p = np.asarray(net.teacher_overlaps, float)
        if p.shape != (k, k):
            raise RunError(f"teacher_overlaps has shape {p.shape}; expected ({k}, {k})")
        overlaps.check_covariance(p, "teacher_overlaps")
        if np.diagonal(p).min() <= 0.0:
            unit = int(np.argmin(np.diagonal(p)))
            raise RunError(f"teacher_overlaps: teacher unit {unit} has norm 0 and no direction; leave it out")
        found["teacher_overlaps"] = tuple(map(tuple, p.tolist()))
    return found


def _schedule(net: NetworkParameters) -> dict[str, Any]:
    if len(net.rate_decay) != 2:
        raise RunError(f"rate_decay = {net.rate_decay}; need two numbers, (t_0, exponent)")
    t_0, kappa = net.rate_decay
    if not (t_0 > 0.0 and kappa >= 0.0 and np.isfinite(kappa)):
        raise RunError(f"rate_decay = {net.rate_decay}; need (t_0 > 0, exponent >= 0)")
    pairs = all(np.shape(one) == (2,) for one in net.rate_steps)
    steps = np.array(net.rate_steps, float).reshape(-1, 2) if pairs else np.full((1, 2), np.nan)
    if not np.isfinite(steps).all() or (steps < 0.0).any() or (np.diff(steps[:, 0]) <= 0.0).any():
        raise RunError(f"rate_steps = {net.rate_steps}; need pairs (time, factor >= 0), times rising")
    return {"rate_steps": tuple(map(tuple, steps.tolist())), "rate_decay": (float(t_0), float(kappa))}


def _activation_pair(net: NetworkParameters) -> tuple[Activation, Activation]:
    """The activations of student and teacher."""
    student = _with_derivative(net.activation, net.derivative)
    if net.teacher_activation is None:
        return student, student
    return student, _with_derivative(net.teacher_activation, net.teacher_derivative)


def _with_derivative(what: Any, derivative: Any) -> Activation:
    """An Activation from a name, a pair (s, s'), or a function s and its derivative."""
    if callable(what) and not isinstance(what, tuple):
        if derivative is None:
            raise RunError("activation is a function: give its derivative too, as a pair (s, s') or derivative = s'")
        return activation((what, derivative))
    return activation(what)


def _check_functions(net: NetworkParameters) -> None:
    """Refuse activations, links and losses whose averages do not exist, and constant links: there is no direction to learn."""
    for part in net.pair:
        check_integrable(part)
    if net.link is None and net.output is SQUARE_LOSS:
        return
    name = f"link {net.teacher_link.name!r}" if net.link is not None else f"teacher {net.pair[1].name!r}"
    z = np.random.default_rng(3).standard_normal((4096, net.teacher_width))
    values = net.labels(np.concatenate([z, 4.0 * z[:64], 8.0 * z[:8]]))
    if not np.isfinite(values).all():
        raise RunError(f"{name}: not finite on normal fields; its averages do not exist")
    if np.ptp(values[:4096]) <= 1e-12 * max(1.0, float(np.abs(values).max())):
        raise RunError(f"{name}: constant, a teacher without direction; there is nothing to learn")
    radius = np.linspace(-10.0, 10.0, 2001)
    for direction in z[:8] / np.linalg.norm(z[:8], axis=1, keepdims=True):
        with np.errstate(over="ignore", invalid="ignore"):
            pull = pulls_at_zero(net.output, net.labels(radius[:, None] * direction))
            density = np.exp(-0.5 * radius**2) * np.clip(pull, -net.clip, net.clip) ** 4
            if not np.isfinite(density).all() or density[np.abs(radius) > 8.0].sum() > 1e-3 * density.sum():
                raise RunError(
                    f"{name} with loss {net.output.name!r} is not integrable: the fourth moment of the pull "
                    "does not exist or hangs on fields beyond eight standard deviations; take one that grows more slowly"
                )
