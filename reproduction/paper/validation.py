"""Theory against simulation extrapolated to N = infinity: four algorithms, two sample complexities, several times; and kernels
between pairs of times."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy.stats import t as student

from reproduction.paper.computations import Data
from reproduction.paper.figure import PaperFigure, Series, Size
from reproduction.paper.findings import against
from reproduction.paper.kernel_validation import kernel_series, kernel_sizes, kernel_table

VALIDATION_KINDS = ("gd", "sgd", "persistent_sgd", "langevin")
ALPHAS = (2, 3)
VALIDATION_DIMENSIONS = (500, 1000, 2000)
VALIDATION_TIMES = (0.5, 2.0, 10.0)
ACCURACY = 0.003
CONFIDENCE = 0.999


def _case(kind: str, alpha: int) -> str:
    return f"{kind}_alpha{alpha}"


def _series() -> list[Series]:
    found = []
    for alpha in ALPHAS:
        for kind in VALIDATION_KINDS:
            case = _case(kind, alpha)
            found.append(Series(case, case, f"{kind}, alpha = {alpha}", simulation=False))
            found += [Series(f"{case}_N{n}", case, f"{kind}, alpha = {alpha}, N = {n}", {"simulation.dimension": n},
                             theory=False) for n in VALIDATION_DIMENSIONS]
    return found


def _instances(counts: tuple[int, ...]) -> dict[str, dict[str, int]]:
    """Instances at each dimension: more of the cheap ones."""
    return {f"{_case(kind, alpha)}_N{n}": {"simulation.instances": count}
            for kind in VALIDATION_KINDS for alpha in ALPHAS for n, count in zip(VALIDATION_DIMENSIONS, counts)}


VALIDATION = PaperFigure(
    "validation", "table, no picture: theory against simulation carried to N = infinity",
    series=(*_series(), *kernel_series()),
    panels=(),
    columns=1,
    sizes={
        "quick": Size(theory={"theory.samples": 2000, "theory.replicas": 4, "algorithm.t_max": 2.0},
                      simulation={"algorithm.t_max": 2.0, "simulation.record": [0.5, 2.0]},
                      by_series=_instances((60, 30, 6)) | kernel_sizes(2048, 4, (40, 20, 6))),
        "standard": Size(by_series=_instances((400, 200, 80)) | kernel_sizes(8192, 8, (160, 80, 40))),
        "full": Size(theory={"algorithm.t_max": 100.0, "theory.samples": 131_072, "theory.replicas": 16,
                             "theory.blocks_per_level": 12},
                     simulation={"algorithm.t_max": 100.0, "simulation.record": [*VALIDATION_TIMES, 100.0],
                                 "simulation.precision": "float16"},
                     by_series=_instances((6400, 3200, 1280)) | kernel_sizes(32_768, 16, (3200, 1600, 800))),
    },
)


def table(data: Mapping[str, Data]) -> list[str]:
    """Markdown: one row per quantity; `not run` where a half is missing."""
    rows = ["| algorithm | alpha | t | quantity | theory | its bias | simulation, N to infinity | z | 99.9 % of chance | verdict |",
            "|---|---|---|---|---|---|---|---|---|---|"]
    for alpha in ALPHAS:
        for kind in VALIDATION_KINDS:
            rows += _rows(kind, alpha, data)
    return [*rows, "", "Kernels between pairs of times (t, t' up to 2, alpha = 2):", "", *kernel_table(data)]


def _rows(kind: str, alpha: int, data: Mapping[str, Data]) -> list[str]:
    case = _case(kind, alpha)
    theory = data[case].theory if case in data else None
    simulations = [found.simulation for n in VALIDATION_DIMENSIONS
                   if (found := data.get(f"{case}_N{n}")) is not None and found.simulation is not None]
    if theory is None or len(simulations) < len(VALIDATION_DIMENSIONS):
        return [f"| {kind} | {alpha} | | | not run | | {len(simulations)} of {len(VALIDATION_DIMENSIONS)} dimensions | | | |"]
    rows = []
    for observable in ("m", "loss"):
        result = against(theory, simulations, observable)
        bounds = student.isf((1.0 - CONFIDENCE) / 2.0, result.degrees_of_freedom)
        bias = (theory.bias[np.searchsorted(theory.t, result.t - 1e-9)] if observable == "m" and theory.bias is not None else None)
        for i, t in enumerate(result.t):
            a, b = result.theory, result.simulation
            exact = max(a.error[i], b.error[i]) <= ACCURACY
            verdict = ("agree" if abs(result.z[i]) <= bounds[i] else "DIFFER") + ("" if exact else ", error > 0.003")
            rows.append(f"| {kind} | {alpha} | {t:g} | {observable} | {a.mean[i]:.5f} +- {a.error[i]:.5f} | "
                        f"{'' if bias is None else f'{bias[i]:+.5f}'} | {b.mean[i]:.5f} +- {b.error[i]:.5f} | "
                        f"{result.z[i]:+.2f} | {bounds[i]:.1f} | {verdict} |")
    return rows
