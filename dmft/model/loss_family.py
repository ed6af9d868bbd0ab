"""What a loss of a run file is, v(f, y) with its derivatives and keys of its own, and how those of users are compiled and checked.

The functions are compiled when the loss is made, and the derivatives compared with finite differences, so that a mistake is found
at once and not in a wrong result.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import ClassVar

import numpy as np
from numba import njit

from dmft.core.compiled import compiled_scalar
from dmft.core.errors import UserError
from dmft.model.channels import Channel
from dmft.model.loss import LABELS, Loss, Scalar
from dmft.model.registry import Named, Physics, Refusal, find, make, name_of


class LossFamily(Physics, key="loss"):
    """Losses of one kind, which differ by their keys. A member gives `functions`, and the two settings here where they differ."""

    labels: ClassVar[str] = ""  # as of Loss
    convex: ClassVar[bool] = False

    def functions(self) -> tuple[Scalar, ...]:
        """v(f, y), dv/df, d2v/df2 and, if known, d2v/df dy, each of two numbers: what Numba can compile, with the keys as
        constants."""
        raise NotImplementedError(f"{type(self).__name__} has no functions(self) that returns v, dv and d2v")

    def make(self, labels: str = "") -> Loss:
        """The loss, where the run file gives labels that resemble these (`like`)."""
        return _made(self)

    def supports(self, use) -> Refusal:
        """The labels must be what the loss was made for; the theory needs its curvature."""
        said = name_of(use.problem.labels)
        loss, labels = self.make(like(use.problem.labels)), use.channel.like
        if use.by == "theory":
            return "" if use.data.smooth(loss) else (
                "its derivative dv jumps as f grows (a perceptron or hinge?), and the theory would miss the delta function in its "
                "curvature; smooth the loss over a small width. Or dv is no number for labels of this run: mend it there")
        if use.data.clustered:
            return "" if "sign" in loss.accepts else (
                "it has no use for the sign of a label; take logistic, smooth_hinge, door or linear")
        if loss.threshold > 0:
            return 'made for clusters: the sign of a teacher says nothing about |f|; take data = "mixture"'
        if use.channel.name and labels not in loss.accepts:
            return f'labels = "{use.channel.name}"', f'the loss "{self.name}" makes sense with labels {" or ".join(loss.accepts)}'
        if use.later and labels == "abs" and loss.labels != "abs":
            return ('the labels abs of this run tell no sign, which only losses made for them ignore; take phase_retrieval, or a '
                    'loss registered with labels="abs"')
        # where nobody says y = h0, of which a loss made for abs takes |h0|
        if use.later and not said and loss.labels and loss.labels not in ((labels,) if use.channel.name else ("field", "abs")):
            return (f"made for labels {loss.labels}, but this run has {use.channel.name or 'y = h0'} by its first loss; say with "
                    "[problem] labels which are meant")
        return ""


def like(labels: Named) -> str:
    """Which of LABELS the labels that a run file names resemble; "" where it names none."""
    return make(Channel, labels).like if find("labels", labels) else str(name_of(labels))


@lru_cache
def _made(family: LossFamily) -> Loss:
    """The loss of a user's class, compiled once for the same keys."""
    v, dv, d2v, *mixed = family.functions()
    return checked_loss(f"loss {family.name!r}", family.name, v, dv, d2v, mixed[0] if mixed else None, "", family.labels,
                        family.convex)


def checked_loss(who: str, name: str, v: Scalar, dv: Scalar, d2v: Scalar, dv_dy: Scalar | None, cuda: str, labels: str,
                 convex: bool) -> Loss:
    """A user's loss, compiled and checked; who: how messages begin."""
    if labels and labels not in LABELS and find("labels", labels) is None:
        raise UserError(f"{who}: labels = {labels!r}; one of {', '.join(LABELS)}, or nothing")
    functions = [_jit(who, function) for function in (v, dv, d2v)]
    mixed = _jit(who, dv_dy) if dv_dy is not None else _difference_in_y(functions[1])
    v, dv, d2v = functions
    signs = bool(labels) and make(Channel, labels).classifies
    seen = [(f, y) for f, _ in POINTS for y in (1.0, -1.0)] if signs else POINTS  # a user may write 1 for y^2
    _check_derivative(who, "dv", dv, "v in f", lambda f, y, step: v(f + step, y), seen)
    _check_derivative(who, "d2v", d2v, "dv in f", lambda f, y, step: dv(f + step, y), seen)
    if dv_dy is not None:
        _check_derivative(who, "dv_dy", mixed, "dv in y", lambda f, y, step: dv(f, y + step), seen)
    if labels == "abs" and not even_in_label(v):
        raise UserError(f'{who}: labels="abs", but v is not even in y, which may carry the sign of h0: take '
                        'abs(y) for y, or labels="field"')
    if convex and any(d2v(f, y) < 0 for f, y in seen):
        raise UserError(f"{who}: convex=True, but d2v is negative somewhere")
    return Loss(name, v, dv, d2v, mixed, None, cuda, labels, convex=convex, kinks=None, smooth=None)


def _jit(who: str, function: Scalar) -> Scalar:
    """The function compiled by Numba; UserError where it does not compile, or gives no number."""
    return compiled_scalar(who, function, "(f, y)", [(0.3, 0.7)])


def _difference_in_y(dv: Scalar) -> Scalar:
    """The derivative of dv in y as a central difference."""
    @njit
    def dv_dy(f, y):
        step = 1e-5
        return (dv(f, y + step) - dv(f, y - step)) / (2.0 * step)

    return dv_dy


# 40 points that fill |f|, |y| < 2.5 evenly (additive recurrence of the plastic number) and lie on no likely kink.
POINTS = [tuple(5.0 * ((0.5 + n * np.array([0.7548776662466927, 0.5698402909980532])) % 1.0) - 2.5) for n in range(1, 41)]
_MOST_KINKS = 2  # points at which a slope may differ because a kink is near
_MOST_INTERVALS = 20_000  # in which a slope may not add up yet


def _check_derivative(who: str, slope_name: str, slope: Scalar, of: str, moved: Callable[[float, float, float], float],
                      points: list[tuple[float, float]]) -> None:
    """Refuse a slope that differs from (moved(f, y, step) - moved(f, y, -step)) / 2 step; a few points may be kinks."""
    step, wrong = 1e-5, []
    for f, y in points:
        difference = (moved(f, y, step) - moved(f, y, -step)) / (2.0 * step)
        if not abs(slope(f, y) - difference) <= 1e-4 * (1.0 + abs(difference)):
            wrong.append(f"at f = {f:.2f}, y = {y:.2f} it is {slope(f, y):.4g}, by differences {difference:.4g}")
    if len(wrong) > _MOST_KINKS:
        raise UserError(f"{who}: {slope_name} is not the derivative of {of}: {wrong[0]}")


def even_in_label(v: Scalar) -> bool:
    """Whether v(f, y) = v(f, -y), to rounding."""
    return all(_alike(v(f, 2 * y), v(f, -2 * y)) for f, y in POINTS)


@lru_cache
def even_in_field(loss: Loss) -> bool:
    """Whether v(f, y) = v(-f, y), to rounding."""
    return all(_alike(loss.v(2 * f, y), loss.v(-2 * f, y)) for f, y in POINTS)


def _alike(a: float, b: float) -> bool:
    return abs(a - b) <= 1e-12 * (1.0 + abs(a))


def jumps(value: Callable[[float], float], slope: Callable[[float], float], low: float, high: float, steepest: float) -> bool:
    """Whether a function with this slope jumps between two points: intervals of a grid in which it does not rise by the integral of
    its slope are halved again and again. What is smooth agrees soon, a kink late, a jump never. NaN counts as a jump, as do slopes
    above `steepest` times 1 + |value|."""
    at, rate = (np.vectorize(function, otypes=[float]) for function in (value, slope))
    edges = np.linspace(low, high, 2002)[:-1] + (high - low) * 1e-5 * np.pi    # on no likely kink, and not on the ends
    left, right = edges[:-1], edges[1:]
    for _ in range(30):
        before, after, first, last = at(left), at(right), rate(left), rate(right)
        with np.errstate(invalid="ignore"):  # infinite on both sides
            missed = np.abs(after - before - 0.5 * (right - left) * (first + last))
        torn = ~(missed <= 1e-6 * (1.0 + np.abs(before) + np.abs(after)))
        if np.any(np.abs(first) > steepest * (1.0 + np.abs(before))) or torn.sum() > _MOST_INTERVALS:
            return True    # too steep, or the slope is that of another function
        if not torn.any():
            return False
        left, right = left[torn], right[torn]
        middle = 0.5 * (left + right)
        left, right = np.concatenate((left, middle)), np.concatenate((middle, right))
    return True


@lru_cache
def jumps_in_field(loss: Loss, labels: tuple[float, ...]) -> bool:
    """Whether v' jumps as f goes from -4 to 4, at one of these labels."""
    def at(function: Scalar, y: float) -> Callable[[float], float]:
        return lambda f: function(f, y)

    return any(jumps(at(loss.dv, y), at(loss.d2v, y), -4.0, 4.0, np.inf) for y in labels)


@lru_cache
def jumps_in_label(loss: Loss, low: float, high: float) -> bool:
    """Whether v' jumps as y goes from `low` to `high`, at one of 16 fields |f| < 4. The derivatives of a user's loss do not hold
    the delta function of a jump, and the control variate of mu, by integration by parts in h0, would miss it; of a rise within less
    than a hundredth, too few samples see the slope."""
    return any(jumps(partial(loss.dv, f), partial(loss.dv_dy, f), low, high, 100.0) for f in 1.6 * np.array(POINTS[:16])[:, 0])
