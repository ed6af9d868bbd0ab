"""Whether what a run names goes together: every object is asked, in one place, for run files, theory and simulation alike."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from dmft.core.errors import RunError
from dmft.core.schema import to_toml_value
from dmft.model import registry
from dmft.model.algorithm import AlgorithmConfig
from dmft.model.channels import Channel
from dmft.model.constraints import Constraint
from dmft.model.data import data_of, make_constraint, make_loss, make_start, named_losses
from dmft.model.kinds import SGD, Drawing
from dmft.model.law import DataModel
from dmft.model.loss import Loss
from dmft.model.loss_family import LossFamily
from dmft.model.problem import ProblemConfig
from dmft.model.registry import Physics
from dmft.model.starts import Start


@dataclass(frozen=True)
class Use:
    """What an object is combined with, for `Physics.supports`: sections of the run file, and the other objects."""

    problem: ProblemConfig
    algorithm: AlgorithmConfig
    theory: Any  # section [theory]
    simulation: Any  # section [simulation]
    by: str  # "theory" or "simulation", which is about to run; "" where the run file is read
    later: bool = False  # whether a loss is that of a later phase

    @cached_property
    def data(self) -> DataModel:
        return data_of(self.problem)

    @property
    def channel(self) -> Channel:
        return self.data.channel

    @cached_property
    def start(self) -> Start:
        return make_start(self.problem)

    @cached_property
    def constraint(self) -> Constraint:
        return make_constraint(self.problem)

    @cached_property
    def losses(self) -> list[tuple[str, Loss]]:
        """The losses of all phases, each with its place in the run file."""
        return [(place, make_loss(self.problem, name)) for place, name in named_losses(self.problem, self.algorithm)]

    def parts(self) -> Iterator[tuple[str, Physics, Use]]:
        """All objects, each with its place in the run file."""
        for i, (place, name) in enumerate(named_losses(self.problem, self.algorithm)):
            yield place, registry.make(LossFamily, name, self.problem), replace(self, later=i > 0)
        kind = self.algorithm.make_kind()
        drawing = [registry.make(Drawing, kind.minibatch)] if isinstance(kind, SGD) else []
        for part in (self.data, self.channel, self.start, self.constraint, kind, *drawing):
            yield f'[{part.section}] {part.key} = "{part.name}"', part, self


def check_support(run: Any, by: str = "", source: str = "") -> None:
    """RunError for the first object that is not meant for a run, with its reason. run: the sections; by: as of Use."""
    for place, part, use in Use(run.problem, run.algorithm, run.theory, run.simulation, by).parts():
        refusal = part.supports(use)
        if refusal and not isinstance(refusal, str):
            key, refusal = refusal
            section = run.algorithm if part.section == "algorithm" else run.problem
            place = f"[{part.section}] {key}" + ("" if "=" in key else f" = {to_toml_value(getattr(section, key))}")
        if refusal:
            raise RunError(f"{source}{': ' if source else ''}{place}: {refusal}")
