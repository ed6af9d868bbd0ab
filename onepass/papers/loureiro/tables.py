"""Rows of the regimes of erf committees: excess risks at the end, and the error of the mean-field reduction by width."""

from __future__ import annotations

from onepass.papers.loureiro.numbers import Regimes
from onepass.papers.table import NumberRow, array_rows, curve_rows


def regimes(data: Regimes) -> list[NumberRow]:
    rows: list[NumberRow] = []
    for name, regime in (("classical", data.classical), ("high-dimensional", data.high_dimensional)):
        rows.append(NumberRow(f"{name}: label noise / 2", regime.title, regime.noise / 2.0))
        rows += curve_rows(f"{name}: risk, gradient flow", regime.flow, "risk")
        rows += curve_rows(f"{name}: risk, ODE", regime.ode, "risk")
        rows += curve_rows(f"{name}: risk, SGD", regime.paths, "risk")
    reduction = data.reduction
    rows += array_rows("mean |M - reduced|", "p", reduction.widths, reduction.overlap, printed=True)
    return rows + array_rows("largest off-diagonal of Q - reduced", "p", reduction.widths, reduction.off_diagonal, printed=True)
