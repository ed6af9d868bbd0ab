"""The checkpoint of a job: the solutions entered so far, and the full state of the workers under way.

Rank 0 writes; the other ranks send their arrays one at a time. Every rank reads its own lines back, so a run may continue with
any number of ranks. Layout: the job's own state under the names it chooses, and active/INDEX/PART/shared|own/... for a worker; of
an array that is packed (packing.py) a stream for the lines of each rank, own/NAME/FIRST LINE.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dmft.core import store
from dmft.core.errors import FileError
from dmft.core.packing import unpack
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


class Checkpoint:
    """The checkpoint beside one output file."""

    def __init__(self, output: Path, job: Job[Any], comm: Comm, path: Path | None = None):
        self.output, self.job, self.comm = output, job, comm
        self.path = self.source = path or store.checkpoint_path(output)
        self.waiting: set[int] = set()      # workers whose state lies in the file `source` and is not loaded

    def take_up(self, header: store.Stored) -> None:
        """Take the state of workers from this file from now on; see `restore`."""
        self.source = header.path
        self.waiting = {int(index) for index in nest(header.shapes).get(ACTIVE, {})}

    def restore(self, index: int, worker: Worker) -> None:
        """Bring a worker to where the checkpoint left it; a worker that is not in the checkpoint stays at its start."""
        if index not in self.waiting:
            return
        there = nest(store.load_header(self.source).shapes)[ACTIVE][str(index)]
        parts = {}
        for name, part in worker.state().items():
            place = f"{ACTIVE}/{index}/{name}"
            names = flatten(there.get(name, {}).get("shared", {}))
            shared = {key: store.read(self.source, f"{place}/shared/{key}") for key in names}
            kept = flatten(there.get(name, {}).get("own", {}))
            own = {key: self._unpacked(place, key, kept, part.lines) if key in part.guides else
                   store.read(self.source, f"{place}/own/{key}", part.lines) for key in part.own}
            parts[name] = Part(shared, own, part.lines, part.total)
        worker.restore(parts)

    def _unpacked(self, place: str, key: str, kept: Mapping[str, Any], lines: slice) -> np.ndarray:
        """Lines of an array that is packed. kept: what the file has of its part."""
        begins = sorted(int(name.removeprefix(f"{key}/")) for name in kept if name.startswith(f"{key}/"))
        wanted = [begin for begin, end in zip(begins, [*begins[1:], lines.stop + 1])
                  if begin < max(lines.stop, lines.start + 1) and lines.start < end]
        try:
            whole = np.concatenate([unpack(store.read(self.source, f"{place}/own/{key}/{begin}")) for begin in wanted])
            if len(whole) < lines.stop - wanted[0]:
                raise ValueError("lines are missing")
        except ValueError as error:
            raise FileError(f"{self.source}: not whole inside: {place}/own/{key}: {error}; --force starts afresh") from None
        return whole[lines.start - wanted[0] : lines.stop - wanted[0]]

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
        below = nest(store.load_header(self.source).shapes)[ACTIVE][str(index)]
        return [f"{ACTIVE}/{index}/{name}" for name in flatten(below)]

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
    if piece.lines is None:
        writer.create(piece.name, array.shape, array.dtype)
        writer.write(piece.name, (), array)
        return
    if piece.name not in writer.file:
        writer.create(piece.name, (piece.total, *array.shape[1:]), array.dtype)
    if len(array):
        writer.write(piece.name, piece.lines, array)
