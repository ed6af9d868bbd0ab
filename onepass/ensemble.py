"""Independent instances of a step-by-step process (exact chain, direct SGD): times, streams, threads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np

from dmft.core.errors import RunError
from onepass.dynamics import Dynamics
from onepass.ode import increasing_times
from onepass.process import Process
from onepass.result import Ensemble


def instance_starts(model: Dynamics, initial: Mapping[str, np.ndarray], instances: int, dimension: int) -> np.ndarray:
    """Starting statistics (instances, size): one start for all, or arrays with instances first."""
    if instances < 1:
        raise RunError(f"instances = {instances}; need at least 1")
    x0 = model.start(initial, dimension)
    if x0.ndim > 1 and x0.shape[0] != instances:
        raise RunError(f"the initial arrays hold {x0.shape[0]} instances, but instances = {instances}")
    return np.array(np.broadcast_to(x0, (instances, model.layout.size)))


def assemble(model: Dynamics, t: np.ndarray, flat: np.ndarray, source: str, attrs: dict) -> Ensemble:
    """Ensemble from flat statistics (instances, times, size); an instance that exploded is NaN from there on."""
    with np.errstate(invalid="ignore"):
        lost = np.logical_or.accumulate(~(np.abs(flat) <= model.largest_statistic).all(axis=2), axis=1)
    diverged = lost[:, -1]
    flat = np.where(lost[:, :, None], np.nan, flat)
    arrays = model.with_observables(model.layout.unpack(flat))
    outcome = "diverged" if diverged.any() else "done"
    return Ensemble(t, arrays, source, model.to_toml(), {"outcome": outcome, **attrs}, diverged=diverged)


def step_counts(t: np.ndarray, tau: float) -> np.ndarray:
    """Number of steps nearest to each time."""
    return np.rint(t / tau).astype(np.int64)


def run(
    model: Dynamics,
    begin: Callable[[np.ndarray, int], Process],
    x0: np.ndarray,
    steps: np.ndarray,
    indices,
    threads: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> np.ndarray:
    """Statistics (len(indices), len(steps), size) of the instances `indices`, each started by begin(x0[i], i) and
    recorded after the given numbers of steps. An instance depends on its index alone, never on threads or company.
    An instance that leaves the finite numbers is NaN from there on."""
    indices = list(indices)
    out = np.full((len(indices), len(steps), model.layout.size), np.nan)

    def one(row: int) -> None:
        process = begin(x0[indices[row]], indices[row])
        done = 0
        for column, target in enumerate(steps):
            process.advance(int(target) - done)
            done = int(target)
            flat = process.flat()
            if not np.isfinite(flat).all():
                break
            out[row, column] = flat
        if progress is not None:
            progress(row)

    with ThreadPoolExecutor(threads or numba.get_num_threads()) as pool:
        list(pool.map(one, range(len(indices))))
    return out


def run_ensemble(
    model: Dynamics,
    begin: Callable[[np.ndarray, int], Process],
    source: str,
    dimension: int,
    instances: int,
    initial: Mapping[str, np.ndarray],
    times,
    seed: int,
    threads: int | None = None,
) -> Ensemble:
    """All instances of a process as an Ensemble. Recording times are rounded to the nearest whole step."""
    t = increasing_times(times)
    x0 = instance_starts(model, initial, instances, dimension)
    steps = step_counts(t, model.time_step(dimension))
    flat = run(model, begin, x0, steps, range(instances), threads)
    return assemble(model, t, flat, source, {"dimension": dimension, "seed": seed})
