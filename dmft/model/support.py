"""Whether what a run names goes together: every object is asked, in one place, for run files, theory and simulation alike."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any

from dmft.core.errors import RunError
from dmft.core.schema import to_toml_value
from dmft.model import registry
from dmft.model.algorithm import AlgorithmConfig
from dmft.model.channels import Channel
from dmft.model.constraints import Constraint
from dmft.model.data import data_of, make_constraint, make_loss, make_start, named_losses, named_schedules
from dmft.model.law import DataModel
from dmft.model.loss import Loss
from dmft.model.loss_family import LossFamily, jumps_in_field
from dmft.model.network import TwoLayer, network_of
from dmft.model.problem import ProblemConfig
from dmft.model.registry import Physics
from dmft.model.schedules import Schedule
from dmft.model.starts import Start
from dmft.model.updates import Update

CARD_UNITS = 16  # of a network on a GPU, at most: what a thread holds of every unit has to fit into its registers
_CARD_UNITS_REASON = f'device = "gpu" takes at most {CARD_UNITS}; take device = "cpu"'
SOME_LABELS = (-2.0, -1.0, -0.3, 0.3, 1.0, 2.0)  # of a network, at which a user's loss is searched for jumps


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
        for place, form in named_schedules(self.problem, self.algorithm):
            yield f'{place} = "{form["kind"]}"', registry.make(Schedule, form), self
        kind = self.algorithm.make_kind()
        drawing = kind.drawing
        for part in (self.data, self.channel, self.start, self.constraint, kind, *([drawing] if drawing else [])):
            yield f'[{part.section}] {part.key} = "{part.name}"', part, self


def check_support(run: Any, by: str = "", source: str = "") -> None:
    """RunError for the first object that is not meant for a run, with its reason. run: the sections; by: as of Use."""
    if run.theory.hessian and not run.theory.snapshots and not run.has_network:
        raise RunError(f"{source}{': ' if source else ''}[theory] hessian = true: it is that of the snapshots; list their times in "
                       "[theory] snapshots, or leave it out")
    if run.simulation.kernels and looks_ahead(run.algorithm):
        raise RunError(f"{source}{': ' if source else ''}[simulation] kernels = true: with nesterov = true those of the theory are "
                       "of the point ahead, those of a simulation of the weights; take heavy ball, or leave it out")
    whole = Use(run.problem, run.algorithm, run.theory, run.simulation, by)
    parts = whole.parts()
    if run.has_network:
        network = network_of(run.network, run.problem, source)
        constraint = f'[network] constraint = "{network.constraint.name}"', network.constraint, whole
        parts = chain([constraint], (each for each in parts if each[1].section == "algorithm"))
        reason = refused(run, network, whole)
        if reason:
            raise RunError(f"{source}{': ' if source else ''}{reason}")
    elif reason := _clones_refused(run, whole):
        raise RunError(f"{source}{': ' if source else ''}{reason}")
    for place, part, use in parts:
        refusal = part.supports(use)
        if refusal and not isinstance(refusal, str):
            key, refusal = refusal
            section = getattr(run, part.section)
            place = f"[{part.section}] {key}" + ("" if "=" in key else f" = {to_toml_value(getattr(section, key))}")
        if refusal:
            raise RunError(f"{source}{': ' if source else ''}{place}: {refusal}")


def looks_ahead(algorithm: AlgorithmConfig) -> bool:
    """Whether gradients are taken at another point than the weights, at any step."""
    return Update.of(algorithm.make_rule(), algorithm.at_steps("momentum")).looks_ahead


def _clones_refused(run: Any, use: Use) -> str:
    """What does not go together with clones, in a line; "" where all does."""
    theory, algorithm = run.theory, run.algorithm
    if use.by == "simulation" and run.simulation.clones and run.simulation.kernels:
        return "[simulation] clones = true: the second copy of a run is the one of kernels; make two runs"
    if use.by != "theory" or not theory.clones:
        return ""
    reasons = {
        'method = "iterate" has no pairs of samples; take method = "march"': theory.method == "iterate",
        'pairs of samples are on the CPU so far; take device = "cpu"': theory.device == "gpu",
        "keep_state keeps single samples; leave one of them out": theory.keep_state,
        "closed models have no samples to pair; leave it out": not use.data.sampled,
        "not with nesterov = true so far; take heavy ball": looks_ahead(algorithm),
    }
    return next((f"[theory] clones = true: {reason}" for reason, holds in reasons.items() if holds), "")


def refused(run: Any, network: TwoLayer, use: Use) -> str:
    """What is not possible with a network yet, in a line that names place, reason and remedy; "" where all is."""
    theory, simulation, many = run.theory, run.simulation, f"[network] units = {network.units}"
    torn = [place for place, loss in use.losses
            if loss.smooth is False or loss.smooth is None and jumps_in_field(loss, SOME_LABELS)]
    signs = [place for place, loss in use.losses if loss.accepts == ("sign",)]
    everywhere = {
        signs[0] if signs else "": signs and not network.tells_signs and (
            f'made for labels +1 and -1, and label = "{run.problem.label}" gives real numbers; take loss = "linear", or a link of '
            'signs without label_noise, as label = "parity"'),
        "[theory] snapshots": theory.snapshots and "are the fields of a single unit; leave them out with [network]",
        "[theory] hessian = true": theory.hessian and "it is that of a single unit; leave it out with [network]",
    }
    by_theory = {
        '[theory] method = "iterate"': theory.method == "iterate" and 'networks are solved by the march; take method = "march"',
        many: theory.device == "gpu" and network.units > CARD_UNITS and _CARD_UNITS_REASON,
        "[theory] clones = true": theory.clones and "copies are those of a single unit; leave it out with [network]",
        "[theory] fdt = true": theory.fdt and "temperatures are those of a single unit's columns; leave it out with [network]",
        torn[0] if torn else "": torn and "its derivative jumps, which the theory of networks would miss; smooth it",
    }
    by_simulation = {
        f"[simulation] dimension = {simulation.dimension}": simulation.dimension < run.network.units + run.network.directions
        and "has no room for all units and directions; take a larger one",
        many: simulation.device == "gpu" and network.units > CARD_UNITS and _CARD_UNITS_REASON,
        '[simulation] landscape = "shared"': simulation.landscape == "shared" and 'networks have fresh data alone; take "fresh"',
        "[simulation] kernels = true": simulation.kernels and simulation.device == "gpu"
        and 'networks measure C(t, t\') on the CPU so far; take device = "cpu"',
        "[simulation] clones = true": simulation.clones and "copies are those of a single unit; leave it out with [network]",
    }
    asked = everywhere | (by_theory if use.by == "theory" else {}) | (by_simulation if use.by == "simulation" else {})
    return next((f"{place}: {why}" for place, why in asked.items() if why), "")
