"""Samples under Nesterov's momentum: gradients are taken at y_n = w_n + beta_n (w_n - w_{n-1}). Eq. [momentum].

All that samples keep belongs to y. One row more belongs to the present weights w_n; the ordinary step from y makes that of w_{n+1},
and `turn` makes row n+1 of y of the two. Whole arrays on either device: no other run pays for it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class Behind(NamedTuple):
    """The present weights of the samples. Arrays of the device that the samples are on."""

    h: Any  # (count,)
    Y: Any  # (count,) response to h0 through the label
    row: Any  # (carriers, slots) tangents

    def turn(self, h: Any, Y: Any, row: Any, merges: np.ndarray, beta: float) -> None:
        """Fields, responses and tangents of w_{n+1}, as the step from y_n made them, become those of y_{n+1}, in place; merges:
        blocks of the history that became one in `row`, and here have not yet."""
        for older, newer, into in merges:
            self.row[:, into] = self.row[:, older] + self.row[:, newer]
            self.row[:, older] = 0
            self.row[:, newer] = 0
        for ahead, behind in ((h, self.h), (Y, self.Y), (row, self.row)):
            weights = ahead.copy()
            ahead[...] = (1 + beta) * weights - beta * behind
            behind[...] = weights

    def arrays(self) -> dict[str, Any]:
        """What a checkpoint holds with a line per sample."""
        return {"behind/h": self.h, "behind/Y": self.Y}
