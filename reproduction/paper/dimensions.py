"""How finite dimensions approach the theory: the picture at the head of the README, and two late numbers at N = infinity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from reproduction.paper.computations import Data
from reproduction.paper.figure import Changes, PaperFigure, Series, Size
from reproduction.paper.learning_curves import FIG2, THREE
from reproduction.paper.numbers import Lines, Runs

LARGE_DIMENSION = 4000  # the second dimension of the picture
LARGE_RUNS = {"gd": 86, "sgd": 32, "persistent_sgd": 64}
SOONER = {"persistent_sgd": {"algorithm.t_max": 200.0}}  # all of its runs have long found the teacher by then

_LARGE = tuple(Series(f"{one.name}_N{LARGE_DIMENSION}", f"fig2/{one.run}", one.label, {
    "simulation.dimension": LARGE_DIMENSION, "simulation.instances": LARGE_RUNS[one.name], **SOONER.get(one.name, {})},
    theory=False) for one in THREE)
_SMALL: Changes = {"algorithm.t_max": 30.0, "simulation.instances": 8}


def _smaller(series: tuple[Series, ...], by: int) -> dict[str, Changes]:
    """Dimensions divided by a number, for the smaller sizes."""
    return {one.name: {"simulation.dimension": one.changes["simulation.dimension"] // by} for one in series if one.changes}


def _sizes(series: tuple[Series, ...], theory: Changes) -> dict[str, Size]:
    """Quick and standard: smaller dimensions, fewer runs, and less time."""
    return {"quick": Size(_SMALL, {**theory, "algorithm.t_max": 3.0}, by_series=_smaller(series, 10)),
            "standard": Size({**_SMALL, "simulation.instances": 32}, {**theory, "algorithm.t_max": 10.0},
                             by_series=_smaller(series, 5)),
            "full": Size(theory={"theory.samples": 131_072, "theory.replicas": 16, "theory.blocks_per_level": 12})}


HEADLINE = PaperFigure(
    "headline", "table, no picture: GD, SGD and persistent SGD at N = 1000 and 4000 beside the theory "
    "(docs/gallery/16_headline.py draws it)",
    series=(*(replace(one, of=FIG2) for one in THREE), *_LARGE[::-1]), panels=(), columns=1,
    sizes=_sizes(_LARGE, {"theory.samples": 1000, "theory.replicas": 2}), shares=True)

# Late numbers: (name, run file, dimension: runs, last time), and what the theory is called.
GD_RUNS = {2000: 128, 8000: 8}
PERSISTENT_RUNS = {1000: 3200, 2000: 1600, 4000: 512, 8000: 256, 16_000: 48}
LATE = "persistent_sgd_alpha2"

_GD = tuple(Series(f"gd_N{n}", "fig2/gd", "GD", {"simulation.dimension": n, "simulation.instances": count}, theory=False)
            for n, count in GD_RUNS.items())
_PERSISTENT = tuple(
    Series(f"{LATE}_N{n}", f"validation/{LATE}", r"persistent SGD, $\alpha = 2$",
           {"simulation.dimension": n, "simulation.instances": count, "algorithm.t_max": 100.0,
            "simulation.record": [2.0, 10.0, 30.0, 100.0]}, theory=False)
    for n, count in PERSISTENT_RUNS.items())
_LATE_THEORY = Series(LATE, f"validation/{LATE}", r"persistent SGD, $\alpha = 2$",
                      {"algorithm.t_max": 100.0, "simulation.record": [2.0, 10.0, 30.0, 100.0]}, simulation=False)


def _late_sizes() -> dict[str, Size]:
    sizes = _sizes((*_GD, *_PERSISTENT), {"theory.samples": 1000, "theory.replicas": 2})
    return {name: replace(size, simulation={**size.simulation, "simulation.record": [2.0, 3.0]} if name != "full" else {})
            for name, size in sizes.items()}


DIMENSIONS_FIGURE = PaperFigure(
    "dimensions", "table, no picture: GD at t = 1000 and persistent SGD at alpha = 2, t = 100, carried to N = infinity",
    series=(replace(THREE[0], of=FIG2), replace(_LARGE[0], of=HEADLINE), _LATE_THEORY, *_PERSISTENT, *_GD), panels=(), columns=1,
    sizes=_late_sizes())


def fit(x: np.ndarray, values: np.ndarray, errors: np.ndarray) -> tuple[float, float, float]:
    """A straight line through values with errors: its value at x = 0, the error of that, and chi-squared."""
    design = np.stack([np.ones_like(x), x], axis=1) / errors[:, None]
    inverse = np.linalg.inv(design.T @ design)
    line = inverse @ design.T @ (values / errors)
    return float(line[0]), float(np.sqrt(inverse[0, 0])), float((((values - line[0] - line[1] * x) / errors) ** 2).sum())


def dimensions_table(data: Mapping[str, Data]) -> list[str]:
    """For both cases m and the loss over N at the last time that all have, lines in 1/N and in 1/sqrt(N), and the theory."""
    rows: list[str] = []
    gd = ["gd", *(f"gd_N{n}" for n in sorted({*GD_RUNS, LARGE_DIMENSION}))]
    for title, theory, names in (("GD, m0 = 0.2, alpha = 3", "gd", gd),
                                 ("persistent SGD, m0 = 0.5, alpha = 2", LATE, [f"{LATE}_N{n}" for n in PERSISTENT_RUNS])):
        found = [sim for name in names if name in data and (sim := data[name].simulation) is not None]
        if (there := len({sim.run.simulation.dimension for sim in found})) < 3:
            rows.append(f"{title}: {there} of {len(names)} dimensions are there")
            continue
        until, line = min(sim.t[-1] for sim in found), data[theory].theory if theory in data else None
        for observable in ("m", "loss"):
            rows += [f"{title}: {observable} at t = {until:g}", *_case(found, line, observable, until)]
    return rows


def _case(found: list[Runs], theory: Lines | None, observable: str, until: float) -> list[str]:
    at = [int(np.argmin(np.abs(sim.t - until))) for sim in found]
    n = np.array([sim.run.simulation.dimension for sim in found], float)
    mean, error = (np.array([sim.curves[observable][kind][i] for sim, i in zip(found, at)]) for kind in ("mean", "error"))
    rows = [f"  N = {size:6.0f}  {sim.instances:5d} runs  {m:.5f} +- {e:.5f}" for size, sim, m, e in zip(n, found, mean, error)]
    for name, x in (("1/N", 1.0 / n), ("1/sqrt(N)", n**-0.5)):
        value, uncertain, chi = fit(x, mean, error)
        rows.append(f"  N = infinity, line in {name:<9}  {value:.5f} +- {uncertain:.5f}  chi-squared {chi:.1f} for {n.size - 2}")
    if theory is not None and theory.t[-1] >= until - 1e-9:
        i, curves = int(np.argmin(np.abs(theory.t - until))), theory.curves[observable]
        rows.append(f"  theory, {theory.count} solutions      {curves['mean'][i]:.5f} +- {curves['error'][i]:.5f}")
    return rows
