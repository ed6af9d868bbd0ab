"""Eight sums side by side, as the vectors of a processor hold them: the same bits on every processor, however wide its own are."""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic

LANES = 8


@intrinsic
def lane_sums(_context, a, b, count):
    """lane_sums(a, b, count): the eight sums over q < count of a[8 q + lane] * b[8 q + lane], for lanes 0 to 7, of contiguous
    arrays of double precision. A compiler does not make vectors of eight sums that are written out, nor may it of one sum."""
    for array in (a, b):
        if not (isinstance(array, types.Array) and array.ndim == 1 and array.dtype == types.float64 and array.layout in "CF"):
            raise TypingError(f"lane_sums takes contiguous arrays of float64, not {array}")

    def codegen(context, builder, signature, args):
        vector = ir.VectorType(ir.DoubleType(), LANES)
        starts = [context.make_array(signature.args[k])(context, builder, args[k]).data for k in range(2)]
        sums = cgutils.alloca_once_value(builder, ir.Constant(vector, [0.0] * LANES))
        with cgutils.for_range(builder, args[2]) as loop:
            place = builder.mul(loop.index, loop.index.type(LANES))
            loaded = [builder.load(builder.bitcast(builder.gep(start, [place]), vector.as_pointer()), align=8) for start in starts]
            builder.store(builder.fadd(builder.load(sums), builder.fmul(*loaded)), sums)
        total = builder.load(sums)
        lanes = [builder.extract_element(total, ir.Constant(ir.IntType(32), lane)) for lane in range(LANES)]
        return context.make_tuple(builder, signature.return_type, lanes)

    return types.UniTuple(types.float64, LANES)(a, b, types.intp), codegen
