"""Open any result file or checkpoint of the project as the object that it stores."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onepass
import sgd_sim
from dmft.convergence.study import load_study
from dmft.core import store
from dmft.core.checkpoint import ACTIVE, check_layout
from dmft.core.errors import FileError, RunError
from dmft.inspection.live import partial_theory
from dmft.model import layouts
from dmft.model.runfile import Run, parse_run
from dmft.result.theory import theory_of
from dmft.scans.reading import load_scan
from onepass import ensemble, runfile
from onepass.instances import PART

# Prefixes of arrays that only --resume needs; they may be large.
INNER = ("state/", "active/", "finished/")


@dataclass(frozen=True)
class Opened:
    """A file: its header, its run (None where the kind has another sort of run file), and its contents as an object:
    Theory, SimulationResult, onepass Trajectory or Ensemble, Study, Scan."""

    header: store.Stored
    run: Run | None
    result: Any = field(repr=False)

    @property
    def path(self) -> Path:
        """The path of the file."""
        return self.header.path

    @property
    def kind(self) -> str:
        """theory, simulation, onepass, convergence or sweep."""
        return self.header.kind

    @property
    def live(self) -> bool:
        """True for the checkpoint of a run that has not ended."""
        return self.header.is_checkpoint


def open_file(path: str | Path) -> Opened:
    """Read a result file or a checkpoint; while a result does not exist yet, its checkpoint is read instead."""
    path = Path(path)
    checkpoint = store.checkpoint_path(path)
    if path.exists() or not checkpoint.exists():
        return _opened(path)
    try:
        return _opened(checkpoint)
    except FileError:
        if checkpoint.exists():
            raise
        return _opened(path)        # the job has just ended, and the result has replaced the checkpoint


def _opened(path: Path) -> Opened:
    header = store.load_header(path)
    return Opened(header, _run(header), _result(header))


def _run(header: store.Stored) -> Run | None:
    try:
        return parse_run(header.run_text, str(header.path), any_loss=True)
    except RunError:
        return None


def _result(header: store.Stored) -> Any:
    try:
        if header.kind == "theory":
            return partial_theory(header) if header.is_checkpoint else theory_of(store.load(header.path))
        if header.kind == "simulation":
            return sgd_sim.load(header.path)
        if header.kind == "onepass":
            return _partial_ensemble(header) if header.is_checkpoint else onepass.load(header.path)
        if header.kind == "convergence":
            return load_study(header.path)
        if header.kind == "sweep":
            return load_scan(header.path)
    except KeyError as error:
        raise FileError(f"{header.path}: a {header.kind} file without the dataset {error}; make it again") from None
    raise FileError(f"{header.path}: a {header.kind} file, which nothing here reads")


def _partial_ensemble(header: store.Stored) -> Any:
    """The finished instances of a running one-pass job."""
    check_layout(header)
    layouts.check(header)
    run = runfile.parse_run(header.run_text, str(header.path))
    place = f"{ACTIVE}/0/{PART}/own"
    arrays = store.load(header.path).arrays         # all arrays in one read, since the running job may replace the file
    flat, columns = arrays[f"{place}/flat"], arrays[f"{place}/columns"]
    ended = columns == flat.shape[1]
    return ensemble.assemble(run.model, run.time.grid(), flat[ended], run.simulation.process, {"asked": len(flat)})
