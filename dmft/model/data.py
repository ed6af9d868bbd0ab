"""The objects that a run file's [problem] names."""

from __future__ import annotations

import dataclasses

from dmft.core.schema import Table
from dmft.model.algorithm import AlgorithmConfig
from dmft.model.clock import SCHEDULED
from dmft.model.constraints import Constraint
from dmft.model.law import DataModel
from dmft.model.loss import Loss
from dmft.model.loss_family import LossFamily, like
from dmft.model.problem import ProblemConfig
from dmft.model.registry import Named, find, make, name_of, unknown
from dmft.model.starts import Start


def make_loss(problem: ProblemConfig, name: Named | None = None) -> Loss:
    """The loss of a run, or of a phase that names another, in the form that belongs to its keys and to its labels."""
    return make(LossFamily, problem.loss if name is None else name, problem).make(like(problem.labels))


def data_of(problem: ProblemConfig) -> DataModel:
    """The data model of a run."""
    return dataclasses.replace(make(DataModel, problem.data, problem), loss=make_loss(problem))


def is_sampled(problem: ProblemConfig) -> bool:
    """Whether a run has samples, as all have whose data model is not known here."""
    cls = find("data", problem.data)
    return not (cls and issubclass(cls, DataModel)) or cls.sampled


def data_text(problem: ProblemConfig) -> str:
    """The data of a run in a few words, for titles."""
    text = data_of(problem).text if find("data", problem.data) and find("loss", problem.loss) else ""
    return text or f"alpha = {problem.alpha:g}"


def make_start(problem: ProblemConfig) -> Start:
    """The start of a run."""
    return make(Start, problem.start, problem)


def starts_at_random(problem: ProblemConfig) -> bool:
    """Whether m is of order 1/sqrt(N), so that results have V."""
    cls = find("start", problem.start)  # nothing, in a result that is read without its plugin
    return bool(cls and issubclass(cls, Start) and cls.random)


def make_constraint(problem: ProblemConfig) -> Constraint:
    """The constraint of a run."""
    return make(Constraint, problem.constraint, problem)


def fixed_norm(problem: ProblemConfig) -> float | None:
    """|w|^2/N after every step, where the constraint of a run fixes it; None too for one that is not registered here (a user's,
    in a result that is read back)."""
    return make_constraint(problem).norm if find(Constraint.key, problem.constraint) else None


def named_losses(problem: ProblemConfig, algorithm: AlgorithmConfig) -> list[tuple[str, Named]]:
    """The losses that a run file names, each with the place where it does."""
    found = [("[problem] loss", problem.loss)]
    found += [(f"[[phase]] {i + 1}: loss", phase["loss"]) for i, phase in enumerate(algorithm.phase) if "loss" in phase]
    return [(f'{place} = "{name_of(name)}"', name) for place, name in found]


def named_schedules(problem: ProblemConfig, algorithm: AlgorithmConfig) -> list[tuple[str, Table]]:
    """The forms of schedules that a run file names, each with the place where it does."""
    found = [(f"[{home}] {key}", getattr(section, key)) for home, section in (("problem", problem), ("algorithm", algorithm))
             for key in SCHEDULED if hasattr(section, key)]
    found += [(f"[[phase]] {i + 1}: {key}", phase.get(key)) for i, phase in enumerate(algorithm.phase) for key in SCHEDULED]
    return [(place, setting) for place, setting in found if isinstance(setting, Table)]


def unknown_part(problem: ProblemConfig, algorithm: AlgorithmConfig, reading: bool) -> str:
    """What is wrong with the first loss or schedule that nobody has registered; "" where there is none. reading: of a result, which
    needs the learning rate alone: its times follow from it."""
    parts: list[tuple[str, str, Named]] = [] if reading else [("loss", *each) for each in named_losses(problem, algorithm)]
    parts += [("schedule", *each) for each in named_schedules(problem, algorithm) if not reading or "learning_rate" in each[0]]
    return next((f"{place}: {unknown(role, value)}" for role, place, value in parts if find(role, value) is None), "")


def is_known(problem: ProblemConfig, algorithm: AlgorithmConfig) -> bool:
    """Whether all that a run names is registered here: a result may be read where a user's plugin is missing."""
    parts = [(key, getattr(problem, key)) for key in ("data", "start", "constraint")]
    parts += [("labels", problem.labels)] if problem.labels else []
    parts += [("loss", name) for _, name in named_losses(problem, algorithm)]
    parts += [("schedule", form) for _, form in named_schedules(problem, algorithm)]
    return all(find(key, value) for key, value in parts)
