"""Quantities that change in time. Eq. [schedule].

A setting of a run file is a number, `[[time, value], ...]` (constant from each time on), or a table:

    {kind = "steps", points = [[step, value], ...]}                      constant from each step on
    {kind = "power", start = v, exponent = p, time = t0}                 v (1 + t/t0)^-p
    {kind = "linear" | "cosine", start = v, end = w, time = t1}          from v to w at t1, then w

where `steps = n0` may stand instead of `time = t0`: the schedule then follows the step instead of the time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from dmft.core import schema
from dmft.core.schema import number

Points = tuple[tuple[float, float], ...]
_SCALES = ("time", "steps")
_FORMS = {"power": ("start", "exponent"), "linear": ("start", "end"), "cosine": ("start", "end")}
_ROUNDING = 1e-6  # share of a step: a step that begins at the time of a change, up to rounding, has the new value


class Table(Mapping):
    """An inline table of a run file as an immutable value, which can be compared, hashed and written back."""

    def __init__(self, entries: Mapping[str, Any]):
        self._entries = tuple(entries.items())

    def __getitem__(self, key: str) -> Any:
        return dict(self._entries)[key]

    def __iter__(self) -> Iterator[str]:
        return iter(dict(self._entries))

    def __len__(self) -> int:
        return len(self._entries)

    def __hash__(self) -> int:
        return hash(frozenset(self._entries))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and dict(self) == dict(other)

    def __repr__(self) -> str:
        return repr(dict(self._entries))


Setting = float | Points | Table


@dataclass(frozen=True)
class Schedule:
    """The values of a quantity in time, from its setting in a run file."""

    setting: Setting

    def at(self, t: np.ndarray | float, step: np.ndarray | int, eta: np.ndarray | float) -> np.ndarray:
        """The values at steps that begin at times t and last eta; both count from where the schedule begins."""
        setting = self.setting
        if isinstance(setting, float):
            return np.full(np.shape(t), setting)
        if isinstance(setting, tuple):
            return _piecewise(setting, np.asarray(t) + _ROUNDING * np.asarray(eta))
        if setting["kind"] == "steps":
            return _piecewise(setting["points"], np.asarray(step))
        x = np.asarray(t) / setting["time"] if "time" in setting else np.asarray(step) / setting["steps"]
        if setting["kind"] == "power":
            return setting["start"] * (1.0 + x) ** -setting["exponent"]
        x = np.minimum(x, 1.0)
        if setting["kind"] == "cosine":
            x = 0.5 * (1.0 - np.cos(np.pi * x))
        return setting["start"] + (setting["end"] - setting["start"]) * x

    @property
    def falling(self) -> bool:
        """Whether no later value is above the present one."""
        return isinstance(self.setting, Table) and self.setting["kind"] == "power"

    @property
    def largest(self) -> float:
        """A bound of the values."""
        setting = self.setting
        if isinstance(setting, float):
            return setting
        if isinstance(setting, tuple) or setting["kind"] == "steps":
            return max(value for _, value in (setting if isinstance(setting, tuple) else setting["points"]))
        return max(setting["start"], setting.get("end", 0.0))

    def jumps(self, t: np.ndarray, eta: np.ndarray) -> np.ndarray:
        """(steps,): whether a step has another value than the step before it, in a schedule that lists its values one by one; False
        everywhere for smooth schedules."""
        setting = self.setting
        named = isinstance(setting, tuple) or (isinstance(setting, Table) and setting["kind"] == "steps")
        values = self.at(t, np.arange(len(t)), eta)
        return np.append(False, np.diff(values) != 0) if named else np.zeros(len(t), bool)


def _piecewise(points: Points, x: np.ndarray) -> np.ndarray:
    """The piecewise constant function with these (first x, value) at x."""
    firsts, values = np.array(points, float).T
    return values[np.searchsorted(firsts, x, side="right") - 1]


def scheduled(what: str, low: float, high: float | None = None, above: bool = False, below: bool = False) -> schema.Check:
    """The check of a run file's key that takes a number in [low, high] or a schedule of such numbers; `what` names the values."""
    one = number(low, high, above, below)
    bounds = schema.interval(low, high, above, below)
    wanted = (f"a number {bounds} or a schedule [[0.0, {what}0], [t1, {what}1], ...] with increasing times and values {bounds}")

    def check(value: Any) -> Setting:
        if isinstance(value, Mapping):
            return _formula(value, one, bounds)
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


def _formula(value: Mapping[str, Any], one: schema.Check, bounds: str) -> Table:
    """The check of a table: returns it with checked values."""
    forms = ('kind = "steps" with points = [[0, v0], [n1, v1], ...], "power" with start and exponent, "linear" or "cosine" with '
             f"start and end, and time or steps for these three; values {bounds}")
    kind, keys = value.get("kind"), set(value) - {"kind"}
    if kind == "steps":
        if keys != {"points"}:
            raise ValueError(forms)
        return Table({"kind": kind, "points": _points(value["points"], one, f"{forms}; steps increasing from 0")})
    if not isinstance(kind, str) or kind not in _FORMS:
        raise ValueError(forms)
    scales = keys & set(_SCALES)
    if len(scales) != 1 or keys - scales != set(_FORMS[kind]):
        raise ValueError(forms)
    try:
        checked = {key: number(0.0)(value[key]) if key == "exponent" else one(value[key]) for key in _FORMS[kind]}
        scale = next(iter(scales))
        return Table({"kind": kind, **checked, scale: number(0.0, above=True)(value[scale])})
    except ValueError:
        raise ValueError(forms) from None
