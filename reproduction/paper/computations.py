"""The commands that compute the data of a figure. Every result has a file name of its own, so that a second call reuses it; its
numbers (numbers.py) can be kept elsewhere, and stand for it then."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from dmft.core import store
from dmft.core.command import EXIT_DIVERGED, EXIT_DONE, OUT
from dmft.core.parallel import world
from dmft.core.schema import to_toml_value
from dmft.core.shipped import run_file
from dmft.core.stopping import EXIT_STOPPED
from dmft.model.runfile import Run, load_run
from dmft.result.theory import theory_of
from reproduction.paper import numbers
from reproduction.paper.figure import Changes, PaperFigure, Series, plain_text
from reproduction.paper.numbers import Lines, Numbers, Runs
from reproduction.paper.scale import scaled
from sgd_sim import load as load_simulation
from workbench.inspection.live import partial_theory

SIDES = ("simulation", "theory")
Command = Callable[[Sequence[str]], int]


@dataclass(frozen=True)
class Computation:
    """One result to compute: the theory or the simulation of a series. `words` are what follows `dmft` or `sgd-sim`; `place` is
    where its numbers are kept, FIGURE/SERIES.HALF.json."""

    series: Series
    half: str
    run_file: Path
    overrides: tuple[str, ...]
    output: Path
    place: Path

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

    def kept(self, folder: Path | None) -> Numbers | None:
        """Its numbers, where they are kept and of this run."""
        return None if folder is None else numbers.kept(folder / self.place, self.half, self.run())

    def unfinished(self, folder: Path | None) -> Numbers | None:
        """What a time limit left of it: to be drawn, not to be taken for the whole."""
        return None if folder is None else numbers.kept(folder / _unfinished(self.place), self.half, self.run())

    def result(self) -> Numbers | None:
        """The numbers of its result file, where there is one."""
        if not self.output.exists():
            return None
        if self.half == "simulation":
            return Runs.of(load_simulation(self.output))
        return Lines.of(theory_of(store.load(self.output)), self.series.whole)

    def reached(self) -> Lines | None:
        """The numbers of the checkpoint of its theory, up to the time that all solutions in it have reached; None where that is no
        time at all, or where there are fewer than two."""
        header = store.checkpoint_header(self.output)
        theory = None if header is None else partial_theory(header)
        if theory is None or len(theory.replicas["loss"]) < 2:
            return None
        reached = np.isfinite(theory.replicas["loss"]).all(axis=0)
        last = int(np.argmin(np.append(reached, False))) - 1
        return Lines.of(theory, self.series.whole).at(np.arange(last + 1)) if last > 0 else None


@dataclass(frozen=True)
class Data:
    """What was computed for a series; a half that a size leaves out is None."""

    series: Series
    simulation: Runs | None
    theory: Lines | None


@dataclass(frozen=True)
class Way:
    """How a figure is computed. scale: all sizes are multiplied by it; numbers: folder of kept numbers; companions: whether the
    theory has those that estimate bias and history error; deadline: of time.time, when to stop."""

    out: Path = OUT
    device: str = "cpu"
    scale: float = 1.0
    numbers: Path | None = None
    companions: bool = True
    deadline: float | None = None
    force: bool = False
    quiet: bool = False

    @property
    def time_limit(self) -> list[str]:
        """The option for a command."""
        if self.deadline is None:
            return []
        left = max(1, int(self.deadline - time.time()))
        return ["--time-limit", f"{left // 3600}:{left // 60 % 60:02d}:{left % 60:02d}"]


def computations(figure: PaperFigure, size: str, way: Way = Way()) -> list[Computation]:  # noqa: B008 - frozen
    """Everything that a figure computes, in the order of its series; those of another figure are computed as it would."""
    found = []
    for series in figure.chosen(size):
        if series.of is not None:
            found += [one for one in computations(series.of, size, way)
                      if one.series.name == series.name and getattr(series, one.half)]
            continue
        found += [_computation(figure, series, half, size, way) for half in SIDES
                  if figure.sizes[size].changes(half, series.name) is not None and getattr(series, half)]
    return found


def _computation(figure: PaperFigure, series: Series, half: str, size: str, way: Way) -> Computation:
    how: dict[str, object] = {} if way.device == "cpu" else {f"{half}.device": way.device}
    if how and half == "simulation":
        how["simulation.precision"] = "float16"    # half the bytes, and half the time
    file = run_file(f"{series.run}.toml" if "/" in series.run else f"{figure.name}/{series.run}.toml")
    overrides = _overrides(series.changes, figure.sizes[size].changes(half, series.name) or {})
    if way.scale != 1.0:
        overrides += _overrides(scaled(load_run(file, overrides), half, way.scale))
    alone = half == "theory" and not way.companions
    if alone:
        how["theory.companions"] = False
        if not series.whole and not load_run(file, overrides).simulation.kernels:
            how["theory.waiting_times"] = [0.0]    # other figures show no columns, which take slots of the history
    name, folder = f"{series.name}.{half}", size if way.scale == 1.0 else f"{size}-{way.scale:g}"
    return Computation(series, half, file, overrides + _overrides(how),
                       way.out / figure.name / folder / f"{name}{'.alone' if alone else ''}.h5", Path(figure.name) / f"{name}.json")


def make(figure: PaperFigure, size: str, commands: Mapping[str, Command], say: Callable[[str], None], way: Way) -> int:
    """Run the computations whose results, or numbers, are missing or incomplete, each by the command of its half; returns the exit
    code of the first that fails, or 0."""
    todo = computations(figure, size, way)
    for k, one in enumerate(todo):
        label = f"[{k + 1}/{len(todo)}] {figure.name}, {one.half}: {plain_text(one.series.label) or one.series.name}"
        if not way.force and one.kept(way.numbers) is not None:
            say(f"{label}: its numbers are kept")
            continue
        if way.deadline is not None and time.time() > way.deadline:
            say(f"{label}: no time left; the same command continues")
            return EXIT_STOPPED
        say(label)
        began = time.time()
        if code := _compute(one, commands, way):
            return code
        say(f"{label}: {time.time() - began:.0f} s")
    return EXIT_DONE


def _compute(one: Computation, commands: Mapping[str, Command], way: Way) -> int:
    """One of them, and its numbers to where they are kept. What a time limit left of a theory is not its end: it is kept under
    another name."""
    code = commands[one.half]([*one.words, "--force" if way.force else "--resume", *(["--quiet"] if way.quiet else []),
                               *way.time_limit])
    if way.numbers is None or not world().is_root:
        return EXIT_DONE if code == EXIT_DIVERGED else code
    if code == EXIT_STOPPED and one.half == "theory" and (reached := one.reached()) is not None:
        numbers.keep(way.numbers / _unfinished(one.place), reached.thinned())
    if code in (EXIT_DONE, EXIT_DIVERGED) and (found := one.result()) is not None:
        numbers.keep(way.numbers / one.place, found.thinned() if isinstance(found, Lines) else found)
        (way.numbers / _unfinished(one.place)).unlink(missing_ok=True)
    return EXIT_DONE if code == EXIT_DIVERGED else code


def _unfinished(place: Path) -> Path:
    return place.with_suffix(".unfinished")


def load(figure: PaperFigure, size: str, way: Way) -> dict[str, Data]:
    """The numbers that are there, by name of series. A theory with companions and one without have the same curves, and stand for
    each other, as their numbers do."""
    halves: dict[str, dict[str, Numbers]] = {}
    series_of = {}
    others = computations(figure, size, replace(way, companions=not way.companions))
    for one, other in zip(computations(figure, size, way), others, strict=True):
        if (found := one.kept(way.numbers) or one.result() or other.result() or one.unfinished(way.numbers)) is not None:
            halves.setdefault(one.series.name, {})[one.half] = found
            series_of[one.series.name] = next(series for series in figure.series if series.name == one.series.name)
    return {name: Data(series_of[name], found.get("simulation"), found.get("theory"))  # type: ignore[arg-type]
            for name, found in halves.items()}


def _overrides(*parts: Changes) -> tuple[str, ...]:
    merged: dict[str, object] = {}
    for part in parts:
        merged.update(part)
    return tuple(f"{key}={to_toml_value(value)}" for key, value in merged.items())
