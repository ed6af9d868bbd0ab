"""Standard normals fast enough for one-pass SGD, where every step needs d new ones.

The same Philox words as dmft.core.streams, turned into normals by Box-Muller; logarithm, sine and cosine are
polynomials in loops that the compiler can vectorise (library calls would not be). Accuracy about 1e-13.
"""

from __future__ import annotations

import numpy as np
from numba import njit, uint64

BLOCK = 512  # normals made at a time: the buffers stay in the first-level cache

_M0, _M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_W0, _W1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_LOW, _SHIFT = np.uint64(0xFFFFFFFF), np.uint64(32)
_ONE = np.uint64(0x3FF0000000000000)
_MANTISSA = np.uint64(0x000FFFFFFFFFFFFF)
_LN2 = float(np.log(2.0))
_H = float(np.pi / 2)
_SIN = tuple(_H ** (2 * i + 1) * (-1) ** i / np.prod(np.arange(1.0, 2 * i + 2)) for i in range(7))
_COS = tuple(_H ** (2 * i) * (-1) ** i / np.prod(np.arange(1.0, 2 * i + 1)) for i in range(8))


@njit(cache=True, nogil=True)
def buffers() -> np.ndarray:
    """Work space for one thread."""
    return np.empty((4, BLOCK // 2), np.uint64)


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def philox_words(stream, index, counter, first, second):
    """The words of streams.philox(stream, index, counter + i), i = 0, 1, ..., in 64-bit lanes, which vectorise."""
    low, high = uint64(index) & _LOW, uint64(index) >> _SHIFT
    for i in range(first.size):
        n = uint64(counter) + uint64(i)
        c0, c1, c2, c3 = n & _LOW, n >> _SHIFT, low, high
        k0, k1 = uint64(stream) & _LOW, uint64(stream) >> _SHIFT
        for _ in range(10):
            p0 = _M0 * c0
            p1 = _M1 * c2
            c0 = (p1 >> _SHIFT) ^ c1 ^ k0
            c1 = p1 & _LOW
            c2 = (p0 >> _SHIFT) ^ c3 ^ k1
            c3 = p0 & _LOW
            k0 = (k0 + _W0) & _LOW
            k1 = (k1 + _W1) & _LOW
        first[i] = (c1 << _SHIFT) | c0
        second[i] = (c3 << _SHIFT) | c2


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def fill_block(stream, index, first, out, work):
    """out[:BLOCK] = normals number first, ..., first + BLOCK - 1 of row `index` of a stream (first: multiple of
    BLOCK)."""
    half = BLOCK // 2
    angle, quadrant, radius, whole = work[0], work[1], work[2], work[3]
    philox_words(stream, index, first // 2, radius, angle)
    for i in range(half):
        radius[i] = (radius[i] >> np.uint64(12)) | _ONE
        quadrant[i] = angle[i] >> np.uint64(62)
        angle[i] = (angle[i] & _MANTISSA) | _ONE
    u = radius.view(np.float64)
    for i in range(half):
        u[i] = 2.0 - u[i]
    for i in range(half):
        whole[i] = (radius[i] >> np.uint64(52)) + np.uint64(0x4330000000000000)  # 2^52 + biased exponent
        radius[i] = (radius[i] & _MANTISSA) | _ONE
    exponent = whole.view(np.float64)
    v = angle.view(np.float64)
    for i in range(half):
        m = u[i]
        e = exponent[i] - 4503599627370496.0 - 1023.0
        big = m > 1.4142135623730951
        m = 0.5 * m if big else m
        e = e + 1.0 if big else e
        f = (m - 1.0) / (m + 1.0)
        g = f * f
        s = 1.0 / 17.0
        s = s * g + 1.0 / 15.0
        s = s * g + 1.0 / 13.0
        s = s * g + 1.0 / 11.0
        s = s * g + 1.0 / 9.0
        s = s * g + 1.0 / 7.0
        s = s * g + 1.0 / 5.0
        s = s * g + 1.0 / 3.0
        s = s * g + 1.0
        u[i] = np.sqrt(-2.0 * (e * _LN2 + 2.0 * f * s))
    for i in range(half):
        y = v[i] - 1.5
        z = y * y
        s = _SIN[6]
        s = s * z + _SIN[5]
        s = s * z + _SIN[4]
        s = s * z + _SIN[3]
        s = s * z + _SIN[2]
        s = s * z + _SIN[1]
        s = (s * z + _SIN[0]) * y
        c = _COS[7]
        c = c * z + _COS[6]
        c = c * z + _COS[5]
        c = c * z + _COS[4]
        c = c * z + _COS[3]
        c = c * z + _COS[2]
        c = c * z + _COS[1]
        c = c * z + _COS[0]
        q = quadrant[i]
        odd = (q & np.uint64(1)) == np.uint64(1)
        sine = c if odd else s
        cosine = -s if odd else c
        sign = -u[i] if q > np.uint64(1) else u[i]
        out[i] = sign * cosine
        out[half + i] = sign * sine
