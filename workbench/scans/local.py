"""A scan on this machine: all points of a grid, solved or simulated side by side, and gathered into one table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dmft.core import store
from dmft.core.command import EXIT_DIVERGED, EXIT_DONE, EXIT_NOT_CONVERGED
from dmft.core.errors import FileError, RunError, Stopped, UserError
from dmft.core.schema import toml_value
from dmft.core.stopping import StopSignals, exit_code_of
from dmft.model.data import starts_at_random
from dmft.model.runfile import Run, parse_run
from workbench.scans.gathering import gathered
from workbench.scans.points import GridPoint
from workbench.scans.running import Work, run_side_by_side
from workbench.scans.scan import SCANNED_KINDS, Scan, make_scan

PROGRAMS = {"theory": ("dmft", "solve"), "simulation": ("sgd_sim", "run")}
ENDED = (EXIT_DONE, EXIT_DIVERGED, EXIT_NOT_CONVERGED)  # exit codes of programs that left a result


def kinds_of(simulate: bool, compare: bool) -> tuple[str, ...]:
    """Kinds of results of a scan: theories, simulations, or both."""
    return SCANNED_KINDS if compare else ("simulation" if simulate else "theory",)


def run_scan(run: Run, points: Sequence[GridPoint], folder: Path, kinds: Sequence[str], processes: int, threshold: float,
             stop: StopSignals, times: Sequence[float] | None = None, plugins: Sequence[str] = (), quiet: bool = False) -> Scan:
    """Compute what is not there yet, and gather all of it. Stopped where it was asked to stop: the same call continues."""
    if folder.exists() and not folder.is_dir():
        raise FileError(f"{folder}: a file; name a folder for the results of a scan")
    runs = _checked(run, points, kinds)
    missing = {folder / f"{name}.{kind}.h5": (kind, here) for name, here in runs.items() for kind in kinds
               if not _there(folder / f"{name}.{kind}.h5", here)}
    work = [_work(output, kind, here, plugins) for output, (kind, here) in missing.items()]
    codes = run_side_by_side(work, processes, stop, quiet)
    left = [one for one in work if codes.get(one.output) not in ENDED or not one.output.exists()]
    if left and stop.flags:
        raise Stopped(f"stopped, {len(work) - len(left)} of {len(work)} results are there; the same command continues",
                      exit_code_of(stop.flags))
    if left:
        raise UserError(f"{len(left)} of {len(work)} results failed, e.g. {left[0].output.name}: {left[0].said()} (exit code "
                        f"{codes[left[0].output]}); the same command tries them again")
    for one in work:
        one.log.unlink()
    return make_scan(gathered(folder, threshold), times, threshold)


def _checked(run: Run, points: Sequence[GridPoint], kinds: Sequence[str]) -> dict[str, Run]:
    """The runs of all points by name, each once; RunError before anything is computed."""
    runs = {point.name: _at(run, point) for point in points}
    if not runs or len({each.to_toml() for each in runs.values()}) < len(points):
        raise RunError("a scan needs one point at least, and each once")
    if "theory" in kinds and any(starts_at_random(each.problem) for each in runs.values()):
        raise RunError('[problem] start = "random": m is 0 in the theory, and tables of scans hold m; scan simulations '
                       "(--simulate), or solve point by point and look at V with dmft escape")
    return runs


def _at(run: Run, point: GridPoint) -> Run:
    try:
        return run.replace(_settings(point))
    except RunError as error:
        raise RunError(f"scan, point {', '.join(point.settings)}: {str(error).removeprefix('replace: ')}") from None


def _work(output: Path, kind: str, run: Run, plugins: Sequence[str]) -> Work:
    """The program that makes a result, with its run file beside it."""
    text = output.with_suffix(".toml")
    text.parent.mkdir(parents=True, exist_ok=True)
    text.write_text(run.to_toml())
    return Work([*PROGRAMS[kind], str(text), *(word for plugin in plugins for word in ("--plugin", plugin))], output)


def _settings(point: GridPoint) -> dict[str, object]:
    """The keys of a point with their values."""
    return {key: toml_value(value) for key, _, value in (text.partition("=") for text in point.settings)}


def _there(output: Path, run: Run) -> bool:
    """Whether this very result is there already."""
    try:
        return output.exists() and parse_run(store.load_header(output).run_text, str(output), any_loss=True) == run
    except UserError:
        return False
