"""Four rows of a large array at a time, read as fast as memory gives them."""

from __future__ import annotations

from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic

from dmft.core.lanes import ask_for, check, fused, repeated, vector_of

STREAM_WIDTH = 16  # columns worked on at a time: a line of memory in each row, in single precision
LINE = 64  # bytes that one hint fetches
PREFETCH_ROWS = 512  # how far ahead of their use lines are asked for, in entries
STREAM_ROWS = 4


@intrinsic
def add_rows(_context, data, start, length, weights, out):
    """add_rows(data, start, length, weights, out): out[j] += sum_k weights[k] * data[start + k length + j], the four k in order,
    for j below the last multiple of WIDTH, each product and sum with one rounding; returns that multiple. weights: a tuple, of the
    type of both arrays, which do not overlap.

    Four rows at once do not look like a stream to the memory system. So lines that come next are asked for, one for each line that
    is used: many hints in a row would stop everything else until the memory has taken them."""
    check(data, out)
    if not data.dtype == out.dtype == getattr(weights, "dtype", None):
        raise TypingError(f"weights and arrays of one type are wanted, not {weights}, {data} and {out}")
    size = data.dtype.bitwidth // 8

    def codegen(context, builder, signature, args):
        vector = vector_of(data.dtype, STREAM_WIDTH)
        source, target = (context.make_array(signature.args[k])(context, builder, args[k]).data for k in (0, 4))
        one = args[1].type
        factors = [repeated(builder, vector, builder.extract_value(args[3], k)) for k in range(STREAM_ROWS)]
        rows = [builder.gep(source, [builder.add(args[1], builder.mul(args[2], one(k)))]) for k in range(STREAM_ROWS)]
        groups = builder.sdiv(args[2], one(STREAM_WIDTH))
        with cgutils.for_range(builder, groups) as loop:
            column = builder.mul(loop.index, one(STREAM_WIDTH))
            place = builder.bitcast(builder.gep(target, [column]), vector.as_pointer())
            total, ahead = builder.load(place, align=size), builder.gep(rows[0], [builder.mul(column, one(STREAM_ROWS))])
            for k in range(STREAM_ROWS):
                for entry in range(0, STREAM_WIDTH, LINE // size):
                    ask_for(builder, builder.gep(ahead, [one(PREFETCH_ROWS + k * STREAM_WIDTH + entry)]))
                numbers = builder.load(builder.bitcast(builder.gep(rows[k], [column]), vector.as_pointer()), align=size)
                total = fused(builder, factors[k], numbers, total)
            builder.store(total, place, align=size)
        return builder.mul(groups, one(STREAM_WIDTH))

    return types.intp(data, types.intp, types.intp, weights, out), codegen
