"""The command `dmft`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from dmft.version import __version__


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of `dmft`."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words == ["--version"]:
        print(f"dmft {__version__}")
        return 0
    from dmft.core import parallel  # loads Numba, and the next import HDF5, which both take a while
    parallel.begin()
    from dmft.cli.commands import run_command
    return run_command(words)
