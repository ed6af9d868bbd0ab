"""Means and standard errors of curves and kernels over replicas. Knows no files and no ranks.

Averages run over the replicas that did not diverge; where all diverged, over all of them, as far as they came.

Replicas are added in order of their index, whichever rank computed them, so that results do not depend on the ranks.
Curves of every replica are kept; of the kernels only mean and summed squares (Welford), because they are large.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dmft.core.averages import mean_and_error, standard_error, welford_error
from dmft.core.tree import nest

DIVERGED = "diverged"
COLUMN = "column_"  # before the names of kernels at waiting times
OUTCOMES = ("done", "converged", "noise floor", "sweep limit", DIVERGED)


@dataclass(frozen=True)
class Solution:
    """What the statistics take from a finished replica."""

    curves: Mapping[str, np.ndarray]        # each (n+1,)
    kernels: Mapping[str, np.ndarray]       # maps (P, P), and columns (L, J) under names that begin with COLUMN
    half_m: np.ndarray                      # m of the solution with half the samples, (n+1,)
    outcome: str                            # one of OUTCOMES
    residuals: np.ndarray | None = None     # iterate: one per sweep
    random_start: Mapping[str, np.ndarray] = field(default_factory=dict)    # rows of K1, Z and a, as TeacherRows
    coarse_m: np.ndarray | None = None      # m with half the samples and half the blocks of the history, where that was solved

    def arrays(self) -> dict[str, Any]:
        """Nested plain arrays, for `from_arrays`."""
        arrays: dict[str, Any] = {"curves": dict(self.curves), "kernels": dict(self.kernels), "half_m": self.half_m,
                                  "outcome": np.array(OUTCOMES.index(self.outcome))}
        if self.random_start:
            arrays["random_start"] = dict(self.random_start)
        if self.coarse_m is not None:
            arrays["coarse_m"] = self.coarse_m
        return arrays if self.residuals is None else arrays | {"residuals": self.residuals}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> Solution:
        """From nested or flat names."""
        found = nest(arrays)
        return cls(found["curves"], found["kernels"], found["half_m"], OUTCOMES[int(found["outcome"])], found.get("residuals"),
                   found.get("random_start", {}), found.get("coarse_m"))


def averaged(outcomes: Sequence[str]) -> np.ndarray:
    """(replicas,) bool: the replicas that averages run over."""
    ended = np.array([outcome != DIVERGED for outcome in outcomes], bool)
    return ended if ended.any() else np.ones_like(ended)


@dataclass
class ReplicaStatistics:
    """Finished replicas of one run."""

    curves: dict[str, list[np.ndarray]] = field(default_factory=dict)
    half_m: list[np.ndarray] = field(default_factory=list)
    coarse_m: list[np.ndarray] = field(default_factory=list)  # NaN for replicas without this companion
    residuals: list[np.ndarray] = field(default_factory=list)
    outcomes: list[str] = field(default_factory=list)
    kernel_mean: dict[str, np.ndarray] = field(default_factory=dict)
    kernel_squares: dict[str, np.ndarray] = field(default_factory=dict)
    random_start: dict[str, list[np.ndarray]] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return len(self.half_m)

    @property
    def diverged(self) -> int:
        return self.outcomes.count(DIVERGED)

    def chosen(self, curves: Sequence[np.ndarray] | np.ndarray) -> np.ndarray:
        """(chosen, n+1): a curve of the replicas that averages run over."""
        return np.array(curves)[averaged(self.outcomes)]

    def add(self, solution: Solution) -> None:
        """Add the next replica. A curve that earlier replicas lack (those of an older file) is NaN for them."""
        for name, curve in solution.curves.items():
            self.curves.setdefault(name, [np.full_like(curve, np.nan)] * self.count).append(curve)
        none_before = self.diverged == self.count
        if none_before and solution.outcome != DIVERGED:
            self.kernel_mean, self.kernel_squares = {}, {}  # drop those of replicas that diverged
        if none_before or solution.outcome != DIVERGED:
            before = self.count if solution.outcome == DIVERGED else self.count - self.diverged
            for name, kernel in solution.kernels.items():
                self._add_kernel(name, kernel, before)
        for name, rows in solution.random_start.items():
            self.random_start.setdefault(name, []).append(rows)
        self.half_m.append(solution.half_m)
        self.coarse_m.append(np.full_like(solution.half_m, np.nan) if solution.coarse_m is None else solution.coarse_m)
        if solution.residuals is not None:
            self.residuals.append(solution.residuals)
        self.outcomes.append(solution.outcome)

    def _add_kernel(self, name: str, array: np.ndarray, before: int) -> None:
        """Welford's update of mean and summed squares; before: number of replicas in them."""
        mean = self.kernel_mean.setdefault(name, np.zeros_like(array))
        squares = self.kernel_squares.setdefault(name, np.zeros_like(array))
        gap = array - mean
        mean += gap / (before + 1)
        squares += gap * (array - mean)

    def mean(self, name: str) -> np.ndarray:
        return np.mean(self.chosen(self.curves[name]), axis=0)

    def error(self, name: str) -> np.ndarray:
        return standard_error(self.chosen(self.curves[name]))

    def kernels(self, names: Sequence[str], prefix: str = "") -> dict[str, np.ndarray]:
        """Mean and standard error of some kernels, by name."""
        return ({name: self.kernel_mean[prefix + name] for name in names}
                | {f"{name}_error": self.kernel_error(prefix + name) for name in names})

    def kernel_error(self, name: str) -> np.ndarray:
        return welford_error(self.kernel_squares[name], int(averaged(self.outcomes).sum()))

    def bias(self) -> tuple[np.ndarray, np.ndarray]:
        """Estimated bias of m at the sample count used, and its error. If the bias of K samples is
        c/K, that of K/2 is 2c/K, and the difference is c/K again: bias(K) = <m at K/2> - <m at K>."""
        return self._mean_gap(self.half_m, self.curves["m"])

    def history_error(self) -> tuple[np.ndarray, np.ndarray]:
        """Estimated error of m by the blocks of the history, and the standard error of this estimate; NaN with a full history. If
        the error of q blocks a level falls as 1/q^2 at least, it is at most a third of the change from q to q/2."""
        gap, error = self._mean_gap(self.coarse_m, self.half_m)
        return gap / 3, error / 3

    def _mean_gap(self, these: Sequence[np.ndarray], those: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Mean difference of two curves over the replicas that have both to the end, and its error: a companion may diverge alone,
        or not be there."""
        gap = self.chosen(these) - self.chosen(those)
        whole = np.isfinite(gap).all(axis=1)
        return mean_and_error(gap[whole] if whole.any() else gap)

    def arrays(self) -> dict[str, Any]:
        """Nested plain arrays, for `from_arrays`; replicas, state and history have the layout of a result file."""
        arrays: dict[str, Any] = {
            "replicas": {name: np.array(values) for name, values in self.curves.items()}
            | {"half_m": np.array(self.half_m), "coarse_m": np.array(self.coarse_m)},
            "state": {f"{name}_mean": array for name, array in self.kernel_mean.items()}
            | {f"{name}_squares": array for name, array in self.kernel_squares.items()},
            "outcomes": np.array([OUTCOMES.index(outcome) for outcome in self.outcomes], np.int64)}
        if self.random_start:
            arrays["random_start"] = {name: np.array(rows) for name, rows in self.random_start.items()}
        if self.residuals:
            longest = max(map(len, self.residuals))
            table = [np.pad(r, (0, longest - len(r)), constant_values=np.nan) for r in self.residuals]
            arrays["history"] = np.array(table).T
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any], outcomes: Sequence[str] | None = None) -> ReplicaStatistics:
        """From nested or flat names. outcomes: given where the arrays do not hold them."""
        found = nest(arrays)
        curves = {name: list(values) for name, values in found["replicas"].items()}
        state = found.get("state", {})
        if outcomes is None:
            outcomes = [OUTCOMES[int(code)] for code in found["outcomes"]]
        return cls(
            half_m=curves.pop("half_m"), coarse_m=curves.pop("coarse_m"), curves=curves, outcomes=list(outcomes),
            residuals=[line[~np.isnan(line)] for line in found["history"].T] if "history" in found else [],
            kernel_mean={name.removesuffix("_mean"): array.copy() for name, array in state.items() if name.endswith("_mean")},
            kernel_squares={name.removesuffix("_squares"): array.copy() for name, array in state.items()
                            if name.endswith("_squares")},
            random_start={name: list(rows) for name, rows in found.get("random_start", {}).items()})

