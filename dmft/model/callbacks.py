"""What a callback is told while a run continues."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np


class Reached(NamedTuple):
    """How far a run has come. The first three are all that many plots need: `t, m, loss, *rest = reached`."""

    t: float                            # the time reached
    m: float | np.ndarray               # overlap with the teacher there; a matrix for a network
    loss: float                         # training loss there
    times: np.ndarray                   # (count,) all times so far
    curves: Mapping[str, np.ndarray]    # by name at these times, read-only: (count,), in a simulation (instances, count)
    worker: int                         # index of the replica of a theory; 0 in a simulation
    share: float                        # share of the whole job that is done, 0 to 1


Callback = Callable[[Reached], object]


def read_only(array: np.ndarray) -> np.ndarray:
    """A view that cannot be written through: the run continues from these very numbers."""
    view = array.view()
    view.flags.writeable = False
    return view
