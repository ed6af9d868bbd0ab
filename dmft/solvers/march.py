"""The causal march: all samples go forward together, each row of the kernels is estimated just before it is used.

One sweep, no damping, no question of convergence. The state is an explicit set of arrays (`shared`, `own`, `restore`),
which is also what a checkpoint holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from dmft.core.device import Gpu
from dmft.equations.history import History
from dmft.equations.kernels import KERNELS, saved_row
from dmft.equations.rows import CURVES, curve_row, exploded, kernel_row
from dmft.equations.weights import WeightDynamics, WeightState
from dmft.model.experiment import Experiment
from dmft.samples import splitting
from dmft.samples.gpu import BLOCKS, GpuSamples
from dmft.samples.process import Samples
from dmft.samples.sampling import Draws, Sampling, draw
from dmft.solvers.blocks import LARGEST_BLOCK_COUNT, Blocks, Summing, blocks_for, normalised, pools_for, step_together


def march_blocks(experiment: Experiment, samples: int, parts: frozenset[str], comm: Summing, gpu: Gpu | None) -> Blocks:
    """The blocks of a march, with places for copies where samples split."""
    if splitting.helps(experiment, parts):
        return pools_for(samples, comm, splitting.SPARE, 1 if gpu else splitting.SUMS)
    return blocks_for(samples, comm, BLOCKS if gpu else LARGEST_BLOCK_COUNT)


class March:
    """One solution at step n = 0 .. steps."""

    residuals: list[float] | None = None  # those of an iteration

    def __init__(self, experiment: Experiment, sampling: Sampling, per_level: int | None, grid: np.ndarray, comm: Summing,
                 dtype=np.float64, gpu: Gpu | None = None):
        self.experiment, self.sampling, self.grid, self.comm = experiment, sampling, grid, comm
        self.history = History(experiment.steps, per_level)
        self.weights = WeightDynamics(experiment, self.history)
        self.blocks = blocks = march_blocks(experiment, sampling.samples, sampling.parts, comm, gpu)
        draws = draw(experiment, sampling, blocks.first, blocks.count)
        weight = blocks.spread(normalised(draws.weight, blocks, comm))
        draws = Draws(*(blocks.spread(array) for array in draws))
        draws = draws._replace(sign=np.where(weight > 0, draws.sign, 1.0))  # empty places too: copies come there
        kind = partial(GpuSamples, gpu) if gpu else Samples
        size = blocks.places // blocks.sums
        self.samples = kind(experiment, self.history, draws, weight, size, sampling.keys, sampling.stein, dtype)
        self.curves = {name: np.full(experiment.steps + 1, np.nan) for name in CURVES}
        self.kernels = {name: np.zeros((len(grid), len(grid))) for name in KERNELS}
        self.diverged = False

    @property
    def n(self) -> int:
        return self.weights.n

    @property
    def done(self) -> bool:
        """True if finished or diverged."""
        return self.diverged or np.isfinite(self.curves["m"][-1])

    @property
    def outcome(self) -> str:
        """How it ended; "" while it has not."""
        return "diverged" if self.diverged else "done" if self.done else ""

    @property
    def progress(self) -> float:
        """Share of the steps taken."""
        return min(self.n / self.experiment.steps, 1.0)

    @property
    def note(self) -> str:
        """For a progress line."""
        return f"t = {self.n * self.experiment.eta:.2f}, m = {self.curves['m'][self.n - 1]:.4f}" if self.n else ""

    def step(self) -> None:
        step_together([self], self.comm)

    def terms(self) -> list[np.ndarray]:
        """What row n of the kernels needs, one line per block."""
        return [self.samples.row_sums(self.weights.m)]

    def take(self, totals: list[np.ndarray]) -> None:
        """Estimate row n from the sums over all blocks, record it, and go to n+1 (the last row is only recorded)."""
        weights, experiment, n = self.weights, self.experiment, self.weights.n
        m, sums = weights.m, totals[0]
        if exploded(sums):
            self.diverged = True
            return
        row = kernel_row(experiment, sums, self.sampling.stein)
        closing = weights.close(row)
        for name, value in curve_row(experiment, n, m, weights.q, row, sums, closing).items():
            self.curves[name][n] = value
        saved_row(self.kernels, self.grid, weights, row, self.curves["m"])
        if exploded(sums, closing.norm):
            self.diverged = True
        elif n < experiment.steps:
            plan = self.history.push(n)
            self.samples.advance(m, closing.drive, plan)
            weights.advance(row, closing.next, plan)
            if self.blocks.spare and splitting.due(experiment, n + 1):
                self.samples.split(self.sampling.split_key, self.blocks.places, self.blocks.spare,
                                   splitting.THRESHOLD / self.sampling.samples)

    # What a checkpoint holds. `shared` is the same on every rank; `own` has one line per place of this rank.

    def shared(self) -> dict[str, np.ndarray]:
        arrays = {f"weights/{name}": array for name, array in self.weights.state.arrays().items()}
        arrays |= {f"history/{name}": array for name, array in self.history.state().items()}
        arrays |= {f"curves/{name}": array for name, array in self.curves.items()}
        arrays |= {f"kernels/{name}": array for name, array in self.kernels.items()}
        return arrays | {"diverged": np.array(self.diverged)}

    def own(self) -> Mapping[str, np.ndarray]:
        return self.samples.own()

    def restore(self, shared: dict[str, np.ndarray], own: Mapping[str, np.ndarray]) -> None:
        def part(prefix: str) -> dict[str, np.ndarray]:
            return {name[len(prefix) :]: array for name, array in shared.items() if name.startswith(prefix)}

        self.weights.state = WeightState.from_arrays(part("weights/"))
        self.history.restore(part("history/"))
        for name, array in part("curves/").items():
            self.curves[name][:] = array
        for name, array in part("kernels/").items():
            self.kernels[name][:] = array
        self.samples.restore(own, self.weights.n)
        self.diverged = bool(shared["diverged"])
