"""Open any result file or checkpoint of the project as the object that it stores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dmft.core import store
from dmft.core.errors import FileError, RunError
from dmft.model.runfile import Run, parse_run
from workbench.inspection.kinds import Opened, kind_of

# Prefixes of arrays that only --resume needs; they may be large.
INNER_GROUPS = ("state/", "active/", "finished/")


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
    kind = kind_of(header)
    try:
        return kind.read(header)
    except KeyError as error:
        raise FileError(f"{header.path}: a {header.kind} file without the dataset {error}; make it again") from None
