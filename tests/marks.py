"""Parameters that `make test` leaves to `pytest -m slow`: a cheaper one beside each of them tests the same code, or other ranks,
devices and data models do."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest


def slow(*values: Any) -> Any:
    """A slow set of parameters."""
    return pytest.param(*values, marks=pytest.mark.slow)


def with_slow(cases: Collection[Any], *long: Any) -> list[Any]:
    """The cases, each a name or a tuple of parameters, with the `long` ones among them marked as slow."""
    unknown = [case for case in long if case not in cases]
    assert not unknown, f"no such cases: {unknown}"
    return [slow(*(case if isinstance(case, tuple) else (case,))) if case in long else case for case in cases]
