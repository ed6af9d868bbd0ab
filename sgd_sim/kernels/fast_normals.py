"""Standard normals fast enough for one-pass SGD, where every step needs d new ones.

The Philox words of dmft.core.streams, four normals to a counter, by Box-Muller in single precision; logarithm, sine
and cosine are polynomials in loops that the compiler can vectorise (library calls would not be). Each normal is
accurate to about 1e-6, and the tails end at 6.6 standard deviations: as data of SGD they are as good as exact ones.
"""

from __future__ import annotations

import numpy as np
from numba import njit, uint64

from dmft.core.streams import LOW_WORD, PHILOX_M0, PHILOX_M1, PHILOX_W0, PHILOX_W1, WORD_BITS

BLOCK = 512  # normals made at a time: the buffers stay in the first-level cache

_W0_LANE, _W1_LANE = np.uint64(PHILOX_W0), np.uint64(PHILOX_W1)
_ONE, _MANTISSA = np.uint32(0x3F800000), np.uint32(0x007FFFFF)
_F = np.float32
LOG = tuple(_F(2.0 / (2 * i + 1)) for i in range(5))
SIN = tuple(_F((np.pi / 2) ** (2 * i + 1) * (-1) ** i / np.prod(np.arange(1.0, 2 * i + 2))) for i in range(5))
COS = tuple(_F((np.pi / 2) ** (2 * i) * (-1) ** i / np.prod(np.arange(1.0, 2 * i + 1))) for i in range(6))
_LN2, _ROOT2, _HALF, _SCALE = _F(np.log(2.0)), _F(np.sqrt(2.0)), _F(0.5), _F(2.0**-32)


@njit(cache=True, nogil=True)
def buffers():
    """Work space for one thread."""
    return np.empty((4, BLOCK // 2), np.uint64)


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def philox_words(stream, index, counter, first, second):
    """The words of streams.philox(stream, index, counter + i), i = 0, 1, ..., in 64-bit lanes, which vectorise."""
    low, high = uint64(index) & LOW_WORD, uint64(index) >> WORD_BITS
    for i in range(first.size):
        n = uint64(counter) + uint64(i)
        c0, c1, c2, c3 = n & LOW_WORD, n >> WORD_BITS, low, high
        k0, k1 = uint64(stream) & LOW_WORD, uint64(stream) >> WORD_BITS
        for _ in range(10):
            p0 = PHILOX_M0 * c0
            p1 = PHILOX_M1 * c2
            c0 = (p1 >> WORD_BITS) ^ c1 ^ k0
            c1 = p1 & LOW_WORD
            c2 = (p0 >> WORD_BITS) ^ c3 ^ k1
            c3 = p0 & LOW_WORD
            k0 = (k0 + _W0_LANE) & LOW_WORD
            k1 = (k1 + _W1_LANE) & LOW_WORD
        first[i] = (c1 << WORD_BITS) | c0
        second[i] = (c3 << WORD_BITS) | c2


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def fill_block(stream, index, first, out, work):
    """out[:BLOCK] = normals number first, ..., first + BLOCK - 1 of row `index` of a stream (first: multiple of
    BLOCK)."""
    half, quarter = BLOCK // 2, BLOCK // 4
    philox_words(stream, index, first // 4, work[0, :quarter], work[1, :quarter])
    radius, angle = work[2].view(np.uint32)[:half], work[2].view(np.uint32)[half:]
    bits, power = work[3].view(np.uint32)[:half], work[3].view(np.uint32)[half:]
    for i in range(quarter):
        one, two = work[0, i], work[1, i]
        radius[i], radius[quarter + i] = np.uint32(one & LOW_WORD), np.uint32(two & LOW_WORD)
        angle[i], angle[quarter + i] = np.uint32(one >> WORD_BITS), np.uint32(two >> WORD_BITS)
    u, m = radius.view(np.float32), bits.view(np.float32)
    for i in range(half):  # uniforms in (0, 1]; small ones, which make the tails, keep nearly all of their 32 bits
        u[i] = (_F(np.int32(radius[i] >> np.uint32(1))) + _HALF) * (_F(2.0) * _SCALE)
    for i in range(half):
        power[i] = radius[i] >> np.uint32(23)
        bits[i] = (radius[i] & _MANTISSA) | _ONE
    for i in range(half):
        x, e = m[i], _F(np.int32(power[i])) - _F(127.0)
        big = x > _ROOT2
        x = _HALF * x if big else x
        e = e + _F(1.0) if big else e
        f = (x - _F(1.0)) / (x + _F(1.0))
        g = f * f
        s = ((((LOG[4] * g + LOG[3]) * g + LOG[2]) * g + LOG[1]) * g + LOG[0]) * f
        u[i] = np.sqrt(max(_F(-2.0) * (e * _LN2 + s), _F(0.0)))
    for i in range(half):  # the top two bits of the word are a quadrant, the others an angle within it
        y = _F(np.int32(angle[i] & np.uint32(0x3FFFFFFF))) * (_F(4.0) * _SCALE) - _HALF
        z = y * y
        s = ((((SIN[4] * z + SIN[3]) * z + SIN[2]) * z + SIN[1]) * z + SIN[0]) * y
        c = ((((COS[5] * z + COS[4]) * z + COS[3]) * z + COS[2]) * z + COS[1]) * z + COS[0]
        q = angle[i] >> np.uint32(30)
        odd = (q & np.uint32(1)) == np.uint32(1)
        sine = c if odd else s
        cosine = -s if odd else c
        r = -u[i] if q > np.uint32(1) else u[i]
        out[i] = r * cosine
        out[half + i] = r * sine
