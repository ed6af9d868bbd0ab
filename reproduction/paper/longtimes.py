"""Theory to t = 10 000, a million steps, beside runs of figure 2 and, of gradient descent, some as long as itself: what the
infinite system does where finite ones stick."""

from __future__ import annotations

from dataclasses import replace

from reproduction.paper.figure import Panel, PaperFigure, Series, Size
from reproduction.paper.learning_curves import FIG2, THREE

FINITE = tuple(replace(series, of=FIG2) for series in THREE if series.name != "sgd")
LONGER = tuple(Series(f"{series.name}_longer", series.name, f"{series.label.split(',')[0]} (longer)", tint=0.6,
                      whole=True, simulation=series.name == "gd") for series in FINITE)    # the other's runs have arrived by then
WAITING = [0.0, 1.0, 10.0, 100.0, 1000.0]
IN_BOTH_PANELS = tuple(series.name for series in (*FINITE, *LONGER))

LONGTIMES = PaperFigure(
    "longtimes", "GD and persistent SGD: theory to t = 10 000, beside the theory and the simulations of figure 2",
    series=(*FINITE, *LONGER),
    panels=(Panel("", IN_BOTH_PANELS), Panel("", IN_BOTH_PANELS, "loss", log_y=True, legend=False),
            Panel("single solutions of the theory", tuple(series.name for series in LONGER), statistic="solutions"),
            Panel("GD, correlation since $t_w$", (LONGER[0].name,), statistic="correlation")),
    columns=2,
    sizes={
        "quick": Size({"simulation.dimension": 300, "simulation.instances": 24, "algorithm.t_max": 30.0},
                      {"theory.samples": 1000, "theory.replicas": 2, "theory.blocks_per_level": 8, "algorithm.t_max": 30.0,
                       "theory.waiting_times": WAITING[:3]}),
        "standard": Size({"simulation.dimension": 400, "simulation.instances": 24, "algorithm.t_max": 300.0},
                         {"theory.samples": 2000, "theory.replicas": 2, "theory.blocks_per_level": 8, "algorithm.t_max": 300.0,
                          "theory.waiting_times": WAITING[:4]}),
        "full": Size({"simulation.instances": 24, "algorithm.t_max": 10_000.0},
                     {"theory.samples": 32_768, "theory.replicas": 8, "algorithm.t_max": 10_000.0,
                      "theory.waiting_times": WAITING}),
    },
    shares=True,
)
