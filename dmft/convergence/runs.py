"""convergence_study: solve a run at several samples, learning rates, blocks_per_level, mixings, or numbers of the estimator, and
compare.

Every point is an ordinary theory run with its own file beside the output, so that a study can be resumed between points and
inside one. Under MPI the points are distributed over groups of ranks; no number depends on how.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from dmft.convergence.axis import INDEPENDENT, SMALL_IS_FINE, make_axis
from dmft.convergence.study import Study, load_study
from dmft.core.errors import DmftWarning, RunError, Stopped, UserError
from dmft.core.locks import lock
from dmft.core.outputs import examine
from dmft.core.parallel import Comm, world
from dmft.core.progress import Progress
from dmft.core.stopping import Stop
from dmft.equations.tuning import ESTIMATOR, Estimator
from dmft.files.layouts import AXES, TUNED
from dmft.model.data import is_sampled
from dmft.model.runfile import Run
from dmft.result.theory import Theory
from dmft.running.runner import check, solve

_log = logging.getLogger("dmft.convergence")


@dataclass(frozen=True)
class Point:
    """One solution of a study: the value of the parameter of its axis, and the run with that value."""

    axis: str
    value: float
    run: Run
    estimator: Estimator = ESTIMATOR

    @property
    def cost(self) -> float:
        """Rough amount of work, for an even distribution of the points."""
        return float(self.run.theory.samples) * self.run.algorithm.steps**2

    def file(self, output: Path) -> Path:
        return points_folder(output) / f"{self.axis}-{self.value:g}.h5"


def points_folder(output: Path) -> Path:
    """The folder with the files of the points."""
    return output.with_name(f"{output.name}.points")


def convergence_study(run: Run, samples: Sequence[int] = (), learning_rate: Sequence[float] = (),
                      blocks_per_level: Sequence[int] = (), mixing: Sequence[float] = (), *, output: str | Path | None = None,
                      resume: bool = False, quiet: bool = False, stop: Stop | None = None, attrs: dict[str, Any] | None = None,
                      estimator: Mapping[str, Sequence[float]] | None = None) -> Study:
    """Vary one parameter at a time around `run` and compare all curves and kernels with the finest point of its axis.

    Points in samples and learning_rate have seeds of their own, so that their errors are independent; those in
    blocks_per_level, mixing and `estimator` share their random numbers. Every rank of the job must call this and gets the study.
    estimator: values of fields of dmft.Estimator, by name; the axis of `ridge_prior` is study["estimator.ridge_prior"].
    output, resume, quiet, stop, attrs: as for `solve`; the points keep files of their own beside the output.
    """
    comm = world()
    tuned = {f"{TUNED}{name}": values for name, values in (estimator or {}).items()}
    points = study_points(run, {"samples": samples, "learning_rate": learning_rate, "blocks_per_level": blocks_per_level,
                           "mixing": mixing, **tuned})
    with ExitStack() as stack:
        place = Path(output) if output else None
        if place:
            comm.from_root(lambda: _prepare(place, resume, attrs or {}, stack))
        theories = _solve_all(points, place, resume, quiet, stop, attrs or {}, comm)

        def finish() -> Study:
            axes = {}
            for name in dict.fromkeys(point.axis for point in points):
                mine = [i for i, point in enumerate(points) if point.axis == name]
                axes[name] = make_axis(name, [points[i].value for i in mine], [theories[i] for i in mine])
            study = Study(run, axes, {**(attrs or {}), "ranks": comm.size, "wall_time": _seconds(points, theories, comm)})
            if place:
                study.save(place)
            return study

        return comm.from_root(finish)


def _prepare(output: Path, resume: bool, attrs: dict[str, Any], stack: ExitStack) -> None:
    """Lock the output, and refuse a file that a study cannot continue from. A resumed study may have more values than the stored
    one, so the study as a whole never counts as complete; each of its points checks its own run."""
    stack.enter_context(lock(output))
    if resume:
        examine(output, "convergence", lambda text, source: [], attrs)


def _seconds(points: list[Point], theories: list[Theory], comm: Comm) -> float:
    """Running time of a study: that of the group of ranks whose points took longest. The time of a point is the sum over all its
    interrupted runs, so that nothing is lost when a study is stopped or killed."""
    shares = shared_out(points, min(len(points), comm.size))
    return max(sum(float(theories[i].attrs.get("wall_time", 0.0)) for i in share) for share in shares)


def study_points(run: Run, asked: dict[str, Sequence[float]]) -> list[Point]:
    """All solutions of a study, each axis from coarse to fine."""
    asked = {name: values for name, values in asked.items() if len(values)}
    if not asked:
        raise RunError(f"a convergence study needs two values or more of one of {', '.join(AXES)}, e.g. --samples 1000,4000")
    points = []
    for name, values in asked.items():
        distinct = sorted(set(values), reverse=name in SMALL_IS_FINE)
        if len(distinct) < 2:
            raise RunError(f"{name}: a convergence study needs two values at least, not {list(values)}")
        if name == "samples" and not is_sampled(run.problem):
            raise RunError(f'samples: data = "{run.problem.data}" has none; vary learning_rate or blocks_per_level')
        if name == "mixing" and run.theory.method != "iterate":
            raise RunError('mixing: only theory.method = "iterate" mixes; set it in the run file or with --set')
        if name == "blocks_per_level" and run.theory.method != "march":
            raise RunError('blocks_per_level: only theory.method = "march" compresses its history')
        for i, value in enumerate(distinct):
            if name.startswith(TUNED):
                points.append(Point(name, value, run, _tuned(name.removeprefix(TUNED), value)))
                continue
            changes: dict[str, Any] = {name: value}
            if name == "blocks_per_level":
                changes["theory.history"] = "dyadic"
            if name in INDEPENDENT:
                changes["theory.seed"] = run.theory.seed + i
            points.append(Point(name, value, run.replace(changes)))
    return points


def _tuned(name: str, value: float) -> Estimator:
    """The estimator with one of its numbers changed."""
    known = [each.name for each in fields(Estimator)]
    if name not in known:
        raise RunError(f"estimator: there is no {name!r}; it has {', '.join(known)}")
    change: dict[str, Any] = {name: value}
    return replace(ESTIMATOR, **change)


def _solve_all(points: list[Point], output: Path | None, resume: bool, quiet: bool, stop: Stop | None,
               attrs: dict[str, Any], comm: Comm) -> list[Theory]:
    """The solutions of all points in order, on every rank."""
    group = comm.split(min(len(points), comm.size))
    mine = shared_out(points, min(len(points), comm.size))[group.group]
    solved: dict[int, Theory] = {}
    trouble: UserError | Stopped | None = None
    try:
        for i in mine:      # refuse what cannot be solved before any work or output
            check(points[i].run, group)
        with Progress(sum(points[i].cost for i in mine), "converge", quiet) as progress:
            for begun, i in enumerate(mine, 1):
                point = points[i]
                if group.is_root:
                    _log.info(f"point {begun} of {len(mine)}: {point.axis} = {point.value:g}")
                with named_warnings(point):
                    solved[i] = solve(point.run, output=point.file(output) if output else None, resume=resume, quiet=True,
                                      stop=stop, attrs=attrs, comm=group, estimator=point.estimator)
                progress.update(sum(points[j].cost for j in solved))
    except (UserError, Stopped) as error:
        trouble = error
    # Every group reports how it ended, so that all ranks end in the same way.
    for other in comm.gather(trouble):
        if other is not None:
            raise other
    everything: dict[int, Theory] = {}
    for part in comm.gather(solved if group.is_root else {}):
        everything |= part
    return [everything[i] for i in range(len(points))]


@contextmanager
def named_warnings(point: Point) -> Iterator[None]:
    """Warnings about the solution of a point say which one it is."""
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        yield
    for one in given:
        words = f"{point.axis} = {point.value:g}: {one.message}" if issubclass(one.category, DmftWarning) else str(one.message)
        warnings.warn(words, one.category, stacklevel=2)


def shared_out(points: list[Point], groups: int) -> list[list[int]]:
    """Indices of the points of each group: the most expensive first, each to the group with the least work so far."""
    shares: list[list[int]] = [[] for _ in range(groups)]
    work = [0.0] * groups
    for i in sorted(range(len(points)), key=lambda i: -points[i].cost):
        least = work.index(min(work))
        shares[least].append(i)
        work[least] += points[i].cost
    return shares


__all__ = ["AXES", "convergence_study", "load_study"]
