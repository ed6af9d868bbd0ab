"""The two-time kernels on the grid of saved times: which times, and the rows at them."""

from __future__ import annotations

import numpy as np

from dmft.core.errors import RunError
from dmft.equations.weights import Row, WeightDynamics
from dmft.files.layouts import KERNELS as KERNELS
from dmft.model.runfile import Run

ALL_UP_TO = 512  # rows of a run up to which all are kept
POINTS = 256  # rows that are kept of a longer run


def kept_steps(run: Run) -> np.ndarray:
    """Steps at which a march keeps kernels, by theory.kernel_points: a count, or the nearest steps of a list of times."""
    points, algorithm = run.theory.kernel_points, run.algorithm
    if isinstance(points, int):
        return saved_steps(algorithm.steps, points)
    times = np.array(points)
    clock = algorithm.clock
    if times[-1] > clock.t[-1] + 0.5 * clock.eta[-1]:
        raise RunError(f"[theory] kernel_points = [..., {times[-1]:g}]: beyond algorithm.t_max = {algorithm.t_max:g}; leave it out "
                       "or raise t_max")
    return np.unique(clock.nearest(times))


def saved_steps(steps: int, points: int = 0) -> np.ndarray:
    """Steps at which kernels are kept: all of them in a short run, else the first quarter of the points one by
    one and the rest evenly in the logarithm of time, always with the last step. points = 0: chosen here."""
    if steps + 1 <= (points or ALL_UP_TO):
        return np.arange(steps + 1)
    points = points or POINTS
    dense = max(points // 4, 1)
    # Rounding removes some of the log-spaced steps, so ask for more until the number fits.
    wanted = points - dense
    for count in range(wanted, 20 * points):
        late = np.unique(np.round(np.geomspace(dense, steps, count)).astype(np.int64))
        if len(late) >= wanted:
            break
    return np.union1d(np.arange(dense), late)


def saved_row(kernels: dict[str, np.ndarray], grid: np.ndarray, weights: WeightDynamics, row: Row, m: np.ndarray) -> None:
    """Enter row n into the saved kernels if n is a saved step. grid: the saved steps; m (visible steps + 1,): known up to n. M_R
    and R are densities in time, zero on and above the diagonal; values inside an old block are interpolated between the middles of
    blocks."""
    n, history, state, e = weights.n, weights.history, weights.state, weights.experiment
    i = int(grid.searchsorted(n))
    if i == len(grid) or grid[i] != n:
        return
    order = history.order
    size, centres = history.size[order], history.centres()
    past, upto = grid[:i], grid[: i + 1]

    def symmetric(sums: np.ndarray, now: float) -> np.ndarray:
        return np.interp(upto, np.append(centres, n), np.append(sums[order] / size, now))

    # Learning rates of the source steps, averaged over each block, in units of the first one; no block spans a jump of them.
    block_rates = np.add.reduceat(e.eta_n[:n] / e.eta, history.first[order]) / size if n else np.zeros(0)

    def causal(sums: np.ndarray) -> np.ndarray:
        return np.interp(past, centres, sums[order] / size / block_rates) if n else np.zeros(0)

    M_C = symmetric(row.M_C, row.M_C_now)
    C = symmetric(state.Q_row, state.Q_now) + m[n - e.hidden] * m[upto - e.hidden]
    for name, values in (("M_C", M_C), ("C", C)):
        kernels[name][i, : i + 1] = values
        kernels[name][: i + 1, i] = values
    kernels["M_R"][i, :i] = causal(row.M_R) / e.eta
    kernels["R"][i, :i] = causal(state.R_row)
