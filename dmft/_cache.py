"""Where compiled code is kept: in a folder named after the sources it was compiled from.

Numba checks only the file of a function, not the files of the functions it calls: after an update, code compiled from old
callees would silently stay in use. So the folder's name is a hash of all sources of the packages.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from pathlib import Path

PACKAGES = ("dmft", "sgd_sim", "onepass")


def _sources_hash(root: Path) -> str:
    digest = hashlib.sha256()
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            state = path.stat()
            digest.update(f"{path.relative_to(root)}:{state.st_size}:{state.st_mtime_ns};".encode())
    return digest.hexdigest()[:16]


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return os.access(folder, os.W_OK)
    except OSError:
        return False


def name_cache() -> None:
    """Point Numba at the folder for these sources, unless the user has chosen one (NUMBA_CACHE_DIR)."""
    if os.environ.get("NUMBA_CACHE_DIR"):
        return
    root = Path(__file__).resolve().parent.parent
    name = f"numba-{_sources_hash(root)}"
    user = Path(os.environ.get("XDG_CACHE_HOME") or Path(os.environ.get("HOME") or tempfile.gettempdir()) / ".cache")
    for folder in (root / "dmft" / "__pycache__" / name, user / "dmft" / name):
        if _writable(folder):
            os.environ["NUMBA_CACHE_DIR"] = str(folder)
            if "numba" in sys.modules:      # imported before this package: it has already read the environment
                sys.modules["numba"].config.CACHE_DIR = str(folder)
            return
