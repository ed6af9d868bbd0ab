"""The programs that a submitted job can run: command, reader of the run file, and estimate of the cost."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

from dmft.core import schema
from dmft.core.errors import UserError
from dmft.model.runfile import Run, load_run
from dmft.running.cost import PROCESS, Cost, estimate
from onepass.runfile import OnePassRun
from onepass.runfile import load_run as load_onepass
from workbench.cli import converge
from workbench.scans.local import PROGRAMS


@dataclass(frozen=True)
class Program:
    """A command that computes from a run file and can be resumed."""

    kind: str                           # of its result, in file names
    words: tuple[str, ...]              # module and subcommand
    load: Callable[..., Any]            # (path, overrides) -> run
    cost: Callable[[Any, int, int, int], Cost | None]   # (run, ranks, cores, cards); None where there is no estimate
    options: tuple[str, ...] = ()       # further options of the command


def _of(kind: str) -> Callable[[Run, int, int, int], Cost]:
    return lambda run, *where: estimate(run, kind, *where)


THEORY_PROGRAM = Program("theory", PROGRAMS["theory"], load_run, _of("theory"))
SIMULATION = Program("simulation", PROGRAMS["simulation"], load_run, _of("simulation"))
_ONEPASS = {"theory": Program("ode", ("onepass", "solve"), load_onepass, lambda run, *where: _unknown(run)),
            "simulation": Program("simulation", ("onepass", "simulate"), load_onepass, lambda run, *where: _unknown(run))}


def programs(options: argparse.Namespace) -> list[Program]:
    """The programs that `dmft submit` is asked to run: one, or two with --compare."""
    study = tuple(word for name, values in converge.asked(options).items() for word in (name, ",".join(map(str, values))))
    onepass = "model" in schema.read_toml(schema.read_text(options.run), str(options.run))
    if onepass and (options.compare or study or options.gpus):
        raise UserError(f"{options.run}: a run file of onepass; --compare, --gpus and the axes of a study are not for these")
    if onepass:
        return [_ONEPASS["simulation" if options.simulate else "theory"]]
    if study and (options.simulate or options.compare or options.array):
        raise UserError("--simulate, --compare, --array: not for a convergence study, whose axes are given too")
    if study:
        return [Program("convergence", ("dmft", "converge"), load_run, _study_cost(converge.asked(options)), study)]
    return [THEORY_PROGRAM, SIMULATION] if options.compare else [SIMULATION if options.simulate else THEORY_PROGRAM]


def _study_cost(axes: dict[str, list[Any]]) -> Callable[[Run, int, int, int], Cost]:
    """The cost of a convergence study: the times of all points added, and the memory of the largest."""
    def cost(run: Run, *where: int) -> Cost:
        points = [estimate(run.replace({converge.KEYS[name]: value}), "theory", *where)
                  for name, values in axes.items() for value in values]
        return replace(largest(points), seconds=sum(point.seconds for point in points))
    return cost


def _unknown(run: OnePassRun) -> None:
    """No estimate: the work of a one-pass run depends on its model and times in ways that were never measured."""
    return None


def largest(costs: list[Cost]) -> Cost:
    """The largest of every field over the costs."""
    return Cost(*(max(getattr(cost, field.name) for cost in costs) for field in fields(Cost)))


GUESS = Cost(4 * 3600.0, PROCESS + (1 << 30), 1 << 28, 1.0)     # without an estimate: four hours, 1.4 GiB per rank

