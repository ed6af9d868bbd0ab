"""The state of a worker as arrays, and how it is sent to the root rank: one array at a time, or a stretch of one that is packed, so
that no rank ever holds more than that beyond its own."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from dmft.core.packing import Guide, pack
from dmft.core.parallel import Comm
from dmft.core.tree import flatten

STREAM_BYTES = 16 << 20  # of an array that are packed into one stream: packing and unpacking take about three times as much besides
INSTANCES = "instances"  # the name of the part with a line per instance, the only one of an ensemble


@dataclass(frozen=True)
class Part:
    """Arrays of one rank.

    shared: (nested) arrays that are equal on all ranks of the group. own: arrays with one line per sample or instance of this
    rank, read by name one after the other (each is copied from a GPU, or read from a file, when it is asked for). lines: which of
    the `total` lines over all ranks these are; a file holds all of them in order, whatever the number of ranks. guides: of the own
    arrays that are packed (packing.py); their lines have no gaps.
    """

    shared: Mapping[str, Any] = field(default_factory=dict)
    own: Mapping[str, np.ndarray] = field(default_factory=dict)
    lines: slice = field(default_factory=lambda: slice(0, 0))
    total: int = 0
    guides: Mapping[str, Guide] = field(default_factory=dict)

    def stored(self, name: str) -> Iterator[tuple[slice, np.ndarray]]:
        """One of the own arrays as it is sent and kept, and which lines these are: packed, some lines at a time, where it has a
        guide."""
        array, begin = self.own[name], self.lines.start
        if name not in self.guides:
            yield self.lines, array
            return
        some = max(1, STREAM_BYTES // max(array.itemsize * array.shape[1], 1))
        for first in range(0, len(array), some):
            lines = array[first : first + some]
            yield slice(begin + first, begin + first + len(lines)), pack(lines, self.guides[name])


class Piece(NamedTuple):
    """An array and its name in the file ("shared/..." or "own/..."); of an own array `lines` of the `total`, or these packed."""

    name: str
    array: np.ndarray
    lines: slice | None = None
    total: int = 0
    packed: bool = False


def send(part: Part, comm: Comm, leads: bool) -> None:
    """Send this rank's part to the root of comm, which receives it by `pieces`. leads: this is the first rank of its group, which
    sends `shared` too."""
    shared = flatten(part.shared) if leads else {}
    lines = (part.lines.start, part.lines.stop, part.lines.step)
    contents = json.dumps([list(shared), {name: name in part.guides for name in part.own}, lines, part.total])
    comm.send_array(np.frombuffer(contents.encode(), np.uint8), 0)
    for array in shared.values():
        comm.send_array(np.asarray(array), 0)
    for name in part.own:
        for here, array in part.stored(name):
            if name in part.guides:
                comm.send_array(np.array([here.start, here.stop]), 0)
            comm.send_array(array, 0)


def pieces(part: Part | None, comm: Comm, rank: int, leads: bool) -> Iterator[Piece]:
    """On the root: the arrays of a rank; those of the root itself are in `part`, those of others are received."""
    if rank == comm.rank:
        assert part is not None
        for name, array in flatten(part.shared).items() if leads else ():
            yield Piece(f"shared/{name}", np.asarray(array))
        for name in part.own:
            for here, array in part.stored(name):
                yield Piece(f"own/{name}", array, here, part.total, name in part.guides)
        return
    shared, own, lines, total = json.loads(bytes(comm.recv_array(rank)))
    for name in shared:
        yield Piece(f"shared/{name}", comm.recv_array(rank))
    for name, packed in own.items():
        if not packed:
            yield Piece(f"own/{name}", comm.recv_array(rank), slice(*lines), total)
            continue
        end = lines[0]
        while end < lines[1]:
            begin, end = comm.recv_array(rank).tolist()
            yield Piece(f"own/{name}", comm.recv_array(rank), slice(begin, end), total, True)


def send_parts(parts: Mapping[str, Part], comm: Comm, leads: bool) -> None:
    """Send several parts by name to the root of comm, which receives them by `pieces_of_parts`."""
    comm.send_array(np.frombuffer(json.dumps(list(parts)).encode(), np.uint8), 0)
    for part in parts.values():
        send(part, comm, leads)


def pieces_of_parts(parts: Mapping[str, Part] | None, comm: Comm, rank: int, leads: bool) -> Iterator[Piece]:
    """On the root: the arrays of all parts of a rank; parts: of the root itself."""
    own = parts or {}
    for name in own if rank == comm.rank else json.loads(bytes(comm.recv_array(rank))):
        for piece in pieces(own.get(name), comm, rank, leads):
            yield piece._replace(name=f"{name}/{piece.name}")


def assembled(several: Iterable[Piece]) -> Part:
    """The pieces of all ranks of a group as one part: `shared` with flat names, `own` with all lines."""
    shared: dict[str, np.ndarray] = {}
    own: dict[str, np.ndarray] = {}
    total = 0
    for piece in several:
        kind, _, name = piece.name.partition("/")
        if piece.lines is None:
            shared[name] = piece.array
            continue
        whole = own.setdefault(name, np.empty((piece.total, *piece.array.shape[1:]), piece.array.dtype))
        whole[piece.lines] = piece.array
        total = piece.total
    return Part(shared, own, slice(0, total), total)
