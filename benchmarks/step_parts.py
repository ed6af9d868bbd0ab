"""Where the time of a step of the march goes on a CPU: tangents, past, sums of a row, and the rest."""

from __future__ import annotations

from collections.abc import Callable

import numba
import numpy as np
from numba import njit

from benchmarks.common import seconds, table
from dmft.samples import process
from dmft.solvers.march import March

TANGENTS, PAST, SUMS = "tangents", "past, normals and fields", "sums of a row"
PLAIN_BYTES = 50_000_000  # of the plain read: more than the caches hold
FEW = 2  # blocks of samples whose data the near caches hold twice


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
    """Bytes of tangents and past that each part of a step reads."""
    samples, past = solver.samples, solver.samples.past
    rows = samples.used / solver.history.slots
    return {TANGENTS: rows_in_use(solver) * len(samples.tangents.T) * samples.tangents.T.itemsize,
            PAST: rows * (past.H.nbytes + past.X.nbytes + past.Y.nbytes),
            SUMS: rows * (past.G.nbytes + past.H.nbytes + samples.tangents.row.nbytes)}


class Watched:
    """The compiled functions of samples/process.py while a march continues: CPU seconds spent in each part of a step, and the last
    call of each part."""

    def __init__(self) -> None:
        self.spent, self.last = dict.fromkeys((TANGENTS, PAST, SUMS), 0.0), {}
        self._advance, self._row_sums = process._advance, process._row_sums

    def __enter__(self) -> Watched:
        process._advance = lambda of_tangents, blocks, *rest: self._timed(
            TANGENTS if of_tangents else PAST, lambda upto: self._advance(of_tangents, upto, *rest), blocks)
        process._row_sums = lambda *arguments: self._timed(
            SUMS, lambda upto: self._row_sums(*arguments[:-1], arguments[-1][:upto]), len(arguments[-1]))
        return self

    def _timed(self, part: str, call: Callable[[int], None], blocks: int) -> None:
        self.spent[part] += seconds(lambda: call(blocks))
        self.last[part] = call, blocks

    def __exit__(self, *_: object) -> None:
        process._advance, process._row_sums = self._advance, self._row_sums

    def near(self, part: str) -> float:
        """Seconds that the last call would take if all its data lay in the near caches: the last of a few blocks of samples, over
        and over, scaled up. What is left then is arithmetic."""
        call, blocks = self.last[part]

        def each(upto: int) -> float:
            return min(seconds(lambda: [call(upto) for _ in range(20)]) for _ in range(20)) / 20

        return (each(2 * FEW) - each(FEW)) / FEW * blocks


def where_a_step_goes(solver: March, steps: int) -> None:
    """Take so many steps of a march on the CPU, and print what they spend where. The march cannot continue afterwards."""
    with Watched() as watched:
        whole = seconds(lambda: [solver.step() for _ in range(steps)])
    limit, read = plain_read(), bytes_read(solver)
    rows = []
    for part, took in watched.spent.items():
        rate = read[part] * steps / took
        rows.append([part, f"{1e3 * took / steps:.2f}", f"{1e3 * watched.near(part):.2f}", f"{read[part] / 1e6:.1f}",
                     f"{rate / 1e9:.1f}", f"{rate / limit:.2f}"])
    rest = whole - sum(watched.spent.values())
    rows.append(["the rest: loss, exact sums, linear algebra, Python", f"{1e3 * rest / steps:.2f}", "", "", "", ""])
    table(f"where a step goes (a plain read of {PLAIN_BYTES / 1e6:.0f} MB: {limit / 1e9:.1f} GB/s)",
          ["part of a step", "ms", "ms with its data in near caches", "MB it reads", "GB/s", "of a plain read"], rows)
