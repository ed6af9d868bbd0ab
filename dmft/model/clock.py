"""When the steps of a run happen: eta_n, t_n = sum of eta_k, k < n, and the phase that each step belongs to. Eq. [phases].

The first phase is what [problem] and [algorithm] say. A `[[phase]]` table begins at a time (`begin`) or a step (`step`) and
changes some settings; their schedules count from where the phase begins. Nothing else is reset.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dmft.core.schema import Table, choice, integer, number
from dmft.model.registry import check_name
from dmft.model.schedules import Setting, schedule_of, scheduled

MOST_SCHEDULED = 10**7  # most steps of a run whose learning rate changes
_TINY = 1e-6  # share of a step by which rounding may have moved a time


@dataclass(frozen=True)
class Clock:
    """The steps of a run."""

    eta: np.ndarray  # (steps,)
    t: np.ndarray  # (steps + 1,)
    begins: tuple[int, ...]  # first step of every phase

    @property
    def steps(self) -> int:
        return len(self.eta)

    @property
    def steady(self) -> bool:
        """Whether the learning rate is a number."""
        return bool(np.all(self.eta == self.eta[0]))

    @cached_property
    def phase(self) -> np.ndarray:
        """(steps + 1,) which phase each row belongs to."""
        return np.searchsorted(self.begins, np.arange(self.steps + 1), side="right") - 1

    def values(self, key: str, setting: Setting, phases: tuple[Table, ...]) -> np.ndarray:
        """(steps,): a quantity at every step, from its setting in the first phase and the settings that later phases give it."""
        settings = [setting] + [phase.get(key) for phase in phases]
        result = np.empty(self.steps)
        for begin, given in zip(self.begins, settings, strict=True):
            if given is not None:
                since = self.t[begin:-1] - self.t[begin]
                result[begin:] = schedule_of(given).at(since, np.arange(self.steps - begin), self.eta[begin:])  # [phases]
        return result

    def nearest(self, times: np.ndarray) -> np.ndarray:
        """The steps whose times are nearest to the given ones."""
        right = np.clip(np.searchsorted(self.t, times), 1, self.steps)
        return np.where(times - self.t[right - 1] < self.t[right] - times, right - 1, right)


def make_clock(learning_rate: Setting, phases: tuple[Table, ...], t_max: float) -> Clock:
    """The steps up to the time nearest to t_max, at least one. ValueError, "must be ...", for phases that cannot be."""
    if isinstance(learning_rate, float) and not phases:
        steps = max(1, round(t_max / learning_rate))
        return Clock(np.full(steps, learning_rate), learning_rate * np.arange(steps + 1), (0,))
    rate, begins, origin = schedule_of(learning_rate), [0], 0.0
    too_long = f"a learning rate that reaches t_max = {t_max:g} within {MOST_SCHEDULED:g} steps"
    # of the phases from each one on, the largest rate: whether t_max can be reached at all is seen without taking the steps
    named = [schedule_of(phase["learning_rate"]).largest if "learning_rate" in phase else 0.0 for phase in phases]
    later = [max(named[i:], default=0.0) for i in range(len(phases) + 1)]
    etas: list[float] = []
    t, n = 0.0, 0
    times = [t]
    while n < MOST_SCHEDULED:
        eta = float(rate.at(t - origin, n - begins[-1], etas[-1] if etas else 0.0))
        while len(begins) <= len(phases) and _begun(phases[len(begins) - 1], t, n, eta):
            if n == begins[-1]:
                raise ValueError(f"phases of at least one step each, and phase {len(begins)} leaves none to the one before it")
            begins.append(n)
            origin = t
            phase = phases[len(begins) - 2]
            if "learning_rate" in phase:
                rate = schedule_of(phase["learning_rate"])
            eta = float(rate.at(0.0, 0, 0.0))
        if n and t_max - t < 0.5 * eta:
            break
        if n % 256 == 0 and t + (MOST_SCHEDULED - n) * max(eta if rate.falling else rate.largest, later[len(begins) - 1]) < t_max:
            raise ValueError(too_long)
        t, n = t + eta, n + 1  # [schedule]
        etas.append(eta)
        times.append(t)
    else:
        raise ValueError(too_long)
    if len(begins) <= len(phases) or (len(begins) > 1 and begins[-1] >= n):
        late = min(len(begins), len(phases))
        raise ValueError(f"phases of at least one step each, and phase {late} does not begin before t_max = {t_max:g}")
    return Clock(np.array(etas), np.array(times), tuple(begins))


def _begun(phase: Table, t: float, n: int, eta: float) -> bool:
    """Whether a phase has begun at step n, which begins at time t and lasts eta."""
    return n >= phase["step"] if "step" in phase else t >= phase["begin"] - _TINY * eta


# Settings that a phase may change, with their checks, which the sections use too.
SCHEDULED = {
    "learning_rate": scheduled("eta", 0.0, above=True),
    "batch_fraction": scheduled("l", 0.0, 1.0, above=True),
    "persistence": scheduled("tau", 0.0, above=True),
    "temperature": scheduled("T", 0.0),
    "momentum": scheduled("beta", 0.0, 1.0, below=True),
    "ridge": scheduled("lambda", 0.0),
}
PHASE_KEYS = {"begin": number(0.0, above=True), "step": integer(1), "loss": check_name("loss"), **SCHEDULED}


def phase_tables(value: Any) -> tuple[Table, ...]:
    """The check of all [[phase]] tables: returns them checked, ValueError for what is wrong."""
    if not isinstance(value, (list, tuple)) or not all(isinstance(table, Mapping) for table in value):
        raise ValueError("tables [[phase]]")
    return tuple(_phase(i + 1, table) for i, table in enumerate(value))


def _phase(i: int, table: Mapping[str, Any]) -> Table:
    """The check of the i-th [[phase]] table, counted from 1."""
    for key in table:
        try:
            choice(*PHASE_KEYS)(key)
        except ValueError as error:
            raise ValueError(f"tables [[phase]] with keys that are {error}; phase {i} has '{key}'") from None
    if ("begin" in table) == ("step" in table):
        raise ValueError(f"tables [[phase]] that begin at a time (begin = ...) or a step (step = ...); phase {i} needs one of them")
    if len(table) == 1:
        raise ValueError(f"tables [[phase]] that change something; phase {i} changes nothing")
    checked = {}
    for key, one in table.items():
        try:
            checked[key] = PHASE_KEYS[key](one)
        except ValueError as error:
            raise ValueError(f"tables [[phase]]; phase {i}: {key} must be {error}") from None
    return Table(checked)
