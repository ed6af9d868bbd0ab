"""A scan on this machine: all points of a grid, solved or simulated side by side, and gathered into one table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dmft.core import store
from dmft.core.command import EXIT_DIVERGED, EXIT_DONE, EXIT_NOT_CONVERGED
from dmft.core.errors import FileError, RunError, Stopped, UserError
from dmft.core.schema import toml_value
from dmft.core.stopping import StopSignals, exit_code_of
from dmft.model.runfile import Run, parse_run
from workbench.scans.gathering import gathered
from workbench.scans.points import GridPoint
from workbench.scans.running import Work, run_side_by_side
from workbench.scans.scan import Scan, make_scan

PROGRAMS = {"theory": ("dmft", "solve"), "simulation": ("sgd_sim", "run")}
ENDED = (EXIT_DONE, EXIT_DIVERGED, EXIT_NOT_CONVERGED)  # exit codes of programs that left a result


def run_scan(run: Run, points: Sequence[GridPoint], folder: Path, kinds: Sequence[str], processes: int, threshold: float,
             stop: StopSignals, times: Sequence[float] | None = None, plugins: Sequence[str] = (), quiet: bool = False) -> Scan:
    """Compute what is not there yet, and gather all of it. Stopped where it was asked to stop: the same call goes on."""
    if run.has_network:
        raise RunError("[network]: overlaps of a network are matrices, and tables of scans hold one m; solve its points one by one")
    if folder.exists() and not folder.is_dir():
        raise FileError(f"{folder}: a file; name a folder for the results of a scan")
    runs = {point.name: run.replace(_settings(point)) for point in points}     # all are checked before anything runs
    if not runs or len({each.to_toml() for each in runs.values()}) < len(points):
        raise RunError("a scan needs one point at least, and each once")
    work = []
    for name, here in runs.items():
        for kind in kinds:
            output = folder / f"{name}.{kind}.h5"
            if not _there(output, here):
                text = output.with_suffix(".toml")
                text.parent.mkdir(parents=True, exist_ok=True)
                text.write_text(here.to_toml())
                named = [word for plugin in plugins for word in ("--plugin", plugin)]
                work.append(Work([*PROGRAMS[kind], str(text), *named], output))
    codes = run_side_by_side(work, processes, stop, quiet)
    left = [one for one in work if codes.get(one.output) not in ENDED or not one.output.exists()]
    if left and stop.flags:
        raise Stopped(f"stopped, {len(work) - len(left)} of {len(work)} results are there; the same command goes on",
                      exit_code_of(stop.flags))
    if left:
        raise UserError(f"{len(left)} of {len(work)} results failed, e.g. {left[0].output.name}: {left[0].said()} (exit code "
                        f"{codes[left[0].output]}); the same command tries them again")
    for one in work:
        one.log.unlink()
    return make_scan(gathered(folder, threshold), times, threshold)


def _settings(point: GridPoint) -> dict[str, object]:
    """The keys of a point with their values."""
    return {key: toml_value(value) for key, _, value in (text.partition("=") for text in point.settings)}


def _there(output: Path, run: Run) -> bool:
    """Whether this very result is there already."""
    try:
        return output.exists() and parse_run(store.load_header(output).run_text, str(output), any_loss=True) == run
    except UserError:
        return False
