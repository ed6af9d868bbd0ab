"""What made a result: versions of the package and of the libraries below it. Nothing about the host."""

from __future__ import annotations

import platform
import subprocess
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from dmft.core import parallel
from dmft.version import __version__


@lru_cache(maxsize=1)
def provenance() -> dict[str, str]:
    """Text attributes of a result file: package version, source revision if any, versions of the libraries."""
    found = {"package_version": __version__, "revision": _revision(), "python_version": platform.python_version()}
    for library in ("numpy", "numba", "h5py", "mpi4py"):
        found[f"{library}_version"] = _version(library)
    found["mpi_library"] = parallel.library()
    return found


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _revision() -> str:
    """The git revision of the source tree, with "-dirty" when it is changed; "" outside a checkout."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return ""
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
