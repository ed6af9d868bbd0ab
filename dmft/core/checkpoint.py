"""The checkpoint of a job: the solutions entered so far, and the full state of the workers under way.

Rank 0 writes; the other ranks send their arrays one at a time. Every rank reads its own lines back, so a run may continue with
any number of ranks. Layout: the job's own state under the names it chooses, and active/INDEX/PART/shared|own/... for a worker; of
an array that is packed (packing.py) streams for some lines each, own/NAME/FIRST LINE. Long curves are packed, too (courses.py).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dmft.core import store
from dmft.core.courses import LONG_COURSE, write_course
from dmft.core.errors import FileError, StateError
from dmft.core.packing import declared, unpack
from dmft.core.parallel import Comm
from dmft.core.parts import Part, Piece, pieces_of_parts, send_parts
from dmft.core.tree import flatten, nest
from dmft.core.worker import Job, Worker

ACTIVE = "active"


def check_layout(header: store.Stored, layout: int) -> None:
    """FileError for a checkpoint that was written in another version of its layout, by another version of the package."""
    if header.attrs.get("checkpoint_layout") != layout:
        raise FileError(f"{header.path}: a checkpoint of another version of this package ({header.attrs.get('package_version')}), "
                        "which this one cannot take up; finish the run with that version, or start afresh with --force")


def group_roots(ranks: int, groups: int) -> list[int]:
    """Rank of the first member of each group of Comm.split, and the number of ranks at the end."""
    return [-(-group * ranks // groups) for group in range(groups)] + [ranks]


def stored_part(stored: store.Stored, index: int, name: str) -> Part:
    """One part of a worker, with the lines of all ranks, from a checkpoint that was read whole: for reading runs under way."""
    found = nest(stored.arrays)[ACTIVE][str(index)][name]
    own = found.get("own", {})
    total = len(next(iter(own.values()))) if own else 0
    return Part(flatten(found.get("shared", {})), own, slice(0, total), total)


def _below(place: str, shapes: Mapping[str, Any]) -> dict[str, Any]:
    """Of the shapes of datasets by name those in a group, by what they are called there."""
    return {name.removeprefix(f"{place}/"): shape for name, shape in shapes.items() if name.startswith(f"{place}/")}


class _Read(Mapping[str, np.ndarray]):
    """Arrays that are read from a file when they are asked for, so that one at a time is in memory. names: how they are called."""

    def __init__(self, names: Collection[str], read: Callable[[str], np.ndarray]):
        self._called, self._read = names, read

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._called:
            raise KeyError(name)
        return self._read(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._called)

    def __len__(self) -> int:
        return len(self._called)


class Checkpoint:
    """The checkpoint beside one output file."""

    def __init__(self, output: Path, job: Job[Any], comm: Comm, path: Path | None = None):
        self.output, self.job, self.comm = output, job, comm
        self.path = self.source = path or store.checkpoint_path(output)
        self.waiting: set[int] = set()      # workers whose state lies in the file `source` and is not loaded

    def take_up(self, header: store.Stored) -> None:
        """Take the state of workers from this file from now on; see `restore`."""
        self.source = header.path
        names = [name.split("/") for name in _below(ACTIVE, header.shapes)]
        if not all(len(name) > 1 and name[0].isdecimal() and name[0] == str(int(name[0])) for name in names):
            raise FileError(f"{header.path}: not the state of a run: it has other groups than numbers below '{ACTIVE}'")
        self.waiting = {int(name[0]) for name in names}

    def restore(self, index: int, worker: Worker) -> None:
        """Bring a worker to where the checkpoint left it; a worker that is not in the checkpoint stays at its start."""
        if index not in self.waiting:
            return
        shapes, parts = _below(f"{ACTIVE}/{index}", store.load_header(self.source).shapes), {}
        for name, part in worker.state().items():
            place = f"{ACTIVE}/{index}/{name}"
            shared = {key: store.read(self.source, f"{place}/shared/{key}") for key in _below(f"{name}/shared", shapes)}
            own = _Read(tuple(part.own), partial(self._lines, place, part, _below(f"{name}/own", shapes)))
            parts[name] = Part(shared, own, part.lines, part.total)
        try:
            worker.restore(parts)
        except (KeyError, StateError) as error:
            problem = f"it has no {error}" if isinstance(error, KeyError) else error
            raise FileError(f"{self.source}: not the state of this run: {problem}; {self._remedy}") from error

    @property
    def _remedy(self) -> str:
        """What to do about a state that cannot be taken up."""
        return "--force starts afresh" if self.source == self.path else "without that file the run is solved from its start"

    def _lines(self, place: str, part: Part, kept: Mapping[str, Any], key: str) -> np.ndarray:
        """This rank's lines of an own array of a part. kept: shapes of what the file has of such arrays, by name. What is packed
        today may have been kept by a run that was too short to pack it; an ensemble may have had fewer instances."""
        if key not in part.guides or key in kept:
            if key in kept and kept[key][:1] > (part.total,):
                raise StateError(f"{key} has {kept[key][0]} lines, not {part.total}")
            return store.read(self.source, f"{place}/own/{key}", part.lines)
        try:
            return self._unpacked(f"{place}/own/{key}", part, part.own[key][:0].copy(), _below(key, kept))
        except (TypeError, ValueError) as error:
            raise FileError(f"{self.source}: not whole inside: {place}/own/{key}: {error}; {self._remedy}") from None

    def _unpacked(self, place: str, part: Part, mine: np.ndarray, streams: Iterable[str]) -> np.ndarray:
        """This rank's lines of an array from its streams, whose names are their first lines. mine: none of the lines to be
        overwritten, which tells the type, and how long they are at most: those of a shorter run have fewer blocks."""
        start, stop, begins, found = part.lines.start, part.lines.stop, sorted(map(int, streams)), None
        if begins[:1] != [0]:
            raise ValueError("lines are missing")
        spans = list(zip(begins, [*begins[1:], part.total], strict=True))
        for begin, end in [span for span in spans if span[0] < stop and start < span[1]] or spans[:1]:
            stream = store.read(self.source, f"{place}/{begin}")
            (lines, numbers), kind = declared(stream)
            if lines < end - begin:
                raise ValueError("lines are missing")
            if found is None:
                if numbers > mine.shape[1]:
                    raise ValueError("longer lines than this run has")
                found = np.empty((stop - start, numbers), kind)
            if (lines, numbers, kind) != (end - begin, found.shape[1], mine.dtype):
                raise ValueError("other lines than this run has")
            here = unpack(stream, (lines, numbers))[max(start - begin, 0) : max(stop - begin, 0)]
            found[max(begin - start, 0) :][: len(here)] = here
        assert found is not None
        return found

    def write(self, state: Mapping[str, Any], workers: Mapping[int, Worker], dealt: list[list[int]], leads: bool,
              attrs: dict[str, Any]) -> None:
        """Save the state of the job (given on the root) and of every worker. workers: of this rank; dealt: those of each group of
        ranks; leads: whether this rank is the first of its group. Every rank must call this; an error of the root (a full disk,
        say) is raised on all of them."""
        if not self.comm.is_root:
            for worker in workers.values():
                send_parts(worker.state(), self.comm, leads)
        self.comm.from_root(lambda: self._write(state, workers, dealt, attrs))
        self.source = self.path
        self.waiting |= {index for each in dealt for index in each}

    def _write(self, state: Mapping[str, Any], workers: Mapping[int, Worker], dealt: list[list[int]],
               attrs: dict[str, Any]) -> None:
        """On the root: write the file; workers that wait in the present one are copied."""
        coming = self._pieces(workers, dealt)
        try:
            absent = self.waiting - {index for each in dealt for index in each}
            kept = [name for index in sorted(absent) for name in self._names(index)]
            attrs = {**attrs, "checkpoint_layout": self.job.checkpoint_layout}
            with store.Writer(self.path, self.job.kind, self.job.run_text, attrs, True) as writer:
                for name, array in flatten(state).items():
                    _put(writer, Piece(name, np.asarray(array)))
                for name in kept:
                    _put(writer, Piece(name, store.read(self.source, name)))
                for piece in coming:
                    _put(writer, piece)
        finally:
            deque(coming, maxlen=0)     # after an error: receive what the other ranks are still sending

    def _names(self, index: int) -> list[str]:
        """Names of the datasets of a worker in the file `source`."""
        return [f"{ACTIVE}/{index}/{name}" for name in _below(f"{ACTIVE}/{index}", store.load_header(self.source).shapes)]

    def _pieces(self, workers: Mapping[int, Worker], dealt: list[list[int]]) -> Iterator[Piece]:
        """On the root: the pieces of every rank, in the order in which each of them sends."""
        roots = group_roots(self.comm.size, len(dealt))
        for indices, first, end in zip(dealt, roots[:-1], roots[1:], strict=True):
            for rank in range(first, end):
                for index in indices:
                    parts = workers[index].state() if rank == self.comm.rank else None
                    for piece in pieces_of_parts(parts, self.comm, rank, rank == first):
                        yield piece._replace(name=f"{ACTIVE}/{index}/{piece.name}")

    def remove(self) -> None:
        if self.comm.is_root:
            store.remove_checkpoint(self.output)


def _put(writer: store.Writer, piece: Piece) -> None:
    """Write an array, or some lines of one, which is created with its full length when its first lines come."""
    array = piece.array
    if piece.packed:
        assert piece.lines is not None
        if piece.lines.start == piece.lines.stop:
            return
        piece = piece._replace(name=f"{piece.name}/{piece.lines.start}", lines=None)
    long = "/shared/" in piece.name and array.ndim == 1 and len(array) >= LONG_COURSE
    if long and array.dtype == np.float64:
        write_course(writer.file, piece.name, array)
        return
    if piece.lines is None:
        writer.create(piece.name, array.shape, array.dtype)
        writer.write(piece.name, (), array)
        return
    if piece.name not in writer.file:
        writer.create(piece.name, (piece.total, *array.shape[1:]), array.dtype)
    if len(array):
        writer.write(piece.name, piece.lines, array)
