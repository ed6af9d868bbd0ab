"""The checkpoint of a theory run: finished replicas, and the full state of those in progress.

Rank 0 writes; the other ranks send their samples one array at a time, so that no rank ever holds more than one
array beyond its own. Every rank reads its own samples back, so a run may go on with any number of ranks.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from dmft.blocks import blocks_for
from dmft.core import store
from dmft.core.parallel import Comm
from dmft.ensemble import Ensemble
from dmft.march import March
from dmft.replica import SOLUTIONS, Replica

FINISHED = "finished/"


def group_roots(ranks: int, groups: int) -> list[int]:
    """World rank of the first rank of each group of Comm.split."""
    return [-(-group * ranks // groups) for group in range(groups)]


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
                blocks = blocks_for(solver.sampling.samples, replica.comm)
                lines = slice(blocks.first, blocks.first + blocks.count)
                own = {name: store.read(self.path, f"{prefix}own/{name}", lines) for name in solver.own()}
            solver.restore(shared, own)

    def write(self, ensemble: Ensemble | None, replica: Replica, groups: list[int], progress: float,
              attrs: dict[str, Any]) -> None:
        """Save everything. groups: replica index of each group. Every rank calls this; the root needs the ensemble.

        An error of the root (a full disk, say) reaches every rank."""
        active = set(groups)
        if self.comm.is_root:
            assert ensemble is not None
            extra: dict[str, Any] = {"outcomes": ",".join(ensemble.outcomes), "progress": progress, "outcome": "stopped"}
            writer = store.Writer(self.path, "theory", self.run_text, {**attrs, **extra}, checkpoint=True)
            kept = {name: index for index in self.waiting - active for name in self._names(index)}
            with writer:
                for name, array in ensemble.state().items():
                    self._put(writer, FINISHED + name, array)
                for name in kept:
                    self._put(writer, name, store.read(self.path, name))
                self._write_active(writer, replica, groups)
        else:
            self._send(replica)
        self.comm.barrier()
        self.waiting |= active

    def _names(self, index: int) -> list[str]:
        prefix = f"active/{index}/"
        return [name for name in store.load_header(self.path).shapes if name.startswith(prefix)]

    @staticmethod
    def _put(writer: store.Writer, name: str, array: np.ndarray) -> None:
        array = np.asarray(array)
        writer.create(name, array.shape, array.dtype)
        writer.write(name, (), array)

    def _write_active(self, writer: store.Writer, replica: Replica, groups: list[int]) -> None:
        """Root: its own state, then that of every other rank in order."""
        roots = group_roots(self.comm.size, len(groups)) + [self.comm.size]
        for group, index in enumerate(groups):
            for solution in SOLUTIONS:
                prefix = f"active/{index}/{solution}/"
                for rank in range(roots[group], roots[group + 1]):
                    self._write_rank(writer, prefix, replica, solution, rank, rank == roots[group])

    def _write_rank(self, writer: store.Writer, prefix: str, replica: Replica, solution: str, rank: int, leads: bool
                    ) -> None:
        mine = rank == self.comm.rank
        solver = replica.solvers[solution]
        shared = self._exchange(solver.shared() if mine else None, rank) if leads else {}
        for name, array in shared.items():
            self._put(writer, f"{prefix}shared/{name}", array)
        if not isinstance(solver, March):
            return
        first, total = solver.blocks.first, solver.sampling.samples
        if not mine:
            first = int(self.comm.recv_array(rank)[0])
        for name, own in solver.own().items():
            array = own if mine else self.comm.recv_array(rank)
            if leads:
                writer.create(f"{prefix}own/{name}", (total, *array.shape[1:]), array.dtype)
            writer.write(f"{prefix}own/{name}", slice(first, first + len(array)), array)

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
                self.comm.send_array(np.array([solver.blocks.first]), 0)
                for array in solver.own().values():
                    self.comm.send_array(array, 0)

    def remove(self) -> None:
        if self.comm.is_root:
            store.remove_checkpoint(self.output)
