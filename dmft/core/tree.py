"""Arrays by name: nested mappings, and the flat names ("group/name") under which a file keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dmft.core.errors import StateError


def flatten(nested: Mapping[str, Any]) -> dict[str, Any]:
    """{"a": {"b": x}} -> {"a/b": x}, in order. Names that are flat already stay as they are."""
    flat: dict[str, Any] = {}
    for name, value in nested.items():
        if isinstance(value, Mapping):
            flat.update({f"{name}/{below}": leaf for below, leaf in flatten(value).items()})
        else:
            flat[name] = value
    return flat


def check_like(name: str, found: np.ndarray, shape: tuple[int, ...], kind: np.dtype) -> None:
    """StateError for an array of another shape or type: NumPy might repeat or round it until it fits."""
    if found.shape != shape or found.dtype != kind:
        raise StateError(f"{name} is {found.dtype} {found.shape}, not {kind} {shape}")


def overwrite(mine: Mapping[str, np.ndarray], stored: Mapping[str, np.ndarray]) -> None:
    """Put stored arrays into those of the same names, one after the other."""
    for name, array in mine.items():
        found = stored[name]
        check_like(name, found, array.shape, array.dtype)
        array[...] = found


def nest(flat: Mapping[str, Any]) -> dict[str, Any]:
    """{"a/b": x} -> {"a": {"b": x}}: undoes `flatten`."""
    nested: dict[str, Any] = {}
    for name, value in flat.items():
        *groups, last = name.split("/")
        place = nested
        for group in groups:
            place = place.setdefault(group, {})
        place[last] = value
    return nested
