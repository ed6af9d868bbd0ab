"""Theory and simulation to t = 1000, a hundred thousand steps: what the infinite system does where finite ones stick."""

from __future__ import annotations

from reproduction.paper.figure import Panel, PaperFigure, Series, Size

LONG_STARTS = (("m02", 0.2), ("m05", 0.5))
ALGORITHMS = (("gd", "GD"), ("persistent_sgd", r"persistent SGD, $\ell = 0.5$, $\tau = 1$"))

LONGTIMES = PaperFigure(
    "longtimes", "GD and persistent SGD to t = 1000, theory beside finite dimension",
    series=tuple(Series(f"{run}_{start}", run, label, {"problem.m0": m0})
                 for start, m0 in LONG_STARTS for run, label in ALGORITHMS),
    panels=tuple(Panel(f"$m_0 = {m0}$", tuple(f"{run}_{start}" for run, _ in ALGORITHMS), observable, log_y=observable == "loss",
                       legend=observable == "m" and start == "m02")
                 for start, m0 in LONG_STARTS for observable in ("m", "loss")),
    columns=2,
    sizes={
        "quick": Size({"simulation.dimension": 300, "simulation.instances": 16, "algorithm.t_max": 30.0},
                      {"theory.samples": 1000, "theory.replicas": 2, "theory.blocks_per_level": 8, "algorithm.t_max": 30.0}),
        "standard": Size({"simulation.dimension": 400, "simulation.instances": 30},
                         {"theory.samples": 2000, "theory.replicas": 2, "theory.blocks_per_level": 8, "algorithm.t_max": 300.0}),
        "full": Size(),
    },
    shares=True,
)
