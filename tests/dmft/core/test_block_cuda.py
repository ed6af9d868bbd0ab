"""Functions over arrays, translated for a block of threads, do what they do in Python."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from dmft.core.block_cuda import CELL_TYPES, BlockFunctions, Cells, Struct, structs_source
from dmft.core.compiled import each, record
from dmft.core.to_cuda import NoCuda

NUMBERS = record(count=int, scale=float, last=float)
ONE = Struct.of("One", table=Cells("real", 2), now=Struct.of_record("Numbers", NUMBERS))
FIRST, SECOND = range(2)


def by_hand(line, n):
    """The sum of a line."""
    return sum(line[:n])


@njit
def _doubled(one, line):
    for j in each(len(line)):
        line[j] = 2.0 * line[j] + one.now.scale


def worked(one, shift):
    """Loops that are shared out, entries set by all alike, numbers that change, and a function by hand."""
    now, a, b = one.now, one.table[FIRST], one.table[SECOND]
    for j in each(now.count):
        a[j] = shift * j
        b[j] = a[j] * a[j]
    a[0], a[1] = a[1], a[0]
    _doubled(one, one.table[SECOND, : now.count - 1])
    b[2] += a[3]
    now.scale *= 2.0
    now.last = now.scale = by_hand(b, now.count) + now.scale
    if now.last > 0.0:
        now.count += 1


KERNEL = """
__device__ double by_hand(Line<double> line, long long n) {
    double sum = 0.0;
    for (int k = 0; k < n; k++) sum += line[k];
    return sum;
}
%s
extern "C" __global__ void work(int width, double *table, double *now, double shift) {
    One one = {{table, 2, width}, *(Numbers *)now};
    __syncthreads();
    worked<double>(one, shift);
    if (threadIdx.x == 0) *(Numbers *)now = one.now;
}
"""


@pytest.mark.gpu
def test_a_block_of_threads_does_what_python_does(card):
    made = BlockFunctions({by_hand: "real"}, {}).add(worked, {"one": ONE, "shift": "real"}).text
    text = CELL_TYPES + structs_source({"numbers": ONE.kinds["now"], "one": ONE}) + KERNEL % made
    table, now = np.ones((2, 70)), np.array([(69, 0.25, 0.0)], NUMBERS)
    on_card, numbers = card.put(table), card.put(now.view(np.float64))
    card.kernels(text, ["work"])["work"]((1,), (64,), (np.int32(70), on_card, numbers, np.float64(0.5)), 0)

    class One:
        pass

    one = One()
    one.table, one.now = table, now[0]
    plain = dict(worked.__globals__, _doubled=_doubled.py_func)
    type(worked)(worked.__code__, plain)(one, 0.5)
    np.testing.assert_array_equal(card.get(on_card), table)
    assert card.get(numbers).view(NUMBERS)[0] == now[0] and now[0].count == 70


def renamed(one):
    line = one.table[FIRST]
    line = one.table[SECOND]
    line[0] = 1.0


@pytest.mark.parametrize("function, message", [(renamed, "arrays under changing names"),
                                               (lambda one: one.table.shape, "table.shape")])
def test_what_is_refused(function, message):
    with pytest.raises(NoCuda, match=message):
        BlockFunctions({}, {}).add(function, {"one": ONE}, name="it")
