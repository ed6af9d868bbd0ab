"""The equations of a step on a card with little shared memory, and with copies that come as late as they may. Emulated: of a real
card one can choose neither."""

from __future__ import annotations

import numpy as np
import pytest

from dmft.equations.on_card import Room, equations_source
from dmft.equations.rows import InUse
from dmft.model.constraints import Sphere
from dmft.solvers.march import March
from tests.dmft.samples.test_gpu_march import SMALL, assert_same_curves, problem, solved
from tests.emulate import COMPILER, HostGpu

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(COMPILER is None, reason="no C++ compiler for CUDA sources")]

STEPS, SLOTS = 42, 44
AT_ONCE = """    for (int k = 0; k < BYTES / 8; k++) to[k] = from[k];
}
__device__ inline void end_copies() {}
template <int BUT> __device__ inline void wait_for_copies() {}
"""
LATE = """    begun[present_thread].push_back({to, from, BYTES / 8});
}
__device__ inline void end_copies() { sets[present_thread].push_back(begun[present_thread]), begun[present_thread].clear(); }
template <int BUT> __device__ inline void wait_for_copies() {
    auto &mine = sets[present_thread];
    for (; mine.size() > BUT; mine.erase(mine.begin()))
        for (auto &one : mine.front())
            for (int k = 0; k < one.numbers; k++) one.to[k] = one.from[k];
}
"""
SETS = """struct Copy { double *to; const double *from; int numbers; };
static std::vector<Copy> begun[1024];
static std::vector<std::vector<Copy>> sets[1024];
"""
IN_TIME, TOO_LATE = "wait_for_copies<AHEAD - 1>();", "wait_for_copies<AHEAD>();"


class Scarce(HostGpu):
    """A card whose blocks of threads have so many bytes of shared memory. late: copies into it are made when they are waited for.
    waits: how many sets of them are waited for, in the place of IN_TIME."""

    def __init__(self, shared_bytes: int, late: bool = False, waits: str = IN_TIME):
        super().__init__()
        self.shared_bytes, self._late, self._waits = shared_bytes, late, waits

    def kernels(self, text, names):
        if "row_and_step" in names:
            assert AT_ONCE in text and IN_TIME in text
            text = text.replace(IN_TIME, self._waits)
            if self._late:
                return self.on_the_host(SETS + text.replace(AT_ONCE, LATE), names)
        return super().kernels(text, names)


def on(card: HostGpu | None, algorithm: str = "persistent") -> March:
    return solved(problem(algorithm, STEPS), None, np.float64, card, tiling=SMALL._replace(row_shares=1))


@pytest.mark.long
@pytest.mark.parametrize("shared_bytes, solve_rows, stages, staged", [
    (60_000, 16, 3, True), (25_000, 16, 2, False), (12_000, 8, 2, False), (8000, 4, 3, False), (4500, 2, 2, False)])
def test_whatever_room_there_is_for_the_equations(shared_bytes, solve_rows, stages, staged):
    room = Room.within(shared_bytes, SMALL.equations, SLOTS)
    assert room and (room.solve_rows, room.solve_stages, room.staged) == (solve_rows, stages, staged)
    assert 8 * room.numbers <= shared_bytes
    got = on(Scarce(shared_bytes))
    assert got.history.slots == SLOTS and got.samples.company.steps
    assert_same_curves(on(None), got)


def test_the_host_does_the_equations_where_there_is_no_room():
    assert Room.within(2500, SMALL.equations, SLOTS) is None
    got = on(Scarce(2500), "gd")
    assert got.samples.company.steps is None
    assert_same_curves(on(None, "gd"), got, rtol=1e-6)


@pytest.mark.parametrize("slots", [4, 16, 44, 144, 268, 512, 1024])
def test_room_is_never_more_than_there_is(slots):
    for limit in (48 << 10, 99 << 10, 227 << 10):
        room = Room.within(limit, 512, slots)
        assert room is None or 8 * room.numbers <= limit and room.rows == room.solve_rows * room.solve_stages >= 2 * room.solve_rows
    assert room and (room.solve_rows == 16 or slots > 512) and room.staged == (slots <= 268)


def test_one_source_serves_many_runs():
    """It takes seconds to compile, so it must not depend on the samples, nor on every slot of a history."""
    uses = InUse(True, True, 0.128, 0.0625, 1e-4, 20.0), InUse(True, True, 0.25, 0.064, 1e-5, np.inf)
    rooms = [Room.within(227 << 10, 512, slots) for slots in range(164, 177, 4)]
    assert len({equations_source(Sphere(), use, True, room) for use in uses for room in rooms}) == 1
    assert len({equations_source(Sphere(), use, True, rooms[0]) for use in (uses[0], uses[0]._replace(stein=False))}) == 2


@pytest.mark.long
@pytest.mark.parametrize("shared_bytes", [60_000, 8000])
def test_copies_are_waited_for(shared_bytes):
    """The same bits if they come as late as they may; waiting for one set fewer gives others."""
    want, late = on(Scarce(shared_bytes)), on(Scarce(shared_bytes, late=True))
    for name, curve in want.curves.items():
        np.testing.assert_array_equal(late.curves[name], curve, err_msg=name)
    if shared_bytes == 8000:  # where rows take the places of others
        with np.errstate(all="ignore"):
            broken = on(Scarce(shared_bytes, late=True, waits=TOO_LATE))
        assert not np.array_equal(broken.curves["m"], want.curves["m"])
