"""Samples under rules that look ahead (Nesterov's): gradients are taken at y_n = w_n + l_n (w_n - w_{n-1}). Eq. [momentum].

Everything a sample stores belongs to y. One more row belongs to the present weights w_n: the ordinary step from y_n makes row n+1
of w, and `look_ahead` combines the two rows of w into row n+1 of y. It works on whole arrays on either device, so that other runs
have no extra work in their loops.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dmft.equations.recursion import merge_columns


class AtWeights(NamedTuple):
    """Fields, responses and tangents that belong to the present weights w_n. Arrays on the device of the samples."""

    h: Any  # (count,)
    Y: Any  # (count,) response to h0 through the label
    row: Any  # (carriers, slots) tangents

    def look_ahead(self, h: Any, Y: Any, row: Any, merges: np.ndarray, beta: float, drift: float) -> None:
        """Turn h, Y and row from those of w_{n+1}, as the step from y_n made them, into those of y_{n+1}, in place. merges: blocks
        of the history that are merged in `row` already, and in self.row not yet. drift: of a Drive; the step left it out."""
        merge_columns(self.row, merges)
        for ahead, behind in ((h, self.h), (Y, self.Y), (row, self.row)):
            weights = ahead + drift * behind if drift else ahead.copy()
            ahead[...] = (1 + beta) * weights - beta * behind  # [momentum]
            behind[...] = weights

    def arrays(self) -> dict[str, Any]:
        """What a checkpoint holds with a line per sample."""
        return {"behind/h": self.h, "behind/Y": self.Y}
