"""The companion papers: for each its numbers, their rows and their drawing. Parameters are run files under runs/."""

from __future__ import annotations

from collections.abc import Iterable

from dmft.core.shipped import run_file
from onepass.runfile import OnePassRun, load_run


def study(name: str, quick: Iterable[str] = ()) -> OnePassRun:
    """The run file runs/NAME, here or as it came with the package, with changes."""
    return load_run(run_file(name), quick)
