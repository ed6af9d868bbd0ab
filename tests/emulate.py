"""CUDA C++ run on the CPU, so that sources for the GPU are tested where there is none.

`HostGpu` stands in for dmft.core.device.Gpu: arrays are NumPy arrays, and a source is compiled by the host's C++
compiler behind a few definitions. The threads of a block are coroutines that take turns: each runs to its next
barrier and continues when all have arrived. Shuffles and votes are barriers of a warp. Blocks run one after the other.
A card promises no order between barriers, so `HostGpu(backwards=True)` begins with the last thread and the last block, and does
what goes on beside a queue as late as it may: what depends on who comes first comes out wrong in one of the two orders. NVIDIA's
compiler reads every source as well, where it is installed.
"""

from __future__ import annotations

import ctypes
import hashlib
import re
import shutil
import subprocess
import tempfile
from functools import lru_cache, partial
from pathlib import Path

import numpy as np

from tests import nvrtc

COMPILER = shutil.which("g++") or shutil.which("c++")
FLAGS = ("-std=c++17", "-O1", "-w", "-fPIC", "-U_FORTIFY_SOURCE")
HEADER = ("-x", "c++-header")
# -Bsymbolic: a kernel named as a function of the C library (advance) is still the kernel
LIBRARY = ("-x", "c++", "-shared", "-Wl,-Bsymbolic")

_BEFORE = """
#include <cmath>
#include <csetjmp>
#include <cstdlib>
#include <cstring>
#include <ucontext.h>
#include <vector>
// Large headers take longer than the kernels.
template <typename T> static T min(T a, T b) { return b < a ? b : a; }
template <typename T> static T max(T a, T b) { return a < b ? b : a; }
// Those of CUDA choose the number beside what is none.
static double min(double a, double b) { return std::fmin(a, b); }
static double max(double a, double b) { return std::fmax(a, b); }
static float min(float a, float b) { return std::fmin(a, b); }
static float max(float a, float b) { return std::fmax(a, b); }
#define __global__
#define __device__
#define __noinline__
#define __shared__
#define __restrict__
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
struct Index { unsigned x, y, z; };
static Index threadIdx, blockIdx, blockDim, gridDim;
static __align__(16) double shared[1 << 15];
struct jmp_buf_box { jmp_buf place; };
static unsigned present_thread;
// Contexts start a thread, once for all launches; from then on jumps are enough, and many times faster.
static std::vector<jmp_buf_box> places;
static jmp_buf_box scheduler;
static void swap_turns() { if (!_setjmp(places[present_thread].place)) _longjmp(scheduler.place, 1); }
static void __threadfence() {}

struct Barrier {
    unsigned members = 0, arrived = 0, round = 0;
    void release() { if (members && arrived == members) arrived = 0, round++; }
    void wait() {
        unsigned mine = round;
        arrived++;
        release();
        while (round == mine) swap_turns();
    }
    void leave() { members--; release(); }
};
static Barrier block_barrier, warp_barriers[32];
static unsigned long long said[1024];
static void __syncthreads() { block_barrier.wait(); }
static void __syncwarp(unsigned = 0) { warp_barriers[present_thread / 32].wait(); }
template <typename T> static T __shfl_xor_sync(unsigned, T value, int offset) {
    memcpy(&said[present_thread], &value, sizeof value);
    __syncwarp();
    memcpy(&value, &said[present_thread ^ offset], sizeof value);
    __syncwarp();
    return value;
}
template <typename T> static T __shfl_sync(unsigned, T value, int lane) {
    memcpy(&said[present_thread], &value, sizeof value);
    __syncwarp();
    memcpy(&value, &said[present_thread / 32 * 32 + lane], sizeof value);
    __syncwarp();
    return value;
}
static unsigned __ballot_sync(unsigned, bool vote) {
    said[present_thread] = vote;
    __syncwarp();
    unsigned votes = 0, first = present_thread / 32 * 32;
    for (unsigned lane = 0; lane < 32; lane++) votes |= (unsigned)said[first + lane] << lane;
    __syncwarp();
    return votes;
}
struct float4 { float x, y, z, w; };
struct double2 { double x, y; };
template <typename T> static T __ldcs(const T *from) { return *from; }
static int __popc(unsigned bits) { return __builtin_popcount(bits); }
static unsigned __float_as_uint(float x) { unsigned u; memcpy(&u, &x, 4); return u; }
static float __uint_as_float(unsigned u) { float x; memcpy(&x, &u, 4); return x; }
template <typename T> static T atomicAdd(T *place, T more) { T old = *place; *place += more; return old; }
template <typename T> static T atomicMax(T *place, T other) { T old = *place; *place = max(old, other); return old; }
"""

_AFTER = """
static void (*enter)(const void *);
static const void *body;  // a call of the kernel, for `enter`
static std::vector<char> ended;
static void one_thread() {
    for (;;) {
        enter(body);
        ended[present_thread] = 1;
        block_barrier.leave();
        warp_barriers[present_thread / 32].leave();
        swap_turns();  // until the next block
    }
}
static void start_thread() {
    const size_t stack = 1 << 16;
    static ucontext_t fresh, nowhere;
    getcontext(&fresh);
    fresh.uc_stack.ss_sp = malloc(stack);
    fresh.uc_stack.ss_size = stack;
    fresh.uc_link = &nowhere;
    makecontext(&fresh, one_thread, 0);
    setcontext(&fresh);
}

// Returns whether any block wrote numbers beyond the shared memory that it was given (not far beyond: into the array `shared`).
static int run_blocks(unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned given, bool backwards) {
    const unsigned threads = bx * by, numbers = (given + 7) / 8, blocks = gx * gy * gz;
    static std::vector<char> started;
    if (places.size() < threads) places.resize(threads), started.resize(threads);
    for (double &number : shared) number = std::nan("");
    gridDim = {gx, gy, gz}, blockDim = {bx, by, 1};
    for (unsigned turn = 0; turn < blocks; turn++) {
        const unsigned block = backwards ? blocks - 1 - turn : turn;
        blockIdx = {block % gx, block / gx % gy, block / gx / gy};
        ended.assign(threads, 0);
        block_barrier = {threads};
        for (unsigned warp = 0; 32 * warp < threads; warp++) warp_barriers[warp] = {min(32u, threads - 32 * warp)};
        for (unsigned k = 0; k < numbers; k++) shared[k] = std::nan("");
        for (bool going = true; going;) {
            going = false;
            for (unsigned k = 0; k < threads; k++) {
                const unsigned t = backwards ? threads - 1 - k : k;
                if (ended[t]) continue;
                present_thread = t, threadIdx = {t % bx, t / bx, 0}, going = true;
                if (!_setjmp(scheduler.place)) {
                    if (started[t]) _longjmp(places[t].place, 1);
                    started[t] = 1;
                    start_thread();
                }
            }
        }
    }
    int beyond = 0;
    for (unsigned k = numbers; k < sizeof shared / sizeof *shared; k++) beyond |= !std::isnan(shared[k]);
    return beyond;
}
"""


launched: set[tuple[str, str]] = set()  # name and parameters of every kernel that the present test has run (conftest.py)


def _parameters(text: str, name: str) -> str:
    """What stands between the brackets of a kernel."""
    found = re.search(rf'extern "C" __global__ void (?:__launch_bounds__\([^)]*\)\s+)?{name}\(([^)]*)\)', text)
    assert found, f"no kernel {name}"
    return " ".join(found[1].split())


def _runner(text: str, name: str) -> str:
    """A host function that runs a kernel over a grid."""
    listed = _parameters(text, name)
    names = [re.split(r"[ *]", one)[-1] for one in listed.split(",")]
    sizes = "unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned given, bool backwards"
    return (f'extern "C" int run_{name}({sizes}, {listed}) {{\n'
            f"    auto call = [=] {{ {name}({', '.join(names)}); }};\n    body = &call;\n"
            "    enter = [](const void *call_) { (*static_cast<const decltype(call) *>(call_))(); };\n"
            "    return run_blocks(gx, gy, gz, bx, by, given, backwards);\n}\n")


def _compiled(text: str, suffix: str, *flags: str) -> Path:
    """What the compiler makes of a source, kept beside it under a name that tells the two."""
    assert COMPILER
    folder = Path(__file__).parent / "__pycache__"  # nobody else's: what lies there is run
    folder.mkdir(exist_ok=True)
    code = folder / f"{hashlib.sha256(repr((text, FLAGS, flags)).encode()).hexdigest()[:24]}.hpp"
    path = code.with_name(code.name + suffix)
    if not path.exists():
        with tempfile.TemporaryDirectory(dir=folder) as work:
            source, made = Path(work) / code.name, Path(work) / path.name
            source.write_text(text)
            subprocess.run([COMPILER, *FLAGS, *flags, str(source), "-o", str(made)], check=True)
            source.rename(code)
            made.rename(path)
    return path


@lru_cache
def _library(text: str, names: tuple[str, ...]) -> ctypes.CDLL:
    # The same for all sources, and half of the work: compiled beforehand. Compilers take x.hpp.gch where x.hpp is asked for.
    header = _compiled(_BEFORE + _AFTER, ".gch", *HEADER).with_suffix("")
    whole = text + "".join(_runner(text, name) for name in names)
    return ctypes.CDLL(str(_compiled(whole, ".so", *LIBRARY, "-include", str(header))))


def _argument(value):
    if isinstance(value, np.ndarray):
        assert value.flags.c_contiguous
        return ctypes.c_void_p(value.ctypes.data)
    return np.ctypeslib.as_ctypes_type(value.dtype)(value)


_recording: list | None = None  # what is launched while a queue records
_waiting: list | None = None  # what the queue that is running does when it is waited for


def _launched(work):
    """Do what is launched, or note it while a queue records."""
    work() if _recording is None else _recording.append(work)


class HostMirror:
    """What numerics ask of a Mirror. Until its queue is waited for, what is sent cannot be written, nor is there what is fetched:
    on a card either would be a matter of chance."""

    def __init__(self, shape, dtype):
        self.device, self.host = np.zeros(shape, dtype), np.zeros(shape, dtype)

    def send(self):
        def work():
            np.copyto(self.device, self.host)
            if _waiting is not None:
                self.host.setflags(write=False)
                _waiting.append(partial(self.host.setflags, write=True))

        _launched(work)

    def fetch(self):
        def work():
            assert _waiting is not None
            self.host.fill(np.nan)
            _waiting.append(partial(np.copyto, self.host, self.device.copy()))

        _launched(work)


class HostQueue:
    """What numerics ask of a Queue. As on a card, launches of a name are recorded with their arguments and then replayed. late:
    what goes on beside others is done when it is waited for, not at once."""

    def __init__(self, late=False):
        self._recorded, self._waiting, self._ended, self._late, self._aside = {}, [], 0, late, {}

    def run(self, name, launches, record=True):
        global _recording
        if record and name not in self._recorded:
            self._recorded[name] = _recording = []
            launches()
            _recording = None
            assert not any(self._aside.values()), "what goes on beside a queue is not waited for"
        self.replay(self._recorded[name] if record else [launches])

    def replay(self, launched):
        global _waiting
        _waiting = self._waiting
        for work in launched:
            work()
        _waiting = None

    def beside(self, side, launches):
        """At once, or as late as may be."""
        global _recording
        if not self._late:
            launches()
            return lambda: None
        before, _recording = _recording, []
        launches()
        found, _recording = _recording, before
        waiting = self._aside.setdefault(side, [])
        waiting.append(found)

        def done():
            while any(each is found for each in waiting):
                for work in waiting.pop(0):
                    _launched(work)

        return done

    def mark(self):
        return partial(self._end, self._ended + len(self._waiting))

    def wait(self):
        self._end(self._ended + len(self._waiting))

    def _end(self, upto):
        while self._ended < upto:
            self._waiting.pop(0)()
            self._ended += 1


class HostGpu:
    """What numerics ask of a Gpu, on the host. backwards: the last thread comes first, and the last block, and last what goes on
    beside a queue."""

    name = "emulated"
    shared_bytes = 8 << 15  # of the array `shared` above

    def __init__(self, backwards: bool = False):
        self.backwards = backwards

    def use(self):
        pass

    def free_bytes(self) -> int:
        return 1 << 30

    def put(self, array):
        return np.array(array)

    def zeros(self, shape, dtype=np.float64):
        return np.zeros(shape, dtype)

    def mirror(self, shape, dtype=np.float64):
        return HostMirror(shape, dtype)

    def queue(self, urgent=False):
        return HostQueue(self.backwards)

    def get(self, array):
        return np.array(array, order="C")

    def fill(self, array, values):
        array[...] = values

    def wait(self):
        pass

    def kernels(self, text, names):
        refused = nvrtc.errors(text)
        assert not refused, refused
        return self.on_the_host(text, names)

    def on_the_host(self, text, names):
        """Kernels of a source that need not be CUDA."""
        library = _library(text, tuple(names))

        def launcher(name):
            function, listed = getattr(library, f"run_{name}"), _parameters(text, name)
            count = len(listed.split(","))

            def launch(grid, block, arguments, shared):
                assert shared <= HostGpu.shared_bytes
                assert len(arguments) == count, f"{name} takes {count} arguments, not {len(arguments)}"
                sizes = [ctypes.c_uint(n) for n in ((*grid, 1, 1)[:3] + (*block, 1)[:2] + (shared,))]
                sizes.append(ctypes.c_bool(self.backwards))
                passed = [_argument(value) for value in arguments]

                def work():
                    assert not function(*sizes, *passed), f"{name} wrote beyond its {shared} bytes of shared memory"
                    launched.add((name, listed))

                _launched(work)

            return launch

        return {name: launcher(name) for name in names}
