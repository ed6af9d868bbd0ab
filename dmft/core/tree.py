"""Arrays by name: nested mappings, and the flat names ("group/name") under which a file keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def flatten(nested: Mapping[str, Any]) -> dict[str, Any]:
    """{"a": {"b": x}} -> {"a/b": x}, in order. Names that are flat already stay as they are."""
    flat: dict[str, Any] = {}
    for name, value in nested.items():
        if isinstance(value, Mapping):
            flat.update({f"{name}/{below}": leaf for below, leaf in flatten(value).items()})
        else:
            flat[name] = value
    return flat


def overwrite(mine: Mapping[str, np.ndarray], stored: Mapping[str, np.ndarray]) -> None:
    """Put stored arrays into those of the same names, one after the other; ValueError for one of another shape, which NumPy might
    repeat to fill the place."""
    for name, array in mine.items():
        found = stored[name]
        if found.shape != array.shape:
            raise ValueError(f"{name} is of shape {found.shape}, here {array.shape}")
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
