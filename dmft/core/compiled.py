"""Options of compiled functions that several modules share."""

from __future__ import annotations

from typing import Any

# Without Numba's runtime arrays and views are not counted: atomic counts would be a twelfth of the work of the samples, and a third
# of that of a triangular solve. Functions compiled so allocate nothing, and copy slices by loops.
UNCOUNTED: dict[str, Any] = {"cache": True, "_nrt": False}
