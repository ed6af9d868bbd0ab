"""Rows of the regimes of erf committees: excess risks at the end, the error of the mean-field reduction, slopes, time scales."""

from __future__ import annotations

from reproduction.companions.loureiro.numbers import Regimes
from reproduction.companions.table import NumberRow, array_rows, curve_rows


def regimes(data: Regimes) -> list[NumberRow]:
    rows: list[NumberRow] = []
    for regime in data.regimes:
        rows.append(NumberRow(f"{regime.name}: label noise / 2", regime.title, regime.noise / 2.0))
        rows += curve_rows(f"{regime.name}: risk, gradient flow (without label noise)", regime.flow, "risk")
        rows += curve_rows(f"{regime.name}: risk, ODE", regime.ode, "risk")
        rows += curve_rows(f"{regime.name}: risk, SGD", regime.paths, "risk")
    reduction = data.reduction
    rows += array_rows("mean |M - reduced|", "p", reduction.widths, reduction.overlap, printed=True)
    rows += array_rows("largest off-diagonal of Q - reduced", "p", reduction.widths, reduction.off_diagonal, printed=True)
    for name, axis, one in (("mean field: distance of SGD from gradient flow", "p", data.mean_field),
                            ("high dimension: distance of SGD from the ODE", "d", data.dimensions)):
        rows += array_rows(name, axis, one.x, one.distance, one.error, True)
        rows.append(NumberRow(f"slope in {axis}", name, one.fit.slope, one.fit.slope_error))
    for rate, path in data.time_scales.items():
        rows += curve_rows(f"two time scales, eps = {rate:g}: risk, ODE", path, "risk")
    return rows + curve_rows(f"two time scales, eps = {max(data.time_scales):g}: risk, chain", data.fast_chain, "risk")
