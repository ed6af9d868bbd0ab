"""How a checkpoint packs samples (core/packing.py): their past, block after block in order of time. Slots that hold nothing, and
their rows of tangents, are left out: on the CPU they are zero, on a card they keep what they had, which nobody reads."""

from __future__ import annotations

import numpy as np

from dmft.core.packing import Guide
from dmft.equations.history import History


def guide_of_past(history: History) -> Guide:
    """Of arrays (lines, slots): each slot is a row."""
    return _guide(history, history.order, np.ones(len(history.order), np.int64))


def guide_of_tangents(history: History) -> Guide:
    """Of tangents (lines, packed)."""
    return _guide(history, history.offset[history.order], history.stop[history.order])


def _guide(history: History, begin: np.ndarray, length: np.ndarray) -> Guide:
    return Guide.through(begin, length, history.size[history.order], history.centres())
