"""Rows of the figures of Bocchi et al.: risks, alpha_c, the best learning rate by width, the selected solution."""

from __future__ import annotations

import numpy as np

from reproduction.companions.bocchi.numbers import Dimensions, Overlaps, RateScans, Selection
from reproduction.companions.table import NumberRow, array_rows, curve_rows, mean_row


def _halved(alpha: np.ndarray, risk: np.ndarray) -> float:
    """The alpha at which the risk first falls to half of its start, interpolated linearly; NaN if never."""
    below = np.flatnonzero(risk <= risk[0] / 2.0)
    if not len(below):
        return np.nan
    i = below[0]
    return float(alpha[i] - (alpha[i] - alpha[i - 1]) * (risk[0] / 2.0 - risk[i]) / (risk[i - 1] - risk[i]))


def overlaps(data: Overlaps) -> list[NumberRow]:
    """The risk of the plateau as in the paper, E[(y - yhat)^2]; alpha_c; and risks against time, half of that."""
    rows = [NumberRow("risk of the plateau, E[(y - yhat)^2]", data.title, data.plateau_risk)]
    alpha_c = _halved(data.alpha, data.ode.risk)
    if np.isfinite(alpha_c):
        rows.append(NumberRow("risk on the plateau, ODE, E[(y - yhat)^2]", f"alpha = {alpha_c / 2:.0f}",
                              float(np.interp(alpha_c / 2, data.alpha, 2 * data.ode.risk))))  # fmt: skip
    rows.append(NumberRow("alpha_c (risk halved), ODE", data.title, alpha_c))
    rows.append(mean_row("alpha_c (risk halved), exact chain", data.title,
                         np.array([_halved(data.alpha, one) for one in data.ensemble.risk])))  # fmt: skip
    return rows + curve_rows("risk, ODE", data.ode, "risk") + curve_rows("risk, exact chain", data.ensemble, "risk")


def rates(data: RateScans) -> list[NumberRow]:
    """alpha_c by eta, best eta by width with the stability limits, and the slope."""
    rows = array_rows("alpha_c, p = 3", "eta", data.first.etas, data.first.alpha, data.first.error, True)
    rows.append(NumberRow("best eta", "p = 3 (first scan)", data.first.best))
    rows += array_rows("best eta", "p", data.widths, data.best, printed=True)
    rows += array_rows("stability limit", "p", data.widths, data.limits, printed=True)
    return [*rows, NumberRow("slope of the best eta in p", "", data.slope, data.slope_error)]


def selection(data: Selection) -> list[NumberRow]:
    """Distance to the predicted solution at the end, and how far S(t) moved."""
    rows = [NumberRow("distance to the prediction at the end", f"start {i}", float(one[-1])) for i, one in enumerate(data.distance)]
    for name, s in (("orthonormal", data.s_orthonormal), ("iid", data.s_iid)):
        rows.append(NumberRow(f"largest change of S(t), {name} students", "", float(np.abs(s - s[0]).max())))
    for i, risk in enumerate(data.risk):
        rows += array_rows(f"risk, start {i}", "t", data.t, risk)
    return rows


def dimensions(data: Dimensions) -> list[NumberRow]:
    """Degrees of freedom and dimension of the solutions by width."""
    rows = array_rows(f"degrees of freedom, N = {data.n}", "p", data.widths, data.outputs, printed=True)
    for k, values in data.solutions.items():
        rows += array_rows(f"dimension of the solutions, p* = {k}", "p", data.widths, values, printed=True)
    return rows
