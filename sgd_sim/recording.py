"""The steps at which an instance is recorded, and the rows of its records.

A run whose t_max grows takes over the records of the shorter run: so, for every choice of simulation.record, the steps that the
longer run records before the old end are a subset of those that the shorter run recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from dmft.core.errors import RunError
from dmft.model.curves import NETWORK, PER_STEP, TABLE, defined, everywhere, values_told
from dmft.model.data import data_of, make_start
from dmft.model.experiment import observables_of
from dmft.model.runfile import Run
from dmft.model.two_times import simulated_steps

# The rows of a curves array, and those after them where labels are not h0 itself.
_STEPS = tuple(curve for curve in TABLE if curve.simulation == PER_STEP)
RECORDED = tuple(curve.name for curve in _STEPS if curve.where in (everywhere, values_told))
BY_DATA = tuple(curve.name for curve in _STEPS if curve.name not in RECORDED)
ROWS = RECORDED + BY_DATA
M, LOSS, Q, MSE_FRESH = map(ROWS.index, ("m", "loss", "q", "mse_fresh"))
TRAINING_ERROR, ERROR_FRESH, B = map(ROWS.index, ("training_error", "error_fresh", "b"))
# The rows of two-time quantities, which give SIMULATED_KERNELS of dmft/files/layouts.py, in this order.
PAIR_WEIGHTS, PAIR_GRADIENTS, PAIR_PROBES = range(3)
FORCE = 2.0**-11     # of the second copy: its square is lost in the errors, rounding too, and division by it is exact
PER_DECADE = 20
MOST_LINEAR = 400


def network_shapes(run: Run) -> dict[str, tuple[int, ...]]:
    """The curves of a network and the shapes that they have at one time, in the order of the rows of a curves array."""
    lengths = {"unit": run.network.units, "direction": run.network.directions}
    found = {curve.name: tuple(lengths[axis] for axis in curve.axes) for curve in NETWORK if curve.simulation == PER_STEP}
    return found | dict.fromkeys(observables_of(run), ())


def flattened(values: Mapping[str, Any], observables: Iterable[str] = ()) -> np.ndarray:
    """The rows of a network at one time from its curves by name."""
    names = *(curve.name for curve in NETWORK if curve.simulation == PER_STEP), *observables
    return np.concatenate([np.ravel(values[name]) for name in names])


def network_curves(run: Run, curves: np.ndarray) -> dict[str, np.ndarray]:
    """The curves (instances, times, ...) of a network from the rows (instances, rows, times)."""
    found, first = {}, 0
    for name, shape in network_shapes(run).items():
        size = int(np.prod(shape))
        rows = np.moveaxis(curves[:, first : first + size], 1, 2)
        found[name], first = rows.reshape(*rows.shape[:2], *shape), first + size
    return found


def network_rows(run: Run, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """The rows (instances, rows, times) of a network from its curves (instances, times, ...)."""
    lines = [arrays[name].reshape(*arrays[name].shape[:2], -1) for name in network_shapes(run)]
    return np.moveaxis(np.concatenate(lines, axis=2), 2, 1)


def recorded_rows(run: Run) -> tuple[str, ...]:
    """Names of the rows of a curves array."""
    if run.has_network:
        return tuple(f"{name}[{','.join(map(str, index))}]" if shape else name for name, shape in network_shapes(run).items()
                     for index in np.ndindex(shape))
    return (RECORDED if data_of(run.problem).plain else ROWS) + observables_of(run)


def recorded_curves(run: Run) -> tuple[str, ...]:
    """Names of those rows that are defined for the data model of a run."""
    data = data_of(run.problem)
    known = {curve.name for curve in defined(data, make_start(run.problem).random)} | {*observables_of(run)}
    return tuple(name for name in recorded_rows(run) if name in known)


def times_of(run: Run, steps: np.ndarray) -> np.ndarray:
    """The times of some steps."""
    algorithm = run.algorithm
    return steps * algorithm.first_rate if algorithm.steady else algorithm.clock.t[steps]


def record_steps(run: Run) -> np.ndarray:
    """Increasing steps to record, by simulation.record.

    log: 0 and PER_DECADE steps per decade; linear: every 2^k-th step, with the smallest k that gives at most MOST_LINEAR steps;
    both include the last step. A list of times: the step nearest to each. Kept steps of two-time quantities are recorded, too.
    """
    steps, record = run.algorithm.steps, run.simulation.record
    if record == "linear":
        stride = 1
        while steps > MOST_LINEAR * stride:
            stride *= 2
        chosen = np.append(np.arange(0, steps + 1, stride), steps)
    elif record == "log":
        decades = np.log10(steps)
        powers = np.rint(10.0 ** (np.arange(int(decades * PER_DECADE) + 1) / PER_DECADE))
        chosen = np.concatenate([[0], powers, [steps]])
    else:
        algorithm, times = run.algorithm, np.array(record, dtype=np.float64)
        last_step = algorithm.first_rate if algorithm.steady else algorithm.clock.eta[-1]
        if times[-1] > algorithm.last_time + 0.5 * last_step:
            raise RunError(f"[simulation] record = [..., {times[-1]:g}]: beyond algorithm.t_max = "
                           f"{run.algorithm.t_max:g}; leave it out or raise t_max")
        chosen = np.rint(times / algorithm.first_rate) if algorithm.steady else algorithm.clock.nearest(times)
    return np.union1d(chosen.astype(np.int64), simulated_steps(run))
