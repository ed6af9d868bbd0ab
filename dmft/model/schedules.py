"""Quantities that change in time. Eq. [schedule].

A setting of a run file is a number, `[[time, value], ...]` (constant from each time on), or a table whose `kind` names one of the
forms below, each a class with its keys and its formula; a user's plug-in may add one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from dmft.core import schema
from dmft.core.schema import Table, number, option
from dmft.model.registry import Physics, check_table, find, frozen, make, names

Points = tuple[tuple[float, float], ...]
Numbers = np.ndarray | float
Setting = float | Points | Table
_ROUNDING = 1e-6  # share of a step: a step that begins at the time of a change, up to rounding, has the new value
_PROBED = np.append(0.0, np.logspace(-3, 3, 25))  # x at which the values of a user's form are looked at


# --- checks of keys, in whose place stand those of the quantity that a schedule is for ---------------------------------------

def quantity(value: Any) -> float:
    """The check of a key of a schedule that is a value of the quantity: it must be one that the quantity may have."""
    return number()(value)


def listed(value: Any) -> Points:
    """The check of a key of a schedule that is a list [[0, value], [n1, value], ...]."""
    return _points(value, quantity, "a list of pairs")


# --- forms -----------------------------------------------------------------------------------------------------------------

class Schedule(Physics, key="schedule", section="algorithm"):
    """The values of a quantity in time."""

    falling: ClassVar[bool] = False  # whether no later value is above the present one
    lists: ClassVar[bool] = False  # whether it lists its values one by one, so that they jump

    @property
    def largest(self) -> float:
        """A bound of the values, where one is known."""
        return math.inf

    def at(self, t: Numbers, step: Numbers, eta: Numbers) -> np.ndarray:
        """The values at steps that begin at times t and last eta; both count from where the schedule begins."""
        raise NotImplementedError

    def jumps(self, t: np.ndarray, eta: np.ndarray) -> np.ndarray:
        """(steps,): whether a step has another value than the step before it, in a schedule that lists its values one by one; False
        everywhere for smooth schedules."""
        return np.append(False, np.diff(self.at(t, np.arange(len(t)), eta)) != 0) if self.lists else np.zeros(len(t), bool)


class Steps(Schedule, name="steps"):
    """Constant from each step on."""

    points: Points = option(listed, doc="[[0, v0], [n1, v1], ...]: first step and value")
    lists = True

    @property
    def largest(self) -> float:
        return max(value for _, value in self.points)

    def at(self, t: Numbers, step: Numbers, eta: Numbers) -> np.ndarray:
        return self._piecewise(np.asarray(step))

    def _piecewise(self, x: np.ndarray) -> np.ndarray:
        """The piecewise constant function with these (first x, value) at x."""
        firsts, values = np.array(self.points, float).T
        return values[np.searchsorted(firsts, x, side="right") - 1]  # [schedule]


class Times(Steps):
    """Constant from each time on."""

    def at(self, t: Numbers, step: Numbers, eta: Numbers) -> np.ndarray:
        return self._piecewise(np.asarray(t) + _ROUNDING * np.asarray(eta))


class ScheduleForm(Schedule):
    """A function `value(x)` of x = t/time, or of x = n/steps: a run file gives one of these two keys."""

    _: KW_ONLY
    time: float | None = option(number(0.0, above=True), None, "the time at which x = 1")
    steps: float | None = option(number(0.0, above=True), None, "the step at which x = 1")

    def at(self, t: Numbers, step: Numbers, eta: Numbers) -> np.ndarray:
        return self.value(np.asarray(t) / self.time if self.time else np.asarray(step) / self.steps)  # [schedule]

    def value(self, x: np.ndarray) -> np.ndarray:
        """The values at x >= 0, entry by entry."""
        raise NotImplementedError


class Power(ScheduleForm, name="power"):
    """start (1 + x)^-exponent."""

    start: float = option(quantity, doc="first value")
    exponent: float = option(number(0.0), doc="of the decay")
    falling = True

    @property
    def largest(self) -> float:
        return self.start

    def value(self, x: np.ndarray) -> np.ndarray:
        return self.start * (1.0 + x) ** -self.exponent


class Ramp(ScheduleForm, name="linear"):
    """From start to end at x = 1, then end."""

    start: float = option(quantity, doc="first value")
    end: float = option(quantity, doc="last value")

    @property
    def largest(self) -> float:
        return max(self.start, self.end)

    def value(self, x: np.ndarray) -> np.ndarray:
        return self.start + (self.end - self.start) * np.minimum(x, 1.0)


class Cosine(Ramp, name="cosine"):
    """The same along half a cosine."""

    def value(self, x: np.ndarray) -> np.ndarray:
        return super().value(0.5 * (1.0 - np.cos(np.pi * np.minimum(x, 1.0))))


def schedule_of(setting: Setting) -> Schedule:
    """The schedule of a setting of a run file; a number is constant from time 0 on."""
    if isinstance(setting, Table):
        return make(Schedule, setting)
    return Times(((0.0, setting),) if isinstance(setting, float) else setting)


# --- keys of run files -----------------------------------------------------------------------------------------------------

def scheduled(what: str, low: float, high: float | None = None, above: bool = False, below: bool = False) -> schema.Check:
    """The check of a run file's key that takes a number in [low, high] or a schedule of such numbers; `what` names the values."""
    one = number(low, high, above, below)
    bounds = schema.interval(low, high, above, below)
    wanted = (f"a number {bounds} or a schedule [[0.0, {what}0], [t1, {what}1], ...] with increasing times and values {bounds}")

    def check(value: Any) -> Setting:
        if isinstance(value, Schedule):
            value = value.table
        if isinstance(value, Mapping):
            return _form(value, one, bounds)
        if not isinstance(value, (list, tuple)):
            return one(value)
        return _points(value, one, wanted)

    pairs = {"type": "array", "items": {"type": "array", "items": {"type": "number"}}}
    return schema.told_as(check, anyOf=[schema.form_of(one), pairs, {"type": "object"}])


def _points(value: Any, one: schema.Check, wanted: str) -> Points:
    """The check of a list [[0, value], [x1, value], ...] whose values pass `one`."""
    try:
        rows = schema.array(wanted, 2, number(0.0))(value)
        points = tuple((row[0], one(row[1])) for row in rows if len(row) == 2)
    except ValueError:
        raise ValueError(wanted) from None
    times = [row[0] for row in points]
    if not points or len(points) < len(rows) or times[0] != 0.0 or any(b <= a for a, b in pairwise(times)):
        raise ValueError(wanted)
    return points


def _form(value: Mapping[str, Any], one: schema.Check, bounds: str) -> Table:
    """The check of a table: returns it with checked values. As elsewhere the name may be one that is not known."""
    cls = find(Schedule.key, value)
    if cls is None:
        if not isinstance(value.get("kind"), str):
            raise ValueError(f'a table {{kind = "...", ...}} whose kind is one of {", ".join(names(Schedule.key))}')
        return frozen(value)
    wanted = f"[[0, v0], [n1, v1], ...] with increasing steps and values {bounds}"
    table = check_table(cls, value, {quantity: one, listed: lambda points: _points(points, one, wanted)})
    if issubclass(cls, ScheduleForm):
        if ("time" in table) == ("steps" in table):
            raise ValueError(f"a table of {cls.name!r} with one of the keys 'time' and 'steps'")
        if not cls.built_in:
            _probe(cls(**{key: each for key, each in table.items() if key != "kind"}), one)
    return table


def _probe(form: ScheduleForm, one: schema.Check) -> None:
    """ValueError if a user's form has values that the quantity cannot have, or none."""
    found = ""
    try:
        for x, value in zip(_PROBED.tolist(), np.broadcast_to(form.value(_PROBED), _PROBED.shape).tolist()):
            found = f"it is {value} at x = {x:g}"
            one(value)
    except (ArithmeticError, AttributeError, LookupError, NameError, NotImplementedError, TypeError, ValueError) as error:
        found = found or f"{type(error).__name__}: {error}".partition("\n")[0]
        raise ValueError(f"a table of {form.name!r} whose value(x) is {schema.wanted_by(one)} for x >= 0 ({found})") from None
