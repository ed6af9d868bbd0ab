"""How a finished march of a committee continues to a later end, as solvers/longer.py for one unit: every slot has p entries."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dmft.equations.history import History
from dmft.solvers.longer import IN_ORDER_OF_TIME, Longer

OVER_PAIRS = ("Q", "R", "M_C")  # of UnitState, over pairs of slots
OVER_SLOTS = ("Q_row", "R_row", "Qw_row", "Rw_row", "m_past", "jitter")  # of UnitState, over slots


class UnitLonger(Longer):
    """Where the arrays of a march with history `old` lie in one with history `new`; columns: c of the tangents (tangents.py)."""

    def __init__(self, old: History, new: History, units: int, columns: int):
        super().__init__(old, new)
        self.units, self.columns = units, columns

    def wide(self, array: np.ndarray, width: int) -> np.ndarray:
        """Arrays (..., slots width)."""
        if array.shape[-1] == 0:
            return array
        found = self.vectors(np.moveaxis(array.reshape(*array.shape[:-1], self.old.slots, width), -1, -2))
        return np.ascontiguousarray(np.moveaxis(found, -1, -2)).reshape(*array.shape[:-1], self.new.slots * width)

    def packed(self, T: np.ndarray) -> np.ndarray:
        """Tangents (lines, packed p c)."""
        p, c = self.units, self.columns
        result = np.zeros((len(T), self.new.packed * p * c), T.dtype)
        for i, into in enumerate(self.slot):
            stop, begin, to = self.old.stop[i], self.old.offset[i] * p * c, self.new.offset[into] * p * c
            rows = T[:, begin : begin + p * stop * c].reshape(len(T), p, stop, c)
            place = result[:, to : to + p * self.new.stop[into] * c].reshape(len(T), p, self.new.stop[into], c)  # a view
            place[:, :, self.slot[:stop]] = rows
        return result

    def weights(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The arrays of a UnitState."""
        result, p, size = dict(arrays), self.units, self.new.slots * self.units
        for name in OVER_SLOTS:
            result[name] = self.wide(arrays[name], p)
        for name in OVER_PAIRS:
            result[name] = self.wide(np.ascontiguousarray(self.wide(arrays[name], p).T), p).T
        for name in IN_ORDER_OF_TIME:
            result[name] = np.zeros((size, size))
            result[name][: len(arrays[name]), : len(arrays[name])] = arrays[name]
        return result

    def per_sample(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {name: self.wide(array, self.units) if name.startswith("past/") else array for name, array in arrays.items()}

    def per_tangent(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {name: self.packed(array) if name == "T" else self.wide(array, self.columns) for name, array in arrays.items()}
