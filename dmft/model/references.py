"""Which papers a run rests on: its theory, and what the objects that it names tell of themselves."""

from __future__ import annotations

from dmft.model.data import data_of, is_sampled, make_start, named_schedules
from dmft.model.loss_family import LossFamily
from dmft.model.registry import Physics, make
from dmft.model.runfile import Run
from dmft.model.schedules import Schedule

THEORY, NETWORKS = "mignacco2021stochasticity", "dandi2024benefits"


def references_of(run: Run) -> list[tuple[str, str]]:
    """(key of dmft.core.references, reason) of everything to cite for a run, without repetition, the theory first."""
    problem, algorithm = run.problem, run.algorithm
    found: dict[str, list[str]] = {THEORY: ["the theory"]} if is_sampled(problem) else {}
    parts: list[Physics] = [data_of(problem), make(LossFamily, problem.loss, problem), algorithm.make_kind(), make_start(problem)]
    parts += [algorithm.make_rule()] if algorithm.has_momentum else []
    parts += [make(Schedule, form) for _, form in named_schedules(problem, algorithm)]
    for key, reason in (told for part in parts for told in part.references):
        found.setdefault(key, []).append(reason)
    if run.has_network:
        found[NETWORKS] = ["two-layer networks that see their samples again"]
    return [(key, ", and ".join(reasons)) for key, reasons in found.items()]
