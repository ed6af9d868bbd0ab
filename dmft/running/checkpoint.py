"""The checkpoint of a theory run: finished replicas, and the full state of those in progress.

Rank 0 writes; the other ranks send their samples one array at a time, so that no rank ever holds more than one
array beyond its own. Every rank reads its own samples back, so a run may go on with any number of ranks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dmft.core import store
from dmft.core.parallel import Comm
from dmft.result.statistics import Ensemble
from dmft.running.replica import SOLUTIONS, Replica
from dmft.solvers.iterate import Guess
from dmft.solvers.march import March

FINISHED, START = "finished/", "start/"


def group_roots(ranks: int, groups: int) -> list[int]:
    """World rank of the first rank of each group of Comm.split."""
    return [-(-group * ranks // groups) for group in range(groups)]


class Piece(NamedTuple):
    """Some lines of a dataset, from line `first` on; `lines` of the whole dataset when it is to be made, 0 when it is there."""

    name: str
    array: np.ndarray
    first: int | None = None        # None: the whole dataset
    lines: int = 0


def _put(writer: store.Writer, piece: Piece) -> None:
    array = piece.array
    if piece.first is None:
        writer.create(piece.name, array.shape, array.dtype)
        writer.write(piece.name, (), array)
        return
    if piece.lines:
        writer.create(piece.name, (piece.lines, *array.shape[1:]), array.dtype)
    writer.write(piece.name, slice(piece.first, piece.first + len(array)), array)


class Checkpoint:
    """The checkpoint beside one output file."""

    def __init__(self, output: Path, run_text: str, comm: Comm):
        self.output, self.run_text, self.comm = output, run_text, comm
        self.path = store.checkpoint_path(output)
        self.waiting: set[int] = set()  # replicas whose state lies in the file and is not loaded

    def header(self) -> store.Stored | None:
        """What is there; the root verifies the whole file once."""
        header = self.comm.from_root(lambda: store.checkpoint_header(self.output))
        if header is not None:
            self.waiting = {int(name.split("/")[1]) for name in header.shapes if name.startswith("active/")}
        return header

    def restore_ensemble(self, header: store.Stored) -> Ensemble:
        ensemble = Ensemble()
        arrays = {name[len(FINISHED):]: store.read(self.path, name) for name in header.shapes if name.startswith(FINISHED)}
        ensemble.restore(arrays, [text for text in str(header.attrs["outcomes"]).split(",") if text])
        return ensemble

    def restore_start(self, header: store.Stored) -> Guess | None:
        """The first guess of replicas that have not begun, where it is not the paper's: the file it came from may be gone."""
        parts = {name[len(START):]: store.read(self.path, name) for name in header.shapes if name.startswith(START)}
        return Guess(**parts) if parts else None

    def restore_replica(self, replica: Replica) -> None:
        """Bring a replica to where the checkpoint left it; one that is not in it stays at its start."""
        if replica.index not in self.waiting:
            return
        header = store.load_header(self.path)
        for solution in SOLUTIONS:
            solver, prefix = replica.solvers[solution], f"active/{replica.index}/{solution}/"
            shared = {name[len(prefix) + 7:]: store.read(self.path, name)
                      for name in header.shapes if name.startswith(prefix + "shared/")}
            own = {}
            if isinstance(solver, March):
                own = {name: store.read(self.path, f"{prefix}own/{name}", solver.blocks.lines) for name in solver.own()}
            solver.restore(shared, own)

    def write(self, ensemble: Ensemble | None, replica: Replica, groups: list[int], progress: float,
              attrs: dict[str, Any]) -> None:
        """Save everything. groups: replica index of each group. Every rank calls this; the root needs the ensemble.

        An error of the root (a full disk, say) reaches every rank."""
        active = set(groups)
        if not self.comm.is_root:
            self._send(replica)

        def write() -> None:
            assert ensemble is not None
            extra: dict[str, Any] = {"outcomes": ",".join(ensemble.outcomes), "progress": progress, "outcome": "stopped"}
            pieces = self._pieces(replica, groups)
            try:
                kept = [name for index in self.waiting - active for name in self._names(index)]
                with store.Writer(self.path, "theory", self.run_text, {**attrs, **extra}, checkpoint=True) as writer:
                    for name, array in ensemble.state().items():
                        _put(writer, Piece(FINISHED + name, np.asarray(array)))
                    for name, array in (replica.setup.start.arrays() if replica.setup.start else {}).items():
                        _put(writer, Piece(START + name, array))
                    for name in kept:
                        _put(writer, Piece(name, store.read(self.path, name)))
                    for piece in pieces:
                        _put(writer, piece)
            finally:
                deque(pieces, maxlen=0)     # after an error the other ranks are still sending

        self.comm.from_root(write)
        self.waiting |= active

    def _names(self, index: int) -> list[str]:
        prefix = f"active/{index}/"
        return [name for name in store.load_header(self.path).shapes if name.startswith(prefix)]

    def _pieces(self, replica: Replica, groups: list[int]) -> Iterator[Piece]:
        """Root: its own state, then that of every other rank in order."""
        roots = group_roots(self.comm.size, len(groups)) + [self.comm.size]
        for group, index in enumerate(groups):
            for solution in SOLUTIONS:
                prefix = f"active/{index}/{solution}/"
                for rank in range(roots[group], roots[group + 1]):
                    yield from self._pieces_of(rank, prefix, replica, solution, rank == roots[group])

    def _pieces_of(self, rank: int, prefix: str, replica: Replica, solution: str, leads: bool) -> Iterator[Piece]:
        mine = rank == self.comm.rank
        solver = replica.solvers[solution]
        shared = self._exchange(solver.shared() if mine else None, rank) if leads else {}
        for name, array in shared.items():
            yield Piece(f"{prefix}shared/{name}", np.asarray(array))
        if not isinstance(solver, March):
            return
        first = solver.blocks.lines.start if mine else int(self.comm.recv_array(rank)[0])
        own = solver.own()      # by name: on a GPU each array is brought here when it is asked for
        for name in own:
            yield Piece(f"{prefix}own/{name}", own[name] if mine else self.comm.recv_array(rank), first,
                        solver.blocks.all_lines if leads else 0)

    def _exchange(self, shared: dict[str, np.ndarray] | None, rank: int) -> dict[str, np.ndarray]:
        if shared is not None:
            return shared
        names = bytes(self.comm.recv_array(rank)).decode().split(",")
        return {name: self.comm.recv_array(rank) for name in names}

    def _send(self, replica: Replica) -> None:
        """Other ranks: what the root asks for, in the same order."""
        for solution in SOLUTIONS:
            solver = replica.solvers[solution]
            if replica.comm.rank == 0:
                shared = solver.shared()
                self.comm.send_array(np.frombuffer(",".join(shared).encode(), np.uint8), 0)
                for array in shared.values():
                    self.comm.send_array(np.asarray(array), 0)
            if isinstance(solver, March):
                self.comm.send_array(np.array([solver.blocks.lines.start]), 0)
                for array in solver.own().values():
                    self.comm.send_array(array, 0)

    def remove(self) -> None:
        if self.comm.is_root:
            store.remove_checkpoint(self.output)
