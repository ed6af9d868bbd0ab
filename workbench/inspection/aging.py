"""Which waiting times the aging views show."""

from __future__ import annotations

import numpy as np

from dmft.result.theory import Columns


def shown_waiting_times(columns: Columns, count: int = 5) -> list[int]:
    """Indices of the first waiting time and of others, evenly spread over those up to half of the time that was reached."""
    reached = columns.t[np.isfinite(columns.C).any(axis=1)]
    early = np.flatnonzero(columns.t_w <= (reached[-1] / 2 if reached.size else 0.0))
    return list(np.unique(early[np.linspace(0, early.size - 1, count).round().astype(int)])) if early.size else [0]
