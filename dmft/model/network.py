"""[network] of a run file: a two-layer committee f = sum_r a_r s(h_r + beta_r) in place of the single unit. Eq. [c-model].

Theory and simulator both read the `TwoLayer` that `network_of` makes of a run: second layer, activation, label, start and
constraint. Whatever shape does not fit is said here, in one line. What is not possible with a network yet: `refused` in support.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dmft.core import schema
from dmft.core.errors import RunError, UserError
from dmft.core.schema import integer, number, option, text
from dmft.model import activations, registry
from dmft.model.activations import Activation, apply
from dmft.model.links import BUILT_IN_LINKS, NETWORK_LABEL, Link
from dmft.model.network_constraints import NetworkConstraint
from dmft.model.problem import ProblemConfig

LAWS = ("ones", "mean", "signs")  # of the second layer
_DIFFERENCE = 1e-5  # of fields, for the slopes of links
_FAR_LABEL = 8.0  # how far rules over the directions reach (network_errors.py)
# Fields at which activations are tried: near, and further than rules over the fields of units go. None of them is 0.
_SOME_FIELDS = np.concatenate([np.linspace(-6.0, 6.0, 2048), np.linspace(-100.0, 100.0, 2048)])
_START_ROUNDING = 1e-9  # to which norms and Gram matrices of a start must fit the constraint


def _second_layer(value: Any) -> str | tuple[float, ...]:
    """The check of network.second_layer."""
    wanted = f"a list of numbers, or one of {', '.join(LAWS)}"
    if isinstance(value, str) and value in LAWS:
        return value
    try:
        return schema.array(wanted, 1, number())(value)
    except ValueError:
        raise ValueError(wanted) from None


def _rate(value: Any) -> float:
    """The check of a rate: false, or a number."""
    if value is False:
        return 0.0
    try:
        return number(0.0)(value)
    except ValueError:
        raise ValueError("false, or a rate > 0") from None


def numbers(doc: str, depth: int) -> schema.Check:
    """Lists of numbers, nested `depth` times."""
    return schema.array(doc, depth, number())


@dataclass(frozen=True)
class NetworkConfig:
    """[network]: a two-layer network in place of the single unit."""

    units: int = option(integer(0), 0, "number p of hidden units")
    directions: int = option(integer(1), 1, "number k of directions that the labels depend on")
    activation: str = option(text, "erf", "activation: erf, tanh, square, relu, smooth_relu, he2, he3, linear or a registered name")
    smoothing: float = option(number(0.0, above=True), 0.3, "width of the normal law that smooth_relu averages relu over")
    second_layer: str | tuple[float, ...] = option(_second_layer, "ones", "second-layer weights a_r at the start, or a name: "
                                                   "ones, mean (1/p), signs (+-1/sqrt(p))")
    train: float = option(_rate, 0.0, "learning rate of the second layer at the first step; false leaves it as it is")
    intercepts: tuple[float, ...] = option(numbers("a list of numbers", 1), (), "intercepts beta_r of the hidden units; empty: "
                                           "all 0")
    train_intercepts: float = option(_rate, 0.0, "learning rate of the intercepts; false leaves them as they are")
    constraint: registry.Named = registry.named(NetworkConstraint.key, "units", "what stays fixed: nothing (then problem.ridge "
                                                "applies), the norm of every unit, their Frobenius norm, or all overlaps between "
                                                "units")
    teacher_weights: tuple[float, ...] = option(numbers("a list of numbers", 1), (), "second layer of the network that gives "
                                                "the labels; empty: all 1")
    teacher_activation: str = option(text, "", "activation of the network that gives the labels; empty: the same")
    teacher_overlaps: tuple[tuple[float, ...], ...] = option(numbers("a matrix of numbers", 2), (), "Gram matrix of the units of "
                                                             "the network that gives the labels; empty: orthonormal")

    def make_constraint(self) -> NetworkConstraint:
        return registry.make(NetworkConstraint, self.constraint)


class Label(NamedTuple):
    """What a sample tells of the fields kappa (count, k) of the directions, and of its noise."""

    link: Link | None  # None: a second network
    weights: np.ndarray  # (k,)
    activation: Activation
    root: np.ndarray  # (k, k) lower triangular: the teacher's units in the basis of the directions

    def __call__(self, kappa: np.ndarray, zeta: np.ndarray | float = 0.0) -> np.ndarray:
        """y = phi(kappa) + zeta, or phi(kappa, zeta) of a noisy link; (count,), with noise zeta, (count,) or a number. RunError
        where that is no number: nobody could tell later that it was the label."""
        if self.link is not None:
            y = self.link(np.ascontiguousarray(kappa, float), zeta)
        else:
            y = apply(self.activation.s, kappa @ self.root.T) @ self.weights + zeta  # [c-model]
        if not np.isfinite(y).all():
            at = int(np.flatnonzero(~np.isfinite(y))[0])
            noise = f" and zeta = {np.broadcast_to(zeta, y.shape)[at]:.4g}" if self.noisy else ""
            name = NETWORK_LABEL if self.link is None else self.link.name
            raise RunError(f'[problem] label = "{name}": must be a number on every sample, and is {y[at]} at kappa = '
                           f"{schema.show([float(f'{u:.4g}') for u in kappa[at]])}{noise}")
        return y

    def slope(self, kappa: np.ndarray) -> np.ndarray:
        """dphi/dkappa (count, k); of a link by central differences."""
        if self.link is None:
            return (apply(self.activation.ds, kappa @ self.root.T) * self.weights) @ self.root
        steps = _DIFFERENCE * np.eye(kappa.shape[1])
        return np.stack([self(kappa + step) - self(kappa - step) for step in steps], axis=1) / (2.0 * _DIFFERENCE)

    @property
    def smooth(self) -> bool:
        """Whether it is known to have a continuous derivative."""
        return self.activation.d2s is not None if self.link is None else self.link.smooth

    @property
    def noisy(self) -> bool:
        """Whether its noise is not added to it."""
        return self.link is not None and self.link.noisy


@dataclass(frozen=True, eq=False)
class TwoLayer:
    """The committee of a run as numbers and compiled functions, in the notation of docs/equations.md."""

    a: np.ndarray  # (p,) at the start
    beta: np.ndarray  # (p,)
    activation: Activation
    label: Label
    label_noise: float
    m0: np.ndarray  # (p, k)
    Q0: np.ndarray  # (p, p) Gram matrix of the parts of the start that are normal to the directions
    constraint: NetworkConstraint
    train: float
    train_intercepts: float

    @property
    def units(self) -> int:
        return len(self.a)

    @property
    def directions(self) -> int:
        return self.m0.shape[1]

    @property
    def kinked(self) -> bool:
        """Whether there is no second derivative of the activation, so that the response comes by [c-ibp] alone."""
        return self.activation.d2s is None

    @property
    def by_parts(self) -> bool:
        """Whether mu has a second estimate, by parts in kappa. Eq. [c-stein]."""
        return self.label.smooth and not self.kinked

    @property
    def bends(self) -> bool:
        """Whether the activation is not monotonous, so that samples can rest on barriers."""
        slopes = apply(self.activation.ds, np.linspace(-4.0, 4.0, 161))
        return bool(slopes.min() < 0 < slopes.max())

    @property
    def trained(self) -> bool:
        """Whether any parameter that all samples share is trained."""
        return self.train > 0 or self.train_intercepts > 0

    @property
    def tells_signs(self) -> bool:
        """Whether every label is +1 or -1."""
        return bool((np.abs(self.label(*some_samples(self.directions, self.label_noise))) == 1.0).all())

    @property
    def exchangeable(self) -> bool:
        """Whether all units are alike: averages over their permutations are then exact. A user's constraint may tell them apart.
        Eq. [c-exchange]."""
        beside = self.Q0[~np.eye(self.units, dtype=bool)]
        alike = (np.ptp(values) == 0 for values in (self.a, self.beta, np.diag(self.Q0), beside))
        return self.units > 1 and self.constraint.built_in and bool(np.all(self.m0 == self.m0[0])) and all(alike)

    def output(self, h: np.ndarray) -> np.ndarray:
        """f of fields h (count, p) at the start."""
        return apply(self.activation.s, h + self.beta) @ self.a  # [c-model]


def activation_of(name: str, smoothing: float) -> Activation:
    """The activation of that name."""
    return activations.smooth_relu(smoothing) if name == activations.SMOOTH_RELU else activations.activation(name)


def names_known(network: NetworkConfig, problem: ProblemConfig) -> bool:
    """Whether all that a network names is registered here."""
    used = {network.activation, network.teacher_activation or network.activation}
    named = problem.label in (NETWORK_LABEL, *BUILT_IN_LINKS) and registry.find(NetworkConstraint.key, network.constraint)
    return used <= {*activations.BUILT_IN, activations.SMOOTH_RELU} and bool(named)


def network_of(network: NetworkConfig, problem: ProblemConfig, source: str = "") -> TwoLayer:
    """The network of a run; RunError for shapes and values that do not fit each other."""
    p, k, where = network.units, network.directions, f"{source}: " if source else ""

    def wrong(place: str, value: Any, allowed: str) -> RunError:
        return RunError(f"{where}{place} = {schema.show(value)}: must be {allowed}")

    def sized(place: str, value: Any, shape: tuple[int, ...], default: np.ndarray) -> np.ndarray:
        array = np.array(value, float) if value else default
        array = array.reshape([1] * len(shape)) if array.ndim == 0 else array
        if array.shape != shape:
            raise wrong(place, value, f"{' x '.join(map(str, shape))} numbers, for units = {p} and directions = {k}")
        return array

    def of_name(key: str, name: str) -> Activation:
        known = (*activations.BUILT_IN, activations.SMOOTH_RELU)
        if name not in known:
            raise wrong(f"[network] {key}", name, f"one of {', '.join(known)}; a plugin may register more")
        found = activation_of(name, network.smoothing)
        for function, mark in zip((found.s, found.ds, found.d2s), ("", "'", "''")):
            lost = _SOME_FIELDS[~np.isfinite(apply(function, _SOME_FIELDS))] if function is not None else ()
            if len(lost):
                at = min(lost, key=abs)
                raise wrong(f"[network] {key}", name, f"a number at every field, and s{mark}({at:.4g}) is none")
        return found

    try:
        constraint = network.make_constraint()
    except UserError as error:
        raise RunError(f"{where}[network] constraint: {error}") from None
    laws = {"ones": np.ones(p), "mean": np.full(p, 1.0 / p), "signs": np.where(np.arange(p) % 2, -1.0, 1.0) / np.sqrt(p)}
    layer = network.second_layer
    a = laws[layer] if isinstance(layer, str) else sized("[network] second_layer", layer, (p,), np.zeros(0))
    beta = sized("[network] intercepts", network.intercepts, (p,), np.zeros(p))
    activation = of_name("activation", network.activation)
    given: Any = problem.m0
    m0 = np.zeros((p, k)) if given == 0 else sized("[problem] m0", given, (p, k), np.zeros((p, k)))
    Q0 = sized("[problem] Q0", problem.Q0, (p, p), constraint.start(m0))
    C0 = Q0 + m0 @ m0.T
    if not np.allclose(Q0, Q0.T, rtol=0, atol=_START_ROUNDING) or np.linalg.eigvalsh(Q0).min() < -_START_ROUNDING:
        if not problem.Q0:
            norms, squares = (", ".join(dict.fromkeys(f"{x:g}" for x in each)) for each in (np.diag(C0) ** 0.5, np.diag(C0)))
            room = (f"units of norm {norms} (squares of a row are at most {squares} in all)" if (np.diag(Q0) < 0).any() else
                    f'units that constraint = "{constraint.name}" keeps apart (rows that are less parallel)')
            raise wrong("[problem] m0", given, f"overlaps of {room}, unless Q0 is given; take a smaller m0")
        raise wrong("[problem] Q0", problem.Q0, "a symmetric matrix without negative eigenvalues, the part of the start normal to "
                    "the directions")
    if not constraint.deviation(C0) <= _START_ROUNDING:
        raise wrong("[problem] Q0", problem.Q0, f'such that Q0 + m0 m0^T lies where constraint = "{constraint.name}" wants it; '
                    "leave Q0 out, or take constraint = \"none\"")
    label = _label(network, problem, of_name("teacher_activation", network.teacher_activation or network.activation), sized, wrong)
    try:
        label(*some_samples(k, problem.label_noise))
    except RunError as error:
        raise RunError(f"{where}{error}") from None
    return TwoLayer(a, beta, activation, label, problem.label_noise, m0, 0.5 * (Q0 + Q0.T), constraint, network.train,
                   network.train_intercepts)


def some_samples(k: int, label_noise: float) -> tuple[np.ndarray, np.ndarray]:
    """Fields (count, k) of directions and noise (count,) at which labels are tried, the same ones always: those of samples, and as
    far out as averages over new samples go."""
    rng = np.random.default_rng(1)
    both = np.concatenate([rng.standard_normal((4096, k + 1)), rng.uniform(-_FAR_LABEL, _FAR_LABEL, (4096, k + 1))])
    return both[:, :k], np.sqrt(label_noise) * both[:, k]


def _label(network: NetworkConfig, problem: ProblemConfig, teacher: Activation, sized: Any, wrong: Any) -> Label:
    """The label of a run."""
    k, name, links = network.directions, problem.label, BUILT_IN_LINKS
    overlaps = sized("[network] teacher_overlaps", network.teacher_overlaps, (k, k), np.eye(k))
    if name != NETWORK_LABEL and name not in links:
        raise wrong("[problem] label", name, f"{NETWORK_LABEL} or one of {', '.join(links)}; a plugin may register more")
    if name != NETWORK_LABEL and k < links[name].least:
        raise wrong("[network] directions", k, f"{links[name].least} at least for label = \"{name}\"")
    given = network.teacher_weights or network.teacher_activation or network.teacher_overlaps
    if name != NETWORK_LABEL and given:
        raise wrong("[problem] label", name,
                    f'"{NETWORK_LABEL}" where teacher_weights, teacher_activation or teacher_overlaps are given')
    if not np.allclose(overlaps, overlaps.T) or np.linalg.eigvalsh(overlaps).min() <= 0:
        raise wrong("[network] teacher_overlaps", network.teacher_overlaps, "a symmetric positive matrix")
    weights = sized("[network] teacher_weights", network.teacher_weights, (k,), np.ones(k))
    return Label(None if name == NETWORK_LABEL else links[name], weights, teacher, np.linalg.cholesky(overlaps))


# Keys of [problem] that a run with a network has; the others belong to a single unit.
PROBLEM_KEYS = ("alpha", "loss", "label", "label_noise", "m0", "Q0", "ridge")
SINGLE_KEYS = ("label", "Q0")  # of [problem], which a single unit does not have


def completed(document: Mapping[str, Any], source: str) -> Mapping[str, Any]:
    """A document with [network] as the sections of a run need it: the constraint that holds its ridge, and the square loss unless
    another one is named. RunError for keys that a network, or a single unit, has not."""
    network, problem = document.get("network", {}), document.get("problem")
    if not isinstance(network, Mapping):  # said here, or keys of a network would be called out of place
        raise schema.no_section(source, "network", network)
    if not network or not isinstance(problem, Mapping):
        found = next((key for key in SINGLE_KEYS if isinstance(problem, Mapping) and key in problem), None)
        if found:
            raise RunError(f"{source}: [problem] key '{found}' is not used without a section [network]; remove it")
        if isinstance(problem, Mapping) and isinstance(problem.get("m0"), (list, tuple)):
            raise RunError(f"{source}: [problem] m0 = {schema.show(problem['m0'])}: must be a number without a section [network]")
        return document
    if "units" not in network:
        raise schema.missing_key(source, "network", "units", "number p of hidden units")
    if network["units"] == 0:
        raise schema.bad_value(source, "network", "units", 0, "1 at least; leave [network] out for a single unit by itself")
    constraint = network.get("constraint", NetworkConfig.constraint)
    cls = registry.find(NetworkConstraint.key, constraint)
    free = "ridge" in problem if cls is None else not cls.rescales  # type: ignore[attr-defined]
    for key in problem:
        if key in ProblemConfig.__dataclass_fields__ and (key not in PROBLEM_KEYS or key == "ridge" and not free):
            with_what = "[network]" if key != "ridge" else f'[network] constraint = "{registry.name_of(constraint)}"'
            raise RunError(f"{source}: [problem] key '{key}' is not used with {with_what}; remove it")
    more = {"constraint": "ridge", "ridge": 0.0} if free else {"constraint": "sphere"}
    return {**document, "problem": {"loss": "linear", **more, **problem}}
