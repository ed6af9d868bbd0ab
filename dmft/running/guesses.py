"""First guesses of the iteration from known kernels: those of a result file, or of the finished replicas of a checkpoint."""

from __future__ import annotations

import numpy as np

from dmft.core.errors import RunError
from dmft.model.data import make_start
from dmft.model.runfile import Run
from dmft.result.statistics import ReplicaStatistics
from dmft.result.theory import Theory
from dmft.solvers.guess import Guess


def guess_from(theory: Theory, run: Run) -> Guess:
    """The kernels of a result as the first guess of a run at the same learning rate; a longer run repeats the last row."""
    known = min(theory.run.algorithm.steps, run.algorithm.steps)
    if not np.array_equal(theory.run.algorithm.clock.eta[:known], run.algorithm.clock.eta[:known]):
        raise RunError(f"[theory] start_from: {run.theory.start_from} has learning_rate "
                       f"{theory.run.algorithm.rate_text}, this run {run.algorithm.rate_text}; they must agree")
    if len(theory.kernels.t) != len(theory.t):
        raise RunError(f"[theory] start_from: {run.theory.start_from} keeps its kernels on a subset of its times; "
                       'solve it with history = "full" and theory.kernel_points at least its number of steps + 1')
    return _guess(run, theory.delta_nu, theory.mu, theory.kernels.M_C, theory.kernels.M_R, theory.b)


def guess_of(statistics: ReplicaStatistics, run: Run) -> Guess:
    """Mean kernels of the finished replicas of the same run."""
    kernels = statistics.kernels.mean
    return _guess(run, statistics.mean("delta_nu"), statistics.mean("mu"), kernels["M_C"], kernels["M_R"],
                  statistics.mean("b") if run.problem.bias else None)


def _guess(run: Run, delta_nu: np.ndarray, mu: np.ndarray, M_C: np.ndarray, M_R: np.ndarray, b: np.ndarray | None
           ) -> Guess:
    """The guess of a run from curves and kernels of perhaps another length, cut or padded. b: the intercept, where one is
    learnt."""
    if make_start(run.problem).spectral:
        raise RunError('[problem] start = "spectral": the kernels of its power iteration are not in a result, so the iteration '
                       "begins with its own first guess; leave out theory.start_from, and give max_sweeps from the beginning")
    rows, eta = run.algorithm.steps + 1, run.algorithm.clock.eta

    def padded(array: np.ndarray) -> np.ndarray:
        array = array[tuple(slice(0, rows) for _ in array.shape)]
        return np.pad(array, [(0, rows - len(array))] * array.ndim, mode="edge")

    push = None
    if run.problem.bias:  # <(s/l) v'> that moved b as it moved; 0 where the kernels come from a run without an intercept
        moved = np.zeros(2) if b is None else b[:rows]
        push = padded(-np.diff(moved) / (eta[:len(moved) - 1] * run.problem.alpha))
    step = np.append(eta, eta[-1])
    return Guess(padded(delta_nu), padded(mu), np.tril(padded(M_C)), np.tril(padded(M_R) * step, -1), push=push)
