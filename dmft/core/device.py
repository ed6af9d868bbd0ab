"""The GPU, where there is one: the only module that imports CuPy.

`gpu()` gives a `Gpu`: arrays on the card, and kernels compiled from CUDA C++ sources. Numerics are handed this object
and never see CuPy, so that a test can hand them one that runs the same sources on the CPU (tests/emulate.py).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from dmft.core.errors import DmftWarning, UserError

CUDA = Path(__file__).resolve().parent / "cuda"  # sources that solver and simulator share
WARP = 32  # threads of a warp: arrays that one reads have lines of a multiple of this
REMEDY = 'take device = "cpu", or run on a machine with an NVIDIA GPU and CuPy (pip install "learning-dmft[gpu]", docs/gpu.md)'

# launch(grid, block, arguments, shared memory in bytes); NumPy scalars and device arrays as arguments
Kernel = Callable[[tuple[int, ...], tuple[int, ...], Sequence[Any], int], None]


def source(path: Path) -> str:
    return path.read_text()


class Mirror:
    """An array of zeros on the card with a page-locked copy on the host. Copies between the two are queued behind what was launched
    before, and hold up nobody; `host` may be written, or read, once the queue has been waited for."""

    def __init__(self, cupy: Any, shape: int | tuple[int, ...], dtype: Any):
        self._cupy, self.device = cupy, cupy.zeros(shape, dtype)
        memory = cupy.cuda.alloc_pinned_memory(max(self.device.nbytes, 1))
        self.host = np.frombuffer(memory, dtype, self.device.size).reshape(self.device.shape)
        self.host[...] = 0

    def send(self) -> None:
        """Copy the host's numbers to the card."""
        self._copy(self.device.data.ptr, self.host.ctypes.data, "HostToDevice")

    def fetch(self) -> None:
        """Copy the card's numbers to the host."""
        self._copy(self.host.ctypes.data, self.device.data.ptr, "DeviceToHost")

    def _copy(self, to: int, source: int, kind: str) -> None:
        # CuPy's own copies refuse to be recorded; this memory is page-locked and stays where it is, so nothing speaks against it.
        runtime, queue = self._cupy.cuda.runtime, self._cupy.cuda.get_current_stream()
        if self.host.nbytes:
            runtime.memcpyAsync(to, source, self.host.nbytes, getattr(runtime, f"memcpy{kind}"), queue.ptr)


QUEUE_SIDES = 3  # streams that go on beside that of a queue, with priority


class Queue:
    """Launches of one solution, one after the other; the card may work on several queues at a time. What is launched outside of any
    queue waits for all of them, and they for it."""

    def __init__(self, cupy: Any, urgent: bool):
        self._cupy = cupy
        try:
            self._stream = cupy.cuda.Stream(priority=-1 if urgent else 0)
            self._sides = [cupy.cuda.Stream(priority=-1) for _ in range(QUEUE_SIDES)]
        except TypeError:  # older versions of CuPy have no priorities: the queue waits its turn then
            self._stream, *self._sides = (cupy.cuda.Stream() for _ in range(1 + QUEUE_SIDES))
        self._recorded: dict[Hashable, Any] = {}

    def run(self, name: Hashable, launches: Callable[[], None], record: bool = True) -> None:
        """Let the card do what a function launches. What it launches the first time, with its arguments, is recorded under this
        name and launched as a whole from then on, which takes the host much less time. Not to be recorded: functions that do more
        than launch kernels and copy mirrors."""
        with self._stream:
            if not record:
                return launches()
            if name not in self._recorded:
                self._stream.begin_capture()
                launches()
                self._recorded[name] = self._stream.end_capture()
            self._recorded[name].launch()

    def beside(self, side: int, launches: Callable[[], None]) -> Callable[[], None]:
        """Within `run`: let the card do what a function launches beside what follows, once what stands before is done, and what the
        same side was given before. The function that comes back makes what follows it wait; that of the last one of a side must be
        called."""
        stream = self._sides[side]
        stream.wait_event(self._stream.record())
        with stream:
            launches()
            return partial(self._stream.wait_event, stream.record())

    def mark(self) -> Callable[[], object]:
        """A function that waits until everything is done that is in the queue now."""
        return self._stream.record(self._cupy.cuda.Event(disable_timing=True)).synchronize

    def wait(self) -> None:
        """Wait until everything in the queue is done."""
        self._stream.synchronize()


class Gpu:
    """One card, through CuPy, with the number of ranks that share it."""

    def __init__(self, cupy: Any, number: int, sharers: int):
        self._cupy, self._number, self.sharers = cupy, number, sharers
        self.use()

    def use(self) -> None:
        """Make this the card of the calling thread."""
        self._cupy.cuda.Device(self._number).use()

    @property
    def name(self) -> str:
        """What the card calls itself."""
        return self._properties["name"].decode()

    @property
    def shared_bytes(self) -> int:
        """The most shared memory that a block of threads may have on this card."""
        return int(self._properties["sharedMemPerBlockOptin"])

    @property
    def _properties(self) -> dict[str, Any]:
        return self._cupy.cuda.runtime.getDeviceProperties(self._number)

    def free_bytes(self) -> int:
        """This rank's share of the memory of the card that is not taken yet, and what CuPy keeps of arrays that are gone."""
        return int(self._cupy.cuda.runtime.memGetInfo()[0]) // self.sharers + self._cupy.get_default_memory_pool().free_bytes()

    def put(self, array: np.ndarray) -> Any:
        """A copy on the card."""
        return self._cupy.asarray(array)

    def zeros(self, shape: int | tuple[int, ...], dtype: Any = np.float64) -> Any:
        """An array of zeros on the card."""
        return self._cupy.zeros(shape, dtype)

    def mirror(self, shape: int | tuple[int, ...], dtype: Any = np.float64) -> Mirror:
        """An array of zeros on the card with a copy on the host."""
        return Mirror(self._cupy, shape, dtype)

    def queue(self, urgent: bool = False) -> Queue:
        """A queue of its own for what one solution launches; urgent: what it launches goes before what waits in other queues."""
        return Queue(self._cupy, urgent)

    def get(self, array: Any) -> np.ndarray:
        """A copy on the host, whole rows one after the other; waits for everything that was launched before."""
        return self._cupy.asnumpy(array)

    def fill(self, array: Any, values: np.ndarray) -> None:
        """Overwrite an array on the card."""
        array.set(np.ascontiguousarray(values, array.dtype))

    def wait(self) -> None:
        """Wait until everything that was launched is done."""
        self._cupy.cuda.runtime.deviceSynchronize()

    def kernels(self, text: str, names: Sequence[str]) -> dict[str, Kernel]:
        """Kernels of a CUDA C++ source (extern "C"), compiled for this card; CuPy keeps compiled code on disk."""
        return dict(zip(names, _compiled(self, text, tuple(names)), strict=True))


@lru_cache
def _compiled(gpu: Gpu, text: str, names: tuple[str, ...]) -> list[Kernel]:
    """`Gpu.kernels`, remembered; UserError where the source does not compile."""
    cupy = gpu._cupy
    try:
        module = cupy.RawModule(code=text, options=("--std=c++17",))
        return [_launcher(module.get_function(name)) for name in names]
    except (cupy.cuda.compiler.CompileException, RuntimeError) as error:  # a user's loss, an old card, no CUDA toolkit
        lines = str(error).splitlines() or [type(error).__name__]
        reason = next((line for line in lines if "error" in line), lines[0]).strip()
        raise UserError(f'device = "gpu": kernels do not compile: {reason}; see docs/gpu.md, or take device = "cpu"') from error


def _launcher(function: Any) -> Kernel:
    """A compiled CuPy function as a Kernel."""
    granted = 48 << 10  # bytes of shared memory that a block of threads may have
    def launch(grid: tuple[int, ...], block: tuple[int, ...], arguments: Sequence[Any], shared: int) -> None:
        if 0 in grid:  # a rank without samples: CUDA refuses an empty grid
            return
        nonlocal granted
        if shared > granted:  # more must be asked for, and is never given back: it may be recorded somewhere
            function.max_dynamic_shared_size_bytes = granted = shared
        function(grid, block, tuple(arguments), shared_mem=shared)

    return launch


@lru_cache
def gpu(section: str, rank: int = 0, ranks: int = 1) -> Gpu:
    """The card of rank `rank` of the `ranks` on this node, which take its cards in turn; UserError, in one line, where
    there is none. section: of the run file that asked for it, for the message."""
    try:
        import cupy  # noqa: PLC0415 - optional, and slow to import
    except ImportError as error:
        told = [line.strip() for line in str(error).splitlines() if line.strip(" =")]
        reason = "is not installed" if error.name == "cupy" or not told else f"cannot be loaded ({told[-1]})"
        raise UserError(f'[{section}] device = "gpu": CuPy {reason}; {REMEDY}') from None
    try:
        cards = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise UserError(f'[{section}] device = "gpu": no GPU found ({str(error).splitlines()[0]}); {REMEDY}') from None
    if not cards:
        raise UserError(f'[{section}] device = "gpu": no GPU found; {REMEDY}')
    if ranks > cards and rank == 0:
        warnings.warn(f"{ranks} ranks of a node take turns on {cards} GPU{'s' if cards > 1 else ''}; one rank a GPU is faster: it "
                      "takes all its replicas at a time", DmftWarning, stacklevel=2)
    return Gpu(cupy, rank % cards, -(-ranks // cards))
