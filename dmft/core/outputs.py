"""What exists at an output, and what a job may do with it: the one place that decides."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from dmft.core import store
from dmft.core.checkpoint import check_layout
from dmft.core.errors import FileError

# (stored run, its file) -> keys that grew since; refuses any other change with a RunError.
Compare = Callable[[str, str], list[str]]


@dataclass(frozen=True)
class Found:
    """What a resumed job finds: nothing, the complete result, or a file to continue from."""

    header: store.Stored | None = None      # of the checkpoint, or of the result where there is no checkpoint
    grew: tuple[str, ...] = ()              # keys of the run that grew since

    @property
    def complete(self) -> bool:
        return self.header is not None and not self.header.is_checkpoint and not self.grew


def check_free(output: Path, resume: bool, force: bool, points: Path | None = None) -> None:
    """FileError unless a new job may write to `output`: a finished file, a checkpoint, or the folder `points` with the results of
    a study's points, is touched only with --resume or --force."""
    if output.is_dir():
        raise FileError(f"{output}: is a folder; name a file with -o")
    if resume or force:
        return
    if output.exists():
        raise FileError(f"{output}: exists; --resume continues or extends it, --force overwrites it, -o names another")
    if store.checkpoint_path(output).exists():
        raise FileError(f"{output}: has a checkpoint of a stopped run; --resume continues from it, --force starts afresh")
    if points is not None and points.exists():
        raise FileError(f"{points}: holds points of an earlier study; --resume continues with them, --force starts afresh")


def examine(output: Path, kind: str, compare: Compare, attrs: Mapping[str, object], layout: int = 0) -> Found:
    """What a resumed job continues from. FileError for a foreign, damaged or outdated file, or another plugin; RunError for
    another run. attrs: of the new job, with the hashes of its plugins. layout: version of its checkpoints. Only the root rank may
    call this."""
    header = _header(output)
    if header is None:
        return Found()
    if header.kind != kind:
        what = f"the checkpoint of a {header.kind} run" if header.is_checkpoint else f"a {header.kind} file"
        raise FileError(f"{header.path}: {what}, not a {kind}; name another file with -o")
    if header.is_checkpoint:
        if header.path == output:
            raise FileError(f"{output}: a checkpoint, not a result; name the result that it belongs to with -o")
        check_layout(header, layout)
    check_plugins(header.attrs, attrs, str(header.path))
    before, now = (each.get("estimator", "the default one") for each in (header.attrs, attrs))
    if before != now:
        raise FileError(f"{header.path}: --resume with another estimator is refused: it was begun with {before}, now it is {now}")
    return Found(header, tuple(compare(header.run_text, str(header.path))))


def _header(output: Path) -> store.Stored | None:
    """Of the checkpoint, which is newer than any result beside it; else of the result, if there is one."""
    header = store.checkpoint_header(output)
    return store.load_header(output) if header is None and output.exists() else header


def check_stored_plugins(output: Path, given: Mapping[str, object]) -> None:
    """`check_plugins` for whatever lies at the output, before a job begins."""
    header = _header(output)
    if header is not None:
        check_plugins(header.attrs, given, str(header.path))


def check_plugins(stored: Mapping[str, object], given: Mapping[str, object], source: str) -> None:
    """Refuse to continue with a plugin that changed. Both map "plugin:NAME" (among other attributes) to a sha256.

    A plugin that is not given again is left to the run: its loss is then unknown, and refused as such.
    """
    hashes = {value for key, value in given.items() if key.startswith("plugin:")}
    changed = [key.removeprefix("plugin:") for key, value in stored.items()
               if key.startswith("plugin:") and hashes and value not in hashes]
    if changed:
        raise FileError(f"{source}: --resume with another plugin is refused: {', '.join(changed)} has changed since; "
                        "--force starts afresh, -o keeps both")
