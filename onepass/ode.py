"""The deterministic limit d -> infinity: dX/dt = drift(X)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import scipy  # loads its parts when they are first used

from dmft.core.errors import RunError
from onepass.dynamics import Dynamics
from onepass.result import Trajectory

Event = Callable[[float, dict[str, np.ndarray]], float]


def increasing_times(times) -> np.ndarray:
    """The times as an array (times,); RunError unless they are finite, not negative and increasing."""
    t = np.atleast_1d(np.asarray(times, float))
    if t.ndim != 1 or t.size == 0 or not np.all(np.isfinite(t)) or t[0] < 0 or np.any(np.diff(t) <= 0):
        raise RunError("times must be a strictly increasing sequence of finite numbers >= 0")
    return t


def solve(
    model: Dynamics,
    initial: Mapping[str, np.ndarray],
    times,
    rtol: float = 1e-8,
    atol: float = 1e-12,
    events: Mapping[str, Event] | None = None,
    method: str = "DOP853",
) -> Trajectory:
    """Integrate the model's ODE from `initial` at t = 0 by an adaptive Runge-Kutta rule of order 8 (local error
    rtol |X| + atol; rtol = 1e-10 and below are reachable), or by any method of SciPy's solve_ivp ("LSODA" for
    stiff models).

    `events` maps names to functions g(t, statistics) whose sign changes are located; a function with an attribute
    `terminal = True` ends the integration, and entries of the result past that time are NaN.
    """
    t = increasing_times(times)
    layout = model.layout
    x0 = model.start(initial)
    model.check_deterministic(x0)
    events = dict(events or {})

    def wrap(event: Event):
        def g(time: float, x: np.ndarray) -> float:
            return event(time, layout.unpack(x))

        g.terminal = getattr(event, "terminal", False)  # type: ignore[attr-defined]
        g.direction = getattr(event, "direction", 0.0)  # type: ignore[attr-defined]
        return g

    with np.errstate(over="ignore", invalid="ignore"):
        done = scipy.integrate.solve_ivp(
            lambda _, x: model.drift(x),
            (0.0, float(t[-1])) if t[-1] > 0 else (0.0, 1e-300),
            x0,
            method=method,
            rtol=rtol,
            atol=atol,
            dense_output=True,
            events=[wrap(e) for e in events.values()] or None,
        )
    reached = t <= done.t[-1]
    x = np.full((t.size, layout.size), np.nan)
    if reached.any():
        x[reached] = done.sol(t[reached]).T
    x[t == 0.0] = x0
    outcome = "done" if done.status == 0 else "event" if done.status == 1 else "diverged"
    return Trajectory(
        t,
        model.with_observables(layout.unpack(x)),
        "ode",
        model.to_toml(),
        {"outcome": outcome, "rtol": rtol, "evaluations": done.nfev},
        dense=lambda time: model.with_observables(layout.unpack(np.moveaxis(done.sol(time), 0, -1))),
        events=dict(zip(events, done.t_events or [], strict=False)),
    )
