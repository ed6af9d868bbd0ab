"""A scan on this machine: all points of a grid, solved or simulated side by side, and gathered into one table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dmft.core import store
from dmft.core.errors import Stopped, UserError
from dmft.core.schema import toml_value
from dmft.core.stopping import StopSignals
from dmft.model.runfile import Run, parse_run
from workbench.scans.gathering import gathered
from workbench.scans.points import GridPoint
from workbench.scans.running import Work, run_side_by_side
from workbench.scans.scan import Scan, make_scan

PROGRAMS = {"theory": ("dmft", "solve"), "simulation": ("sgd_sim", "run")}
FAILED = (1, 2)  # exit codes without a result; others tell how a result ended


def run_scan(run: Run, points: Sequence[GridPoint], folder: Path, kinds: Sequence[str], processes: int, threshold: float,
             stop: StopSignals, times: Sequence[float] | None = None, plugins: Sequence[str] = (), quiet: bool = False) -> Scan:
    """Compute what is not there yet, and gather all of it. Stopped where it was asked to stop: the same call goes on."""
    work = []
    for point in points:
        here = run.replace(_settings(point))
        for kind in kinds:
            output = folder / f"{point.name}.{kind}.h5"
            if not _there(output, here):
                text = output.with_suffix(".toml")
                text.parent.mkdir(parents=True, exist_ok=True)
                text.write_text(here.to_toml())
                named = [word for plugin in plugins for word in ("--plugin", plugin)]
                work.append(Work([*PROGRAMS[kind], str(text), *named], output))
    codes, stopped = run_side_by_side(work, processes, stop, quiet)
    failed = [one for one in work if codes.get(one.output) in FAILED]
    if failed:
        raise UserError(f"{len(failed)} of {len(work)} results failed, e.g. {failed[0].output.name}: {failed[0].said()}")
    if stopped:
        there = sum(one.output.exists() for one in work)
        raise Stopped(f"stopped, {there} of {len(work)} results are there; the same command goes on", stopped)
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
