"""Gaussian mixtures, after Mignacco, Krzakala, Urbani and Zdeborova (2020): the error on new samples against time, for several
batch sizes, persistence times and ridges, for two clusters (logistic loss) and three (the door)."""

from __future__ import annotations

from reproduction.paper.figure import Panel, PaperFigure, Series, Size

MIXTURE_BATCHES, MIXTURE_TIMES, MIXTURE_RIDGES = (0.6, 0.3), (4.0, 16.0), (0.1, 1.0)

_SERIES = (
    Series("gd", "gd", r"GD, $\lambda = 0$"),
    *(Series(f"batch{ell:g}", "persistent_sgd", rf"$\ell = {ell:g}$, $\tau = 1$", {"algorithm.batch_fraction": ell}, shade)
      for ell, shade in zip(MIXTURE_BATCHES, (0.35, 0.7))),
    Series("sgd", "sgd", r"SGD, $\ell = 0.3$"),
    *(Series(f"tau{tau:g}", "persistent_sgd", rf"$\ell = 0.3$, $\tau = {tau:g}$", {"algorithm.persistence": tau}, shade)
      for tau, shade in zip(MIXTURE_TIMES, (0.85, 1.0))),
    *(Series(f"ridge{ridge:g}", "gd", rf"GD, $\lambda = {ridge:g}$", {"problem.ridge": ridge}, shade)
      for ridge, shade in zip(MIXTURE_RIDGES, (0.15, 0.5))),
)
_PANELS = (
    Panel("batch size", ("gd", "batch0.6", "batch0.3"), "error_fresh", log_y=True),
    Panel("persistence", ("sgd", "batch0.3", "tau4", "tau16"), "error_fresh", log_y=True),
    Panel("ridge", ("gd", "ridge0.1", "ridge1"), "error_fresh", log_y=True),
)
_MIXTURE_SIZES = {
    "quick": Size({"simulation.dimension": 300, "simulation.instances": 40, "algorithm.t_max": 20.0},
                  {"theory.samples": 2048, "theory.replicas": 4, "algorithm.t_max": 20.0}),
    "standard": Size({"simulation.dimension": 500, "simulation.instances": 100}, {"theory.samples": 8192}),
    "full": Size(),
}
_REMEMBERED = ("Dashed: where gradient descent ends. The gradient is not divided by l. Parameters as remembered, or chosen, not "
               "read from the paper of 2020")

GMM2 = PaperFigure(
    "gmm2", "two Gaussian clusters, logistic loss: error on new samples for several batch sizes, persistence times and ridges",
    _SERIES, _PANELS, 3, _MIXTURE_SIZES, f"{_REMEMBERED}: rho = 0.5, Delta = 0.5, start variance 0.01.")
GMM3 = PaperFigure(
    "gmm3", "three Gaussian clusters, door loss: error on new samples for several batch sizes, persistence times and ridges",
    _SERIES, _PANELS, 3, _MIXTURE_SIZES, f"{_REMEMBERED}: rho = 0.5, Delta = 0.05, L = 0.7, start variance 0.01.")
