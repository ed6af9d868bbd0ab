"""Quantities that change in time: a number, or [[time, value], ...], constant from each time on."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from dmft.core import schema
from dmft.core.schema import number

Points = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Schedule:
    """The values of a quantity at the steps of a run."""

    points: Points  # (time, value), times increasing from 0

    @classmethod
    def of(cls, value: float | Points) -> Schedule:
        """A schedule from what a run file holds."""
        return cls(value if isinstance(value, tuple) else ((0.0, value),))

    def at_steps(self, eta: float, steps: int) -> np.ndarray:
        """(steps,): the value at each step. A step that begins at the time of a change, up to rounding, has the new value."""
        result = np.empty(steps)
        for time, value in self.points:
            result[int(min(np.ceil(time / eta - 1e-6), steps)):] = value
        return result


def scheduled(what: str, low: float) -> schema.Check:
    """The check of a run file's key that takes a number >= low or a schedule of such numbers; `what` names the values."""
    one = number(low)
    wanted = f"a number >= {low:g} or a schedule [[0.0, {what}0], [t1, {what}1], ...] with increasing times and values >= {low:g}"

    def check(value: Any) -> float | Points:
        if not isinstance(value, (list, tuple)):
            return one(value)
        try:
            points = schema.array(wanted, 2, one)(value)
        except ValueError:
            raise ValueError(wanted) from None
        times = [row[0] for row in points if len(row) == 2]
        if not points or len(times) < len(points) or times[0] != 0.0 or any(b <= a for a, b in pairwise(times)):
            raise ValueError(wanted)
        return points

    return check
