"""How a result draws itself. Plots are a layer above results: dmft.api, which knows both, registers the drawing function here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from dmft.core.errors import UserError

Drawer = Callable[[Any, Path | None], Any]     # result, file (None: only return the figure) -> matplotlib Figure

_drawer: Drawer | None = None


def set_drawer(drawer: Drawer) -> None:
    """Register the function that draws results."""
    global _drawer
    _drawer = drawer


def draw(result: Any, path: str | Path | None) -> Any:
    """The picture of a result as a matplotlib Figure, written to `path` when one is given."""
    if _drawer is None:
        raise UserError("pictures need `import dmft; dmft.solve` or `dmft.load`, which know how results are drawn")
    return _drawer(result, None if path is None else Path(path))
