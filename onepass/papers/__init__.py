"""The companion papers: for each its numbers, their rows and their drawing. Parameters are run files under runs/."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from onepass.runfile import OnePassRun, load_run


def study(name: str, quick: Iterable[str] = ()) -> OnePassRun:
    """The run file runs/NAME of this checkout, with changes."""
    here = Path("runs") / name
    return load_run(here if here.exists() else Path(__file__).resolve().parents[2] / "runs" / name, quick)
