"""Steps of a schedule: drift and noise jump when the statistic `clock` passes one of the model's `change_times`.

No rule of high order may step across a jump, and an adaptive one can step over a short pulse without seeing it. ODE and SDE
therefore stop at every change. A stage of a rule at the very end of its step belongs to the time before a change that falls there,
and a clock that was summed up is off by rounding, so the clock is held to one side while a step is taken.
"""

from __future__ import annotations

import numpy as np

from onepass.dynamics import Dynamics


def changes(model: Dynamics, x0: np.ndarray, end: float) -> np.ndarray:
    """Times after the start and before `end`, rising, at which a change falls for one of the starts x0 (..., size)."""
    on_clock = model.change_times()
    if not on_clock.size:
        return on_clock
    t = np.unique(on_clock - x0[..., model.layout.slice("clock")])
    return t[(t > 0.0) & (t < end)]


class Stretch:
    """The model during a step of length h from states x (..., size), which no change interrupts."""

    def __init__(self, model: Dynamics, x: np.ndarray, h: float):
        self.model, on_clock = model, model.change_times()
        self.clock = model.layout.slice("clock") if on_clock.size else None
        if self.clock is not None:
            edges = np.concatenate([[-np.inf], on_clock, [np.inf]])
            place = np.searchsorted(on_clock, x[..., self.clock] + 0.5 * h, side="right")
            self.first, self.last = edges[place], np.nextafter(edges[place + 1], -np.inf)

    def drift(self, x: np.ndarray) -> np.ndarray:
        return self.model.drift(self._held(x))

    def covariance(self, x: np.ndarray) -> np.ndarray:
        return self.model.covariance(self._held(x))

    def _held(self, x: np.ndarray) -> np.ndarray:
        if self.clock is None:
            return x
        held = x.copy()
        held[..., self.clock] = np.clip(x[..., self.clock], self.first, self.last)
        return held
