"""Samples of a committee under rules that look ahead, on either device, as samples/nesterov.py for one unit. Eq. [momentum]."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dmft.committee.weights import UnitDrive, wide
from dmft.equations.recursion import merge_columns


class UnitsAtWeights(NamedTuple):
    """Fields, responses and tangents that belong to the present weights w_n; unit is their second or last but one index."""

    h: Any  # (count, p)
    Y: Any  # (count, k, p) response to kappa through the label
    row: Any  # (carriers, p, slots c) tangents

    def look_ahead(self, h: Any, Y: Any, row: Any, merges: np.ndarray, columns: int,
                   beta: float, drive: UnitDrive) -> None:
        """Turn h, Y and row from those of w_{n+1}, as the step from y_n made them without drift, into those of y_{n+1}, in place.
        merges: blocks of the history that are merged in `row` already, and in self.row not yet; columns: c."""
        merge_columns(self.row, wide(merges, columns))
        for ahead, behind, unit in ((h, self.h, 1), (Y, self.Y, 2), (row, self.row, 1)):
            ahead, behind = ahead.swapaxes(0, unit), behind.swapaxes(0, unit)  # views
            weights = ahead.copy()
            if drive.drift:
                for r, q in np.ndindex(drive.A.shape):
                    weights[r] += drive.drift * float(drive.A[r, q]) * behind[q]
            ahead[...] = (1 + beta) * weights - beta * behind  # [momentum]
            behind[...] = weights
