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
    from dmft.core.parallel import world
    world()  # MPI starts before anything large is in memory: MPICH 5.0.2 under Slurm may read beyond its addresses otherwise
    from dmft.cli.commands import run_command  # loads Numba and HDF5, which take a while
    return run_command(words)
