"""PNG pictures as arrays, with the standard library: a test of a picture must not be skipped for want of a drawing library."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np

_CHANNELS = {0: 1, 2: 3, 6: 4}      # grey, RGB, RGBA


def png_shape(path: Path) -> tuple[int, int, int]:
    """(rows, columns, channels) of a PNG that is whole. Its filters are not undone, which takes a minute for a large picture."""
    lines, channels = _filtered(path)
    return len(lines), (lines.shape[1] - 1) // channels, channels


def read_png(path: Path) -> np.ndarray:
    """(rows, columns, channels) uint8 of a PNG of 8 bits a channel that is not interlaced."""
    lines, channels = _filtered(path)
    rows, columns = len(lines), (lines.shape[1] - 1) // channels
    image = np.zeros((rows + 1, columns + 1, channels), np.uint8)       # with an empty line above and an empty column before
    for r in range(rows):
        _unfilter(int(lines[r, 0]), lines[r, 1:].reshape(columns, channels), image[r], image[r + 1])
    return image[1:, 1:]


def _filtered(path: Path) -> tuple[np.ndarray, int]:
    """(rows, 1 + columns * channels) uint8, the kind of its filter first in each row, and channels."""
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    place, packed = 8, b""
    while place < len(data):
        length, kind = struct.unpack(">I4s", data[place:place + 8])
        body = data[place + 8:place + 8 + length]
        if kind == b"IHDR":
            columns, rows, bits, colour, _, _, interlaced = struct.unpack(">IIBBBBB", body)
            assert bits == 8 and not interlaced, "another kind of PNG"
        packed += body if kind == b"IDAT" else b""
        place += 12 + length
    channels = _CHANNELS[colour]
    return np.frombuffer(zlib.decompress(packed), np.uint8).reshape(rows, 1 + columns * channels), channels


def _unfilter(kind: int, line: np.ndarray, above: np.ndarray, out: np.ndarray) -> None:
    """One line, after the filters of the PNG standard; sums are modulo 256."""
    if kind in (0, 2):
        out[1:] = line if kind == 0 else line + above[1:]
    elif kind == 1:
        out[1:] = np.cumsum(line, axis=0, dtype=np.uint8)
    else:
        for i in range(len(line)):
            left, up, corner = out[i].astype(int), above[i + 1].astype(int), above[i].astype(int)
            out[i + 1] = line[i] + ((left + up) // 2 if kind == 3 else _nearest(left, up, corner)).astype(np.uint8)


def _nearest(left: np.ndarray, up: np.ndarray, corner: np.ndarray) -> np.ndarray:
    """Paeth's predictor."""
    guess = left + up - corner
    a, b, c = abs(guess - left), abs(guess - up), abs(guess - corner)
    return np.where((a <= b) & (a <= c), left, np.where(b <= c, up, corner))
