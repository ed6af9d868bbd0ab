"""Result files: the only module that knows HDF5. Plain arrays and text, complete or absent.

A file is written beside its target, synced, and renamed, so that a killed writer leaves the old file or none.
Root attributes: kind, schema_version, run (completed TOML), checksum, provenance and what the writer adds.
Checkpoints are the same files under another name (`checkpoint_path`).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from dmft.core.errors import FileError
from dmft.core.locks import lock
from dmft.core.provenance import provenance

__all__ = ["Stored", "Writer", "checkpoint_path", "load", "load_checkpoint", "load_header", "lock", "read",
           "remove_checkpoint", "save", "save_checkpoint", "sha256_of"]

SCHEMA_VERSION = 1
KINDS = ("theory", "simulation", "onepass", "convergence", "sweep")
_OWN = ("kind", "schema_version", "run", "checksum", "checkpoint")

Attributes = Mapping[str, str | int | float | bool | np.ndarray]
# What h5py raises on files that are cut short or overwritten.
_DAMAGE = (OSError, KeyError, RuntimeError, ValueError, TypeError, AttributeError, UnicodeDecodeError)


@dataclass(frozen=True)
class Stored:
    """The contents of a file. `shapes` names every dataset; `arrays` holds those that were read."""

    path: Path
    kind: str
    schema_version: int
    run_text: str
    attrs: dict[str, Any]
    arrays: dict[str, np.ndarray] = field(repr=False)
    shapes: dict[str, tuple[int, ...]] = field(repr=False)
    is_checkpoint: bool = False


# --- writing ----------------------------------------------------------------------------------------------

def save(path: str | Path, kind: str, run_text: str, arrays: Mapping[str, np.ndarray], attrs: Attributes,
         checkpoint: bool = False) -> None:
    """Write a whole file. Names of arrays may hold groups ("replicas/m"). Only the root rank may call this."""
    plain = {name: _plain_array(name, array) for name, array in arrays.items()}
    with Writer(path, kind, run_text, attrs, checkpoint) as writer:
        for name, array in plain.items():
            writer.file.create_dataset(name, data=array)
        writer.file.attrs["checksum"] = _checksum(run_text, plain)


class Writer:
    """Writes a file piece by piece, for arrays too large for memory; the file appears when the block ends well.

    with Writer(path, kind, run_text, attrs) as writer:
        writer.create("m", (instances, times))
        writer.write("m", slice(0, 10), rows)
    """

    def __init__(self, path: str | Path, kind: str, run_text: str, attrs: Attributes, checkpoint: bool = False):
        if kind not in KINDS:
            raise ValueError(f"unknown kind of file {kind!r}")
        self.path = Path(path)
        self._part = self.path.with_name(f"{self.path.name}.{os.getpid()}.part")
        self._attrs = {**provenance(), **attrs, "kind": kind, "schema_version": SCHEMA_VERSION, "run": run_text,
                       "checkpoint": checkpoint}

    def __enter__(self) -> Writer:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.file = h5py.File(self._part, "w")
        except OSError as error:
            raise _unwritable(self.path, error) from None
        self.file.attrs.update(self._attrs)
        return self

    def create(self, name: str, shape: tuple[int, ...], dtype: Any = np.float64) -> None:
        """A dataset to be filled by `write`; damage shows on reading (each chunk has a checksum)."""
        self.file.create_dataset(name, shape, dtype, fletcher32=True)

    def write(self, name: str, index: Any, values: np.ndarray) -> None:
        self.file[name][index] = values

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        try:
            self.file.close()
            if error is None:
                _sync(self._part)
                os.replace(self._part, self.path)
                _sync(self.path.parent)
        except (OSError, RuntimeError) as problem:
            raise _unwritable(self.path, problem) from None
        finally:
            self._part.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise _unwritable(self.path, error) from None


def _plain_array(name: str, array: Any) -> np.ndarray:
    plain = np.asarray(array)
    if plain.dtype.kind not in "biuf":
        raise TypeError(f"dataset {name}: only plain numbers are stored, not {plain.dtype}")
    return plain


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _unwritable(path: Path, error: BaseException) -> FileError:
    reason = getattr(error, "strerror", None) or str(error)
    return FileError(f"{path}: cannot be written: {' '.join(reason.split())}")


def _checksum(run_text: str, arrays: Mapping[str, np.ndarray]) -> str:
    """sha256 over the run text and every array with its name, type and shape."""
    digest = hashlib.sha256(run_text.encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"\n{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


# --- reading ----------------------------------------------------------------------------------------------

def load(path: str | Path) -> Stored:
    """Read a whole file and verify its checksum. FileError when it is missing, foreign, newer or damaged."""
    with _opened(path) as file:
        stored = _describe(Path(path), file)
        stored.arrays.update({name: file[name][()] for name in stored.shapes})
        checksum = file.attrs.get("checksum")
    if checksum is not None and checksum != _checksum(stored.run_text, stored.arrays):
        raise FileError(f"{path}: damaged: its contents do not match its checksum; make it again")
    return stored


def load_header(path: str | Path) -> Stored:
    """Everything but the arrays, for looking at large files."""
    with _opened(path) as file:
        return _describe(Path(path), file)


def read(path: str | Path, name: str, index: Any = ()) -> np.ndarray:
    """One dataset, or a part of it, without reading the rest."""
    with _opened(path) as file:
        if name not in file:
            raise FileError(f"{path}: has no dataset '{name}' (it has {', '.join(_describe(Path(path), file).shapes)})")
        return np.asarray(file[name][index])


@contextmanager
def _opened(path: str | Path) -> Iterator[h5py.File]:
    if not os.path.exists(path):
        raise FileError(f"{path}: no such file")
    try:
        with h5py.File(path, "r", locking="best-effort") as file:
            yield file
    except _DAMAGE as error:
        if isinstance(error, PermissionError) or os.path.isdir(path):
            raise FileError(f"{path}: cannot be read: {'a folder' if os.path.isdir(path) else 'no permission'}") from None
        raise FileError(f"{path}: not a result file, or damaged: {_first_line(error)}") from None


def _first_line(error: BaseException) -> str:
    content = str(error).strip().strip("'\"")
    return content.splitlines()[0] if content else type(error).__name__


def _describe(path: Path, file: h5py.File) -> Stored:
    attrs = {name: _plain_attribute(value) for name, value in file.attrs.items()}
    kind, schema = attrs.get("kind"), attrs.get("schema_version")
    if kind not in KINDS or not isinstance(schema, int) or not isinstance(attrs.get("run"), str):
        raise FileError(f"{path}: an HDF5 file, but not a result of this package")
    if schema > SCHEMA_VERSION:
        raise FileError(f"{path}: written by a newer version (schema {schema}, this package reads up to "
                        f"{SCHEMA_VERSION}); update the package")
    shapes: dict[str, tuple[int, ...]] = {}

    def visit(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            shapes[name] = item.shape

    file.visititems(visit)
    others = {name: value for name, value in attrs.items() if name not in _OWN}
    return Stored(path, kind, schema, attrs["run"], others, {}, shapes, bool(attrs.get("checkpoint", False)))


def _plain_attribute(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    return value.item() if isinstance(value, np.generic) else value


# --- checkpoints and locks --------------------------------------------------------------------------------

def checkpoint_path(path: str | Path) -> Path:
    """Where the checkpoint of a result lives."""
    return Path(f"{path}.checkpoint")


def save_checkpoint(path: str | Path, kind: str, run_text: str, arrays: Mapping[str, np.ndarray], attrs: Attributes) -> None:
    """Write the checkpoint of the result `path`."""
    save(checkpoint_path(path), kind, run_text, arrays, attrs, checkpoint=True)


def load_checkpoint(path: str | Path) -> Stored | None:
    """The checkpoint of the result `path`, None when there is none. FileError when it is damaged."""
    place = checkpoint_path(path)
    if not place.exists():
        return None
    try:
        return load(place)
    except FileError as error:
        raise FileError(f"{error}; --force starts afresh") from None


def remove_checkpoint(path: str | Path) -> None:
    checkpoint_path(path).unlink(missing_ok=True)


def sha256_of(path: str | Path) -> str:
    """sha256 of a file, e.g. of a plugin."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()
