"""The inner loop of the simulator: two data rows at a time, fields and gradient in one pass.

A step needs, for every sample mu of the mini-batch, its field x_mu.e (the whole row) and then c_mu x_mu added to
the gradient (the row again). `fused_rows` computes the fields of two new rows while it adds the two rows before
them, which are still in the first-level cache, to the gradient: memory is read once and never waits for the
arithmetic.

The vector code is written out as LLVM instructions, so that the order of every addition is fixed here and
not chosen by the compiler: the same bits serially, in threads, and for any vector width of the machine. The
field is sixteen running float32 sums, added up in float64; the gradient adds the rows one after the other, so
a row with coefficient 0 changes nothing and its place in a group does not matter.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from dmft.core.compiled import UNCOUNTED
from sgd_sim.kernels.formulas import coefficient, field_at

FLOAT_LANES = 16   # float32 in 64 bytes, one cache line
GROUP = 2    # rows handled together: with more the hardware cannot prefetch all streams from memory

_FLOAT, _DOUBLE, _INT32, INT64 = ir.FloatType(), ir.DoubleType(), ir.IntType(32), ir.IntType(64)
FLOATS, _DOUBLES = ir.VectorType(_FLOAT, FLOAT_LANES), ir.VectorType(_DOUBLE, FLOAT_LANES)


def padded(length: int) -> int:
    """Columns of a row: the length filled up with zeros to whole vectors."""
    return -(-length // FLOAT_LANES) * FLOAT_LANES


def aligned(shape: tuple[int, ...], dtype=np.float32) -> np.ndarray:
    """Uninitialised array that starts at a cache line."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.empty(size + 64, np.uint8)
    offset = -raw.ctypes.data % 64
    return raw[offset:offset + size].view(dtype).reshape(shape)


def load(builder, address, offset, vector=FLOATS):
    """The vector at a byte offset from an address."""
    pointer = builder.inttoptr(builder.add(address, offset), vector.as_pointer())
    return builder.load(pointer, align=4)


def store(builder, value, address, offset):
    """Put the vector at a byte offset from an address."""
    builder.store(value, builder.inttoptr(builder.add(address, offset), value.type.as_pointer()), align=4)


def broadcast(builder, scalar):
    """A vector of equal float32."""
    empty = ir.Constant(FLOATS, ir.Undefined)
    first = builder.insert_element(empty, scalar, ir.Constant(_INT32, 0))
    return builder.shuffle_vector(first, empty, ir.Constant(ir.VectorType(_INT32, FLOAT_LANES), [0] * FLOAT_LANES))


def fma(builder):
    """The function a b + c on float32 vectors, rounded once."""
    kind = ir.FunctionType(FLOATS, [FLOATS] * 3)
    return cgutils.get_or_insert_function(builder.module, kind, f"llvm.fma.v{FLOAT_LANES}f32")


def _add_lanes(builder, vector):
    """Sum of the lanes, halves onto halves."""
    count = FLOAT_LANES
    while count > 1:
        count //= 2
        empty = ir.Constant(vector.type, ir.Undefined)
        halves = [builder.shuffle_vector(vector, empty, ir.Constant(ir.VectorType(_INT32, count), list(range(k, k + count))))
                  for k in (0, count)]
        vector = builder.fadd(*halves)
    return builder.extract_element(vector, ir.Constant(_INT32, 0))


@intrinsic
def fused_rows(typing, new, old, e, gradient, size, coefficients):
    """Fields of the rows `new` with e, while gradient += sum_r coefficients[r] old[r].

    new, old: addresses of GROUP rows; e, gradient: addresses of float32 vectors; size: bytes of a padded row.
    Returns the GROUP products new[r].e as float64.
    """
    addresses, numbers = types.UniTuple(types.intp, GROUP), types.UniTuple(types.float64, GROUP)
    signature = numbers(addresses, addresses, types.intp, types.intp, types.intp, numbers)

    def generate(context, builder, sig, arguments):
        new, old, e, gradient, size, coefficients = arguments
        multiply_add = fma(builder)
        new = [builder.extract_value(new, r) for r in range(GROUP)]
        old = [builder.extract_value(old, r) for r in range(GROUP)]
        factors = [broadcast(builder, builder.fptrunc(builder.extract_value(coefficients, r), _FLOAT))
                   for r in range(GROUP)]
        before, body, after = builder.block, builder.append_basic_block("rows"), builder.append_basic_block("sums")
        builder.branch(body)

        builder.position_at_end(body)
        offset = builder.phi(INT64)
        offset.add_incoming(ir.Constant(INT64, 0), before)
        fields = [builder.phi(FLOATS) for _ in range(GROUP)]
        e_part, gradient_part = load(builder, e, offset), load(builder, gradient, offset)
        for r in range(GROUP):
            fields[r].add_incoming(ir.Constant(FLOATS, [0.0] * FLOAT_LANES), before)
            grown = builder.call(multiply_add, [load(builder, new[r], offset), e_part, fields[r]])
            fields[r].add_incoming(grown, body)
            fields[r] = grown
            gradient_part = builder.call(multiply_add, [factors[r], load(builder, old[r], offset), gradient_part])
        store(builder, gradient_part, gradient, offset)
        following = builder.add(offset, ir.Constant(INT64, 4 * FLOAT_LANES))
        offset.add_incoming(following, body)
        builder.cbranch(builder.icmp_signed("<", following, size), body, after)

        builder.position_at_end(after)
        sums = [_add_lanes(builder, builder.fpext(field, _DOUBLES)) for field in fields]
        return context.make_tuple(builder, sig.return_type, sums)

    return signature, generate


@intrinsic
def call_scalar(typing, address, numbers):
    """Call the compiled double f(double, ...) at an address with a tuple of numbers, so that kernels do not depend on the loss."""
    count = len(numbers)
    signature = types.float64(types.intp, types.UniTuple(types.float64, count))

    def generate(context, builder, sig, arguments):
        kind = ir.FunctionType(_DOUBLE, [_DOUBLE] * count).as_pointer()
        values = [builder.extract_value(arguments[1], k) for k in range(count)]
        return builder.call(builder.inttoptr(arguments[0], kind), values)

    return signature, generate


@intrinsic
def call_many(typing, address, products, h0, sign, shift, weight, samples, lanes, root, scale):
    """Call the compiled void f(float*, double*, double*, double*, uint8*, intp, intp, double, double) at an address."""
    signature = types.void(*[types.intp] * 8, types.float64, types.float64)

    def generate(context, builder, sig, arguments):
        kind = ir.FunctionType(ir.VoidType(), [INT64] * 7 + [_DOUBLE] * 2).as_pointer()
        builder.call(builder.inttoptr(arguments[0], kind), arguments[1:])
        return context.get_dummy_value()

    return signature, generate


class Visit(NamedTuple):
    """What rows are visited with: fields are sign label + root x.e + shift."""

    data: Any     # (M, padded N) float32
    labels: Any   # (M,) float64
    e: Any        # (padded N,) float32
    sign: float
    root: float
    shift: float
    scale: float
    dv: int       # address for `call_scalar`
    everything: bool   # the fields of all rows, not only of those in the mini-batch


@njit(**UNCOUNTED, nogil=True)
def pass_over_rows(visit, rows, weight, gradient, fields):
    """fields[mu] = sign h0[mu] + root x_mu.e + shift and gradient += sum_mu scale weight[mu] dv(fields[mu], h0[mu]) x_mu, of a
    Visit with labels h0.

    rows: the samples mu, in the order of their visits. gradient: (padded N,) float32; fields: (M,) float64; weight: (M,) uint8.
    """
    data, e = visit.data, visit.e
    count = rows.size
    if count == 0:
        return
    base, stride = data.ctypes.data, data.strides[0]
    e_address, gradient_address = e.ctypes.data, gradient.ctypes.data
    start = base + stride * rows[0]
    old, coefficients = (start, start), (0.0, 0.0)
    for k in range(0, count, GROUP):
        a, b = rows[k], rows[min(k + 1, count - 1)]   # an odd last row is paired with itself, with coefficient 0
        new = (base + stride * a, base + stride * b)
        products = fused_rows(new, old, e_address, gradient_address, stride, coefficients)
        coefficients = (_coefficient(a, products[0], True, visit, weight, fields),
                        _coefficient(b, products[1], k + 1 < count, visit, weight, fields))
        old = new
    fused_rows(old, old, e_address, gradient_address, stride, coefficients)


@njit(cache=True, nogil=True, inline="always")
def _coefficient(mu, product, counts, visit, weight, fields):
    h0 = visit.labels[mu]
    h = field_at(product, h0, visit.sign, visit.root, visit.shift)
    fields[mu] = h
    if counts and weight[mu] > 0:
        return coefficient(visit.scale, weight[mu], call_scalar(visit.dv, (h, h0)))
    return 0.0
