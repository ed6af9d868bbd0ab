"""Random numbers as a pure function of (seed, purpose, replica, index, step): no state, no order, no rank.

Philox-4x32-10 (Salmon et al., SC 2011) maps a 128-bit counter and a 64-bit key to 128 random bits. The key is
made from (seed, purpose, replica); the counter holds the index of a sample (or data row, or instance) and a
step. So the number of any sample at any step can be computed by itself, on any rank or thread, in any order, and a
longer run keeps the numbers of a shorter one: there is nothing to checkpoint.

`key` makes a stream; `uniform2` and `normal2` draw from it inside Numba code; `normals` and `uniforms` fill
arrays; `generator` gives a NumPy Generator, seeded by the same kind of key, for sequential draws
(chi-squared variates, say).
"""

from __future__ import annotations

import hashlib

import numpy as np
from numba import njit, prange, uint32, uint64

PHILOX_M0, PHILOX_M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
PHILOX_W0, PHILOX_W1 = np.uint32(0x9E3779B9), np.uint32(0xBB67AE85)
LOW_WORD = np.uint64(0xFFFFFFFF)
WORD_BITS = np.uint64(32)


def _digest(seed: int, purpose: str, index: tuple[int, ...]) -> bytes:
    """A hash of the whole name of a stream: different names give unrelated keys."""
    text = f"{int(seed)}/{purpose}/" + "/".join(str(int(i)) for i in index)
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def key(seed: int, purpose: str, *index: int) -> np.uint64:
    """Key of the stream named by (seed, purpose, index...), e.g. key(1, "chi", replica)."""
    return np.uint64(int.from_bytes(_digest(seed, purpose, index)[:8], "little"))


def generator(seed: int, purpose: str, *index: int) -> np.random.Generator:
    """A NumPy Generator of its own for (seed, purpose, index...). May be passed into Numba code."""
    return np.random.Generator(np.random.PCG64DXSM(int.from_bytes(_digest(seed, purpose, index), "little")))


@njit(cache=True, inline="always")
def philox(stream, index, step):
    """Two 64-bit random words for counter (index, step) of a stream."""
    k0 = uint32(stream & LOW_WORD)
    k1 = uint32(stream >> WORD_BITS)
    c0 = uint32(uint64(step) & LOW_WORD)
    c1 = uint32(uint64(step) >> WORD_BITS)
    c2 = uint32(uint64(index) & LOW_WORD)
    c3 = uint32(uint64(index) >> WORD_BITS)
    for _ in range(10):
        p0 = PHILOX_M0 * uint64(c0)
        p1 = PHILOX_M1 * uint64(c2)
        c0 = uint32(p1 >> WORD_BITS) ^ c1 ^ k0
        c1 = uint32(p1 & LOW_WORD)
        c2 = uint32(p0 >> WORD_BITS) ^ c3 ^ k1
        c3 = uint32(p0 & LOW_WORD)
        k0 = uint32(k0 + PHILOX_W0)
        k1 = uint32(k1 + PHILOX_W1)
    return (uint64(c1) << WORD_BITS) | uint64(c0), (uint64(c3) << WORD_BITS) | uint64(c2)


@njit(cache=True, inline="always")
def uniform2(stream, index, step):
    """Two independent uniforms in the open interval (0, 1), 53 bits each."""
    a, b = philox(stream, index, step)
    scale = 1.0 / 9007199254740992.0
    return (np.float64(a >> np.uint64(11)) + 0.5) * scale, (np.float64(b >> np.uint64(11)) + 0.5) * scale


@njit(cache=True, inline="always")
def normal2(stream, index, step):
    """Two independent standard normals (Box-Muller)."""
    u, v = uniform2(stream, index, step)
    radius = np.sqrt(-2.0 * np.log(u))
    angle = 2.0 * np.pi * v
    return radius * np.cos(angle), radius * np.sin(angle)


@njit(cache=True, parallel=True)
def _fill(stream, first, out, gaussian):
    """Fill out (rows, columns) with normals or uniforms; row i belongs to index first + i, two columns to a step."""
    rows, columns = out.shape
    for i in prange(rows):
        for j in range(0, columns, 2):
            if gaussian:
                a, b = normal2(stream, first + i, j // 2)
            else:
                a, b = uniform2(stream, first + i, j // 2)
            out[i, j] = a
            if j + 1 < columns:
                out[i, j + 1] = b


def normals(stream: np.uint64, first: int, shape: tuple[int, int], dtype=np.float64) -> np.ndarray:
    """Standard normals, shape (rows, columns); row i is a function of (stream, first + i) alone, and its
    beginning does not depend on its length."""
    out = np.empty(shape, dtype)
    _fill(stream, first, out, True)
    return out


def uniforms(stream: np.uint64, first: int, shape: tuple[int, int]) -> np.ndarray:
    """Uniforms in (0, 1), laid out like `normals`."""
    out = np.empty(shape)
    _fill(stream, first, out, False)
    return out
