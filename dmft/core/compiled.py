"""Options of compiled functions that several modules share, and how a user's function is compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numba import njit
from numba.core.errors import NumbaError

from dmft.core.errors import UserError

# no_cfunc_wrapper: these functions are never called from C, and compile faster without that entry.
ENTRY: dict[str, Any] = {"cache": True, "no_cfunc_wrapper": True}
# Without Numba's runtime arrays and views are not counted, up and down and atomically, wherever one is made in a loop. Functions
# compiled so allocate nothing, and copy slices by loops.
UNCOUNTED: dict[str, Any] = {**ENTRY, "_nrt": False}
# Functions that compiled ones alone call: without an entry from Python they compile faster, above all where arguments are tuples.
INNER: dict[str, Any] = {**UNCOUNTED, "no_cpython_wrapper": True}

# Functions that may run beside Python in a thread of their own.
FREE: dict[str, Any] = {**UNCOUNTED, "nogil": True}
# Functions whose text takes the place of the call: a function may not return a tuple with a record in it.
IN_PLACE: dict[str, Any] = {**INNER, "inline": "always"}


# In `for j in each(n)` the turns may be taken side by side: on a card the threads of a block share them out (core/block_cuda.py).
each = range


def record(**kinds: type) -> np.dtype:
    """The type of numbers with names that compiled functions read and change, as `numbers.name` there and in Python: entries of an
    array of it are views."""
    return np.dtype((np.record, [(name, np.int64 if kind is int else np.float64) for name, kind in kinds.items()]))


def said_by(error: Exception) -> str:
    """The line of an error that tells its cause: Numba begins with the step of its compiler, and the cause follows."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip() and not line.startswith("Failed in nopython mode")]
    return lines[0] if lines else type(error).__name__


def compiled_scalar(where: str, function: Callable[..., Any], arguments: str,
                    points: Iterable[tuple[float, ...]]) -> Callable[..., Any]:
    """The function compiled by Numba; UserError, beginning with `where`, if it does not compile or fails at one of some points.

    A division by 0 gives no number, which is noticed later: loops call it from C, where an error would be lost and 0 taken."""
    compiled: Any = njit(error_model="numpy")(getattr(function, "py_func", function))
    try:
        for point in points:
            float(compiled(*point))
    except (NumbaError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        label = getattr(function, "__name__", repr(function))
        reason = said_by(error)
        raise UserError(f"{where}: {label}{arguments} does not compile to a number: {reason}") from None
    return compiled
