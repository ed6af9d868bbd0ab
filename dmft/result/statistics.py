"""Means and standard errors of curves and kernels over replicas, and of what companions tell. Knows no files and no ranks.

Averages run over the replicas that did not diverge; where all diverged, over all of them, as far as they came.

Replicas are added in order of their index, whichever rank computed them, so that results do not depend on the ranks.
Curves of every replica are kept; of everything else only mean and summed squares (Welford), because they are large.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dmft.core.averages import standard_error, welford_error
from dmft.core.tree import flatten, nest
from dmft.files.layouts import DETERMINISTIC, TOLD

DIVERGED = "diverged"
COLUMN = "columns/"  # before the names of kernels at waiting times
BIAS, HISTORY_ERROR = TOLD
OUTCOMES = ("done", "converged", "noise floor", "sweep limit", DIVERGED, DETERMINISTIC)
Arrays = Mapping[str, np.ndarray]


def finite_sample_bias(whole: Arrays, half: Arrays) -> dict[str, np.ndarray]:
    """Estimated bias at the sample count used, of all that two solutions have. If the bias of K samples is c/K, that of K/2 is
    2c/K, and the difference is c/K again: the value at K/2 less that at K."""
    return {name: half[name] - whole[name] for name in whole if name in half}


def history_error(half: Arrays, coarse: Arrays) -> dict[str, np.ndarray]:
    """Estimated error by the blocks of the history, of all that two solutions have. If the error of q blocks a level falls as 1/q^2
    at least, it is at most a third of the change from q to q/2."""
    return {name: (coarse[name] - half[name]) / 3 for name in half if name in coarse}


@dataclass(frozen=True)
class Solution:
    """What the statistics take from a finished replica."""

    curves: Arrays                          # each (n+1,)
    kernels: Arrays                         # maps (P, P), and columns (L, J) under names that begin with COLUMN
    told: Mapping[str, Arrays]              # BIAS and HISTORY_ERROR: estimates for curves and columns, where companions were solved
    outcome: str                            # one of OUTCOMES
    residuals: np.ndarray | None = None     # iterate: one per sweep
    random_start: Arrays = field(default_factory=dict)    # rows of K1, Z and a, as OverlapRows

    def arrays(self) -> dict[str, Any]:
        """Nested plain arrays, for `from_arrays`."""
        arrays: dict[str, Any] = {"curves": dict(self.curves), "kernels": dict(self.kernels),
                                  "told": {what: dict(estimates) for what, estimates in self.told.items()},
                                  "outcome": np.array(OUTCOMES.index(self.outcome))}
        if self.random_start:
            arrays["random_start"] = dict(self.random_start)
        return arrays if self.residuals is None else arrays | {"residuals": self.residuals}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> Solution:
        """From nested or flat names."""
        found = nest(arrays)
        estimates = {what: flatten(told) for what, told in found.get("told", {}).items()}
        return cls(found["curves"], flatten(found["kernels"]), estimates,
                   OUTCOMES[int(found["outcome"])], found.get("residuals"), found.get("random_start", {}))


@dataclass
class RunningMeans:
    """Mean and summed squares of arrays over repetitions, by Welford: over those that came to their end; as long as none did, over
    all of them, as far as they came."""

    mean: dict[str, np.ndarray] = field(default_factory=dict)
    squares: dict[str, np.ndarray] = field(default_factory=dict)
    count: int = 0
    ended: bool = False  # whether those counted came to their end

    def add(self, arrays: Arrays, ended: bool) -> None:
        """Add the next repetition."""
        if ended and not self.ended:
            self.mean, self.squares, self.count, self.ended = {}, {}, 0, True
        if self.ended and not ended:
            return
        self.count += 1
        for name, array in arrays.items():
            unknown = 0.0 if self.count == 1 else np.nan  # to repetitions of an older file
            mean = self.mean.setdefault(name, np.full_like(array, unknown))
            squares = self.squares.setdefault(name, np.full_like(array, unknown))
            gap = array - mean
            mean += gap / self.count
            squares += gap * (array - mean)

    def error(self, name: str) -> np.ndarray:
        """Standard error of a mean."""
        return welford_error(self.squares[name], self.count)

    def with_errors(self, names: Iterable[str] | None = None, prefix: str = "") -> dict[str, np.ndarray]:
        """Means and standard errors by name; of all that there are, or of some whose names begin with a prefix here."""
        names = list(self.mean) if names is None else list(names)
        return ({name: self.mean[prefix + name] for name in names}
                | {f"{name}_error": self.error(prefix + name) for name in names})

    def arrays(self) -> dict[str, np.ndarray]:
        """Plain arrays, for `from_arrays`."""
        return ({f"{name}_mean": array for name, array in self.mean.items()}
                | {f"{name}_squares": array for name, array in self.squares.items()}
                | {"count": np.array([self.count, self.ended], np.int64)})

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> RunningMeans:
        """From nested or flat names."""
        found = flatten(arrays)
        count, ended = found.pop("count")
        mean, squares = ({name.removesuffix(ending): array.copy() for name, array in found.items() if name.endswith(ending)}
                         for ending in ("_mean", "_squares"))
        return cls(mean, squares, int(count), bool(ended))


def averaged(outcomes: Sequence[str]) -> np.ndarray:
    """(replicas,) bool: the replicas that averages run over."""
    ended = np.array([outcome != DIVERGED for outcome in outcomes], bool)
    return ended if ended.any() else np.ones_like(ended)


@dataclass
class ReplicaStatistics:
    """Finished replicas of one run."""

    curves: dict[str, list[np.ndarray]] = field(default_factory=dict)
    residuals: list[np.ndarray] = field(default_factory=list)
    outcomes: list[str] = field(default_factory=list)
    kernels: RunningMeans = field(default_factory=RunningMeans)
    told: dict[str, RunningMeans] = field(default_factory=dict)  # BIAS, HISTORY_ERROR, of replicas that have both solutions
    random_start: dict[str, list[np.ndarray]] = field(default_factory=dict)
    snapshots: dict[str, list[np.ndarray]] = field(default_factory=dict)    # of all samples, as samples/snapshots.py

    @property
    def count(self) -> int:
        return len(self.outcomes)

    @property
    def diverged(self) -> int:
        return self.outcomes.count(DIVERGED)

    def chosen(self, curves: Sequence[np.ndarray] | np.ndarray) -> np.ndarray:
        """(chosen, n+1): a curve of the replicas that averages run over."""
        return np.array(curves)[averaged(self.outcomes)]

    def add(self, solution: Solution, snapshots: Arrays | None = None) -> None:
        """Add the next replica, and what it kept of its samples.
        A curve that earlier replicas lack (those of an older file) is NaN for them."""
        for name, curve in solution.curves.items():
            self.curves.setdefault(name, [np.full_like(curve, np.nan)] * self.count).append(curve)
        self.kernels.add(solution.kernels, solution.outcome != DIVERGED)
        for what, estimates in solution.told.items():  # a companion may diverge alone
            self.told.setdefault(what, RunningMeans()).add(estimates, bool(np.isfinite(estimates["m"]).all()))
        for name, rows in solution.random_start.items():
            self.random_start.setdefault(name, []).append(rows)
        for name, lines in (snapshots or {}).items():
            self.snapshots.setdefault(name, []).append(lines)
        if solution.residuals is not None:
            self.residuals.append(solution.residuals)
        self.outcomes.append(solution.outcome)

    def mean(self, name: str) -> np.ndarray:
        return np.mean(self.chosen(self.curves[name]), axis=0)

    def error(self, name: str) -> np.ndarray:
        return standard_error(self.chosen(self.curves[name]))

    def estimates(self, what: str) -> dict[str, np.ndarray]:
        """BIAS or HISTORY_ERROR of curves and columns, each with its error under the name with _error; {} where no companion was
        solved."""
        return self.told[what].with_errors() if what in self.told else {}

    def arrays(self) -> dict[str, Any]:
        """Nested plain arrays, for `from_arrays`; replicas, state and history have the layout of a result file."""
        arrays: dict[str, Any] = {
            "replicas": {name: np.array(values) for name, values in self.curves.items()},
            "state": {**self.kernels.arrays(), **{what: means.arrays() for what, means in self.told.items()}},
            "outcomes": np.array([OUTCOMES.index(outcome) for outcome in self.outcomes], np.int64)}
        if self.random_start:
            arrays["random_start"] = {name: np.array(rows) for name, rows in self.random_start.items()}
        if self.snapshots:
            arrays["snapshots"] = {name: np.array(lines) for name, lines in self.snapshots.items()}
        if self.residuals:
            longest = max(map(len, self.residuals))
            table = [np.pad(r, (0, longest - len(r)), constant_values=np.nan) for r in self.residuals]
            arrays["history"] = np.array(table).T
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any], outcomes: Sequence[str] | None = None) -> ReplicaStatistics:
        """From nested or flat names. outcomes: given where the arrays do not hold them."""
        found = nest(arrays)
        state = dict(found["state"])
        if outcomes is None:
            outcomes = [OUTCOMES[int(code)] for code in found["outcomes"]]
        return cls(
            curves={name: list(values) for name, values in found["replicas"].items()}, outcomes=list(outcomes),
            residuals=[line[~np.isnan(line)] for line in found["history"].T] if "history" in found else [],
            told={what: RunningMeans.from_arrays(state.pop(what)) for what in (BIAS, HISTORY_ERROR) if what in state},
            kernels=RunningMeans.from_arrays(state),
            random_start={name: list(rows) for name, rows in found.get("random_start", {}).items()},
            snapshots={name: list(lines) for name, lines in found.get("snapshots", {}).items()})
