"""Ranks: the only module that knows MPI. Without MPI, or without a launcher, everything runs as one rank.

Results must not depend on the number of ranks, bit for bit. So sums over blocks have no order (`Comm.sum_exact`, exact_sum).
Random numbers are keyed by sample, never by rank (see streams).
"""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from itertools import accumulate
from typing import Any, TypeVar

import numpy as np

from dmft.core import exact_sum
from dmft.core.errors import UserError

Value = TypeVar("Value")

_SLICE = 8 << 20          # bytes; large in-place reductions go twice as fast in slices of this size
_MESSAGE = 1 << 30        # bytes; one MPI message must stay below 2 GiB
_HEARD = 0.5              # seconds that a launcher needs to pass on the last output of a rank, before all ranks are ended
START_LIMIT = 300         # seconds; MPI that has not started by then never will (DMFT_MPI_START sets another limit, 0 none)
_LAUNCHER = ("PMI_RANK", "PMI_FD", "PMI2_", "PMIX_RANK", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE",
             "MPI_LOCALRANKID")


class Comm:
    """A group of ranks. `Comm()` is the serial one."""

    def __init__(self, mpi_comm: Any = None, group: int = 0, place: tuple[int, int] | None = None):
        self._comm = mpi_comm
        self.rank: int = mpi_comm.Get_rank() if mpi_comm is not None else 0
        self.size: int = mpi_comm.Get_size() if mpi_comm is not None else 1
        self.group = group        # index of this group among those of the `split` that made it
        self._place = place if mpi_comm is not None else (0, 1)     # see `on_node`

    @property
    def is_root(self) -> bool:
        return self.rank == 0

    def sum_exact(self, partials: np.ndarray) -> np.ndarray:
        """Sum over all blocks of all ranks: partials (blocks here, L) -> (L,), the same bits at any rank count.
        An element with a partial that is not finite is NaN on every rank."""
        return self.sums_exact([partials])[0]

    def sums_exact(self, several: Sequence[np.ndarray]) -> list[np.ndarray]:
        """`sum_exact` of several arrays by a single reduction. An array may also be (several, blocks here, L), for (several, L)."""
        wide = [np.ascontiguousarray(partials if partials.ndim == 3 else partials[None], np.float64) for partials in several]
        ends = list(accumulate((len(partials) * partials.shape[2] for partials in wide), initial=0))
        totals = np.empty((ends[-1], exact_sum.SUM_NUMBERS), np.int64)
        for partials, first, last in zip(wide, ends, ends[1:], strict=False):
            exact_sum.digits(partials, totals[first:last])
        if self.size > 1:
            operation, unit = _exact_sum_mpi()
            step = _SLICE // (totals.itemsize * exact_sum.SUM_NUMBERS)
            for first in range(0, len(totals), step):
                here = totals[first : first + step]
                self._comm.Allreduce(_mpi().IN_PLACE, [here, len(here), unit], op=operation)
        values = exact_sum.value(totals)
        return [values[first:last].reshape(*partials.shape[:-2], partials.shape[-1])
                for partials, first, last in zip(several, ends, ends[1:], strict=False)]

    def bcast(self, value: Value, root: int = 0) -> Value:
        """The root's value on every rank."""
        return self._comm.bcast(value, root=root) if self.size > 1 else value

    def gather(self, value: Value) -> list[Value]:
        """Values of all ranks in order of rank, on every rank. For small things."""
        return self._comm.allgather(value) if self.size > 1 else [value]

    def from_root(self, function: Callable[[], Value]) -> Value:
        """Let the root alone call `function`; every rank gets its result, or raises its UserError."""
        result: Any = None
        if self.is_root:
            try:
                result = (True, function())
            except UserError as error:
                result = (False, error)
        good, value = self.bcast(result)
        if not good:
            raise value
        return value

    def split(self, groups: int) -> Comm:
        """This rank's group, when the ranks are cut into that many groups of neighbours (fewer when there are fewer ranks)."""
        groups = max(1, min(groups, self.size))
        if self._comm is None:
            return Comm()
        colour = self.rank * groups // self.size
        return Comm(self._comm.Split(colour, self.rank), colour, self.on_node())

    def send_array(self, array: np.ndarray, to: int) -> None:
        """Send an array of any size to another rank."""
        self._comm.send((array.dtype.str, array.shape), dest=to)
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        for first in range(0, data.size, _MESSAGE):
            self._comm.Send(data[first:first + _MESSAGE], dest=to)

    def recv_array(self, source: int) -> np.ndarray:
        """Receive what `send_array` sent."""
        dtype, shape = self._comm.recv(source=source)
        array = np.empty(shape, dtype)
        data = array.reshape(-1).view(np.uint8)
        for first in range(0, data.size, _MESSAGE):
            self._comm.Recv(data[first:first + _MESSAGE], source=source)
        return array

    def free(self) -> None:
        """Give back a group made by `split`; an MPI library has only some thousands."""
        if self._comm is not None:
            self._comm.Free()

    def barrier(self) -> None:
        """Wait until every rank has called this."""
        if self.size > 1:
            self._comm.Barrier()

    def abort_on_error(self) -> None:
        """From now on an exception that nobody catches on one rank ends every rank, with its traceback."""
        if self.size == 1:
            return

        def hook(kind: type[BaseException], value: BaseException, trace: Any) -> None:
            lines = "".join(traceback.format_exception(kind, value, trace))
            self.abort(f"rank {self.rank} failed:\n{lines}", 1)

        sys.excepthook = hook

    def abort(self, message: str, exit_code: int) -> None:
        """Print a message and end every rank at once."""
        sys.stderr.write(message.rstrip("\n") + "\n")
        sys.stderr.flush()
        sys.stdout.flush()
        time.sleep(_HEARD)
        _mpi().COMM_WORLD.Abort(exit_code)

    def all_arrive(self, seconds: float = 2.0) -> bool:
        """Whether every rank calls this within that time: it tells an error that all ranks meet from an error of one rank."""
        if self.size == 1:
            return True
        request, deadline = self._comm.Ibarrier(), time.monotonic() + seconds
        while time.monotonic() < deadline:
            if request.Test():
                return True
            time.sleep(0.01)
        return bool(request.Test())

    def threads(self) -> int:
        """Cores for this rank when the ranks of a node share its cores evenly."""
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
        return max(1, cores // self.on_node()[1])

    def on_node(self) -> tuple[int, int]:
        """Number of this rank among the ranks of its node, and how many those are. In a group made by `split` the ranks of the
        other groups count too, because all share the node. Every rank must call it."""
        if self._place is None:
            neighbours = self._comm.Split_type(_mpi().COMM_TYPE_SHARED)
            self._place = neighbours.Get_rank(), neighbours.Get_size()
            neighbours.Free()
        return self._place


_world: Comm | None = None


def world() -> Comm:
    """All ranks of this job. MPI is started at the first call, and only under an MPI launcher."""
    global _world
    if _world is None:
        _world = _start()
    return _world


def begin() -> None:
    """Start MPI under an MPI launcher, before anything large is in memory: MPICH 5.0.2 under Slurm may read beyond its addresses
    otherwise. What fails here is told by the next call of `world`, where a command can say it in one line."""
    with suppress(UserError):
        world()


def _mpi() -> Any:
    from mpi4py import MPI
    return MPI


@lru_cache
def _exact_sum_mpi() -> tuple[Any, Any]:
    """The addition of exact_sum as an operation of MPI, and the MPI type of one sum, which is never cut."""
    def add(more: Any, total: Any, _: Any) -> None:
        shape = (-1, exact_sum.SUM_NUMBERS)
        exact_sum.add(np.frombuffer(more, np.int64).reshape(shape), np.frombuffer(total, np.int64).reshape(shape))

    return _mpi().Op.Create(add, commute=True), _mpi().INT64_T.Create_contiguous(exact_sum.SUM_NUMBERS).Commit()


def library() -> str:
    """Name and version of the MPI library in use; "" when serial."""
    if world().size == 1:
        return ""
    return " ".join(_mpi().Get_library_version().split("\n")[0].replace("\x00", "").split())


def _expected_ranks() -> int:
    """How many ranks the launcher says it started."""
    return _told("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS") or 1


def launched_rank() -> int:
    """Which of the processes of a launcher this is, also where MPI cannot tell; 0 without a launcher."""
    return _told("PMI_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID")


def _told(*names: str) -> int:
    """The number in the first of these variables that holds one; 0 where none does."""
    return next((int(os.environ[name]) for name in names if os.environ.get(name, "").isdigit()), 0)


@contextmanager
def _end_if_stuck(ranks: int) -> Iterator[None]:
    """End this process (SIGALRM) when MPI does not start: launcher and library sometimes lose a message to each other, and all
    ranks then wait for ever. The batch scripts treat that as a crash and try again. Only the system can end the process: MPI
    waits in C, where no Python handler runs."""
    limit = int(os.environ.get("DMFT_MPI_START", START_LIMIT)) if ranks > 1 else 0
    if not limit or signal.getsignal(signal.SIGALRM) is not signal.SIG_DFL:
        yield
        return
    before = signal.alarm(limit)
    try:
        yield
    finally:
        signal.alarm(before)


def _start() -> Comm:
    """All ranks of the launcher, or the serial Comm without one; UserError where launcher and MPI library do not fit."""
    expected = _expected_ranks()
    launched = expected > 1 or any(name.startswith(_LAUNCHER) for name in os.environ)
    if not launched:
        return Comm()
    try:
        with _end_if_stuck(expected):
            comm = Comm(_mpi().COMM_WORLD)
    except (ImportError, RuntimeError) as error:
        if expected == 1:
            return Comm()
        raise UserError(f"started as {expected} MPI ranks, but mpi4py or its MPI library is missing ({error}); "
                        "install the extra [mpi] or [mpi-local]") from None
    if comm.size == 1 and expected > 1:
        raise UserError(f"the launcher started {expected} ranks but each sees itself alone; use the launcher of the "
                        "MPI library (mpirun), or srun --mpi=pmi2 with MPICH, srun --mpi=pmix with Open MPI")
    return comm if comm.size > 1 else Comm()
