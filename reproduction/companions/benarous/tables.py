"""Rows of the figures of Ben Arous et al.: fixed points, where SGD ends, shares and fluctuations with errors."""

from __future__ import annotations

import numpy as np

from reproduction.companions.benarous.numbers import MixtureFigure, SpikedPanel
from reproduction.companions.table import NumberRow, array_rows, mean_row


def spiked(data: list[SpikedPanel]) -> list[NumberRow]:
    """Fixed points, |m| at the end of every run, and sqrt(n) times the spread against the Ornstein-Uhlenbeck limit."""
    rows = []
    for panel in data:
        model = f"k = {panel.model.order}, signal {panel.model.signal:g}"
        for point in panel.points:
            rows.append(NumberRow(f"{point.name} ({'stable' if point.stable else 'unstable'}), m", model, point.m))
        rows.append(mean_row("|m| at the end, SGD", f"{model}, n = {panel.dimension}", np.abs(panel.m[:, -1])))
        if panel.band.size:
            grows = any(not point.stable for point in panel.points if point.name == "uninformative")
            limit = "linear limit, which grows without bound" if grows else "limit"
            rows.append(NumberRow(f"standard deviation of m at the end, {limit}", model, float(panel.band[-1])))
            rows += array_rows(f"standard deviation of m, limit, {model}", "t", panel.t, panel.band)
        for i, path in enumerate(panel.m):
            rows += array_rows(f"m, {model}, run {i}", "t", panel.t, path)
    return rows


def mixture(data: MixtureFigure) -> list[NumberRow]:
    """Share of optimal runs with its binomial error, and the spread about the ring at the last time."""
    place = f"N = {data.dimension}, snr {data.snr:g}"
    rows = [NumberRow("share of optimal runs, prediction", place, data.fraction.predicted)]
    for name, share in (("SGD", data.fraction), ("exact chain", data.chain_fraction)):
        spread = float(np.sqrt(share.value * (1.0 - share.value) / share.runs))
        rows.append(NumberRow(f"share of optimal runs, {name}", f"{place}, {share.runs} runs", share.value, spread))
        rows.append(NumberRow(f"share of optimal runs, {name}, 95 % low", place, share.interval[0]))
        rows.append(NumberRow(f"share of optimal runs, {name}, 95 % high", place, share.interval[1]))
    for i, name in enumerate(data.names):
        last = data.paths[:, -1, i]
        error = float(last.var(ddof=1) * np.sqrt(2.0 / (len(last) - 1)))
        rows.append(NumberRow(f"N Var({name}), SGD", f"t = {data.t[-1]:g}", float(last.var(ddof=1)), error))
        rows.append(NumberRow(f"N Var({name}), corrected SDE", f"t = {data.t[-1]:g}", float(data.covariance[i, i])))
    rows.append(NumberRow(f"N Var({data.names[0]}), printed SDE", f"t = {data.t[-1]:g}", float(data.printed[-1] ** 2)))
    for snr, last in data.finite.items():
        where = f"t = {data.t[-1]:g}, snr {snr:g}"
        for i, name in enumerate(data.names):
            variance = float(last[:, i].var(ddof=1))
            rows.append(NumberRow(f"N Var({name}), chain", where, variance, variance * float(np.sqrt(2.0 / (len(last) - 1)))))
            rows.append(mean_row(f"sqrt(N) mean shift of {name}, chain", where, last[:, i]))
        values = np.linalg.eigvalsh(np.cov(last.T))[::-1]
        rank = 1 if len(data.names) == 2 else 2
        rows.append(NumberRow(f"variance beyond rank {rank}, share", where, float(values[rank:].sum() / values.sum())))
    rows += array_rows("standard deviation, corrected SDE", "t", data.t, data.deviation)
    rows += array_rows("standard deviation, SGD", "t", data.t, data.paths[..., 0].std(axis=0, ddof=1))
    for i, end in enumerate(data.endpoints):
        rows += [NumberRow(f"endpoint {axis}", f"run {i}", float(end[axis]), np.nan, False) for axis in range(2)]
    return rows
