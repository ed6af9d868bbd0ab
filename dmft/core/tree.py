"""Nested mappings and the flat names ("group/name") under which a file keeps their arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def flatten(nested: Mapping[str, Any]) -> dict[str, Any]:
    """{"a": {"b": x}} -> {"a/b": x}, in order. Names that are flat already stay as they are."""
    flat: dict[str, Any] = {}
    for name, value in nested.items():
        if isinstance(value, Mapping):
            flat.update({f"{name}/{below}": leaf for below, leaf in flatten(value).items()})
        else:
            flat[name] = value
    return flat


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
