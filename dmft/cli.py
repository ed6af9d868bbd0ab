"""The command `dmft`. Its subcommands are in workbench/cli."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

from dmft.version import __version__


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of `dmft`."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words == ["--version"]:
        print(f"dmft {__version__}")
        return 0
    from dmft.core import parallel  # loads Numba, and the next import HDF5, which both take a while
    parallel.begin()
    return import_module("workbench.cli.commands").run_command(words)
