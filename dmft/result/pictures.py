"""How a result draws itself. Pictures are a layer above results: a result names the module that draws it."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any


def draw(module: str, result: Any, path: str | Path | None) -> Any:
    """The picture of a result as a matplotlib Figure, written to `path` when one is given."""
    return import_module(module).draw(result, None if path is None else Path(path))
