"""One replica: an independent solution, and beside it companions: one with half the samples, which gives the finite-sample bias,
and in every second replica of a history in blocks one more with half the blocks, which gives what the blocks cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from dmft.committee.march import CommitteeMarch, committee_bytes, committee_sampling
from dmft.core.device import Gpu
from dmft.core.errors import RunError, UserError
from dmft.core.packing import Guide
from dmft.core.parts import Part
from dmft.equations.history import History
from dmft.equations.kernels import Kept, Wanted, history_for, saved_steps
from dmft.equations.random_start import OverlapRows, fluctuations
from dmft.equations.tuning import ESTIMATOR, Estimator
from dmft.files.layouts import RANDOM_START
from dmft.model.channels import JUMPS
from dmft.model.curves import HALF_PREFIX
from dmft.model.experiment import Experiment, known_errors, theory_experiment
from dmft.model.runfile import Run
from dmft.model.two_times import SNAPSHOTS_HELD, snapshot_bytes
from dmft.result.statistics import BIAS, COLUMN, HISTORY_ERROR, Solution, finite_sample_bias, history_error
from dmft.samples.card_steps import VISIT
from dmft.samples.gpu import Card
from dmft.samples.sampling import PARTS, Sampling
from dmft.solvers.blocks import Blocks, Solver, Summing, blocks_for, step_together
from dmft.solvers.closed import ClosedMarch
from dmft.solvers.guess import Guess
from dmft.solvers.iterate import SUM_BLOCKS, Iteration, Options, iteration_bytes
from dmft.solvers.march import March, march_blocks
from dmft.solvers.resources import FEWEST_BLOCKS, blocks_per_level, can_be_halved, check_memory, march_bytes

WHOLE, HALF, COARSE = "whole", "half", "coarse"
NETWORK_POINTS = 128  # rows of the kernels that are kept of a network, whose entries are matrices
COARSE_EVERY = 2  # of so many replicas one has the companion with half the blocks, too


@dataclass(frozen=True)
class Setup:
    """Everything that the replicas of a run have in common."""

    experiment: Experiment
    run: Run
    parts: frozenset[str]
    per_level: int | None
    wanted: Wanted
    start: Guess | None = None
    gpu: Gpu | None = None
    estimator: Estimator = ESTIMATOR

    @classmethod
    def from_run(cls, run: Run, start: Guess | None = None, gpu: Gpu | None = None, estimator: Estimator = ESTIMATOR) -> Setup:
        """The setup of a run; start: first guess of the iteration, gpu: the card of this rank."""
        theory, experiment = run.theory, theory_experiment(run)
        parts = wanted_parts(run) - (frozenset() if experiment.stein else {"stein"})
        iterate = theory.method == "iterate"
        whole = sampling_of(run, parts, theory.samples, 0, estimator)
        units = max(run.network.units, 1)
        counts = (units * theory.samples, units * whole.carriers) if experiment.data.sampled else (0, 0)
        per_level = None if iterate else blocks_per_level(theory.history, theory.blocks_per_level, experiment.steps, *counts)
        wanted = Wanted.of(run)
        if run.has_network:
            if experiment.network and experiment.network.kinked and "ibp" not in parts:
                raise RunError(f'[network] activation = "{run.network.activation}": without a second derivative the response comes '
                               "by the identity alone; leave theory.variance_reduction out")
            rows = wanted.rows if run.theory.kernel_points else saved_steps(experiment.steps, NETWORK_POINTS)
            waiting = wanted.waiting if run.theory.waiting_times else np.zeros(1, np.int64)
            wanted = wanted._replace(waiting=waiting, rows=rows)
        if iterate:
            wanted = wanted._replace(rows=np.arange(experiment.steps + 1 - experiment.hidden))
        return cls(experiment, run, parts, per_level, wanted, start, gpu, estimator)

    @cached_property
    def kept(self) -> Kept:
        """Which entries of the kernels are kept."""
        return Kept.of(self.history(WHOLE), self.experiment.hidden, self.wanted)

    @property
    def stored_type(self) -> type:
        """Single precision for the tangents and the past of a dyadic history (samples/state.py): they multiply kernels that are
        themselves rounded to blocks, and reading them is most of the work (docs/notes/performance.md)."""
        return np.float64 if self.per_level is None else np.float32

    def solutions(self, index: int) -> tuple[str, ...]:
        """The solutions of replica `index`."""
        if not self.run.theory.companions:
            return (WHOLE,)
        coarse = can_be_halved(self.per_level) and index % COARSE_EVERY == 0
        if not self.sampled:
            return (WHOLE, COARSE) if coarse else (WHOLE,)
        return (WHOLE, HALF, COARSE) if coarse else (WHOLE, HALF)

    @property
    def sampled(self) -> bool:
        """Whether there are samples; without, there is one solution, and nothing is random."""
        return self.experiment.data.sampled

    @property
    def replicas(self) -> int:
        """How many replicas the run asks for."""
        return self.run.theory.replicas if self.sampled else 1

    def share(self, solution: str) -> float:
        """The share of the replicas that have a solution."""
        replicas = self.replicas
        return sum(solution in self.solutions(index) for index in range(replicas)) / replicas

    def blocks(self, solution: str) -> int | None:
        """Blocks of a level of the history of a solution; None for the full history."""
        return max(self.per_level // 2, FEWEST_BLOCKS) if self.per_level and solution == COARSE else self.per_level

    def history(self, solution: str) -> History:
        """The history of a solution, empty."""
        return history_for(self.experiment, self.blocks(solution), self.wanted)

    @property
    def slots(self) -> int:
        """Slots of the history, where the layout of a full one might be too large to make."""
        return self.history(WHOLE).slots if self.per_level else self.experiment.steps

    def samples(self, solution: str) -> int:
        """Samples of a solution; mirrored ones come in pairs."""
        count = self.run.theory.samples if solution == WHOLE else max(1, self.run.theory.samples // 2)
        return count + count % 2 if self.experiment.mirrored else count

    def sampling(self, solution: str, index: int) -> Sampling:
        """How a solution of replica `index` is sampled."""
        samples = self.samples(solution)
        jumps = self.experiment.data.control == JUMPS and "stein" in self.parts and not self.experiment.mirrored
        pairs = max(1, int(self.estimator.jump_pairs * samples)) if jumps else 0
        found = replace(sampling_of(self.run, self.parts, samples, index, self.estimator), pairs=pairs)
        return found if self.experiment.network is None else committee_sampling(self.experiment.network, found)

    def network_bytes(self, share: float = 1.0) -> float:
        """Resident bytes of the solutions of a replica of a network on a rank with this share of its samples."""
        assert self.experiment.network is not None
        return sum(committee_bytes(self.experiment.network, self.history(name), self.sampling(name, 0), self.stored_type, share)
                   for name in self.solutions(0))

    def check_memory(self, comm: Summing, room: float) -> float:
        """Bytes that a replica needs on this rank; UserError, before any work is done, if they do not fit into `room`."""
        kept = SNAPSHOTS_HELD * snapshot_bytes(self.run)
        if kept > room:
            raise UserError(f"[theory] snapshots: {len(self.run.theory.snapshots)} times of {self.run.theory.replicas} replicas "
                            f"need {kept / 1e9:.1f} GB, {room / 1e9:.1f} GB are free; list fewer, or lower theory.samples")
        if self.run.theory.method == "iterate":
            samplings = [self.sampling(solution, 0) for solution in self.solutions(0)]
            blocks = [blocks_for(each.total, each.carriers, comm, SUM_BLOCKS) for each in samplings]
            fresh = self.run.theory.noise == "fresh"
            need = sum(iteration_bytes(self.experiment.steps, len(each.here), fresh) for each in blocks)
            return check_memory(need, room, blocks[0].count, "iterate")
        if not self.sampled:
            return check_memory(8 * 3.0 * self.slots**2, room, 0, "full" if self.per_level is None else "dyadic")
        here = march_blocks(self.sampling(WHOLE, 0), comm, self.gpu)
        if self.experiment.network is not None:
            return check_memory(self.network_bytes(here.count / here.samples), room, here.count,
                                "full" if self.per_level is None else "dyadic")
        # The layout of a very long full history would itself be too large to make. The tangents of 20 000 steps, 1.6 GB a sample,
        # are too large already.
        history = self.history(WHOLE) if self.per_level else History(min(self.experiment.steps, 20_000))
        carriers = here.carrier_lines.stop - here.carrier_lines.start
        need = kept + 8 * (16.0 if self.experiment.clones else 8.0) * history.slots**2
        for solution in self.solutions(0):
            share = self.samples(solution) / self.samples(WHOLE)
            need += share * march_bytes(self.history(COARSE) if solution == COARSE else history, here.count, carriers,
                                        "stein" in self.parts, np.dtype(self.stored_type).itemsize, self.experiment.clones)
        return check_memory(need, room, here.count, "full" if history.full else "dyadic")


def sampling_of(run: Run, parts: frozenset[str], samples: int, index: int, estimator: Estimator = ESTIMATOR) -> Sampling:
    """How a solution of a run is sampled."""
    return Sampling(samples, run.theory.seed, (index,), parts, run.theory.tangents, estimator)


def wanted_parts(run: Run) -> frozenset[str]:
    """The parts of the variance reduction that a run asks for; Setup.parts are those that its loss allows."""
    reduction = run.theory.variance_reduction
    return frozenset(PARTS if reduction is True else reduction or ()) & frozenset(PARTS)


class ReplicaSolver(Solver, Protocol):
    """What a replica needs of its solvers, the march and the iteration."""

    blocks: Blocks
    curves: dict[str, np.ndarray]
    kernels: dict[str, np.ndarray]
    columns: dict[str, np.ndarray]

    @property
    def n(self) -> int:
        """Steps or sweeps done."""

    @property
    def done(self) -> bool:
        """True if finished or diverged."""

    @property
    def diverged(self) -> bool: ...

    @property
    def outcome(self) -> str:
        """One of result.statistics.OUTCOMES once it is done, "" before."""

    @property
    def progress(self) -> float:
        """Share of the work done."""

    @property
    def note(self) -> str:
        """Text for the progress line."""

    @property
    def residuals(self) -> list[float] | None:
        """The residuals of an iteration, one per sweep; None for a march."""

    def random_start(self) -> dict[str, np.ndarray]:
        """Rows of K1, Z and a (equations.random_start.OverlapRows) where the start is random."""

    def shared(self) -> dict[str, np.ndarray]:
        """State that is the same on every rank."""

    def per_sample(self) -> Mapping[str, np.ndarray]:
        """State with a line per sample of this rank (blocks.lines of blocks.samples)."""

    def per_tangent(self) -> Mapping[str, np.ndarray]:
        """State with a line per sample of this rank that has tangents (blocks.carrier_lines of blocks.carriers)."""

    def guides(self) -> tuple[Mapping[str, Guide], Mapping[str, Guide]]:
        """Of the arrays of either kind that a checkpoint packs, how their numbers are foretold."""

    def restore(self, shared: Mapping[str, Any], per_sample: Mapping[str, np.ndarray],
                per_tangent: Mapping[str, np.ndarray]) -> None:
        """Take over a state that the first three methods above gave, perhaps on another number of ranks."""


def step_abreast(replicas: Sequence[Replica]) -> None:
    """One step of several replicas. Those that a restart left behind go first, until all are at the same step."""
    solvers = [solver for replica in replicas for solver in replica.solvers.values() if not solver.done]
    behind = min(solver.n for solver in solvers)
    step_together([solver for solver in solvers if solver.n == behind], replicas[0].comm)


def _columns(solver: ReplicaSolver) -> dict[str, np.ndarray]:
    return {f"{COLUMN}{name}": array for name, array in solver.columns.items()}


class Replica:
    """The solutions of one replica, stepped together until all are done. A Worker of the driver. card: that several replicas
    share."""

    def __init__(self, setup: Setup, index: int, comm: Summing, card: Card | None = None):
        self.setup, self.index, self.comm = setup, index, comm
        self.card = card or (Card(setup.gpu, VISIT) if setup.gpu else None)
        self.solvers: dict[str, ReplicaSolver] = {name: self._solver(name) for name in setup.solutions(index)}

    def _solver(self, solution: str) -> ReplicaSolver:
        """The solver of one of the solutions at its start."""
        s, theory = self.setup, self.setup.run.theory
        if not s.sampled:
            return ClosedMarch(s.experiment, s.blocks(solution), s.wanted, self.comm, s.estimator)
        sampling = s.sampling(solution, self.index)
        if s.experiment.network is not None:
            return CommitteeMarch(s.experiment, sampling, s.blocks(solution), s.wanted, self.comm, s.stored_type, gpu=s.gpu)
        if theory.method == "march":
            wanted = s.wanted if solution == WHOLE else s.wanted.without_snapshots()
            return March(s.experiment, sampling, s.blocks(solution), wanted, self.comm, s.stored_type, self.card)
        options = Options(theory.mixing, theory.tolerance, theory.max_sweeps, theory.noise == "fresh")
        return Iteration(s.experiment, sampling, options, s.wanted, self.comm, s.start)

    @property
    def whole(self) -> ReplicaSolver:
        """The solution with all samples."""
        return self.solvers[WHOLE]

    @property
    def done(self) -> bool:
        return self.diverged or all(solver.done for solver in self.solvers.values())

    @property
    def diverged(self) -> bool:
        return self.whole.diverged

    @property
    def progress(self) -> float:
        return 1.0 if self.done else self.whole.progress

    @property
    def note(self) -> str:
        return self.whole.note

    def step(self) -> None:
        step_together([solver for solver in self.solvers.values() if not solver.done], self.comm)

    def state(self) -> dict[str, Part]:
        parts = {}
        for name, solver in self.solvers.items():
            blocks, (of_samples, of_tangents) = solver.blocks, solver.guides()
            parts[name] = Part(solver.shared(), solver.per_sample(), blocks.lines, blocks.samples, of_samples)
            parts[f"{name}_tangents"] = Part({}, solver.per_tangent(), blocks.carrier_lines, blocks.carriers, of_tangents)
        return parts

    def restore(self, parts: Mapping[str, Part]) -> None:
        for name, solver in self.solvers.items():
            solver.restore(parts[name].shared, parts[name].own, parts[f"{name}_tangents"].own)

    def solution(self) -> Part:
        """A statistics.Solution as arrays."""
        whole = self.whole
        residuals = None if whole.residuals is None else np.array(whole.residuals, float)
        beside = HALF if HALF in self.solvers else WHOLE  # what COARSE has the samples of
        rows = whole.random_start()
        if rows:
            rows["per_level"] = np.array(self.setup.per_level or 0)
            if HALF in self.solvers:
                rows |= {f"{HALF_PREFIX}{name}": each for name, each in self.solvers[HALF].random_start().items()}
        told = {BIAS: finite_sample_bias(self._figures(WHOLE), self._figures(HALF))} if HALF in self.solvers else {}
        if COARSE in self.solvers:
            told[HISTORY_ERROR] = history_error(*(self._figures(name) | self._fluctuations(name) for name in (beside, COARSE)))
        solution = Solution(whole.curves, {**whole.kernels, **_columns(whole)}, told, whole.outcome, residuals, rows)
        own, between = (whole.snapshot(), whole.snapshots.between) if isinstance(whole, March) else ({}, {})
        return Part({**solution.arrays(), **({"between": between} if between else {})}, own, whole.blocks.lines,
                    whole.blocks.samples)

    def _figures(self, solution: str) -> dict[str, np.ndarray]:
        """Curves and columns of one of the solutions, by name."""
        solver = self.solvers[solution]
        return {**solver.curves, **known_errors(self.setup.run, solver.curves), **_columns(solver)}

    def _fluctuations(self, solution: str) -> dict[str, np.ndarray]:
        """V and the gain of one of the solutions, from a random start. (Their bias is not that of single solutions: V is
        quadratic in rows that are averaged over replicas first, result/fluctuations.py.)"""
        rows = self.solvers[solution].random_start()
        if not rows:
            return {}
        found = fluctuations(self.setup.experiment, self.setup.history(solution), OverlapRows(**rows), None)
        return {name: getattr(found, name) for name in RANDOM_START}

    def close(self) -> None:
        """Nothing to stop: no thread works between steps."""
