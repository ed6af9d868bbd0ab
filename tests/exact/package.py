"""The package's side of the comparison: independent solutions of a run, and how far their mean is from an exact answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from dmft.core.parallel import Comm
from dmft.equations.kernels import Wanted
from dmft.model.experiment import Experiment
from dmft.model.runfile import Run
from dmft.samples.sampling import PARTS, Sampling
from dmft.samples.tiling import TILING, Tiling
from dmft.solvers.iterate import Iteration, Options
from dmft.solvers.march import March
from tests.emulate import HostGpu
from tests.exact.setting import Answer

CHANCE = 1e-4  # probability that a comparison fails although theory and package agree
NOISELESS = 1e-9  # spread over replicas, relative to the largest entry, below which there is no noise to hold a gap against
CARD_TILES = Tiling(own=1, ahead=2, rows_ahead=3, warps=1, spread=6)  # of the emulated card: tiles come in turns in a small run
Solver = Callable[[Experiment, Sampling], March | Iteration]


def march(per_level: int | None = None, gpu=None, dtype=np.float64) -> Solver:
    """A march with full history, or dyadic with so many blocks of each size; gpu: on a card."""
    def solver(e: Experiment, sampling: Sampling) -> March:
        tiling = CARD_TILES if isinstance(gpu, HostGpu) else TILING
        return March(e, sampling, per_level, Wanted.plain(e.steps), Comm(), dtype, gpu, tiling)

    return solver


def iterate(e: Experiment, sampling: Sampling) -> Iteration:
    """The fixed-point iteration, undamped: a row is final once those before it are."""
    return Iteration(e, sampling, Options(1.0, 1e-10, 200, False), Wanted.plain(e.steps), Comm())


class Found(NamedTuple):
    """A curve (replicas, rows) or kernel (replicas, rows, rows) by name, and which entries of kernels are those of single steps."""

    values: dict[str, np.ndarray]
    single: np.ndarray  # (rows, rows) bool


def kernel(solver: March | Iteration, name: str) -> np.ndarray:
    """(rows, rows), NaN where a solver has no entry at single steps: with a full history none, in blocks all but the columns at
    waiting steps. The only place here that knows how solvers keep kernels."""
    if solver.history.full:
        return solver.kernels[name]
    found = np.full((solver.experiment.steps + 1,) * 2, np.nan)
    found[np.ix_(solver.kept.times, solver.kept.waiting)] = solver.columns[name]
    return found


def solutions(run: Run, replicas: int, samples: int, solver: Solver | None = None, parts: Sequence[str] = PARTS) -> Found:
    """Independent solutions of a run by the march with full history, or by another solver; parts: of the variance reduction."""
    solved = []
    for index in range(replicas):
        one = (solver or march())(Experiment.from_run(run), Sampling(samples, 1, (index,), frozenset(parts), 1 / 16))
        while not one.done:
            one.step()
        assert one.outcome in ("done", "converged")
        solved.append(one)
    curves = [name for name in Answer._fields if name in solved[0].curves]
    return Found({name: np.array([one.curves[name] if name in curves else kernel(one, name) for one in solved])
                  for name in Answer._fields}, np.isfinite(kernel(solved[0], "C")))


class Score(NamedTuple):
    """z of all entries that have noise, and the largest gap of those that have none, relative to the largest entry."""

    z: np.ndarray
    exact: float


def scores(found: Found, answer: Answer) -> dict[str, Score]:
    """One score for every curve and kernel. Entries that the answer does not know are left out."""
    result = {}
    for name, values in found.values.items():
        want = getattr(answer, name)
        asked = np.isfinite(want) & (found.single if want.ndim == 2 else True)
        if want.ndim == 2:
            asked &= np.tri(len(want), dtype=bool)
        x, scale = values[:, asked], np.abs(want[asked]).max()
        gap, error = x.mean(axis=0) - want[asked], x.std(axis=0, ddof=1) / math.sqrt(len(x))
        noisy = error > NOISELESS * scale
        result[name] = Score(gap[noisy] / error[noisy], float(np.abs(gap[~noisy]).max(initial=0.0) / scale))
    return result


def largest_bound(replicas: int, entries: int) -> float:
    """Of |z| over all entries, however they depend on each other: Student's law and the sum of probabilities."""
    return float(stats.t.isf(CHANCE / (2 * max(entries, 1)), replicas - 1))


def rms_bound(replicas: int) -> float:
    """Of the root mean square of z over entries, however they depend on each other: P(rms > b) <= <t^2k>/b^2k for every k, because
    the k-th power is convex; the best k is taken."""
    freedom = replicas - 1
    k = np.arange(1, (freedom + 1) // 2)
    log_moment = k * np.log(freedom) + [math.lgamma(j + 0.5) + math.lgamma(freedom / 2 - j) for j in k]
    log_moment -= math.lgamma(0.5) + math.lgamma(freedom / 2)
    return float(np.exp((log_moment - np.log(CHANCE)) / (2 * k)).min())


def disagreements(found: Found, answer: Answer, exact: float = 1e-9) -> list[str]:
    """Curves and kernels that are further from the answer than chance allows, in words; exact: what entries without noise may be
    off by."""
    wrong, replicas = [], len(found.values["m"])
    for name, (z, gap) in scores(found, answer).items():
        largest, rms = np.abs(z).max(initial=0.0), math.sqrt((z**2).mean()) if len(z) else 0.0
        if largest > largest_bound(replicas, len(z)) or rms > rms_bound(replicas) or gap > exact:
            wrong.append(f"{name}: |z| up to {largest:.1f}, rms {rms:.1f}, {gap:.1e} where there is no noise")
    return wrong
