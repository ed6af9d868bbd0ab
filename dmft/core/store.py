"""Result files: the only module that knows HDF5. Plain arrays and text; a file is complete or absent.

A file is written beside its target, synced, and renamed, so that a killed writer leaves the old file or none.
Root attributes: kind, schema_version, run (completed TOML), provenance and what the writer adds. Behind the HDF5
data stands one line with its sha256, which HDF5 readers ignore; it is verified before HDF5 sees the file, because
the HDF5 library may loop for ever on damaged data. A file without it (edited with other tools) is still read.
Checkpoints are the same files under another name, and need it; long curves in them are packed (courses.py).
"""

from __future__ import annotations

import errno
import hashlib
import io
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from dmft.core.courses import shape_and_type, values
from dmft.core.errors import FileError
from dmft.core.locks import begun
from dmft.core.provenance import provenance
from dmft.core.scales import SCALE_ALONE, AxisNames, name_axes
from dmft.core.tree import flatten, nest

__all__ = ["Stored", "Writer", "checkpoint_header", "checkpoint_path", "load", "load_header", "read",
           "read_group", "remove_checkpoint", "save", "sha256_of"]

SCHEMA_VERSION = 2
MOST_NAMES = 40  # of datasets that a message lists
_OWN = ("kind", "schema_version", "run", "checkpoint")

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
    dtypes: dict[str, np.dtype] = field(default_factory=dict, repr=False)


# --- writing ----------------------------------------------------------------------------------------------

def save(path: str | Path, kind: str, run_text: str, arrays: Mapping[str, Any], attrs: Attributes,
         checkpoint: bool = False, names: AxisNames | None = None) -> None:
    """Write a whole file. Arrays may be nested, or their names hold groups ("replicas/m"). Only the root rank may call this."""
    plain = {name: _plain_array(name, array) for name, array in flatten(arrays).items()}
    with Writer(path, kind, run_text, attrs, checkpoint) as writer:
        for name, array in plain.items():
            writer.file.create_dataset(name, data=array)
        if names is not None:
            name_axes(writer.file, names)


class _Sink(io.FileIO):
    """A file that swallows what the disk refuses and remembers it: HDF5 crashes when a write fails under it."""

    error: OSError | None = None

    def write(self, data: Any) -> int:
        rest = memoryview(data).cast("B")
        size = len(rest)
        try:
            while len(rest) and self.error is None:
                rest = rest[super().write(rest):]
        except OSError as error:
            self.error = error
        return size

    def truncate(self, size: int | None = None) -> int:
        try:
            return super().truncate(size)
        except OSError as error:
            self.error = self.error or error
            return size or 0

    def check(self) -> None:
        if self.error is not None:
            raise self.error


class Writer:
    """Writes a file piece by piece, for arrays too large for memory; the file appears when the block ends well.

    with Writer(path, kind, run_text, attrs) as writer:
        writer.create("m", (instances, times))
        writer.write("m", slice(0, 10), rows)
    """

    def __init__(self, path: str | Path, kind: str, run_text: str, attrs: Attributes, checkpoint: bool = False):
        self.path = Path(path)
        self._part = self.path.with_name(f"{self.path.name}.{os.getpid()}.part")
        self._attrs = {**provenance(), **attrs, "kind": kind, "schema_version": SCHEMA_VERSION, "run": run_text,
                       "checkpoint": checkpoint}

    def __enter__(self) -> Writer:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._sink = _Sink(self._part, "w+")
            self.file = h5py.File(self._sink, "w")
            self.file.attrs.update(self._attrs)
        except OSError as error:
            with suppress(OSError):         # leave no half-made file behind
                self._part.unlink(missing_ok=True)
            raise _unwritable(self.path, error) from None
        return self

    def create(self, name: str, shape: tuple[int, ...], dtype: Any = np.float64) -> None:
        """A dataset to be filled by `write`."""
        self.file.create_dataset(name, shape, dtype)
        self._sink.check()

    def write(self, name: str, index: Any, values: np.ndarray) -> None:
        """Fill dataset[index] of a dataset made by `create`."""
        self.file[name][index] = values
        self._sink.check()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        try:
            self.file.close()
            self._sink.close()
            if error is None:
                self._sink.check()
                with open(self._part, "ab") as file:
                    file.write(_seal(self._part, os.path.getsize(self._part)))
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
    told = re.search(r"errno = (\d+)", str(error))         # HDF5 puts the system's error number into its own message
    number = int(told[1]) if told else getattr(error, "errno", None)
    reason = os.strerror(number) if number else " ".join(str(error).split())
    remedy = "; make room, then continue with --resume" if number in (errno.ENOSPC, errno.EDQUOT) else ""
    return FileError(f"{path}: cannot be written: {reason}{remedy}")


# --- the seal ---------------------------------------------------------------------------------------------

_SEAL = b"\nsha256 "
SEAL_LENGTH = len(_SEAL) + 64 + 1
_ALWAYS_VERIFY = 1 << 30        # bytes; partial reads of larger files skip the verification


def _seal(path: Path, length: int) -> bytes:
    """The line that stands behind the first `length` bytes of a file."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while length > 0:
            piece = file.read(min(length, 1 << 20))
            if not piece:
                break
            digest.update(piece)
            length -= len(piece)
    return _SEAL + digest.hexdigest().encode() + b"\n"


def _verify(path: Path, state: os.stat_result) -> bool:
    """Whether a file has a seal; FileError when the seal does not match its contents. Read again only when the file has changed."""
    return _verified(path, state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino)


@lru_cache(maxsize=64)
def _verified(path: Path, size: int, *changes: int) -> bool:
    """`_verify`, remembered; the numbers of `changes` differ for a new file under an old name, and for one that was written to."""
    with open(path, "rb") as file:
        magic = file.read(8)
        file.seek(max(0, size - SEAL_LENGTH))
        seal = file.read()
    if magic != b"\x89HDF\r\n\x1a\n":
        raise FileError(f"{path}: not a result file (not HDF5)")
    if not seal.startswith(_SEAL):
        return False
    if seal != _seal(path, size - SEAL_LENGTH):
        raise FileError(f"{path}: damaged: its contents do not match its checksum; make it again")
    return True


# --- reading ----------------------------------------------------------------------------------------------

def load(path: str | Path) -> Stored:
    """Read a whole file. FileError when it is missing, foreign, newer or damaged."""
    with _opened(path, partial=False) as file:
        stored = _describe(Path(path), file)
        stored.arrays.update({name: values(file[name]) for name in stored.shapes})
    return stored


def load_header(path: str | Path) -> Stored:
    """Everything but the arrays, which may be large: `read` brings them one by one."""
    with _opened(path) as file:
        return _describe(Path(path), file)


def read(path: str | Path, name: str, index: Any = ()) -> np.ndarray:
    """One dataset, or a part of it, without reading the rest."""
    with reading(path) as part:
        return part(name, index)


@contextmanager
def reading(path: str | Path) -> Iterator[Callable[..., np.ndarray]]:
    """`read` of (name, index) for several datasets: opening a file takes longer than reading a small one."""
    with _opened(path) as file:
        def part(name: str, index: Any = ()) -> np.ndarray:
            if not _own_dataset(file, name):
                names = list(_describe(Path(path), file).shapes)
                more = ", ..." if len(names) > MOST_NAMES else ""
                raise FileError(f"{path}: has no dataset '{name}' (it has {', '.join(names[:MOST_NAMES])}{more})")
            _check_dataset(Path(path), name, file[name], _most(path))
            return values(file[name], index)

        yield part


def read_group(header: Stored, group: str) -> dict[str, Any]:
    """Everything below a group of a file, nested; {} when it has no such group."""
    names = flatten(nest(header.shapes).get(group, {}))
    if not names:
        return {}
    with reading(header.path) as part:
        return nest({name: part(f"{group}/{name}") for name in names})


@contextmanager
def _opened(path: str | Path, partial: bool = True) -> Iterator[h5py.File]:
    """The file, opened after its seal was verified; whatever goes wrong is a FileError. partial: only a part of it is read."""
    try:
        state = os.stat(path)
        if not os.path.isfile(path):
            raise FileError(f"{path}: not a file")
        if not partial or state.st_size <= _ALWAYS_VERIFY:
            _verify(Path(path), state)
        with h5py.File(path, "r", locking="best-effort") as file:
            yield file
    except FileNotFoundError as error:
        raise FileError(f"{path}: {begun(path) or f'cannot be read: {error.strerror}'}") from None
    except PermissionError as error:
        raise FileError(f"{path}: cannot be read: {error.strerror}") from None
    except _DAMAGE as error:
        raise FileError(f"{path}: not a result file, or damaged: {_first_line(error)}") from None


def _first_line(error: BaseException) -> str:
    content = str(error).strip().strip("'\"")
    return content.splitlines()[0] if content else type(error).__name__


def _describe(path: Path, file: h5py.File) -> Stored:
    """Everything about a file but its arrays; FileError for a foreign, newer or malformed file."""
    attrs = {name: _plain_attribute(value) for name, value in file.attrs.items()}
    kind, schema = attrs.get("kind"), attrs.get("schema_version")
    if not isinstance(kind, str) or not isinstance(schema, int) or not isinstance(attrs.get("run"), str):
        raise FileError(f"{path}: an HDF5 file, but not a result of this package")
    if schema > SCHEMA_VERSION:
        raise FileError(f"{path}: written by a newer version (schema {schema}, this package reads up to "
                        f"{SCHEMA_VERSION}); update the package")
    shapes: dict[str, tuple[int, ...]] = {}
    dtypes: dict[str, np.dtype] = {}
    left = _most(path)

    def visit(name: str, item: Any) -> None:
        nonlocal left
        if isinstance(item, h5py.Dataset) and SCALE_ALONE not in item.attrs:
            left -= _check_dataset(path, name, item, left)
            shapes[name], dtypes[name] = shape_and_type(item)

    file.visititems(visit)
    others = {name: value for name, value in attrs.items() if name not in _OWN}
    return Stored(path, kind, schema, attrs["run"], others, {}, shapes, bool(attrs.get("checkpoint", False)), dtypes)


_UNPACKED = 1100        # largest factor by which HDF5 compresses data


def _most(path: str | Path) -> int:
    """Bytes that all arrays of a file may declare together."""
    return _UNPACKED * os.path.getsize(path) + (1 << 26)


def _check_dataset(path: Path, name: str, item: h5py.Dataset, most: int) -> int:
    """Refuse what this package never writes, before a byte of it is read: text, empty datasets without a shape, data in other
    files, and shapes larger than the file can hold. Returns the number of bytes that the dataset declares."""
    problem, declared = "", 0
    if item.shape is None or item.dtype.kind not in "biuf":
        problem = "holds no numbers"
    elif item.is_virtual or item.external:
        problem = "lies in another file"
    else:
        shape, kind = shape_and_type(item)
        declared = max(item.nbytes, math.prod(shape) * kind.itemsize)
    if declared > most:
        problem = f"declares {declared} bytes, more than a file of {os.path.getsize(path)} bytes can hold"
    if problem:
        raise FileError(f"{path}: not whole inside: the dataset {ascii(name)} {problem}; make it again")
    return declared


def _own_dataset(file: h5py.File, name: str) -> bool:
    """Whether a name is a dataset of this file itself, not a link into another one."""
    parts = name.split("/")
    links = [file.get("/".join(parts[:k + 1]), getlink=True) for k in range(len(parts))]
    return all(isinstance(link, h5py.HardLink) for link in links) and isinstance(file[name], h5py.Dataset)


def _plain_attribute(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    return value.item() if isinstance(value, np.generic) else value


# --- checkpoints ----------------------------------------------------------------------------------------

def checkpoint_path(path: str | Path) -> Path:
    """Where the checkpoint of a result lives."""
    return Path(f"{path}.checkpoint")


def state_path(path: str | Path) -> Path:
    """Where the last state of the workers of a finished run is kept, if the run asks for it."""
    return Path(f"{path}.state")


def checkpoint_header(path: str | Path) -> Stored | None:
    """The checkpoint of the result `path` without its arrays (`read` brings them one by one, or in parts, on any rank); None when
    there is none. FileError when it is damaged."""
    return _sealed_header(checkpoint_path(path))


def state_header(path: str | Path) -> Stored | None:
    """`checkpoint_header` of the state that a finished run has kept."""
    return _sealed_header(state_path(path))


def _sealed_header(place: Path) -> Stored | None:
    """The header of a checkpoint, whose seal must be there; None when there is no file."""
    try:
        state = os.stat(place)
        if not _verify(place, state):
            raise FileError(f"{place}: damaged: cut short, or changed by another program")
        return load_header(place)
    except FileNotFoundError:
        return None
    except FileError as error:
        if not place.exists():      # its job has just ended, and removed the checkpoint
            return None
        raise FileError(f"{error}; --force starts afresh") from None


def remove_checkpoint(path: str | Path) -> None:
    checkpoint_path(path).unlink(missing_ok=True)


def sha256_of(path: str | Path) -> str:
    """sha256 of a file, e.g. of a plugin."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()
