"""Pairs of times (t, t'): which of them a run asks for, in steps, for theory and simulator alike."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dmft.core.errors import RunError
from dmft.model.runfile import Run

ALL_UP_TO = 512  # rows of a run up to which all are kept
ONE_END = 10  # steps of the Hessian's list from either end
KERNEL_POINTS = 256  # rows that are kept of a longer run
SNAPSHOTS_HELD = 3  # of replicas one by one, of all together, and while they are written


def nearest_steps(run: Run, key: str, listed: Sequence[float]) -> np.ndarray:
    """The steps nearest to the times of a list of [theory]; RunError for times beyond the end."""
    times, algorithm = np.array(listed), run.algorithm
    clock = algorithm.clock
    if times[-1] > clock.t[-1] + 0.5 * clock.eta[-1]:
        raise RunError(f"[theory] {key} = [..., {times[-1]:g}]: beyond algorithm.t_max = {algorithm.t_max:g}; leave it out "
                       "or raise t_max")
    return np.unique(clock.nearest(times))


def saved_steps(steps: int, points: int = 0) -> np.ndarray:
    """Steps at which kernels are kept: all of them in a short run, else the first quarter of the points one by
    one and the rest evenly in the logarithm of time, always with the last step. points = 0: chosen here."""
    if steps + 1 <= (points or ALL_UP_TO):
        return np.arange(steps + 1)
    points = points or KERNEL_POINTS
    dense = max(points // 4, 1)
    # Rounding removes some of the log-spaced steps, so ask for more until the number fits.
    wanted = points - dense
    for count in range(wanted, 20 * points):
        late = np.unique(np.round(np.geomspace(dense, steps, count)).astype(np.int64))
        if len(late) >= wanted:
            break
    return np.union1d(np.arange(dense), late)


def waiting_ladder(steps: int) -> np.ndarray:
    """0 and the powers of two below `steps`: a longer run, or one with half the learning rate, has these times, too."""
    return np.append(0, 2 ** np.arange(max(int(steps) - 1, 1).bit_length())) if steps > 1 else np.zeros(1, np.int64)


def waiting_steps(run: Run) -> np.ndarray:
    """The steps of theory.waiting_times, chosen here if empty."""
    waiting = run.theory.waiting_times
    return nearest_steps(run, "waiting_times", waiting) if waiting else waiting_ladder(run.algorithm.steps)


def snapshot_steps(run: Run) -> np.ndarray:
    """The steps of theory.snapshots."""
    listed = run.theory.snapshots
    return nearest_steps(run, "snapshots", listed) if listed else np.zeros(0, np.int64)


def visited_steps(run: Run) -> np.ndarray:
    """Steps whose fields the Hessian at the snapshots needs: of each snapshot the first and the last ones and others between,
    evenly in the logarithm from both ends, ONE_END of either. None unless theory.hessian is set. Eq. [hess-snapshots]."""
    found = np.zeros(0, np.int64)
    for n in snapshot_steps(run) if run.theory.hessian else ():
        near = np.append(0, np.unique(np.rint(np.geomspace(1, max(n / 2, 1), ONE_END)).astype(np.int64)))
        near = near[near <= n]
        found = np.union1d(found, np.concatenate([near, n - near]))  # [hess-snapshots]
    return found


def simulated_steps(run: Run) -> np.ndarray:
    """Steps t' of the two-time quantities of a simulation: the waiting times, and theory.kernel_points where these are listed. None
    unless simulation.kernels is set."""
    if not run.simulation.kernels:
        return np.zeros(0, np.int64)
    points = run.theory.kernel_points
    listed = np.zeros(0, np.int64) if isinstance(points, int) else nearest_steps(run, "kernel_points", points)
    return np.union1d(waiting_steps(run), listed)


def kernel_bytes(run: Run) -> int:
    """Bytes of the weights and gradients that an instance keeps for its two-time quantities, both copies; of a network weights
    alone, of its only copy."""
    n = run.simulation.dimension
    if run.has_network:
        return 4 * simulated_steps(run).size * run.network.units * (n + 2)
    return 2 * 4 * simulated_steps(run).size * (n + max(1, round(run.problem.alpha * n)))


def snapshot_bytes(run: Run) -> int:
    """Bytes of the snapshots of all replicas of a theory, as its file holds them; memory has them SNAPSHOTS_HELD times at the
    end."""
    per_visited = 2 + bool(np.any(run.algorithm.at_steps("temperature")))
    numbers = 2 * snapshot_steps(run).size + per_visited * visited_steps(run).size + 4 if run.theory.snapshots else 0
    return 8 * run.theory.replicas * run.theory.samples * numbers
