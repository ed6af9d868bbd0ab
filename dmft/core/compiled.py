"""Options of compiled functions that several modules share."""

from __future__ import annotations

from typing import Any

# Nobody asks for these functions as C does, so that no entry of this kind is compiled.
ENTRY: dict[str, Any] = {"cache": True, "no_cfunc_wrapper": True}
# Without Numba's runtime arrays and views are not counted, up and down and atomically, wherever one is made in a loop. Functions
# compiled so allocate nothing, and copy slices by loops.
UNCOUNTED: dict[str, Any] = {**ENTRY, "_nrt": False}
# Functions that compiled ones alone call: without an entry from Python they compile faster, above all where arguments are tuples.
INNER: dict[str, Any] = {**UNCOUNTED, "no_cpython_wrapper": True}
