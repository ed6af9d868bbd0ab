"""The reader of pictures that other tests rely on, against pictures whose pixels are known."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest

from tests.png import png_shape, read_png


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I4s", len(body), kind) + body + struct.pack(">I", zlib.crc32(kind + body))


def _filtered(kind: int, image: np.ndarray) -> bytes:
    """The lines of an image under one filter, byte by byte as the standard says."""
    rows, columns, channels = image.shape
    padded = np.zeros((rows + 1, columns + 1, channels), int)
    padded[1:, 1:] = image
    left, up, corner = padded[1:, :-1], padded[:-1, 1:], padded[:-1, :-1]
    guess = left + up - corner
    gaps = np.stack([abs(guess - left), abs(guess - up), abs(guess - corner)])
    paeth = np.choose(np.argmin(gaps, axis=0), [left, up, corner])
    before = [0 * left, left, up, (left + up) // 2, paeth][kind]
    return b"".join(bytes([kind]) + line.tobytes() for line in (image - before).astype(np.uint8))


@pytest.mark.parametrize("kind", range(5))
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_every_filter(tmp_path, kind, channels):
    image = np.random.default_rng(1).integers(0, 256, (7, 5, channels))
    header = struct.pack(">IIBBBBB", 5, 7, 8, {1: 0, 3: 2, 4: 6}[channels], 0, 0, 0)
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header)
                                     + _chunk(b"IDAT", zlib.compress(_filtered(kind, image))) + _chunk(b"IEND", b""))
    assert np.array_equal(read_png(tmp_path / "a.png"), image) and png_shape(tmp_path / "a.png") == image.shape
