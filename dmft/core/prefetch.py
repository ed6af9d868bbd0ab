"""A hint to the memory system: fetch a line of an array that will be read soon. Results do not depend on it."""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LINE = 64  # bytes that one hint fetches


@intrinsic
def prefetch(_context, array, index):
    """prefetch(array, index): fetch the line of array[index] for reading. The index may lie beyond the end: the
    processor ignores an address that is not there."""

    def codegen(context, builder, signature, args):
        kind = signature.args[0]
        view = context.make_array(kind)(context, builder, args[0])
        address = cgutils.get_item_pointer(context, builder, kind, view, [args[1]], wraparound=False)
        byte, flag = ir.IntType(8).as_pointer(), ir.IntType(32)
        hint = cgutils.get_or_insert_function(builder.module, ir.FunctionType(ir.VoidType(), [byte, flag, flag, flag]),
                                              "llvm.prefetch.p0i8")
        builder.call(hint, [builder.bitcast(address, byte), flag(0), flag(3), flag(1)])  # to read, into every cache, data
        return context.get_dummy_value()

    return types.void(array, types.intp), codegen
