"""Rows of the figures of Arnaboldi et al.: exit times with errors, their ratios to the formulas, gains and slopes."""

from __future__ import annotations

import numpy as np

from reproduction.companions.arnaboldi.exits import ExitTable, RiskLandscape
from reproduction.companions.arnaboldi.numbers import ExitRatios, LargestOverlap, Paths, Scalings
from reproduction.companions.table import NumberRow, array_rows, curve_rows, mean_row


def paths(data: Paths) -> list[NumberRow]:
    """Exit times by process, then the risk against time."""
    rows = [mean_row(f"exit time, {name}", data.title, times) for name, times in data.exits.items()]
    rows += curve_rows("risk, ODE", data.ode, "risk")
    for name, ensemble in data.ensembles.items():
        rows += curve_rows(f"risk, {name}", ensemble, "risk")
    return rows


def runs(data: list[Paths]) -> list[NumberRow]:
    """The same for every panel."""
    return [row._replace(quantity=f"{row.quantity} ({panel.title})") for panel in data for row in paths(panel)]


def ratios(data: ExitRatios) -> list[NumberRow]:
    """Measured exit time, and over the annealed and the quenched formula."""
    rows = []
    for i, p in enumerate(data.widths):
        for j, d in enumerate(data.dimensions):
            place, value, error = f"p = {p}, d = {d}", data.measured[i, j], data.error[i, j]
            rows.append(NumberRow("exit time, exact chain", place, value, error))
            for name, formula in (("annealed", data.annealed[i, j]), ("quenched", data.quenched[i, j])):
                rows.append(NumberRow(f"exit time over {name} formula", place, value / formula, error / formula))
    return rows


def largest(data: list[LargestOverlap]) -> list[NumberRow]:
    """max |m_j| at the end and against time, fixed and trained second layer."""
    rows = []
    for panel in data:
        for layer, ode in panel.ode.items():
            chain = panel.chain[layer]
            rows.append(mean_row(f"largest overlap at the end, chain, {layer}", f"p = {panel.width}", chain[:, -1]))
            rows += array_rows(f"largest overlap, ODE, {layer}, p = {panel.width}", "t", panel.t, ode)
            rows += array_rows(f"largest overlap, chain, {layer}, p = {panel.width}", "t", panel.t, chain.mean(0))
    return rows


def scalings(data: Scalings) -> list[NumberRow]:
    """Steps to escape and their slopes, the distance of chain and ODE, steps by width."""
    rows = []
    for exponent, escape in data.escapes.items():
        rows.append(NumberRow("slope of log steps in log d", f"exponent {exponent}", escape.fit.slope, escape.fit.slope_error))
        rows += array_rows(f"steps to escape, exponent {exponent}", "d", escape.dimensions, escape.steps, escape.errors, True)
    rows.append(NumberRow("slope of the distance in gamma/(p d)", "", data.fit.slope, data.fit.slope_error))
    rows += array_rows("distance of chain and ODE", "tau", data.tau, data.distance)
    gain = data.gain
    for key, found in (("formal", gain.formal), ("honest", gain.honest)):
        scale = gain.steps_per_time[key]
        for i, p in enumerate(gain.widths):
            rows.append(NumberRow(f"steps to exit, {key} rate", f"p = {p}", found[i].mean * scale[i], found[i].error * scale[i]))
            rows.append(NumberRow(f"share that exits, {key} rate", f"p = {p}", found[i].share, np.nan, found[i].share < 1.0))
    return rows


def exits(data: ExitTable) -> list[NumberRow]:
    """Measured exit times with errors beside the formulas, then those of the largest overlap by second layer."""
    rows = []
    for case in data.cases:
        rows.append(NumberRow("exit time, exact chain", case.title, case.chain.mean, case.chain.error))
        for name, value in (("annealed", case.annealed), ("quenched", case.quenched), ("quenched, nonlinear", case.nonlinear),
                            ("with the noise of SGD", case.noisy)):
            if np.isfinite(value):
                rows.append(NumberRow(f"exit time, {name}", case.title, value))
        rows.append(NumberRow("share that exits", case.title, case.chain.share, np.nan, case.chain.share < 1.0))
    for p, layers in data.layers.items():
        for layer, found in layers.items():
            rows.append(NumberRow(f"largest overlap reaches {data.level:g}, {layer} layer", f"p = {p}", found.mean, found.error))
    return rows


def surface(data: RiskLandscape) -> list[NumberRow]:
    """Critical points with excess risk and eigenvalues, and the spectrum at the start on the sphere."""
    rows = []
    for point in data.points:
        rows.append(NumberRow(f"{point.name}: excess risk", "|w*| = 1, d = 3", point.excess))
        for value, count in point.spectrum:
            rows.append(NumberRow(f"{point.name}: eigenvalue", f"{count} directions of 3", value))
    for value, count in data.spectrum:
        rows.append(NumberRow("start on the sphere (m = 0): eigenvalue", f"{count} directions, d = {data.dimension}", value))
    return rows + array_rows("risk on the sphere", "polar angle", data.polar, data.sphere[:, 0])
