"""How a finished march continues to a later end: its arrays in the layout of a longer history. Eq. [dyadic].

A slot keeps its place among the settled ones or within its level; a longer history may have more of either.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dmft.equations.history import History
from dmft.equations.kernels import Kept

IN_ORDER_OF_TIME = ("factor", "ridge")  # matrices of the weights that are not over slots


class Longer:
    """Where the arrays of a march with history `old` lie in one with history `new`."""

    def __init__(self, old: History, new: History):
        self.old, self.new = old, new
        self.slot = np.arange(old.slots)
        for low, width, into in zip(old.layout.lows, old.layout.widths, new.layout.lows):
            self.slot[low : low + width] = into + np.arange(width)

    def vectors(self, array: np.ndarray) -> np.ndarray:
        """Arrays (..., slots)."""
        result = np.zeros((*array.shape[:-1], self.new.slots), array.dtype)
        result[..., self.slot] = array
        return result

    def packed(self, T: np.ndarray) -> np.ndarray:
        """Tangents (lines, packed)."""
        result = np.zeros((len(T), self.new.packed), T.dtype)
        for i, into in enumerate(self.slot):
            columns = self.slot[: self.old.stop[i]]
            result[:, self.new.offset[into] + columns] = T[:, self.old.offset[i] : self.old.offset[i] + len(columns)]
        return result

    def weights(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The arrays of a WeightState."""
        result = {}
        for name, array in arrays.items():
            if array.shape == (0, 0):
                result[name] = array
            elif array.ndim == 2 and name in IN_ORDER_OF_TIME:
                result[name] = np.zeros((self.new.slots, self.new.slots))
                result[name][: len(array), : len(array)] = array
            elif array.ndim == 2:
                result[name] = self.vectors(self.vectors(array).T).T
            else:
                result[name] = self.vectors(array) if array.shape == (self.old.slots,) else array
        return result

    def history(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The arrays of a History."""
        return {"first": self.vectors(arrays["first"]), "size": self.vectors(arrays["size"]), "order": self.slot[arrays["order"]]}

    def per_sample(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Arrays with a line per sample; those over slots are lengthened."""
        return {name: self.vectors(array) if array.ndim == 2 and array.shape[1] == self.old.slots else array
                for name, array in arrays.items()}

    def per_tangent(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Arrays with a line per sample with tangents."""
        return {name: self.packed(array) if name == "T" else self.vectors(array) for name, array in arrays.items()}


def lengthened(found: Mapping[str, Any], steps: int, kept: Kept, longer: Longer,
               empty: tuple[dict[str, np.ndarray], dict[str, np.ndarray]]) -> dict[str, Any]:
    """The part of a march's state that all ranks share, for a run of `steps` visible steps that keeps these entries of kernels.
    empty: maps and columns of that run, to be filled."""
    def curve(array: np.ndarray) -> np.ndarray:
        """A curve with NaN at the steps to come."""
        return np.concatenate((array, np.full((steps + 1 - len(array), *array.shape[1:]), np.nan)))

    def placed(arrays: Mapping[str, np.ndarray], into: dict[str, np.ndarray], *axes: str) -> dict[str, np.ndarray]:
        """Arrays over two axes of steps, on those of the longer run."""
        shared = [np.intersect1d(found["kept"][axis], getattr(kept, axis), return_indices=True)[1:] for axis in axes]
        for name, array in arrays.items():
            into[name][np.ix_(*(there for _, there in shared))] = array[np.ix_(*(here for here, _ in shared))]
        return into

    maps, columns = empty
    rows = {name: curve(longer.vectors(array) if array.ndim == 2 else array)
            for name, array in found.get("random_start", {}).items()}
    return {**found, "random_start": rows,
            "weights": longer.weights(found["weights"]), "history": longer.history(found["history"]),
            "kernels": placed(found["kernels"], maps, "grid", "grid"),
            "columns": placed(found["columns"], columns, "times", "waiting"),
            "curves": {name: curve(array) for name, array in found["curves"].items()}}
