"""Where the time of a step of the march goes on a CPU: tangents, past, sums of a row, and the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import numba
import numpy as np
from numba import njit

from benchmarks.common import seconds, table
from dmft.samples import process
from dmft.solvers.march import March

PARTS_OF_A_STEP = {"_advance_tangents": "tangents", "_advance": "past, normals and fields", "_row_sums": "sums of a row"}
PLAIN_BYTES = 50_000_000  # of the plain read: more than the caches hold


@njit(parallel=True)
def read_lines(data, out):
    """One number of every line of memory of data (rows, columns), single precision; out (rows,) receives sums."""
    for i in numba.prange(len(data)):
        total = np.float32(0)
        for k in range(0, data.shape[1], 16):
            total += data[i, k]
        out[i] = total


def plain_read() -> float:
    """Bytes a second of CPU time at which this thread reads memory, the best of twenty."""
    data = np.ones((500, PLAIN_BYTES // 2000), np.float32)
    out = np.empty(len(data), np.float32)
    read_lines(data, out)
    return data.nbytes / min(seconds(lambda: read_lines(data, out)) for _ in range(20))


def rows_in_use(solver: March) -> int:
    """Tangents of a sample that a step reads: rows come in groups of four, and groups without anything are left out."""
    history = solver.history
    return int((history.stop.reshape(-1, 4).sum(axis=1) * (history.size.reshape(-1, 4).max(axis=1) > 0)).sum())


def bytes_read(solver: March) -> dict[str, float]:
    """Bytes of tangents and past that a step reads, by the functions that read them."""
    samples, past = solver.samples, solver.samples.past
    rows = samples.used / solver.history.slots
    return {"_advance_tangents": rows_in_use(solver) * len(samples.tangents.T) * samples.tangents.T.itemsize,
            "_advance": rows * (past.H.nbytes + past.X.nbytes + past.Y.nbytes),
            "_row_sums": rows * (past.G.nbytes + past.H.nbytes + samples.tangents.row.nbytes)}


@contextmanager
def timed(names: Iterable[str]) -> Iterator[dict[str, float]]:
    """CPU seconds spent in these functions of samples/process.py, by name."""
    spent, plain = dict.fromkeys(names, 0.0), {name: getattr(process, name) for name in names}

    def watched(name: str) -> Callable:
        def run(*arguments):
            spent[name] += seconds(lambda: plain[name](*arguments))
        return run

    for name in plain:
        setattr(process, name, watched(name))
    try:
        yield spent
    finally:
        for name, function in plain.items():
            setattr(process, name, function)


def where_a_step_goes(solver: March, steps: int) -> None:
    """Take so many steps of a march on the CPU, and print what they spend where."""
    with timed(PARTS_OF_A_STEP) as spent:
        whole = seconds(lambda: [solver.step() for _ in range(steps)])
    limit, read = plain_read(), bytes_read(solver)
    rows = []
    for name, label in PARTS_OF_A_STEP.items():
        rate = read[name] * steps / spent[name]
        rows.append([label, f"{1e3 * spent[name] / steps:.2f}", f"{read[name] / 1e6:.1f}", f"{rate / 1e9:.1f}",
                     f"{rate / limit:.2f}"])
    rest = whole - sum(spent.values())
    rows.append(["the rest: loss, exact sums, linear algebra, Python", f"{1e3 * rest / steps:.2f}", "", "", ""])
    table(f"where a step goes (a plain read of {PLAIN_BYTES / 1e6:.0f} MB: {limit / 1e9:.1f} GB/s)",
          ["part of a step", "ms", "MB it reads", "GB/s", "of a plain read"], rows)
