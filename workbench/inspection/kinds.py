"""The kinds of result files, each with a module that knows how to read, check and draw it. The module is found by the kind that a
file names, and imported then: whoever looks at a theory does not wait for one-pass SGD.

A new kind is a module in workbench/kinds with a class below FileKind, and a line in KINDS. A new picture of a kind is a function in
workbench/plots, and a line in VIEWS.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from dmft.core import store
from dmft.core.errors import FileError
from dmft.files.layouts import of_network
from dmft.model.runfile import Run
from dmft.result.comparison import Curve

# kind: the module whose KIND it is
KINDS = {
    "theory": "workbench.kinds.theory",
    "simulation": "workbench.kinds.simulation",
    "onepass": "workbench.kinds.onepass",
    "convergence": "workbench.kinds.convergence",
    "sweep": "workbench.kinds.sweep",
}
# The same for files whose run has a network.
NETWORK_KINDS = {"theory": "workbench.kinds.network_theory", "simulation": "workbench.kinds.network_simulation"}


class View(NamedTuple):
    """A picture that `dmft plot --view` draws in the place of the whole one: what it shows, and for each sort of file that has it
    "module:function" of (result, path), or "" for the whole picture itself."""

    meaning: str
    drawn_by: dict[str, str]


VIEWS = {
    "fdt": View("effective temperatures of fluctuation and response (theory files, [theory] fdt = true)",
                {"theory": "workbench.plots.fdt:draw"}),
    "fields": View("joint law of the fields of student and teacher (theory and simulation files, [theory] snapshots)",
                   {"theory": "workbench.plots.fields:draw_theory", "simulation": "workbench.plots.fields:draw_simulation"}),
    "network": View("overlaps, errors and the matrix of overlaps (files of networks)",
                    {"theory of a network": "", "simulation of a network": ""}),
}


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


@dataclass(frozen=True)
class ResultCheck:
    """One number; `fine` is None where there is no bound for it. told: where it is not fine the result itself warns of it
    (theory.warnings)."""

    name: str
    value: float
    fine: bool | None
    meaning: str
    told: bool = False


class FileKind:
    """What is asked of a kind of file; what a kind does not have is empty."""

    sort: ClassVar[str] = ""  # its name in VIEWS

    def read(self, header: store.Stored) -> Any:
        """The contents of a result, or of a checkpoint, as an object."""
        raise NotImplementedError

    def curves(self, result: Any) -> dict[str, Curve]:
        """Curves by name; empty for kinds without a time axis. Components of an array are named M[0,1]."""
        return {}

    def checks(self, result: Any) -> list[ResultCheck]:
        """Numbers that must be small."""
        return []

    def share_done(self, opened: Opened) -> float:
        """The share of its work that a running job had done at its last checkpoint."""
        return float(opened.header.attrs.get("progress", 0.0))

    def progress(self, opened: Opened) -> dict[str, Any]:
        """What of a running job is done, in units of the kind."""
        return {}

    def warnings(self, opened: Opened) -> list[str]:
        """What a reader should know before trusting the result."""
        return []

    def draw(self, opened: Opened, path: Path | None) -> Any:
        """The picture as a matplotlib Figure, written to `path` unless that is None."""
        raise NotImplementedError

    def draw_view(self, opened: Opened, view: str, path: Path | None) -> Any:
        """One of VIEWS in the place of the whole picture; FileError where this kind does not have it."""
        meaning, drawn_by = VIEWS[view]
        if self.sort not in drawn_by:
            raise FileError(f"{opened.path}: a {opened.kind} file has no view '{view}', which draws {meaning}")
        module, _, function = drawn_by[self.sort].partition(":")
        return getattr(import_module(module), function)(opened.result, path) if module else self.draw(opened, path)


def kind_of(header: store.Stored) -> FileKind:
    """The kind of a file; FileError for one that nothing here reads."""
    if header.kind not in KINDS:
        raise FileError(f"{header.path}: a {header.kind} file, which nothing here reads")
    kinds = KINDS | NETWORK_KINDS if of_network(header.run_text) else KINDS
    return import_module(kinds[header.kind]).KIND
