"""Samples of a committee under rules that look ahead, as samples/nesterov.py has them for one unit. Eq. [momentum]."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dmft.committee.weights import UnitDrive, wide
from dmft.equations.recursion import merge_columns


class UnitsAtWeights(NamedTuple):
    """Fields, responses and tangents that belong to the present weights w_n; unit is their second or last but one index."""

    h: np.ndarray  # (count, p)
    Y: np.ndarray  # (count, k, p) response to kappa through the label
    row: np.ndarray  # (carriers, p, slots c) tangents

    def look_ahead(self, h: np.ndarray, Y: np.ndarray, row: np.ndarray, merges: np.ndarray, columns: int,
                   beta: float, drive: UnitDrive) -> None:
        """Turn h, Y and row from those of w_{n+1}, as the step from y_n made them without drift, into those of y_{n+1}, in place.
        merges: blocks of the history that are merged in `row` already, and in self.row not yet; columns: c."""
        merge_columns(self.row.reshape(-1, self.row.shape[2]), wide(merges, columns))
        for ahead, behind, units in ((h, self.h, "rq,iq->ir"), (Y, self.Y, "rq,itq->itr"), (row, self.row, "rq,iqj->irj")):
            weights = ahead + drive.drift * np.einsum(units, drive.A, behind) if drive.drift else ahead.copy()
            ahead[...] = (1 + beta) * weights - beta * behind
            behind[...] = weights
