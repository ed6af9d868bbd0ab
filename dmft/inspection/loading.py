"""dmft.load: a result file of the theory as the object that wrote it."""

from __future__ import annotations

from pathlib import Path

from dmft.convergence.study import Study, load_study
from dmft.core import store
from dmft.result.theory import Theory, theory_of


def load(path: str | Path) -> Theory | Study:
    """Read a theory file as a Theory, a convergence study as a Study; for other kinds the error names what reads them."""
    stored = store.load(path)
    return load_study(path) if stored.kind == "convergence" else theory_of(stored)
