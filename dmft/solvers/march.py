"""The causal march: all samples go forward together, each row of the kernels is estimated just before it is used.

One sweep, no damping, no question of convergence. The state is an explicit set of arrays (`state`, `restore`),
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
from dmft.equations.weights import Macro
from dmft.model.experiment import Problem
from dmft.samples import splitting
from dmft.samples.gpu import BLOCKS, GpuSamples
from dmft.samples.process import Samples
from dmft.samples.sampling import Draws, Sampling, draw
from dmft.solvers.blocks import LARGEST_BLOCK_COUNT, Blocks, Summing, blocks_for, normalised, pools_for, step_together


def march_blocks(problem: Problem, samples: int, parts: frozenset[str], comm: Summing, gpu: Gpu | None) -> Blocks:
    """The blocks of a march, with places for copies where samples split."""
    if splitting.helps(problem, parts):
        return pools_for(samples, comm, splitting.SPARE, 1 if gpu else splitting.SUMS)
    return blocks_for(samples, comm, BLOCKS if gpu else LARGEST_BLOCK_COUNT)


class March:
    """One solution at step n = 0 .. steps."""

    def __init__(self, problem: Problem, sampling: Sampling, per_level: int | None, grid: np.ndarray, comm: Summing,
                 dtype=np.float64, gpu: Gpu | None = None):
        self.problem, self.sampling, self.grid, self.comm = problem, sampling, grid, comm
        self.history = History(problem.steps, per_level)
        self.macro = Macro(problem, self.history)
        self.blocks = blocks = march_blocks(problem, sampling.samples, sampling.parts, comm, gpu)
        draws = draw(problem, sampling, blocks.first, blocks.count)
        weight = blocks.spread(normalised(draws.weight, blocks, comm))
        draws = Draws(*(blocks.spread(array) for array in draws))
        draws = draws._replace(sign=np.where(weight > 0, draws.sign, 1.0))  # empty places too: copies come there
        kind = partial(GpuSamples, gpu) if gpu else Samples
        size = blocks.places // blocks.sums
        self.samples = kind(problem, self.history, draws, weight, size, sampling.keys, sampling.stein, dtype)
        self.curves = {name: np.full(problem.steps + 1, np.nan) for name in CURVES}
        self.kernels = {name: np.zeros((len(grid), len(grid))) for name in KERNELS}
        self.diverged = False

    @property
    def n(self) -> int:
        return self.macro.n

    @property
    def done(self) -> bool:
        return self.diverged or np.isfinite(self.curves["m"][-1])

    def step(self) -> None:
        step_together([self], self.comm)

    def terms(self) -> list[np.ndarray]:
        """What row n of the kernels needs, one line per block."""
        return [self.samples.row_sums(self.macro.m)]

    def take(self, totals: list[np.ndarray]) -> None:
        """Estimate row n from the sums over all blocks, record it, and go to n+1 (the last row is only recorded)."""
        macro, problem, n = self.macro, self.problem, self.macro.n
        m, sums = macro.m, totals[0]
        if exploded(sums):
            self.diverged = True
            return
        row = kernel_row(problem, sums, self.sampling.stein)
        drive, closed = macro.close(row)
        for name, value in curve_row(problem, n, m, macro.q, row, sums, closed).items():
            self.curves[name][n] = value
        saved_row(self.kernels, self.grid, macro, row, self.curves["m"])
        if exploded(sums, closed):
            self.diverged = True
        elif n < problem.steps:
            plan = self.history.push(n)
            self.samples.advance(m, drive, plan)
            macro.advance(row, plan)
            if self.blocks.spare and splitting.due(problem, n + 1):
                self.samples.split(self.sampling.split_key, self.blocks.places, self.blocks.spare,
                                   splitting.THRESHOLD / self.sampling.samples)

    # What a checkpoint holds. `shared` is the same on every rank; `own` has one line per place of this rank.

    def shared(self) -> dict[str, np.ndarray]:
        arrays = {f"macro/{name}": array for name, array in self.macro.state().items()}
        arrays |= {f"history/{name}": array for name, array in self.history.state().items()}
        arrays |= {f"curves/{name}": array for name, array in self.curves.items()}
        arrays |= {f"kernels/{name}": array for name, array in self.kernels.items()}
        return arrays | {"diverged": np.array(self.diverged)}

    def own(self) -> Mapping[str, np.ndarray]:
        return self.samples.own()

    def restore(self, shared: dict[str, np.ndarray], own: Mapping[str, np.ndarray]) -> None:
        def part(prefix: str) -> dict[str, np.ndarray]:
            return {name[len(prefix) :]: array for name, array in shared.items() if name.startswith(prefix)}

        self.macro.restore(part("macro/"))
        self.history.restore(part("history/"))
        for name, array in part("curves/").items():
            self.curves[name][:] = array
        for name, array in part("kernels/").items():
            self.kernels[name][:] = array
        self.samples.restore(own, self.macro.n)
        self.diverged = bool(shared["diverged"])
