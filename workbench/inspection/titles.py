"""An experiment in a few words, for titles and legends."""

from __future__ import annotations

from dmft.model.data import data_text
from dmft.model.registry import name_of
from dmft.model.runfile import Run
from dmft.result.theory import Theory


def experiment_text(run: Run) -> str:
    """Algorithm, loss unless it is that of phase retrieval, alpha or what stands in its place without samples, start, learning
    rate, and a ridge where there is one:
    "gd, alpha = 3, m0 = 0.5, eta = 0.02"."""
    problem = run.problem
    start = f"m0 = {problem.m0:g}" if isinstance(problem.m0, float) else f"{name_of(problem.start)} start"
    loss = "" if problem.loss == "phase_retrieval" or run.has_network else f"{name_of(problem.loss)}, "
    ridge = "" if problem.constraint != "ridge" else f", ridge {problem.ridge:g}" if isinstance(problem.ridge, float) else ", ridge"
    return f"{run.algorithm.kind}, {loss}{data_text(problem)}, {start}, eta = {run.algorithm.rate_text}{ridge}"


def solution_text(theory: Theory) -> str:
    """What was solved and by how many samples, for the title of a picture."""
    count = len(theory.replicas["m"])
    bands = "bands: 2 standard errors" if count > 1 else "one replica, no error bands"
    by = f"{count} x {theory.run.theory.samples} samples, {theory.outcome}; {bands}" if theory.sampled else theory.outcome
    return f"{experiment_text(theory.run)}, {by}"
