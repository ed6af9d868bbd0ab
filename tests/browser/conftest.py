"""The results that the tests of pages look at: those of the unit tests."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "unit"))

from conftest_results import edited, results  # noqa: E402

__all__ = ["edited", "results"]
