"""Run files that come with the package."""

from __future__ import annotations

from pathlib import Path

from dmft.core.errors import FileError

SHIPPED = Path(__file__).resolve().parents[1] / "runs"     # in a checkout a link to its folder runs


def run_file(name: str) -> Path:
    """runs/NAME in this folder, or else as it came with the package."""
    for path in (Path("runs") / name, SHIPPED / name):
        if path.exists():
            return path
    raise FileError(f"runs/{name}: not found, neither here nor in the installed package")
