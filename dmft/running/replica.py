"""One replica: an independent solution, and beside it one with half the samples, for the finite-sample bias."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dmft.core.device import Gpu
from dmft.equations.history import History
from dmft.equations.kernels import kept_steps
from dmft.model.experiment import Experiment, theory_experiment
from dmft.model.runfile import Run
from dmft.running.resources import HALF, blocks_per_level, bytes_per_sample, check_memory
from dmft.samples.sampling import PARTS, Sampling
from dmft.solvers.blocks import Summing, blocks_for, step_together
from dmft.solvers.iterate import SUM_BLOCKS, Guess, Iteration, Options, iteration_bytes
from dmft.solvers.march import March, march_blocks

SOLUTIONS = ("whole", "half")


@dataclass(frozen=True)
class Setup:
    """Everything that the replicas of a run have in common."""

    problem: Experiment
    run: Run
    parts: frozenset[str]
    per_level: int | None
    grid: np.ndarray  # steps at which kernels are kept
    start: Guess | None = None
    gpu: Gpu | None = None

    @classmethod
    def from_run(cls, run: Run, start: Guess | None = None, gpu: Gpu | None = None) -> Setup:
        theory, problem = run.theory, theory_experiment(run)
        parts = wanted_parts(run) - (frozenset() if problem.data.stein else {"stein"})
        iterate = theory.method == "iterate"
        per_level = None if iterate else blocks_per_level(
            theory.history, theory.blocks_per_level, problem.steps, theory.samples
        )
        grid = np.arange(problem.steps + 1) if iterate else kept_steps(run)
        return cls(problem, run, parts, per_level, grid, start, gpu)

    @property
    def tangent_type(self) -> type:
        """Single precision for the tangents of a dyadic history: they are averaged over samples and multiply kernels
        that are themselves rounded to blocks, and reading them is all the work (docs/performance.md)."""
        return np.float64 if self.per_level is None else np.float32

    def samples(self, solution: str) -> int:
        """Samples of a solution; mirrored ones come in pairs."""
        count = self.run.theory.samples if solution == "whole" else max(1, self.run.theory.samples // 2)
        return count + count % 2 if self.problem.mirrored else count

    def check_memory(self, comm: Summing, room: float) -> None:
        """Refuse what does not fit into `room` bytes on this rank, before any work is done."""
        if self.run.theory.method == "iterate":
            blocks = [blocks_for(self.samples(solution), comm, SUM_BLOCKS) for solution in SOLUTIONS]
            fresh = self.run.theory.noise == "fresh"
            need = sum(iteration_bytes(self.problem.steps, len(each.here), fresh) for each in blocks)
            check_memory(need, room, blocks[0].count, "iterate")
            return
        here = march_blocks(self.problem, self.samples("whole"), self.parts, comm, self.gpu)
        # The layout of the longest full history would itself be too large to make: count it instead.
        history = History(min(self.problem.steps, 20_000) if self.per_level is None else self.problem.steps, self.per_level)
        per_sample = bytes_per_sample(history, "stein" in self.parts, np.dtype(self.tangent_type).itemsize)
        macroscopic = 8 * 8.0 * history.slots**2
        need = HALF * (here.lines.stop - here.lines.start) * per_sample + macroscopic
        check_memory(need, room, here.count, "full" if history.full else "dyadic")


def wanted_parts(run: Run) -> frozenset[str]:
    """The parts of the variance reduction that a run asks for; Setup.parts are those that its loss allows."""
    reduction = run.theory.variance_reduction
    return frozenset(PARTS if reduction is True else reduction or ())


class Replica:
    """The two solutions of one replica, stepped together until both are done."""

    def __init__(self, setup: Setup, index: int, comm: Summing):
        self.setup, self.index, self.comm = setup, index, comm
        self.solvers: dict[str, March | Iteration] = {name: self._solver(name) for name in SOLUTIONS}

    def _solver(self, solution: str) -> March | Iteration:
        s, theory = self.setup, self.setup.run.theory
        sampling = Sampling(s.samples(solution), theory.seed, (self.index,), s.parts)
        if theory.method == "march":
            return March(s.problem, sampling, s.per_level, s.grid, self.comm, s.tangent_type, s.gpu)
        options = Options(theory.mixing, theory.tolerance, theory.max_sweeps, theory.noise == "fresh")
        return Iteration(s.problem, sampling, options, s.grid, self.comm, s.start)

    @property
    def whole(self) -> March | Iteration:
        return self.solvers["whole"]

    @property
    def done(self) -> bool:
        return self.whole.diverged or all(solver.done for solver in self.solvers.values())

    @property
    def progress(self) -> float:
        """Share of the work done; of an iteration, a guess from its sweep limit."""
        total = self.setup.problem.steps if isinstance(self.whole, March) else self.setup.run.theory.max_sweeps
        return 1.0 if self.done else min(self.whole.n / total, 1.0)

    def step(self) -> None:
        step_together([solver for solver in self.solvers.values() if not solver.done], self.comm)

    def outcome(self) -> str:
        if self.whole.diverged:
            return "diverged"
        return self.whole.outcome if isinstance(self.whole, Iteration) else "done"

    def solution(self) -> dict[str, np.ndarray]:
        """What the ensemble needs of a finished replica."""
        arrays: dict[str, np.ndarray] = {f"curves/{name}": curve for name, curve in self.whole.curves.items()}
        arrays |= {f"kernels/{name}": kernel for name, kernel in self.whole.kernels.items()}
        arrays["half_m"] = self.solvers["half"].curves["m"]
        if isinstance(self.whole, Iteration):
            arrays["residuals"] = np.array(self.whole.residuals, float)
        return arrays
