"""Figures B.1 and B.2: ridge regularisation instead of the sphere."""

from __future__ import annotations

from reproduction.paper.figure import Panel, PaperFigure, Series, Size

RIDGES = (0.0, 0.1, 1.0)
_RIDGE_KINDS = (("gd", "GD"), ("sgd", r"SGD, $\ell = 0.5$"), ("persistent_sgd", r"persistent SGD, $\ell = 0.5$, $\tau = 1$"))


def _sizes(*short: str) -> dict[str, Size]:
    """short: series whose theory ends at t = 100; they rest by then, or two errors are above 0.02 later."""
    return {
        "quick": Size({"simulation.dimension": 300, "simulation.instances": 32, "algorithm.t_max": 100.0},
                      {"theory.samples": 2000, "theory.replicas": 4, "theory.blocks_per_level": 8, "algorithm.t_max": 1.0}),
        "standard": Size({"simulation.dimension": 300, "simulation.instances": 32, "algorithm.t_max": 500.0},
                         {"theory.samples": 8000, "theory.replicas": 4, "theory.blocks_per_level": 8, "algorithm.t_max": 2.0}),
        "full": Size(theory={"theory.samples": 16_384, "theory.replicas": 8},
                     theory_by_series={name: {"algorithm.t_max": 100.0} for name in short}),
    }


FIGB1 = PaperFigure(
    "figB1", "mean square error with ridge 0, 0.1 and 1: double descent",
    series=tuple(Series(f"{run}_ridge{ridge:g}", run, label, {"problem.ridge": ridge})
                 for ridge in RIDGES for run, label in _RIDGE_KINDS),
    panels=tuple(Panel(rf"$\lambda = {ridge:g}$", tuple(f"{run}_ridge{ridge:g}" for run, _ in _RIDGE_KINDS), "mse_fresh",
                       inset="loss", overlaps_line=True, legend=ridge == 1.0) for ridge in RIDGES),
    columns=3,
    sizes=_sizes("sgd_ridge0.1", "persistent_sgd_ridge1"),
    note="Black lines: (B.8) at the overlaps of each run, averaged over runs.",
)

# Without mini-batches there is nothing to rescale: both panels show one run of gradient descent.
_B2 = {word: tuple(Series(f"{run}_{word}", run, label, {"algorithm.rescale_gradient": word == "rescaled"})
                   for run, label in _RIDGE_KINDS[1:]) for word in ("rescaled", "plain")}
_B2_GD = Series("gd", *_RIDGE_KINDS[0])

FIGB2 = PaperFigure(
    "figB2", "mean square error with ridge 0.5, gradient rescaled by the batch fraction (left) or not (right)",
    series=(_B2_GD, *_B2["rescaled"], *_B2["plain"]),
    panels=tuple(Panel(title, (_B2_GD.name, *(one.name for one in _B2[word])), "mse_fresh", inset="loss", legend=word == "rescaled")
                 for word, title in (("rescaled", r"gradient rescaled by $1/\ell$"), ("plain", "gradient not rescaled"))),
    columns=2,
    sizes=_sizes("persistent_sgd_rescaled", "sgd_plain", "persistent_sgd_plain"),
)
