"""The damped fixed point of the paper's appendix A.1: guess all kernels, draw whole paths, re-estimate, mix, repeat.

It uses the samples, rows and recursion of the march, with full history, so that with the same random numbers its fixed point is the
march. By causality the first k steps are exact after k undamped sweeps. A bad guess may make paths explode at some step: rows from
there on are then not used in that sweep, and the guess improves from its beginning instead of becoming NaN everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from dmft.core import exact_sum
from dmft.core.tree import nest
from dmft.equations.history import History, Plan
from dmft.equations.kernels import Kept, Wanted, enter_row
from dmft.equations.rows import GROUPS, PUSH, SCALARS, curve_table, curves_of, escaped, exploded
from dmft.equations.weights import Row, StepFromRow, WeightDynamics
from dmft.model.experiment import Experiment
from dmft.samples.process import Samples
from dmft.samples.sampling import Draws, Sampling, draw
from dmft.solvers.blocks import Alone, Summing, blocks_for, estimators_of, normalised, step_together
from dmft.solvers.guess import Guess, distance, starting_guess

SUM_BLOCKS = 24  # most blocks of samples: each keeps a sum of n x n kernels
ITERATION_OUTCOMES = ("", "converged", "noise floor", "sweep limit", "diverged")
STEPS_AHEAD = 16  # steps whose memory sums over stored rows are precomputed together
PATHS_TOGETHER = 64  # samples whose paths are walked together
STEP_WORK = 2e9  # multiply-adds of tangents: a few tenths of a second


def iteration_bytes(steps: int, blocks: int, fresh_noise: bool) -> float:
    """Bytes of one solution on a rank with that many blocks. In units of a matrix over all times: the sums of every block and the
    digits and values of their total, twice with fresh noise (the squares); the tangents of the samples under way; guesses,
    kernels and drives."""
    sums = GROUPS * (blocks + exact_sum.SUM_NUMBERS + 1) * (2 if fresh_noise else 1)
    return 8.0 * (steps + 1) ** 2 * (sums + PATHS_TOGETHER / 2 + 10)


@dataclass(frozen=True)
class Options:
    """How the iteration is damped and stopped."""

    mixing: float
    tolerance: float
    max_sweeps: int
    fresh_noise: bool
    step_work: float = STEP_WORK  # multiply-adds of tangents per `step()`: stop signals are polled between steps


@dataclass(frozen=True)
class Sweep:
    """The result of one sweep: new kernels, and in how many rows; curves, the number of sound rows, and the relative Monte-Carlo
    error of the kernels. A row of the guess that explodes is not sound, but new: its sums are those of paths before it."""

    kernels: Guess
    new: int
    curves: dict[str, np.ndarray]
    sound: int
    noise: float


@dataclass
class Pass:
    """A sweep under way: what drives its paths, and the sums over the paths walked so far."""

    sampling: Sampling
    steps_from_rows: list[StepFromRow]  # what follows from each row of the guess
    m: np.ndarray
    q: np.ndarray
    b: np.ndarray  # intercepts
    m_w: np.ndarray  # overlaps of the weights, which differ from m with Nesterov's momentum
    sound: int  # number of rows of the guess before it explodes
    draws: Draws
    weight: np.ndarray
    partial: np.ndarray  # (blocks here, steps + 1, SCALARS + GROUPS slots + observables)
    turn: int = 0  # the block of this rank that is walked next


class Iteration(Alone):
    """The fixed-point iteration of one solution. A `step` walks a few blocks of samples on every rank, so that a stop does not have
    to wait for the end of a long sweep; after a restart the unfinished sweep is walked again from its beginning."""

    def __init__(self, experiment: Experiment, sampling: Sampling, options: Options, wanted: Wanted, comm: Summing,
                 start: Guess | None = None):
        self.experiment, self.sampling, self.options, self.comm = experiment, sampling, options, comm
        self.history = History(experiment.steps)
        self.kept = Kept.of(self.history, experiment.hidden, wanted)
        self.blocks = blocks_for(sampling.total, sampling.carriers, comm, SUM_BLOCKS)
        self.use = estimators_of(experiment, sampling)
        self.guess = start or starting_guess(experiment, self._first_row())
        self.residuals: list[float] = []
        self.outcome = ""
        self._pass: Pass | None = None
        self._samples: dict[tuple[int, int], Samples] = {}  # arrays that chunks of one size share
        self.curves = {name: np.full(experiment.steps + 1 - experiment.hidden, np.nan) for name in curves_of(experiment)}
        self.kernels, self.columns = self.kept.empty(wanted.temperatures)

    @property
    def width(self) -> int:
        """Columns of the sums of a row; the observables lie behind them."""
        return SCALARS + GROUPS * self.history.slots

    @property
    def n(self) -> int:
        """Sweeps done."""
        return len(self.residuals)

    @property
    def done(self) -> bool:
        return bool(self.outcome)

    @property
    def diverged(self) -> bool:
        return self.outcome == "diverged"

    @property
    def progress(self) -> float:
        """Share of max_sweeps that is done: a lower bound of the progress, most runs need fewer sweeps."""
        return min(self.n / self.options.max_sweeps, 1.0)

    @property
    def note(self) -> str:
        """Text for the progress line."""
        return f"sweep {self.n}, residual {self.residuals[-1]:.1e}" if self.n else ""

    def _weights(self, history: History) -> WeightDynamics:
        return WeightDynamics(self.experiment, history, self.sampling.estimator)

    def _first_row(self) -> Row:
        """Row 0, which needs no kernels."""
        draws, weight = self._frozen
        history = History(1)
        samples = Samples(self.experiment, history, draws, weight, self.blocks.size, self.sampling)
        sums = self.comm.sum_exact(samples.row_sums(self.experiment.m0))
        return self._weights(history).estimate_row(sums, self.use._replace(stein=False, identity=False)).row

    @cached_property
    def _frozen(self) -> tuple[Draws, np.ndarray]:
        """Draws and weights of every sweep, unless each has fresh noise."""
        return self._draws(self.sampling)

    def _draws(self, sampling: Sampling) -> tuple[Draws, np.ndarray]:
        """The samples of this rank and their normalised weights."""
        draws = draw(self.experiment, sampling, self.blocks.indices())
        return draws, normalised(draws.weight, self.blocks, self.comm, draws.stratum, self.experiment.data.strata)

    def sweep(self) -> None:
        """Step until the end of the present sweep."""
        before = self.n
        while self.n == before:
            self.step()

    def step(self) -> None:
        """Walk a few blocks of samples; after the last ones, mix the new kernels."""
        step_together([self], self.comm)

    def terms(self) -> list[np.ndarray]:
        """Walk the next blocks of samples; returns the sums of all blocks after the last one (with fresh noise their squares
        too)."""
        if self._pass is None:
            self._pass = self._begin()
        under_way, turns = self._pass, -(-self.blocks.total // self.blocks.ranks)  # the same number on every rank
        block_work = self.blocks.size * (self.experiment.steps + 1) ** 3 / 6
        last = min(under_way.turn + 1 + int(self.options.step_work / block_work), turns)
        while under_way.turn < last:
            if under_way.turn < len(self.blocks.here):
                self._walk_block(under_way)
            under_way.turn += 1
        if last < turns:
            return []
        # Not reshape(..., -1), which fails on a rank without blocks.
        flat = under_way.partial.reshape(len(under_way.partial), prod(under_way.partial.shape[1:]))
        return [flat, flat**2] if self.options.fresh_noise else [flat]

    def take(self, totals: list[np.ndarray]) -> None:
        """At the end of a sweep, mix its kernels with the guess."""
        if totals and self._pass is not None:
            under_way, self._pass = self._pass, None
            sums, *squares = (total.reshape(under_way.partial.shape[1:]) for total in totals)
            noise = self._noise(sums, squares[0]) if squares else 0.0
            self._mix(self._collect(sums, under_way, noise))

    def _mix(self, sweep: Sweep) -> None:
        """Mix the kernels of a sweep with the guess, and decide whether the iteration ends. The residual is taken before mixing,
        because a small `mixing` would fake convergence."""
        options, rows = self.options, self.experiment.steps + 1
        known = distance(self.guess, sweep.kernels, sweep.new)
        residual = known if sweep.sound == rows else np.inf
        self.residuals.append(residual)
        self.curves = sweep.curves
        if known < options.tolerance:
            # Converged rows determine the next one: if it explodes, so does the solution of the equations.
            self.outcome = "converged" if sweep.sound == rows else "diverged"
        elif options.fresh_noise and residual < 2 * sweep.noise:
            self.outcome = "noise floor"
        elif self.n >= options.max_sweeps:
            self.outcome = "sweep limit"
        if self.done:
            self._save_kernels(self.guess.mixed(sweep.kernels, 1.0, sweep.new))
        self.guess = self.guess.mixed(sweep.kernels, options.mixing, sweep.new)

    def _begin(self) -> Pass:
        """A new sweep, with the paths still to be walked."""
        fresh = self.options.fresh_noise
        sampling = replace(self.sampling, name=(*self.sampling.name, self.n)) if fresh else self.sampling
        partial = np.zeros((len(self.blocks.here), self.experiment.steps + 1, self.width + len(self.experiment.observables)))
        return Pass(sampling, *self._step_from_all(), *(self._draws(sampling) if fresh else self._frozen), partial)

    def _walk_block(self, under_way: Pass) -> None:
        """Walk the paths of the block `turn`, chunk by chunk."""
        low = under_way.turn * self.blocks.size
        high = min(low + self.blocks.size, self.blocks.count)
        for first in range(low, high, PATHS_TOGETHER):
            part = slice(first, min(first + PATHS_TOGETHER, high))
            draws = Draws(*(array[part] for array in under_way.draws))
            self._walk(self._fresh(under_way.sampling, draws, under_way.weight[part]), under_way)

    def _fresh(self, sampling: Sampling, draws: Draws, weight: np.ndarray) -> Samples:
        """Samples at step 0, in arrays of an earlier chunk of the same size if there was one."""
        shape = len(draws.h), int(np.count_nonzero(draws.carrier))
        known = self._samples.get(shape)
        if known is None or tuple(known.keys) != sampling.keys:
            self._samples[shape] = Samples(self.experiment, self.history, draws, weight, PATHS_TOGETHER // 4, sampling)
        else:
            known.restart(draws, weight)
        return self._samples[shape]

    def _step_from_all(self) -> tuple[list[StepFromRow], np.ndarray, np.ndarray, np.ndarray, np.ndarray, int]:
        """What follows from every row of the guess: the steps, then m, q, the intercept and m_w at each, and the number of rows
        before the guess explodes."""
        rows, weights = self.experiment.steps + 1, self._weights(History(self.experiment.steps))
        steps_from_rows: list[StepFromRow] = []
        m, q, b, m_w = (np.full(rows, np.nan) for _ in range(4))
        for n in range(rows):
            row = self.guess.row(n, self.history.slots)
            m[n], q[n], b[n], m_w[n] = weights.m, weights.q, weights.b, weights.m_w
            if self.guess.push is not None:
                weights.now.push = self.guess.push[n]
            after = weights.step_from_row(row, None if self.guess.m is None else self.guess.m[n])
            if escaped(after.norm, weights.estimator.largest):
                return steps_from_rows, m, q, b, m_w, n
            steps_from_rows.append(after)
            if n < self.experiment.steps:
                weights.advance(row, after.next, weights.history.push(n))
        return steps_from_rows, m, q, b, m_w, rows

    def _walk(self, samples: Samples, under_way: Pass) -> None:
        """Whole paths of some samples; adds their row sums to the block's."""
        steps_from_rows, m, b, out = under_way.steps_from_rows, under_way.m, under_way.b, under_way.partial[under_way.turn]
        for n in range(min(under_way.sound + 1, self.experiment.steps + 1)):
            present = m[n], b[n], under_way.m_w[n]
            out[n, : self.width] += samples.row_sums(*present).sum(axis=0)
            if self.experiment.observables:
                out[n, self.width :] += samples.averaged_sums(*present).sum(axis=0)
            if n < min(under_way.sound, self.experiment.steps):
                if n % STEPS_AHEAD == 0:
                    samples.precompute_memory(np.array([ahead.drive.memory for ahead in steps_from_rows[n : n + STEPS_AHEAD]]))
                samples.advance(steps_from_rows[n].drive, Plan(np.zeros((0, 3), np.int64), n, ()))

    def _collect(self, sums: np.ndarray, under_way: Pass, noise: float) -> Sweep:
        """The result of a sweep from its sums; the rows before each one, which [ibp] needs, are those of the guess."""
        experiment, rows, sound = self.experiment, self.experiment.steps + 1, under_way.sound
        new, hidden = self.guess.zeros(), experiment.hidden
        table, curves = curve_table(experiment)
        weights, walked = self._weights(History(experiment.steps)), min(sound + 1, rows)
        for n in range(walked):
            row_sums, averaged = sums[n, : self.width], sums[n, self.width :]
            if exploded(row_sums, weights.estimator.largest, weights.estimator.most_lost):
                sound = walked = n
                break
            row = weights.estimate_row(row_sums, self.use).row
            new.delta_nu[n], new.mu[n], new.M_C[n, n] = row.delta_nu, row.mu, row.M_C_now
            new.M_C[n, :n], new.K_R[n, :n] = row.M_C[:n], row.K_R[:n]
            if new.push is not None:
                new.push[n] = sums[n, PUSH]
            if n == sound:
                break
            after = under_way.steps_from_rows[n]
            if n >= hidden:
                now = weights.now
                now.b, now.nu_hat, now.lag = under_way.b[n], after.nu_hat, after.lag
                weights.curve_rows(np.zeros(1, np.int64), row_sums[None], self.use)
                table[:, n - hidden] = np.append(weights.curves, averaged)
            if n < experiment.steps:
                weights.advance(self.guess.row(n, self.history.slots), after.next, weights.history.push(n))
        return Sweep(new, walked, curves, sound, noise)

    def _noise(self, sums: np.ndarray, squares: np.ndarray) -> float:
        """Relative Monte-Carlo error of the kernels of one sweep, from the spread over blocks."""
        blocks = self.blocks.total
        variance = np.maximum(squares - sums**2 / blocks, 0) * blocks / max(blocks - 1, 1)
        kernels = slice(SCALARS, SCALARS + 2 * self.history.slots)
        return float(np.sqrt(variance[:, kernels].sum()) / np.linalg.norm(sums[:, kernels]))

    def _save_kernels(self, guess: Guess) -> None:
        """Enter the kernels of a guess, with C and R that follow from them, into the saved kernels."""
        weights = self._weights(History(self.experiment.steps))
        for n in range(self.experiment.steps + 1):
            row = guess.row(n, self.history.slots)
            after = weights.step_from_row(row)
            enter_row(self.kernels, self.columns, self.kept, weights, row)
            if escaped(after.norm, weights.estimator.largest) or n == self.experiment.steps:
                break
            weights.advance(row, after.next, weights.history.push(n))

    # What a checkpoint holds, as for the march.
    def random_start(self) -> dict[str, np.ndarray]:
        """Empty: only the march solves random starts."""
        return {}

    def shared(self) -> dict[str, Any]:
        return {"guess": self.guess.arrays(), "curves": self.curves, "kernels": self.kernels, "columns": self.columns,
                "residuals": np.array(self.residuals, float), "outcome": np.array(ITERATION_OUTCOMES.index(self.outcome))}

    def per_sample(self) -> dict[str, np.ndarray]:
        return {}

    def per_tangent(self) -> dict[str, np.ndarray]:
        return {}

    def restore(self, shared: Mapping[str, Any], per_sample: Mapping[str, np.ndarray],
                per_tangent: Mapping[str, np.ndarray]) -> None:
        """Take over what `shared` gave, at the end of the last finished sweep."""
        found = nest(shared)
        self.guess, self.residuals = Guess(**found["guess"]), list(found["residuals"])
        self.outcome = ITERATION_OUTCOMES[int(found["outcome"])]
        if self.outcome == "sweep limit" and self.n < self.options.max_sweeps:
            self.outcome = ""  # more sweeps are allowed now
        self._pass, self.curves, self.kernels, self.columns = None, found["curves"], found["kernels"], found["columns"]
