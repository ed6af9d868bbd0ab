"""The inner loops of many starts on one landscape: matrix-matrix products in tiles that stay in registers.

Starts lie side by side in vectors of FLOAT_LANES; a tile is 6 data rows times four vectors, 12 times two or 24 times one.
Every start has its own lane, and the order of its additions is the same in every kind of tile: its numbers do not
depend on which other starts are in the batch.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from sgd_sim.kernels.rows import FLOAT_LANES, FLOATS, INT64, broadcast, fma, load, store

TILE = 24                                # rows: a multiple of the height of every kind of tile
WIDTHS = (FLOAT_LANES, 2 * FLOAT_LANES, 4 * FLOAT_LANES)   # lanes that a tile may have
CHUNK_ROWS = 2 * TILE                    # rows and columns whose parts of E, H, G, D stay in the caches
CHUNK_COLUMNS = 128

_VECTOR_BYTES = 4 * FLOAT_LANES


def _loop(builder, first, last, step, states, body):
    """for i in range(first, last, step): states = body(i, states); returns the states after the loop (first < last)."""
    before, block, after = builder.block, builder.append_basic_block("tile"), builder.append_basic_block("done")
    builder.branch(block)
    builder.position_at_end(block)
    i = builder.phi(INT64)
    i.add_incoming(first, before)
    carried = []
    for state in states:
        phi = builder.phi(state.type)
        phi.add_incoming(state, before)
        carried.append(phi)
    new = body(i, carried)
    following = builder.add(i, step)
    i.add_incoming(following, builder.block)
    for phi, state in zip(carried, new):
        phi.add_incoming(state, builder.block)
    builder.cbranch(builder.icmp_signed("<", following, last), block, after)
    builder.position_at_end(after)
    return new


def _element(builder, address, i):
    """The float32 number i from an address, in every lane."""
    pointer = builder.inttoptr(builder.add(address, builder.shl(i, ir.Constant(INT64, 2))), ir.FloatType().as_pointer())
    return broadcast(builder, builder.load(pointer))


def _constant(value):
    return ir.Constant(INT64, value)


def _make(vectors: int):
    """The intrinsics (multiply, multiply_transposed) for tiles of that many vectors; both take addresses.

    multiply(data, stride, E, first, last, H):  H[r] += sum_{first <= i < last} x_r[i] E[i]
    multiply_transposed(data, stride, G, first, last, D):  D[i] += sum_r x_r[i] G[r],  first <= i < last
    data: the first of the rows x_r, stride: bytes between them; E, D: (columns, vectors FLOAT_LANES), H, G: (rows, vectors
    FLOAT_LANES), float32.
    """
    width, height = vectors * _VECTOR_BYTES, TILE // vectors
    signature = types.void(*[types.intp] * 6)
    places = [(r, v, _constant(r * width + v * _VECTOR_BYTES)) for r in range(height) for v in range(vectors)]

    def row_addresses(builder, data, stride):
        return [builder.add(data, builder.mul(stride, _constant(r))) for r in range(height)]

    @intrinsic
    def multiply(typing, data, stride, e, first, last, h):
        def generate(context, builder, sig, arguments):
            data, stride, e, first, last, h = arguments
            rows, multiply_add = row_addresses(builder, data, stride), fma(builder)

            def body(i, sums):
                offset = builder.mul(i, _constant(width))
                parts = [load(builder, e, builder.add(offset, _constant(v * _VECTOR_BYTES))) for v in range(vectors)]
                xs = [_element(builder, row, i) for row in rows]
                return [builder.call(multiply_add, [xs[r], parts[v], total]) for (r, v, _), total in zip(places, sums)]

            zeros = [ir.Constant(FLOATS, [0.0] * FLOAT_LANES)] * len(places)
            for (_, _, place), total in zip(places, _loop(builder, first, last, _constant(1), zeros, body)):
                store(builder, builder.fadd(load(builder, h, place), total), h, place)
            return context.get_dummy_value()

        return signature, generate

    @intrinsic
    def multiply_transposed(typing, data, stride, g, first, last, d):
        def generate(context, builder, sig, arguments):
            data, stride, g, first, last, d = arguments
            rows, multiply_add = row_addresses(builder, data, stride), fma(builder)
            factors = [load(builder, g, place) for _, _, place in places]

            def body(i, _):
                offset = builder.mul(i, _constant(width))
                offsets = [builder.add(offset, _constant(v * _VECTOR_BYTES)) for v in range(vectors)]
                sums = [load(builder, d, place) for place in offsets]
                xs = [_element(builder, row, i) for row in rows]
                for (r, v, _), factor in zip(places, factors):
                    sums[v] = builder.call(multiply_add, [xs[r], factor, sums[v]])
                for total, place in zip(sums, offsets):
                    store(builder, total, d, place)
                return []

            _loop(builder, first, last, _constant(1), [], body)
            return context.get_dummy_value()

        return signature, generate

    return multiply, multiply_transposed


_multiply_1, _multiply_transposed_1 = _make(1)
_multiply_2, _multiply_transposed_2 = _make(2)
_multiply_4, _multiply_transposed_4 = _make(4)


@njit(cache=True, nogil=True)
def times(data, e, h):
    """h = data e: (M, >= N) (N, lanes) -> (M, lanes), float32; M in whole tiles."""
    columns, vectors, stride = e.shape[0], e.shape[1] // FLOAT_LANES, data.strides[0]
    h[:] = np.float32(0.0)
    for top in range(0, data.shape[0], CHUNK_ROWS):
        for first in range(0, columns, CHUNK_COLUMNS):
            last = min(first + CHUNK_COLUMNS, columns)
            for r in range(top, min(top + CHUNK_ROWS, data.shape[0]), TILE // vectors):
                rows, out = data.ctypes.data + stride * r, h.ctypes.data + h.strides[0] * r
                if vectors == 4:
                    _multiply_4(rows, stride, e.ctypes.data, first, last, out)
                elif vectors == 2:
                    _multiply_2(rows, stride, e.ctypes.data, first, last, out)
                else:
                    _multiply_1(rows, stride, e.ctypes.data, first, last, out)


@njit(cache=True, nogil=True)
def add_transposed(data, g, top, bottom, d):
    """d += data[top:bottom]^T g[top:bottom]: (N, lanes); top and bottom are borders of whole tiles."""
    columns, vectors, stride = d.shape[0], g.shape[1] // FLOAT_LANES, data.strides[0]
    for start in range(top, bottom, CHUNK_ROWS):
        for first in range(0, columns, CHUNK_COLUMNS):
            last = min(first + CHUNK_COLUMNS, columns)
            for r in range(start, min(start + CHUNK_ROWS, bottom), TILE // vectors):
                rows, factors = data.ctypes.data + stride * r, g.ctypes.data + g.strides[0] * r
                if vectors == 4:
                    _multiply_transposed_4(rows, stride, factors, first, last, d.ctypes.data)
                elif vectors == 2:
                    _multiply_transposed_2(rows, stride, factors, first, last, d.ctypes.data)
                else:
                    _multiply_transposed_1(rows, stride, factors, first, last, d.ctypes.data)
