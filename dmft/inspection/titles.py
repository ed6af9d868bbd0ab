"""An experiment in a few words, for titles and legends."""

from __future__ import annotations

from dmft.model.runfile import Run


def experiment_text(run: Run) -> str:
    """Algorithm, alpha, start and learning rate: "gd, alpha = 3, m0 = 0.5, eta = 0.02"."""
    start = f"m0 = {run.problem.m0:g}" if run.problem.m0 is not None else f"{run.problem.start} start"
    return f"{run.algorithm.kind}, alpha = {run.problem.alpha:g}, {start}, eta = {run.algorithm.rate_text}"
