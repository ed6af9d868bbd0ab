"""The deterministic limit d -> infinity: dX/dt = drift(X)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import scipy  # loads its parts when they are first used

from dmft.core.errors import RunError
from onepass.dynamics import Dynamics
from onepass.result import Trajectory
from onepass.stretches import Stretch, changes

Event = Callable[[float, dict[str, np.ndarray]], float]


def increasing_times(times) -> np.ndarray:
    """The times as an array (times,); RunError unless they are finite, not negative and increasing."""
    t = np.atleast_1d(np.asarray(times, float))
    if t.ndim != 1 or t.size == 0 or not np.all(np.isfinite(t)) or t[0] < 0 or np.any(np.diff(t) <= 0):
        raise RunError("times must be a strictly increasing sequence of finite numbers >= 0")
    return t


class OdePath(NamedTuple):
    """States x (times, size), NaN past the end of the integration; the interpolant of any time; the times of each event; how it
    ended ("done", "event", "diverged"), and the evaluations of the drift."""

    x: np.ndarray
    dense: Callable[[float], np.ndarray]
    events: dict[str, np.ndarray]
    outcome: str
    evaluations: int


def solve(model: Dynamics, initial: Mapping[str, np.ndarray], times, rtol: float = 1e-8, **options) -> Trajectory:
    """The model's ODE from `initial` at t = 0; see `integrate`."""
    t, layout = increasing_times(times), model.layout
    x0 = model.start(initial)
    model.check_deterministic(x0)
    path = integrate(model, x0, t, rtol, **options)
    return Trajectory(
        t,
        model.with_observables(layout.unpack(path.x)),
        "ode",
        model.to_toml(),
        {"outcome": path.outcome, "rtol": rtol, "evaluations": path.evaluations},
        dense=lambda time: model.with_observables(layout.unpack(np.moveaxis(path.dense(time), 0, -1))),
        events=path.events,
    )


def integrate(
    model: Dynamics,
    x0: np.ndarray,
    t: np.ndarray,
    rtol: float = 1e-8,
    atol: float = 1e-12,
    events: Mapping[str, Event] | None = None,
    method: str = "DOP853",
) -> OdePath:
    """Integrate the model's ODE from x0 (size,) by an adaptive Runge-Kutta rule of order 8 (local error
    rtol |X| + atol; rtol = 1e-10 and below are reachable), or by any method of SciPy's solve_ivp ("LSODA" for
    stiff models). The rule stops and starts again at every change of a schedule (stretches.py).

    `events` maps names to functions g(t, statistics) whose sign changes are located; a function with an attribute
    `terminal = True` ends the integration, and entries of the result past that time are NaN.
    """
    layout = model.layout
    events = dict(events or {})

    def wrap(event: Event):
        def g(time: float, x: np.ndarray) -> float:
            return event(time, layout.unpack(x))

        g.terminal = getattr(event, "terminal", False)  # type: ignore[attr-defined]
        g.direction = getattr(event, "direction", 0.0)  # type: ignore[attr-defined]
        return g

    end = float(t[-1]) if t[-1] > 0 else 1e-300
    done: list[Any] = []
    begin, start = 0.0, x0
    for stop in [*changes(model, x0, end).tolist(), end]:
        stretch = Stretch(model, start, stop - begin)
        with np.errstate(over="ignore", invalid="ignore"):
            done.append(scipy.integrate.solve_ivp(
                lambda _, x, stretch=stretch: stretch.drift(x),
                (begin, stop),
                start,
                method=method,
                rtol=rtol,
                atol=atol,
                dense_output=True,
                events=[wrap(e) for e in events.values()] or None,
            ))  # fmt: skip
        begin, start = stop, done[-1].y[:, -1]
        if done[-1].status != 0:
            break
    sol = scipy.integrate.OdeSolution(
        np.concatenate([[0.0], *(part.t[1:] for part in done)]),
        [interpolant for part in done for interpolant in part.sol.interpolants],
        alt_segment=done[0].sol.side == "right",
    )
    reached = t <= done[-1].t[-1]
    x = np.full((t.size, layout.size), np.nan)
    if reached.any():
        x[reached] = sol(t[reached]).T
    x[t == 0.0] = x0
    found = {name: np.unique(np.concatenate([part.t_events[i] for part in done])) for i, name in enumerate(events)}
    outcome = {0: "done", 1: "event"}.get(done[-1].status, "diverged")
    return OdePath(x, sol, found, outcome, sum(part.nfev for part in done))
