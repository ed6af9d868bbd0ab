"""Open any file of the project as the object that its half of the package makes of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dmft.core import store
from dmft.core.errors import FileError, RunError
from dmft.inspection.live import partial_theory
from dmft.model.runfile import Run, parse_run
from dmft.result.theory import theory_of

# Arrays that only --resume needs, and that may be large.
INNER = ("state/", "active/", "finished/")


@dataclass(frozen=True)
class Opened:
    """A file: its header, its run (None where the kind has another sort of run file), and its contents as an object:
    Theory, SimulationResult, onepass Trajectory or Ensemble, Study, Sweep."""

    header: store.Stored
    run: Run | None
    result: Any = field(repr=False)

    @property
    def path(self) -> Path:
        return self.header.path

    @property
    def kind(self) -> str:
        return self.header.kind

    @property
    def live(self) -> bool:
        return self.header.is_checkpoint


def open_file(path: str | Path) -> Opened:
    """Read a result file or a checkpoint. A result that is not there yet stands for its checkpoint."""
    path = Path(path)
    if not path.exists() and store.checkpoint_path(path).exists():
        path = store.checkpoint_path(path)
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
            import sgd_sim
            return sgd_sim.load(header.path)
        if header.kind == "onepass":
            import onepass.result
            return _partial_ensemble(header) if header.is_checkpoint else onepass.result.load(header.path)
        if header.kind == "convergence":
            from dmft.convergence.study import load_study
            return load_study(header.path)
        if header.kind == "sweep":
            from dmft.scans.reading import load_sweep
            return load_sweep(header.path)
    except KeyError as error:
        raise FileError(f"{header.path}: a {header.kind} file without the dataset {error}; make it again") from None
    raise FileError(f"{header.path}: a {header.kind} file, which nothing here reads")


def _partial_ensemble(header: store.Stored) -> Any:
    """The instances of a one-pass run under way that have finished."""
    from onepass import ensemble, runfile

    run = runfile.parse_run(header.run_text, str(header.path))
    flat = store.read(header.path, "flat")
    return ensemble.assemble(run.model, run.time.grid(), flat, run.simulation.process, {"asked": run.simulation.instances})
