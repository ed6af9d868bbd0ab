"""The picture that suits a file, whatever its kind."""

from __future__ import annotations

from pathlib import Path

from dmft.inspection.curves import curves_of
from dmft.inspection.opening import Opened
from dmft.plots import convergence, onepass, scan, simulation, theory
from dmft.plots.style import Figure


def draw(opened: Opened, path: Path | None) -> Figure:
    """Draw a result or a live checkpoint; written to `path` unless that is None."""
    result = opened.result
    if opened.kind == "theory":
        return theory.draw(result, path)
    if opened.kind == "simulation":
        return simulation.draw(result, path)
    if opened.kind == "onepass":
        return onepass.draw(curves_of(opened), f"{opened.path.name}: {result.source}", path)
    if opened.kind == "convergence":
        return convergence.draw(result, path)
    return scan.draw(result, result.axis(), path)
