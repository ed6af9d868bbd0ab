"""The commands that compute the data of a figure. Every result has a file name of its own, so that a second call reuses it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from dmft.api import load as load_theory
from dmft.core.command import EXIT_DIVERGED, EXIT_DONE, OUT
from dmft.core.schema import to_toml_value
from dmft.core.shipped import run_file
from dmft.model.runfile import Run, load_run
from dmft.result.theory import Theory
from reproduction.paper.figure import Changes, PaperFigure, Series, plain_text
from sgd_sim import SimulationResult
from sgd_sim import load as load_simulation

SIDES = ("simulation", "theory")
Command = Callable[[Sequence[str]], int]


@dataclass(frozen=True)
class Computation:
    """One result to compute: the theory or the simulation of a series. `words` are what follows `dmft` or `sgd-sim`."""

    series: Series
    half: str
    run_file: Path
    overrides: tuple[str, ...]
    output: Path

    @property
    def arguments(self) -> list[str]:
        """Run file, --set options and output."""
        sets = [word for override in self.overrides for word in ("--set", override)]
        return [str(self.run_file), *sets, "-o", str(self.output)]

    @property
    def words(self) -> list[str]:
        """Subcommand and arguments."""
        return ["run" if self.half == "simulation" else "solve", *self.arguments]

    @property
    def command(self) -> str:
        """As typed in a shell."""
        return shlex.join(["sgd-sim" if self.half == "simulation" else "dmft", *self.words])

    @property
    def submission(self) -> str:
        """The `dmft submit` command that computes the same as a Slurm job."""
        return shlex.join(["dmft", "submit", *self.arguments, *(["--simulate"] if self.half == "simulation" else [])])

    def run(self) -> Run:
        """The run that the result will hold."""
        return load_run(self.run_file, self.overrides)


@dataclass(frozen=True)
class Data:
    """What was computed for a series; a half that a size leaves out is None."""

    series: Series
    simulation: SimulationResult | None
    theory: Theory | None


def computations(figure: PaperFigure, size: str, out: Path = OUT, device: str = "cpu") -> list[Computation]:
    """Everything that a figure computes, in the order of its series."""
    chosen, found = figure.sizes[size], []
    for series in figure.chosen(size):
        for half in SIDES:
            changes = chosen.simulation if half == "simulation" else chosen.theory
            if changes is None or not getattr(series, half):
                continue
            where = {} if device == "cpu" else {f"{half}.device": device}
            overrides = _overrides(series.changes, changes, chosen.by_series.get(series.name, {}), where)
            found.append(Computation(series, half, run_file(f"{figure.name}/{series.run}.toml"), overrides,
                             out / figure.name / size / f"{series.name}.{half}.h5"))
    return found


def make(figure: PaperFigure, size: str, commands: Mapping[str, Command], force: bool, quiet: bool, say: Callable[[str], None],
         out: Path = OUT, device: str = "cpu") -> int:
    """Run the computations whose results are missing or incomplete, each by the command of its half; returns the exit code of the
    first that fails, or 0."""
    todo = computations(figure, size, out, device)
    for k, one in enumerate(todo):
        say(f"[{k + 1}/{len(todo)}] {one.half}: {plain_text(one.series.label) or one.series.name}")
        words = [*one.words, "--force" if force else "--resume", *(["--quiet"] if quiet else [])]
        code = commands[one.half](words)
        if code not in (EXIT_DONE, EXIT_DIVERGED):
            return code
    return EXIT_DONE


def load(figure: PaperFigure, size: str, out: Path = OUT) -> dict[str, Data]:
    """The results that are there, by name of series."""
    halves: dict[str, dict[str, object]] = {}
    series_of = {}
    for one in computations(figure, size, out):
        if not one.output.exists():
            continue
        result = _simulation(one.output) if one.half == "simulation" else load_theory(one.output)
        halves.setdefault(one.series.name, {})[one.half] = result
        series_of[one.series.name] = one.series
    return {name: Data(series_of[name], found.get("simulation"), found.get("theory"))  # type: ignore[arg-type]
            for name, found in halves.items()}


def _simulation(path: Path) -> SimulationResult:
    """Load a simulation. From a random start m is replaced by |m|, since the loss does not distinguish w from -w."""
    result = load_simulation(path)
    return result if result.run.problem.start == "warm" else replace(
        result, curves=result.curves | {"m": np.abs(result.m)})


def _overrides(*parts: Changes) -> tuple[str, ...]:
    merged: dict[str, object] = {}
    for part in parts:
        merged.update(part)
    return tuple(f"{key}={to_toml_value(value)}" for key, value in merged.items())
