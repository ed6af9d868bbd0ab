"""Which card a rank takes, and what is said where there is none: with a stand-in for CuPy."""

from __future__ import annotations

import sys
import types
import warnings

import numpy as np
import pytest

from dmft.core.device import gpu
from dmft.core.errors import DmftWarning, UserError


class CompileError(Exception):
    pass


def stand_in(cards: int | Exception, compiles: bool = True) -> types.ModuleType:
    """A CuPy with so many cards of 80 bytes each; used: the card that was made the present one last."""
    cupy = types.ModuleType("cupy")

    def count() -> int:
        if isinstance(cards, Exception):
            raise cards
        return cards

    def use(number):
        return types.SimpleNamespace(use=lambda: setattr(cupy, "used", number))

    def module(code, options):
        if not compiles:
            raise CompileError("In file included\nkern.cu(3): error: expected a ';'\n1 error detected\n")
        return types.SimpleNamespace(get_function=lambda name: lambda *launch, **more: cupy.launched.append((name, launch)))

    cupy.launched = []
    cupy.cuda = types.SimpleNamespace(
        Device=use, compiler=types.SimpleNamespace(CompileException=CompileError),
        runtime=types.SimpleNamespace(getDeviceCount=count, CUDARuntimeError=RuntimeError, memGetInfo=lambda: (80, 100)))
    cupy.get_default_memory_pool = lambda: types.SimpleNamespace(free_bytes=lambda: 3)
    cupy.RawModule = module
    return cupy


def test_ranks_that_take_turns_on_a_card_are_told_once_a_node(with_cupy):
    with_cupy(stand_in(cards=2))
    with pytest.warns(DmftWarning, match="3 ranks of a node take turns on 2 GPUs; one rank a GPU is faster"):
        gpu("theory", 0, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gpu("theory", 1, 3)
        gpu("theory", 0, 2)


@pytest.mark.filterwarnings("ignore:.*take turns:dmft.core.errors.DmftWarning")
def test_ranks_take_the_cards_of_their_node_in_turn(with_cupy):
    cupy = stand_in(cards=4)
    with_cupy(cupy)
    for ranks, sharers in ((4, 1), (6, 2), (8, 2)):
        for rank in range(ranks):
            card = gpu("theory", rank, ranks)
            assert cupy.used == rank % 4 and card.free_bytes() == 80 // sharers + 3


@pytest.mark.parametrize("cards", [0, RuntimeError("cudaErrorNoDevice: no CUDA-capable device\nmore")])
def test_no_card_is_one_line(with_cupy, cards):
    with_cupy(stand_in(cards))
    with pytest.raises(UserError, match=r'^\[theory\] device = "gpu": no GPU found.*device = "cpu"') as told:
        gpu("theory")
    assert "\n" not in str(told.value)


def test_no_cupy_is_one_line(with_cupy):
    with_cupy(None)
    with pytest.raises(UserError, match=r'^\[simulation\] device = "gpu": CuPy is not installed; take device = "cpu".*gpu.md\)$'):
        gpu("simulation")


def test_a_cupy_that_does_not_load_says_why(with_cupy, tmp_path, monkeypatch):
    (tmp_path / "cupy.py").write_text("raise ImportError('===\\nFailed to import CuPy.\\n  libcudart.so.12: not there\\n===')\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    with pytest.raises(UserError, match=r"CuPy cannot be loaded \(libcudart.so.12: not there\); take"):
        gpu("theory")


def test_kernels_that_do_not_compile_are_one_line(with_cupy):
    with_cupy(stand_in(1, compiles=False))
    with pytest.raises(UserError, match=r"kernels do not compile: kern.cu\(3\): error: expected a ';'; see"):
        gpu("theory").kernels("source", ["one"])


def test_nothing_is_launched_over_nothing(with_cupy):
    """CUDA refuses an empty grid, and a rank may have no samples."""
    cupy = stand_in(1)
    with_cupy(cupy)
    launch = gpu("theory").kernels("another source", ["one"])["one"]
    launch((0, 3), (32,), (np.int32(0),), 0)
    launch((1, 3), (32,), (np.int32(0),), 0)
    assert [grid for _, (grid, *_) in cupy.launched] == [(1, 3)]
