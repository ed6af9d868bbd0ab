"""Figures 1 to 3 and 5 to 7: learning curves and single runs. Scans are in scans.py, ridge in ridge.py."""

from __future__ import annotations

from dataclasses import replace

from reproduction.paper.figure import SIZES, Panel, PaperFigure, Series, Size

GD_STARTS = (("gd_m50", 0.5), ("gd_m65", 0.65), ("gd_m80", 0.8))
THREE = (
    Series("gd", "gd", "GD"),
    Series("sgd", "sgd", r"SGD, $\ell = 0.5$"),
    Series("persistent_sgd", "persistent_sgd", r"persistent SGD, $\ell = 0.5$, $\tau = 1$"),
)

FIG1 = PaperFigure(
    "fig1", "GD from three warm starts: average against theory (above), single runs on one landscape (below)",
    series=(
        *(Series(name, name, "GD") for name, _ in GD_STARTS),
        *(Series(f"{name}_shared", f"{name}_shared", f"$m_0 = {m0}$, one landscape", theory=False) for name, m0 in GD_STARTS),
    ),
    panels=(
        *(Panel(f"$m_0 = {m0}$", (name,), legend=name == "gd_m50") for name, m0 in GD_STARTS),
        *(Panel("", (f"{name}_shared",), statistic="instances", legend=name == "gd_m50") for name, _ in GD_STARTS),
    ),
    columns=3,
    sizes={
        "quick": Size({"simulation.dimension": 300, "simulation.instances": 40},
                      {"theory.samples": 2000, "theory.replicas": 4, "theory.blocks_per_level": 8, "algorithm.t_max": 5.0}),
        "standard": Size({"simulation.dimension": 500, "simulation.instances": 50},
                         {"theory.samples": 8000, "theory.replicas": 8, "theory.blocks_per_level": 8, "algorithm.t_max": 10.0}),
        "full": Size(),
    },
    note="Paper: alpha = 2; N, eta and the number of seeds are not in its text; N = 1000, eta = 0.01 chosen here.",
)

FIG2 = PaperFigure(
    "fig2", "GD, SGD and persistent SGD: average overlap and training loss, share of runs that find the teacher",
    series=(*THREE, Series("sgd_replacement", "sgd_replacement", "SGD, with replacement", theory=False)),
    panels=(Panel("", ("gd", "sgd", "persistent_sgd")),
            Panel("", ("gd", "sgd", "persistent_sgd"), "loss", log_y=True, legend=False)),
    columns=2,
    sizes={
        "quick": Size({"simulation.dimension": 300, "simulation.instances": 24, "algorithm.t_max": 100.0},
                      {"theory.samples": 4000, "theory.replicas": 4, "theory.blocks_per_level": 8, "algorithm.t_max": 3.0},
                      only=("gd", "sgd", "persistent_sgd")),
        "standard": Size({"simulation.dimension": 400, "simulation.instances": 30},
                         {"theory.samples": 4000, "theory.replicas": 4, "theory.blocks_per_level": 8, "algorithm.t_max": 3.0},
                         only=("gd", "sgd", "persistent_sgd")),
        "full": Size(theory={"theory.samples": 32_768, "theory.replicas": 12}),
    },
    shares=True,
)

FIG3 = PaperFigure(
    "fig3", "single runs of GD, SGD and persistent SGD",
    series=tuple(replace(series, of=FIG2, theory=False) for series in THREE),
    panels=tuple(Panel(series.label, (series.name,), statistic="instances", legend=series.name == "gd") for series in THREE),
    columns=3,
    sizes=dict.fromkeys(SIZES, Size()),
    shares=True,
)


def _against_theory(name: str, about: str, run: str, label: str, note: str) -> PaperFigure:
    """Figures 5 and 6: m and loss of one algorithm, simulation over theory."""
    return PaperFigure(
        name, about,
        series=(Series(run, run, label),),
        panels=(Panel("", (run,)), Panel("", (run,), "loss", legend=False)),
        columns=2,
        sizes={
            "quick": Size({"simulation.dimension": 500, "simulation.instances": 100, "algorithm.t_max": 5.0},
                          {"theory.samples": 4000, "theory.replicas": 6, "theory.blocks_per_level": 8, "algorithm.t_max": 5.0}),
            "standard": Size({"simulation.instances": 100, "algorithm.t_max": 10.0},
                             {"theory.samples": 16000, "theory.blocks_per_level": 8, "algorithm.t_max": 10.0}),
            "full": Size(),
        },
        note=note,
    )


FIG5 = _against_theory(
    "fig5", "persistent SGD: simulation against theory", "persistent_sgd", r"persistent SGD, $\ell = 0.5$, $\tau = 1$",
    "The paper's parameters are not in its text; alpha = 3, m0 = 0.5, l = 0.5, tau = 1 chosen here.")
FIG6 = _against_theory(
    "fig6", "Langevin algorithm: simulation against theory", "langevin", "Langevin, $T = 0.5$",
    "The paper's parameters are not in its text; alpha = 3, m0 = 0.5, T = 0.5 chosen here.")

# N: runs and last time of GD, then of persistent SGD. The paper ends at 2500; it gives neither runs nor last times.
RANDOM_STARTS = {100: ((256, 300.0), (256, 1000.0)), 500: ((256, 300.0), (256, 3000.0)), 1000: ((256, 300.0), (256, 3000.0)),
                 2500: ((128, 300.0), (128, 2000.0)), 4000: ((32, 100.0), (64, 2500.0)), 8000: ((8, 100.0), (32, 3500.0))}
DIMENSIONS = tuple(RANDOM_STARTS)
SMALL_DIMENSIONS = (100, 200, 400, 800)  # for the smaller sizes; "quick" leaves out the last
PLATEAU = 300.0  # last time: GD does not move any more by then


def _random_start(run: str, dimension: int) -> Series:
    label = "GD" if run == "gd" else r"persistent SGD, $\ell = 0.5$, $\tau = 2$"
    return Series(f"{run}_N{dimension}", run, label, {"simulation.dimension": dimension}, theory=False)


def _both(dimensions: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(f"{run}_N{n}" for n in dimensions for run in ("gd", "persistent_sgd"))


_ALL_DIMENSIONS = tuple(sorted({*DIMENSIONS, *SMALL_DIMENSIONS}))
FIG7 = PaperFigure(
    "fig7", "GD and persistent SGD from random starts at several dimensions",
    series=tuple(_random_start(run, n) for n in _ALL_DIMENSIONS for run in ("gd", "persistent_sgd")),
    panels=tuple(Panel(f"$N = {n}$", _both((n,)), statistic="median", inset="loss", legend=n == 100) for n in _ALL_DIMENSIONS),
    columns=2,
    sizes={
        "quick": Size({"simulation.instances": 16, "algorithm.t_max": 1000.0}, None, only=_both(SMALL_DIMENSIONS[:-1])),
        "standard": Size({"simulation.instances": 64, "algorithm.t_max": 1000.0}, None, only=_both(SMALL_DIMENSIONS),
                         by_series={f"gd_N{n}": {"simulation.instances": 32, "algorithm.t_max": PLATEAU}
                                    for n in SMALL_DIMENSIONS}),
        "full": Size({}, None, only=_both(DIMENSIONS),
                     by_series={f"{run}_N{n}": {"simulation.instances": count, "algorithm.t_max": until}
                                for n, both in RANDOM_STARTS.items()
                                for run, (count, until) in zip(("gd", "persistent_sgd"), both)}),
    },
    note="Overlaps without their sign.",
)
