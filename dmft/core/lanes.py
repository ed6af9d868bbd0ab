"""Numbers side by side, as the vectors of a processor hold them: the same bits on every processor, however wide its own are.

Arrays are contiguous, of double or single precision. Sums here are in double: numbers of single precision are widened as they are
loaded, which takes time; so product and sum are then one operation with one rounding (`fused`), on every processor.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic

SUM_LANES = 8
LINES_TOGETHER = 4  # arrays that are worked on together
PREFETCH_PAST = 320  # how far ahead of their use numbers of a stored past are asked for, in entries: a sample or two
ELEMENTS = {types.float64: ir.DoubleType(), types.float32: ir.FloatType()}


def check(*arrays: Any, double: Any = None) -> None:
    """TypingError for an argument that is no array as above, and for an array `double` of single precision."""
    for array in arrays if double is None else (*arrays, double):
        if not (isinstance(array, types.Array) and array.ndim == 1 and array.dtype in ELEMENTS and array.layout in "CF"):
            raise TypingError(f"contiguous arrays of float64 or float32 are wanted, not {array}")
    if double is not None and double.dtype != types.float64:
        raise TypingError(f"an array of float64 is wanted, not {double}")


def vector_of(dtype: Any, width: int) -> ir.VectorType:
    """The type of so many numbers side by side."""
    return ir.VectorType(ELEMENTS[dtype], width)


def repeated(builder: Any, vector: ir.VectorType, number: Any) -> Any:
    """A vector of one number."""
    result = ir.Constant(vector, ir.Undefined)
    for lane in range(vector.count):
        result = builder.insert_element(result, number, ir.Constant(ir.IntType(32), lane))
    return result


def fused(builder: Any, a: Any, b: Any, total: Any) -> Any:
    """total + a b, rounded once."""
    kind = total.type
    name = f"llvm.fma.v{kind.count}f{64 if kind.element == ir.DoubleType() else 32}"
    return builder.call(cgutils.get_or_insert_function(builder.module, ir.FunctionType(kind, [kind] * 3), name), [a, b, total])


def ask_for(builder: Any, place: Any) -> None:
    """A hint to the memory system: fetch the line that `place` points to, which will be read soon. Results do not depend on it. The
    place may lie beyond the end of an array: the processor ignores an address that is not there."""
    byte, flag = ir.IntType(8).as_pointer(), ir.IntType(32)
    hint = cgutils.get_or_insert_function(builder.module, ir.FunctionType(ir.VoidType(), [byte, flag, flag, flag]),
                                          "llvm.prefetch.p0i8")
    builder.call(hint, [builder.bitcast(place, byte), flag(0), flag(3), flag(1)])  # to read, into every cache, data


DOUBLES = vector_of(types.float64, SUM_LANES)


def _place(context: Any, builder: Any, kind: Any, array: Any, group: Any) -> Any:
    """Where the numbers 8 group .. 8 group + 7 of an array are."""
    return builder.gep(context.make_array(kind)(context, builder, array).data, [builder.mul(group, group.type(SUM_LANES))])


def _load(context: Any, builder: Any, kind: Any, array: Any, group: Any) -> Any:
    """These numbers, in double precision."""
    place = builder.bitcast(_place(context, builder, kind, array, group), vector_of(kind.dtype, SUM_LANES).as_pointer())
    numbers = builder.load(place, align=kind.dtype.bitwidth // 8)
    return numbers if kind.dtype == types.float64 else builder.fpext(numbers, DOUBLES)


def _ask_ahead(context: Any, builder: Any, kind: Any, array: Any, group: Any) -> None:
    """Ask for what will be read next where arrays of many samples are read one after the other."""
    ask_for(builder, builder.gep(_place(context, builder, kind, array, group), [group.type(PREFETCH_PAST)]))


def _product_and_sum(builder: Any, kind: Any, a: Any, b: Any, total: Any) -> Any:
    """total + a b; kind: of the array that b was loaded from."""
    return builder.fadd(total, builder.fmul(a, b)) if kind.dtype == types.float64 else fused(builder, a, b, total)


@intrinsic
def lane_sums(_context, a, b, count):
    """lane_sums(a, b, count): the eight sums over q < count of a[8 q + lane] * b[8 q + lane], for lanes 0 to 7; a is of double
    precision, and so is b unless it is the stored past of a sample. A compiler does not make vectors of eight sums that are written
    out, nor may it of one sum."""
    check(b, double=a)

    def codegen(context, builder, signature, args):
        sums = cgutils.alloca_once_value(builder, ir.Constant(DOUBLES, [0.0] * SUM_LANES))
        with cgutils.for_range(builder, args[2]) as loop:
            left, right = (_load(context, builder, signature.args[k], args[k], loop.index) for k in range(2))
            if b.dtype == types.float32:
                _ask_ahead(context, builder, signature.args[1], args[1], loop.index)
            builder.store(_product_and_sum(builder, b, left, right, builder.load(sums)), sums)
        total = builder.load(sums)
        lanes = [builder.extract_element(total, ir.Constant(ir.IntType(32), lane)) for lane in range(SUM_LANES)]
        return context.make_tuple(builder, signature.return_type, lanes)

    return types.UniTuple(types.float64, SUM_LANES)(a, b, types.intp), codegen


@intrinsic
def add_lanes(_context, out, weight, b, count):
    """add_lanes(out, weight, b, count): out[k] += weight * b[k] for k < 8 count, with b the stored past of a sample; out is of
    double precision and does not overlap with b, which a compiler would have to find out each time."""
    check(b, double=out)

    def codegen(context, builder, signature, args):
        weights = repeated(builder, DOUBLES, args[1])
        with cgutils.for_range(builder, args[3]) as loop:
            numbers, total = (_load(context, builder, signature.args[k], args[k], loop.index) for k in (2, 0))
            _ask_ahead(context, builder, signature.args[2], args[2], loop.index)
            more = _product_and_sum(builder, b, weights, numbers, total)
            place = _place(context, builder, signature.args[0], args[0], loop.index)
            builder.store(more, builder.bitcast(place, DOUBLES.as_pointer()), align=8)
        return context.get_dummy_value()

    return types.void(out, types.float64, b, types.intp), codegen


def _check_four(several: Any) -> Any:
    """The type of each of four arrays as above."""
    if not (isinstance(several, types.UniTuple) and several.count == LINES_TOGETHER):
        raise TypingError(f"a tuple of four arrays of one type is wanted, not {several}")
    check(several.dtype)
    return several.dtype


@intrinsic
def four_lane_sums(_context, lines, b, count):
    """four_lane_sums(lines, b, count): `lane_sums` of each of four lines with b, all of double precision: 32 sums. b is loaded once
    for them, and no sum waits for the one before it."""
    kind = _check_four(lines)
    check(double=kind)
    check(double=b)

    def codegen(context, builder, signature, args):
        sums = [cgutils.alloca_once_value(builder, ir.Constant(DOUBLES, [0.0] * SUM_LANES)) for _ in range(LINES_TOGETHER)]
        with cgutils.for_range(builder, args[2]) as loop:
            right = _load(context, builder, b, args[1], loop.index)
            for k in range(LINES_TOGETHER):
                left = _load(context, builder, kind, builder.extract_value(args[0], k), loop.index)
                builder.store(_product_and_sum(builder, b, left, right, builder.load(sums[k])), sums[k])
        totals = [builder.load(each) for each in sums]
        lanes = [builder.extract_element(total, ir.Constant(ir.IntType(32), lane)) for total in totals for lane in range(SUM_LANES)]
        return context.make_tuple(builder, signature.return_type, lanes)

    return types.UniTuple(types.float64, LINES_TOGETHER * SUM_LANES)(lines, b, types.intp), codegen


@intrinsic
def add_four_lanes(_context, out, weights, rows, count):
    """add_four_lanes(out, weights, rows, count): out[k] += weights[i] * rows[i][k] for k < 8 count, one row i after the other, four
    of them, all of double precision. out is loaded and stored once for them; it does not overlap with them."""
    kind = _check_four(rows)
    check(double=kind)
    check(double=out)

    def codegen(context, builder, signature, args):
        each = [repeated(builder, DOUBLES, builder.extract_value(args[1], k)) for k in range(LINES_TOGETHER)]
        with cgutils.for_range(builder, args[3]) as loop:
            total = _load(context, builder, out, args[0], loop.index)
            for k in range(LINES_TOGETHER):
                numbers = _load(context, builder, kind, builder.extract_value(args[2], k), loop.index)
                total = _product_and_sum(builder, kind, each[k], numbers, total)
            place = _place(context, builder, out, args[0], loop.index)
            builder.store(total, builder.bitcast(place, DOUBLES.as_pointer()), align=8)
        return context.get_dummy_value()

    return types.void(out, types.UniTuple(types.float64, LINES_TOGETHER), rows, types.intp), codegen
