"""How the averages of a network over its fields are taken: closed forms where they exist, quadratures else.

A `FieldAverages` of a network gives, for statistics s (leading axes allowed) and the factor `rate` (...) of its learning rate,
    means:       es = E[E s(l_j)] (p,), along = (p/gamma) E[C_j ls_r] (p, k), own = (p/gamma) E[C_j l_l] (p, p) and
                 square = (p/gamma) E[C_j C_l] (p, p), with C_j the sum of the kicks of a sample over its uses;
    covariance:  of the increments of a, M and the upper triangle of Q per unit time, (size, size);
    errors:      E[(y - f)^2] and E[l(y, f)].
Where kicks are linear in the error y - f (square loss, no clipping, one use, no norm), C_j = (gamma/p) rate a_j E s'(l_j), and all
follow from the moments of field_moments.py: `LinearKicks`. `AnyKicks` averages over all fields at once.
"""

from __future__ import annotations

import warnings
from typing import Protocol

import numpy as np

from dmft.core.averages import standard_error
from dmft.core.errors import ResultWarning, RunError
from dmft.model.activations import ERF, QUADRATIC
from onepass.gaussian import symmetric_root
from onepass.networks import kick_kernels, overlaps
from onepass.networks.activation_kinds import MOST_KINKS, kinks, quadrature_error, two_slopes
from onepass.networks.bracket_noise import bracket_covariance
from onepass.networks.field_moments import erf_covariance, erf_moments, mean_square_error, tensor_moments
from onepass.networks.field_rules import FieldRule, field_rule, smooth_link
from onepass.networks.kinked_moments import kinked_moments, kinked_square
from onepass.networks.link_moments import MOST_DIRECTIONS, check_wide, link_moments, link_square
from onepass.networks.moments import pair_moments, quadratic_moments
from onepass.networks.parameters import NetworkParameters
from onepass.networks.smooth_moments import check_work, smooth_moments
from onepass.networks.two_slope_moments import two_slope_moments, two_slope_square

MOST_TENSOR_FIELDS = 3  # up to so many fields one product rule over all of them is fastest
FEWEST_NODES_WITH_KINKS = 24
ROUGH_RULE = 1e-5  # relative error of the rule above which the user is warned
ROUGH_DRIFT = 2e-3    # error of the drift, over its largest entry, above which the user is warned

Statistics = dict[str, np.ndarray]
Means = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


class FieldAverages(Protocol):
    """See the module."""

    quasi_random: bool      # whether the drift has small kinks, where a point crosses one of the functions

    def means(self, s: Statistics, rate: np.ndarray, diagonal: bool = False) -> Means: ...

    def covariance(self, s: Statistics, rate: np.ndarray) -> np.ndarray: ...

    def errors(self, s: Statistics) -> tuple[np.ndarray, np.ndarray]: ...

    def check(self, diagonal: bool = False) -> None:
        """Refuse or warn before integrating: widths beyond any rule, too few nodes."""

    def accuracy(self, s: Statistics) -> float:
        """Error of the drift, over its largest entry; 0 where a product rule or a closed form is used."""


def averages_of(net: NetworkParameters) -> FieldAverages:
    """The fastest way for this network."""
    if not net.linear:
        return AnyKicks(net)
    if net.link is None:
        return Quadratic(net) if all(part is QUADRATIC for part in net.pair) else Committees(net)
    smooth = not kinks(net.pair[0]) and smooth_link(net.teacher_link, net.teacher_width)
    wide = net.width + net.teacher_width > 4 and net.teacher_width <= MOST_DIRECTIONS
    return Links(net) if smooth and wide else AnyKicks(net)


def _rows(lead: tuple[int, ...], s: Statistics, f) -> list[np.ndarray]:
    """f(statistics, index) -> arrays, for every index of the leading axes; each array stacked over them."""
    found = [f({name: value[index] for name, value in s.items()}, index) for index in np.ndindex(lead)]
    return [np.array(part).reshape(lead + np.shape(part[0])) for part in zip(*found, strict=True)]


class LinearKicks:
    """Kicks linear in the error. Subclasses give `moments`: es, f, g, j2 and square of field_moments.py."""

    quasi_random = False

    def __init__(self, net: NetworkParameters):
        self.net = net

    def moments(self, s: Statistics, diagonal: bool) -> tuple[np.ndarray, ...]:
        raise NotImplementedError

    def square(self, s: Statistics) -> np.ndarray:
        """E[E^2] (...) without label noise."""
        raise NotImplementedError

    def means(self, s: Statistics, rate: np.ndarray, diagonal: bool = False) -> Means:
        p, a, net = self.net.width, s["a"], self.net
        es, f, g, j2, _ = self.moments(s, diagonal)
        kicks = (rate[..., None] * a)[..., :, None] * f
        pair = (rate**2)[..., None, None] * a[..., :, None] * a[..., None, :]
        return es, kicks[..., p:], kicks[..., :p], net.gamma / p * pair * (g + net.noise * j2)

    def errors(self, s: Statistics) -> tuple[np.ndarray, np.ndarray]:
        square = self.square(s) + self.net.noise
        return square, 0.5 * square

    def check(self, diagonal: bool = False) -> None:
        pass

    def accuracy(self, s: Statistics) -> float:
        return 0.0

    def omega_and_c(self, s: Statistics) -> tuple[np.ndarray, np.ndarray]:
        """Omega (..., p+k, p+k) and the coefficients c (..., p+k) of the error."""
        net = self.net
        c = np.empty(s["a"].shape[:-1] + (net.width + net.teacher_width,))
        c[..., : net.width] = -s["a"] / net.width
        c[..., net.width :] = net.a_star / net.teacher_width
        return overlaps.omega(s["M"], s["Q"], net.P), c

    def batched(self, one, rate: np.ndarray) -> np.ndarray:
        """Covariance for a mini-batch at the rate of now, from one(gamma) of single samples: one sample counts for 1/b of it, and
        its quadratic term, a gamma, for as much less again."""
        batch = self.net.batch
        return (rate**2)[..., None, None] / batch * one(self.net.gamma * rate / batch)


class Quadratic(LinearKicks):
    """Squares in student and teacher: every moment is a polynomial of the overlaps (moments.py), for all leading axes at once."""

    def moments(self, s: Statistics, diagonal: bool) -> tuple[np.ndarray, ...]:
        return quadratic_moments(*self.omega_and_c(s), self.net.width)

    def square(self, s: Statistics) -> np.ndarray:
        return self.moments(s, False)[4]

    def covariance(self, s: Statistics, rate: np.ndarray) -> np.ndarray:
        """Exact for every width, from moments of order up to 12."""
        return self.batched(lambda gamma: self._of_a_sample(s, gamma), rate)

    def _of_a_sample(self, s: Statistics, gamma: np.ndarray) -> np.ndarray:
        p, k, noise = self.net.width, self.net.teacher_width, self.net.noise
        om, c = self.omega_and_c(s)
        rows, columns = np.triu_indices(p)
        units = np.arange(p)
        first = np.concatenate([units, np.repeat(units, k), rows])
        second = np.concatenate([units, p + np.tile(np.arange(k), p), columns])
        a = s["a"]
        linear = np.concatenate(
            [np.full_like(a, self.net.rate_of_a), np.repeat(2.0 * a, k, -1), 2.0 * (a[..., rows] + a[..., columns])], axis=-1)
        square = np.zeros_like(linear)
        square[..., p + p * k :] = 4.0 * gamma[..., None] / p * a[..., rows] * a[..., columns]
        f2, f3, f4 = (pair_moments(om, c, noise, first, second, n) for n in (2, 3, 4))
        cross = linear[..., :, None] * square[..., None, :]
        second_moment = (
            linear[..., :, None] * linear[..., None, :] * f2
            + (cross + np.swapaxes(cross, -1, -2)) * f3
            + square[..., :, None] * square[..., None, :] * f4
        )
        es, f, g, j2, _ = quadratic_moments(om, c, p)
        own = a[..., :, None] * f[..., :p]
        both = gamma[..., None, None] / p * a[..., :, None] * a[..., None, :] * (g + noise * j2)
        mean = np.concatenate([self.net.rate_of_a * es, (a[..., :, None] * f[..., p:]).reshape(*a.shape[:-1], p * k),
                               (own + np.swapaxes(own, -1, -2) + both)[..., rows, columns]], axis=-1)
        return second_moment - mean[..., :, None] * mean[..., None, :]


class Committees(LinearKicks):
    """Any activations in student and teacher: closed for erf and for functions of two slopes (ReLU and its kin); other smooth
    functions take a trapezoid rule with `nodes` nodes a field, over all fields up to p + k = 3 and over at most four at a time
    beyond; functions with kinks take rules that are cut there, `nodes`/2 to a panel."""

    def __init__(self, net: NetworkParameters):
        super().__init__(net)
        student, teacher = net.pair
        self.erf = student is ERF and teacher is ERF
        slopes = two_slopes(student), two_slopes(teacher)
        self.slopes = slopes if None not in slopes else None
        cut = () if self.erf or self.slopes else (kinks(student), kinks(teacher))
        self.kinks = cut if any(cut) else ()
        self.smooth = self.erf or not self.kinks and all(one is None or one[0] == one[1] for one in slopes)

    def moments(self, s: Statistics, diagonal: bool) -> tuple[np.ndarray, ...]:
        return tuple(_rows(s["a"].shape[:-1], s, lambda row, _: self._of(row, diagonal)))

    def _of(self, s: Statistics, diagonal: bool):
        net, (om, c) = self.net, self.omega_and_c(s)
        p = net.width
        if self.erf:
            return erf_moments(om, c, p, diagonal)
        if self.slopes:
            return two_slope_moments(om, c, p, *self.slopes, diagonal)
        if self.kinks:
            return kinked_moments(*net.pair, self.kinks, om, c, p, net.nodes, diagonal)
        if len(om) <= MOST_TENSOR_FIELDS:
            return tensor_moments(*net.pair, om, c, p, net.nodes)
        return smooth_moments(*net.pair, om, c, p, net.nodes, diagonal)

    def square(self, s: Statistics) -> np.ndarray:
        return _rows(s["a"].shape[:-1], s, lambda row, _: (self._square_of(row),))[0]

    def _square_of(self, s: Statistics) -> float:
        net, (om, c) = self.net, self.omega_and_c(s)
        if self.erf:
            return c @ erf_covariance(om) @ c
        if self.slopes:
            return two_slope_square(om, c, net.width, *self.slopes)
        if self.kinks:
            return kinked_square(*net.pair, self.kinks, om, c, net.width, net.nodes)
        return mean_square_error(*net.pair, om, c, net.width, net.nodes)

    def covariance(self, s: Statistics, rate: np.ndarray) -> np.ndarray:
        """Accurate to 1e-3 or better up to p + k = 4 smooth fields, to a measured two per cent for more fields and for ReLU;
        RunError where that is not reached."""
        net = self.net

        def one(gamma: np.ndarray) -> np.ndarray:
            return _rows(s["a"].shape[:-1], s, lambda row, index: (bracket_covariance(
                net.pair, self.omega_and_c(row)[0], row["a"], net.a_star, net.noise, net.rate_of_a, float(gamma[index]),
                self.smooth),))[0]  # fmt: skip

        return self.batched(one, rate)

    def check(self, diagonal: bool = False) -> None:
        net = self.net
        if self.erf or self.slopes:
            return
        for part in () if self.kinks else net.pair:
            error = quadrature_error(part, net.nodes)
            if error > ROUGH_RULE:
                warnings.warn(f"activation {part.name!r}: averages with nodes = {net.nodes} are off by about {error:.1e}; "
                              "take more nodes", stacklevel=6)  # fmt: skip
        for part, places in zip(net.pair, self.kinks, strict=False):
            if len(places) > MOST_KINKS:
                raise RunError(
                    f"activation {part.name!r}: jumps at {len(places)} places or more; the averages of the ODE are cut at up to "
                    f"{MOST_KINKS}; chain(...) and simulate(...) take any activation"
                )
        if self.kinks and net.nodes < FEWEST_NODES_WITH_KINKS:
            warnings.warn(f"nodes = {net.nodes}: averages over panels of {net.nodes // 2} nodes are off by 1e-5 and more; take "
                          f"at least {FEWEST_NODES_WITH_KINKS}", stacklevel=6)  # fmt: skip
        if self.kinks or net.width + net.teacher_width > MOST_TENSOR_FIELDS:
            check_work(net.width, net.width + net.teacher_width, diagonal)


class Links(LinearKicks):
    """A smooth teacher that is any function of one or two directions, and a wide student: at most four fields at a time."""

    def moments(self, s: Statistics, diagonal: bool) -> tuple[np.ndarray, ...]:
        return tuple(_rows(s["a"].shape[:-1], s, lambda row, _: link_moments(
            self.net.pair[0], self.net.teacher_link, self.omega_and_c(row)[0], row["a"], self.net.teacher_width)))

    def square(self, s: Statistics) -> np.ndarray:
        return _rows(s["a"].shape[:-1], s, lambda row, _: (link_square(
            self.net.pair[0], self.net.teacher_link, self.omega_and_c(row)[0], row["a"], self.net.teacher_width),))[0]

    def covariance(self, s: Statistics, rate: np.ndarray) -> np.ndarray:
        return AnyKicks(self.net).covariance(s, rate)

    def check(self, diagonal: bool = False) -> None:
        check_wide(self.net.width, self.net.teacher_width)


class AnyKicks:
    """Any loss, clipping, several uses, gradients divided by their norm, any teacher: a rule over all fields and the label noise
    at once (field_rules.py)."""

    def __init__(self, net: NetworkParameters):
        self.net = net
        teacher = smooth_link(net.teacher_link, net.teacher_width) if net.link is not None else not kinks(net.pair[1])
        smooth = net.output.smooth and np.isinf(net.clip) and not net.normalised and teacher and not kinks(net.pair[0])
        nodes = 3 if net.linear else 9
        self.rule = field_rule(net.width + net.teacher_width, net.noise > 0.0, bool(smooth), nodes)
        self.quasi_random = self.rule.parts > 1

    def _of(self, s: Statistics, rate: float, rule: FieldRule) -> tuple:
        return kick_kernels.mean_kicks(self.net.student_and_teacher, self.net.output.value, *self._arguments(s, rate, rule))

    def _arguments(self, s: Statistics, rate: float, rule: FieldRule) -> tuple:
        """Arguments of kick_kernels.py after student and teacher."""
        net = self.net
        root = np.ascontiguousarray(symmetric_root(overlaps.omega(s["M"], s["Q"], net.P)))
        quadrature = kick_kernels.FieldQuadrature(root, rule.points, rule.weights, np.sqrt(net.noise) * rule.noise,
                                                  rule.noise_weights)
        return (net.step_rule, quadrature, np.ascontiguousarray(s["a"]), net.teacher_width, net.gamma / net.width * rate)

    def means(self, s: Statistics, rate: np.ndarray, diagonal: bool = False) -> Means:
        per_time = self.net.width / self.net.gamma
        es, along, own, square = _rows(rate.shape, s, lambda row, index: self._of(row, float(rate[index]), self.rule)[:4])
        return es, per_time * along, per_time * own, per_time * square

    def covariance(self, s: Statistics, rate: np.ndarray) -> np.ndarray:
        """That of one sample, with C C/b in place of C C, divided by the batch size b. By the product rule, or by a quarter of the
        quasi-random points (error about one per cent)."""
        net = self.net

        def one(row: Statistics, index: tuple[int, ...]) -> tuple[np.ndarray]:
            arguments = self._arguments(row, float(rate[index]), self.rule.part(0))
            return (kick_kernels.kick_covariance(net.student_and_teacher, *arguments),)

        return (net.width / net.gamma) ** 2 / net.batch * _rows(rate.shape, s, one)[0]

    def errors(self, s: Statistics) -> tuple[np.ndarray, np.ndarray]:
        """Only the first part of the quasi-random points is used, since ensembles need many evaluations."""
        square, loss = _rows(s["a"].shape[:-1], s, lambda row, _: self._of(row, 1.0, self.rule.part(0))[4:])
        return square, loss

    def check(self, diagonal: bool = False) -> None:
        if diagonal:
            raise RunError('reduction = "mean_field" needs the square loss, one use of a sample, and a network as teacher')

    def accuracy(self, s: Statistics) -> float:
        """From the scatter of independent sets of points."""
        if not self.quasi_random:
            return 0.0
        parts = [self._of(s, 1.0, self.rule.part(i)) for i in range(self.rule.parts)]
        drifts = np.stack([np.concatenate([m.ravel(), (q + q.T + cc / self.net.batch).ravel()]) for _, m, q, cc, *_ in parts])
        return float(np.max(standard_error(drifts)) / max(np.abs(drifts.mean(0)).max(), 1e-300))


def warn_of(error: float) -> None:
    """Warn of a drift that is not known well."""
    if error > ROUGH_DRIFT:
        warnings.warn(f"the drift of this multi-index network is known to {100 * error:.1g} % only (quasi-random points); "
                      "chain(...) is exact", ResultWarning, stacklevel=5)  # fmt: skip
