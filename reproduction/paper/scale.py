"""A run made smaller by one number: dimension, runs, samples, solutions and time, so that all figures can be tried on a laptop."""

from __future__ import annotations

from typing import Any

from dmft.model.runfile import Run

FEWEST = {"simulation.dimension": 32, "simulation.instances": 4, "theory.samples": 64, "theory.replicas": 2}
FEWEST_STEPS = 20


def scaled(run: Run, half: str, scale: float) -> dict[str, Any]:
    """What to change in a run for one half of it, so that all its sizes are `scale` times as large, and no smaller than
    FEWEST; what is smaller already stays. Times of schedules and records move with the end."""
    changes: dict[str, Any] = {}
    for key, least in FEWEST.items():
        section, name = key.split(".")
        if section == half:
            now = getattr(getattr(run, section), name)
            changes[key] = min(now, max(least, round(scale * now)))
    algorithm = run.algorithm
    eta = algorithm.first_rate
    steps = min(algorithm.steps, max(FEWEST_STEPS, round(scale * algorithm.steps)))
    shorter = steps / algorithm.steps
    changes["algorithm.t_max"] = steps * eta
    if isinstance(algorithm.temperature, tuple):
        changes["algorithm.temperature"] = [[shorter * time, value] for time, value in algorithm.temperature]
    if run.theory.waiting_times:
        changes["theory.waiting_times"] = [shorter * time for time in run.theory.waiting_times]
    if isinstance(run.simulation.record, tuple):
        changes["simulation.record"] = [shorter * time for time in run.simulation.record]
    return changes
