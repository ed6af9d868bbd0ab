"""CUDA translated from Python functions gives the numbers of Python; what cannot be translated is told in one line."""

from __future__ import annotations

import ast
import math
from functools import partial
from typing import NamedTuple

import numpy as np
import pytest
from numba import njit

from dmft.core import to_cuda
from dmft.core.block_cuda import Struct
from dmft.core.cuda_numbers import Array, records_source
from dmft.core.streams import key, uniform2
from dmft.core.to_cuda import CudaFunctions, NoCuda

WIDTH = 0.7
X, Y = (axis.ravel() for axis in np.meshgrid(np.linspace(-2.3, 2.4, 9), np.linspace(-1.9, 2.1, 7)))


def values(card, function, X=X, Y=Y) -> np.ndarray:
    """function(x, y) at all points, in CUDA."""
    text = CudaFunctions("tested_").add(function, name="it").text + (
        'extern "C" __global__ void values(int count, const double *x, const double *y, double *out) {\n'
        "    for (int i = threadIdx.x; i < count; i += blockDim.x) out[i] = tested_it<double>(x[i], y[i]);\n}\n")
    out = card.zeros(X.size)
    card.kernels(text, ["values"])["values"]((1,), (32,), (np.int32(X.size), card.put(X), card.put(Y), out), 0)
    return card.get(out)


@njit
def _stretched(x, by=2.0, shift=0):
    return by * x + shift


def arithmetic(x, y):
    """Operators, powers, constants of the module, a default and a keyword."""
    d = x * x - y / 3
    d -= 0.25 * -y
    return 0.5 * d**3 + d**-2 + WIDTH * _stretched(x, shift=1) + 7 // 2 * abs(y) ** 1.5 + math.pi


def branches(x, y):
    if x > 0.0 and not y > 1.0:
        size = 1.0
    elif -1.0 < x <= 0.0 or y == 0.1:
        size = np.sqrt(x * x + 1.0)
    else:
        return -x if y > x else 2
    default = size + (x < y) + ((x > 0.0) & (y > 0.0))  # `default` is a word of C++
    return default


def loops(x, y):
    total, k = 0, 0
    while total < 3.0 and k < 40:
        k += 1
        if k % 3 == 0:
            continue
        total += abs(x) / k
    for n in range(1, 7, 2):
        if n > 4:
            break
        total += y * n
    return total


def chosen(x, y):
    both = np.maximum(x, y) - np.minimum(x, 0.3) * max(x, 0.0) + min(y, 1)
    return both + np.sign(x - y) * np.where(x > y, np.tanh(x), math.exp(-y)) + int(x + 5.0) // 2 + float(x > 1)


def make_closure(width):
    shift, wide = width * width, width > 1.0

    def inner(f, y):
        return np.log1p(np.exp(-y * (f * f - shift))) if wide else f - shift

    return inner


FIRST, SECOND, THIRD = lambda x, y: x - y, lambda x, y: y - x, lambda x, y: x if x > y else 2.0  # on one line
FUNCTIONS = {"arithmetic": arithmetic, "branches": branches, "loops": loops, "chosen": chosen, "closure": make_closure(0.5),
             "other closure": make_closure(1.5), "first lambda": FIRST, "second lambda": SECOND, "third lambda": THIRD,
             "compiled": njit(arithmetic)}


@pytest.mark.gpu
@pytest.mark.parametrize("name", FUNCTIONS)
def test_cuda_gives_the_numbers_of_python(card, name):
    function = FUNCTIONS[name]
    want = [float(function(x, y)) for x, y in zip(X, Y, strict=True)]
    np.testing.assert_allclose(values(card, function), want, rtol=3e-14, atol=1e-14)


@pytest.mark.gpu
@pytest.mark.parametrize("wrong", [{ast.Sub: "+"}, {ast.Gt: "<"}, {ast.Or: "&&"}, {ast.Mult: "+"}], ids=["-", ">", "or", "*"])
def test_a_wrong_operator_is_seen(card, monkeypatch, wrong):
    """Twin: some of the functions above differ."""
    monkeypatch.setattr(to_cuda, "OPERATORS", {**to_cuda.OPERATORS, **wrong})
    off = [np.abs(values(card, function) - [float(function(x, y)) for x, y in zip(X, Y, strict=True)]).max()
           for function in (arithmetic, branches)]
    assert max(off) > 0.1


@pytest.mark.gpu
def test_no_number_stays_none(card):
    """As NumPy's maximum and minimum have it, whichever argument it is: a solution that is lost must not look like one."""
    points = np.array([np.nan, 1.0, np.nan]), np.array([1.0, np.nan, np.nan])
    for function in (lambda x, y: np.maximum(x, y), lambda x, y: np.minimum(x, y)):
        assert np.isnan(values(card, function, *points)).all()
    assert not np.isnan(values(card, lambda x, y: max(x, 0.0) + max(y, 0.0), np.zeros(3), np.ones(3))).any()


class Law(NamedTuple):
    kind: int
    chance: float


LOW = np.uint64(0xFFFFFFFF)


@njit
def drawn(law, stream, index, changes):
    """Whole numbers, words, a struct, an array, and a function with two results that CUDA has by hand."""
    u, v = uniform2(stream, index // 2, changes[1])
    bits = (stream >> np.uint64(32)) & LOW
    return (u if index % 2 else v) < law.chance and law.kind == 3 and bits > np.uint64(0)


@pytest.mark.gpu
def test_structs_arrays_and_functions_by_hand(card):
    from dmft.core.device import CUDA, source

    functions = CudaFunctions(by_hand={uniform2: "uniform2"}).add(
        drawn, {"law": Law, "stream": "word", "index": "int", "changes": Array("int")})
    text = source(CUDA / "philox.cuh") + functions.text + (
        'extern "C" __global__ void draws(unsigned long long stream, const long long *changes, double *out) {\n'
        "    out[threadIdx.x] = drawn<double>(Law{3, 0.4}, stream, threadIdx.x, changes);\n}\n")
    stream, changes, out = key(1, "test"), np.array([2, 5]), card.zeros(64)
    card.kernels(text, ["draws"])["draws"]((1,), (64,), (stream, card.put(changes), out), 0)
    want = [drawn(Law(3, 0.4), stream, index, changes) for index in range(64)]
    assert 0 < sum(want) < 64
    np.testing.assert_array_equal(card.get(out), want)


def test_given_values_settle_conditions():
    def inert(law, x):
        return x if law.kind == 3 else x[law.kind]

    text = CudaFunctions().add(inert, given={"law": Law(3, 0.1)}).text
    assert "real inert(real x)" in text and "?" not in text
    with pytest.raises(NoCuda, match=r"inert: `x\[law.kind\]` cannot be translated"):
        CudaFunctions().add(inert, given={"law": Law(2, 0.1)})


def swapped(x, y):
    x, y = y, x
    return x


def without_end(x, y):
    if x > y:
        return x


def counts_down(x, y):
    for _ in range(3, 0, -1):
        x += y
    return x


def itself(x, y):
    return x if x > y else itself(x + 1.0, y)


def nowhere(x, y):
    return x + not_there  # noqa: F821


@pytest.mark.parametrize(("function", "message"), [
    (lambda x, y: np.interp(x, [0.0, 1.0], [y, 1.0]), r"<lambda>: `np.interp\(\)` cannot be translated to CUDA \(line \d+\)"),
    (lambda x, y: [x, y][0], r"`\[x, y\]\[0\]` cannot be"), (lambda x, y: x % y, "not whole"),
    (lambda x, y: x or y, "or of numbers"),
    (swapped, "swapped: an exchange of variables"), (without_end, "an end without return"), (counts_down, "does not count up"),
    (itself, "which calls itself"), (nowhere, "`not_there`, which has no value"),
    (partial(arithmetic, 1.0), "only Python functions"), (eval("lambda x, y: x"), "its source cannot be read"),
])
def test_what_cannot_be_translated_is_one_line(function, message):
    with pytest.raises(NoCuda, match=message) as caught:
        CudaFunctions().add(function, name="it")
    assert "\n" not in str(caught.value)


def test_records_of_python_are_structs_of_numbers_of_eight_bytes():
    """Others would be read from the wrong places."""
    record = np.dtype([("n", np.int64), ("x", np.float64, (2, 3))])
    assert records_source(Step=record) == "struct Step { long long n; double x[2][3]; };\n"
    for wrong in (np.int32, np.float32, np.uint64, np.bool_, np.complex128, ">f8"):
        with pytest.raises(TypeError, match=r"Step\.x: .*, where structs have int64 and float64 alone"):
            records_source(Step=np.dtype([("n", np.int64), ("x", wrong)]))
        with pytest.raises(TypeError, match=r"Step\.x"):
            Struct.of_record("Step", np.dtype([("x", wrong)]))
