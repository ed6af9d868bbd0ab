"""What the iteration (iterate.py) begins with and mixes: all rows of the kernels; the paper's appendix A.1 guesses them first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dmft.equations.weights import Row
from dmft.model.experiment import Experiment


@dataclass(frozen=True)
class Guess:
    """All rows of the kernels: delta_nu, mu (steps+1,); M_C, K_R = eta_k M_R (steps+1, steps+1), lower triangles.
    m is given only in the first sweep, where the paper holds it constant; push, <(s/l) v'> (steps+1,), where an intercept is
    learnt."""

    delta_nu: np.ndarray
    mu: np.ndarray
    M_C: np.ndarray
    K_R: np.ndarray
    m: np.ndarray | None = None
    push: np.ndarray | None = None

    @property
    def parts(self) -> tuple[str, ...]:
        """What a sweep finds anew."""
        return ("delta_nu", "mu", "M_C", "K_R") + (() if self.push is None else ("push",))

    def arrays(self) -> dict[str, np.ndarray]:
        """What a checkpoint holds of it."""
        given = {} if self.m is None else {"m": self.m}
        return {name: getattr(self, name) for name in self.parts} | given

    def zeros(self) -> Guess:
        """The same parts, empty."""
        return Guess(**{name: np.zeros_like(getattr(self, name)) for name in self.parts})

    def row(self, n: int, slots: int) -> Row:
        """Row n over the slots of a full history."""
        def past(kernel: np.ndarray) -> np.ndarray:
            line = np.zeros(slots)
            line[:n] = kernel[n, :n]
            return line

        return Row(self.delta_nu[n], self.mu[n], self.M_C[n, n], past(self.M_C), past(self.K_R))

    def mixed(self, new: Guess, weight: float, upto: int) -> Guess:
        """`weight` of the new kernels in rows below `upto`, the old ones beyond."""
        parts = {}
        for name in self.parts:
            old = getattr(self, name).copy()
            old[:upto] = (1 - weight) * old[:upto] + weight * getattr(new, name)[:upto]
            parts[name] = old
        return Guess(**parts)


def distance(old: Guess, new: Guess, upto: int) -> float:
    """Largest relative change |new - old| / |new| (Frobenius) over all parts in rows below `upto`."""
    worst = 0.0
    for name in new.parts:
        a, b = getattr(old, name)[:upto], getattr(new, name)[:upto]
        norm, change = float(np.linalg.norm(b)), float(np.linalg.norm(b - a))
        worst = max(worst, change / norm if norm > 0 else change)
    return worst


def starting_guess(experiment: Experiment, first: Row) -> Guess:
    """The paper's first guess: m = m0, M_R = 0, M_C(t,t) = M_C(0,0), a tenth of it off the diagonal, delta_nu and mu as at t = 0,
    and an intercept that stays 0. first: row 0."""
    n = experiment.steps + 1
    M_C = np.tril(np.full((n, n), 0.1 * first.M_C_now))
    np.fill_diagonal(M_C, first.M_C_now)
    return Guess(np.full(n, first.delta_nu), np.full(n, first.mu), M_C, np.zeros((n, n)), np.full(n, experiment.m0),
                 np.zeros(n) if experiment.data.bias else None)
