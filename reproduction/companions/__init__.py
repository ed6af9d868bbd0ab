"""The companion papers: for each of them the numbers of its figures, their tables and their drawing. Run files are in runs/."""

from __future__ import annotations

from collections.abc import Iterable

from dmft.core.shipped import run_file
from onepass.runfile import OnePassRun, load_run


def study(name: str, quick: Iterable[str] = ()) -> OnePassRun:
    """The run of runs/NAME (in the working directory, or as installed with the package), with `quick` changes."""
    return load_run(run_file(name), quick)
