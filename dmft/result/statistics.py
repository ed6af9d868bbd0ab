"""Replicas added up: means and standard errors of curves and kernels. Knows no files and no ranks.

Replicas enter in order of their index, whatever rank computed them, so that results do not depend on the ranks.
Curves of every replica are kept; of the kernels only mean and summed squares (Welford), because they are large.
"""

from __future__ import annotations

import numpy as np

from dmft.core.averages import standard_error, welford_error


class Ensemble:
    """Finished replicas of one run."""

    def __init__(self) -> None:
        self.curves: dict[str, list[np.ndarray]] = {}
        self.half_m: list[np.ndarray] = []
        self.residuals: list[np.ndarray] = []
        self.outcomes: list[str] = []
        self.kernel_mean: dict[str, np.ndarray] = {}
        self.kernel_squares: dict[str, np.ndarray] = {}

    @property
    def count(self) -> int:
        return len(self.half_m)

    def add(self, solution: dict[str, np.ndarray], outcome: str) -> None:
        """Enter the next replica."""
        for name, array in solution.items():
            kind, _, key = name.partition("/")
            if kind == "curves":
                self.curves.setdefault(key, []).append(array)
            elif kind == "kernels":
                self._add_kernel(key, array)
        self.half_m.append(solution["half_m"])
        if "residuals" in solution:
            self.residuals.append(solution["residuals"])
        self.outcomes.append(outcome)

    def _add_kernel(self, name: str, array: np.ndarray) -> None:
        mean = self.kernel_mean.setdefault(name, np.zeros_like(array))
        squares = self.kernel_squares.setdefault(name, np.zeros_like(array))
        gap = array - mean
        mean += gap / (self.count + 1)
        squares += gap * (array - mean)

    def mean(self, name: str) -> np.ndarray:
        return np.mean(self.curves[name], axis=0)

    def error(self, name: str) -> np.ndarray:
        return standard_error(np.array(self.curves[name]))

    def kernel_error(self, name: str) -> np.ndarray:
        return welford_error(self.kernel_squares[name], self.count)

    def bias(self) -> tuple[np.ndarray, np.ndarray]:
        """Estimated bias of m at the sample count used, and its error. A bias c/K makes half the samples differ by
        c/K: bias(K) = <m at K/2> - <m at K>."""
        gap = np.array(self.half_m) - np.array(self.curves["m"])
        return gap.mean(axis=0), standard_error(gap)

    def state(self) -> dict[str, np.ndarray]:
        """Plain arrays from which `restore` makes the same ensemble."""
        arrays = {f"replicas/{name}": np.array(values) for name, values in self.curves.items()}
        arrays |= {f"state/{name}_mean": array for name, array in self.kernel_mean.items()}
        arrays |= {f"state/{name}_squares": array for name, array in self.kernel_squares.items()}
        arrays["replicas/half_m"] = np.array(self.half_m)
        if self.residuals:
            longest = max(map(len, self.residuals))
            table = [np.pad(r, (0, longest - len(r)), constant_values=np.nan) for r in self.residuals]
            arrays["history"] = np.array(table).T
        return arrays

    def restore(self, arrays: dict[str, np.ndarray], outcomes: list[str]) -> None:
        self.outcomes = list(outcomes)
        for name, array in arrays.items():
            if name == "replicas/half_m":
                self.half_m = list(array)
            elif name.startswith("replicas/"):
                self.curves[name.removeprefix("replicas/")] = list(array)
            elif name.startswith("state/") and name.endswith("_mean"):
                self.kernel_mean[name.removeprefix("state/").removesuffix("_mean")] = array.copy()
            elif name.startswith("state/") and name.endswith("_squares"):
                self.kernel_squares[name.removeprefix("state/").removesuffix("_squares")] = array.copy()
            elif name == "history":
                self.residuals = [line[~np.isnan(line)] for line in array.T]
