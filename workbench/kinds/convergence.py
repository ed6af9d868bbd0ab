"""Files of convergence studies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dmft.convergence.study import Study, load_study
from dmft.core import store
from workbench.inspection.kinds import FileKind, Opened


class ConvergenceFile(FileKind):
    """Solutions at several settings."""

    def read(self, header: store.Stored) -> Study:
        return load_study(header.path)

    def draw(self, opened: Opened, path: Path | None) -> Any:
        from workbench.plots import convergence  # matplotlib is an extra
        return convergence.draw(opened.result, path)


KIND = ConvergenceFile()
