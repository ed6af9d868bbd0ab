"""Eight numbers side by side, as the vectors of a processor hold them: the same bits on every processor, however wide its own are.

Arrays are contiguous, of double or single precision; arithmetic is in double. Numbers of single precision are widened as they are
loaded, which takes time; so product and sum are then one operation with one rounding (llvm.fma), on every processor.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic

LANES = 8
VECTOR = ir.VectorType(ir.DoubleType(), LANES)
ELEMENTS = {types.float64: ir.DoubleType(), types.float32: ir.FloatType()}


def _check(*arrays: Any) -> None:
    for array in arrays:
        if not (isinstance(array, types.Array) and array.ndim == 1 and array.dtype in ELEMENTS and array.layout in "CF"):
            raise TypingError(f"contiguous arrays of float64 or float32 are wanted, not {array}")


def _place(context: Any, builder: Any, kind: Any, array: Any, group: Any) -> Any:
    """Where the numbers 8 group .. 8 group + 7 of an array are."""
    start = builder.gep(context.make_array(kind)(context, builder, array).data, [builder.mul(group, group.type(LANES))])
    return builder.bitcast(start, ir.VectorType(ELEMENTS[kind.dtype], LANES).as_pointer())


def _load(context: Any, builder: Any, kind: Any, array: Any, group: Any) -> Any:
    """Eight numbers of an array, in double precision."""
    numbers = builder.load(_place(context, builder, kind, array, group), align=kind.dtype.bitwidth // 8)
    return numbers if kind.dtype == types.float64 else builder.fpext(numbers, VECTOR)


def _product_and_sum(builder: Any, kind: Any, a: Any, b: Any, total: Any) -> Any:
    """total + a * b; kind: of the array that b was loaded from."""
    if kind.dtype == types.float64:
        return builder.fadd(total, builder.fmul(a, b))
    fused = cgutils.get_or_insert_function(builder.module, ir.FunctionType(VECTOR, [VECTOR] * 3), f"llvm.fma.v{LANES}f64")
    return builder.call(fused, [a, b, total])


@intrinsic
def lane_sums(_context, a, b, count):
    """lane_sums(a, b, count): the eight sums over q < count of a[8 q + lane] * b[8 q + lane], for lanes 0 to 7; a is of double
    precision. A compiler does not make vectors of eight sums that are written out, nor may it of one sum."""
    _check(a, b)

    def codegen(context, builder, signature, args):
        sums = cgutils.alloca_once_value(builder, ir.Constant(VECTOR, [0.0] * LANES))
        with cgutils.for_range(builder, args[2]) as loop:
            left, right = (_load(context, builder, signature.args[k], args[k], loop.index) for k in range(2))
            builder.store(_product_and_sum(builder, b, left, right, builder.load(sums)), sums)
        total = builder.load(sums)
        lanes = [builder.extract_element(total, ir.Constant(ir.IntType(32), lane)) for lane in range(LANES)]
        return context.make_tuple(builder, signature.return_type, lanes)

    return types.UniTuple(types.float64, LANES)(a, b, types.intp), codegen


@intrinsic
def add_lanes(_context, out, weight, b, count):
    """add_lanes(out, weight, b, count): out[k] += weight * b[k] for k < 8 count; out is of double precision and does not overlap
    with b, which a compiler would have to find out each time."""
    _check(out, b)

    def codegen(context, builder, signature, args):
        weights = ir.Constant(VECTOR, ir.Undefined)
        for lane in range(LANES):
            weights = builder.insert_element(weights, args[1], ir.Constant(ir.IntType(32), lane))
        with cgutils.for_range(builder, args[3]) as loop:
            numbers, total = (_load(context, builder, signature.args[k], args[k], loop.index) for k in (2, 0))
            more = _product_and_sum(builder, b, weights, numbers, total)
            builder.store(more, _place(context, builder, signature.args[0], args[0], loop.index), align=8)
        return context.get_dummy_value()

    return types.void(out, types.float64, b, types.intp), codegen
