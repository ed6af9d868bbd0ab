"""Tables that `dmft collect` makes of scans."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from dmft.core import store
from workbench.inspection.kinds import FileKind, Opened
from workbench.scans.reading import load_scan
from workbench.scans.scan import Scan


class SweepFile(FileKind):
    """One row a result file."""

    def read(self, header: store.Stored) -> Scan:
        return load_scan(header.path)

    def warnings(self, opened: Opened) -> list[str]:
        scan = opened.result
        gone = [row.path.name for row, m in zip(scan.rows, scan.overlaps) if np.isnan(m).any()]
        return [f"{len(gone)} of {len(scan.rows)} results diverged: {', '.join(gone)}"] if gone else []

    def draw(self, opened: Opened, path: Path | None) -> Any:
        from workbench.plots import scan  # matplotlib is an extra
        return scan.draw(opened.result, path)


KIND = SweepFile()
