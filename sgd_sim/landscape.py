"""The data set and teacher of one instance: x_mu iid N(0, 1), w0 on the sphere, h0_mu = x_mu.w0/sqrt(N), labels from h0_mu.

For a mixture x_mu = c_mu w0/sqrt(N) + sqrt(Delta_mu) z_mu with z_mu iid N(0, 1), and labels by cluster: the raw definition, of
which the theory uses an equivalent form (dmft/model/mixture.py).

The matrix rounded to float32, or to float16, *is* the data set; fields of the teacher are computed from it in float64.
Everything is a function of (seed, index), so that it need not be stored.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit, prange

from dmft.core import streams
from dmft.model.data import DataModel
from dmft.model.network import TwoLayer
from dmft.model.starts import on_sphere
from sgd_sim.kernels.fast_normals import BLOCK, buffers, fill_block
from sgd_sim.kernels.rows import aligned, padded
from sgd_sim.kernels.tiles import TILE

_MAGNITUDE, _SMALLEST_NORMAL = np.uint32(0x7FFFFFFF), np.uint32(0x38800000)   # 2^-14, the smallest normal number of float16

WIDENED_ROWS = 1024       # rows that are widened to float64 at a time
TEST_ROWS = 256   # fresh samples, outside the training set, on which the error is measured


class Landscape(NamedTuple):
    """data (>= M, padded N), test (>= TEST_ROWS, padded N): float32, with zeros after column N and after the last sample, so
    that loops can process whole vectors and whole tiles. Fields are float64."""

    data: np.ndarray
    h0: np.ndarray        # (M,) labels: the teacher's field, or what the data model makes of it
    w0: np.ndarray        # (N,), |w0|^2 = N
    test: np.ndarray
    test_h0: np.ndarray   # (TEST_ROWS,) labels
    teacher: np.ndarray   # (M,) the fields of w0 on the data, x_mu.w0/sqrt(N); h0 itself where labels are these fields
    spread: np.ndarray    # (M,) of the data rows around the centres of their clusters; 1 without clusters


def sizes(dimension: int, alpha: float) -> tuple[int, int]:
    """(N, M): dimension and number of data samples."""
    return dimension, max(1, round(alpha * dimension))


def data_bytes(dimension: int, alpha: float) -> int:
    """Memory of one landscape."""
    n, m = sizes(dimension, alpha)
    return 4 * (m + TEST_ROWS + 2 * TILE) * padded(n)


def make_teacher(seed: int, index: int, n: int, direction: int = 0) -> np.ndarray:
    """w0 of the landscape number `index`, (N,), or another direction."""
    return on_sphere(streams.generator(seed, "simulation/teacher", index, *([direction] if direction else [])).standard_normal(n))


def make_landscape(seed: int, index: int, dimension: int, alpha: float, threads: bool = False,
                   precision: str = "float32", model: DataModel | None = None) -> Landscape:
    """The landscape number `index`. threads: make its rows in threads (the same numbers). precision: what the data are rounded
    to. model: the data model, where labels are not the teacher's field."""
    n, m = sizes(dimension, alpha)
    w0 = make_teacher(seed, index, n)
    fill = _fill_in_threads if threads else _fill
    parts, teachers, spread = [], [], np.ones(m)
    for purpose, rows in (("simulation/data", m), ("simulation/test", TEST_ROWS)):
        block, fields = aligned((-(-rows // TILE) * TILE, padded(n))), np.empty(rows)
        block[rows:] = 0.0
        fill(streams.key(seed, purpose, index), block, w0, fields, precision == "float16")
        if model is not None and not model.plain:
            labels, places = draw_labels(model, seed, purpose, index, fields, n)
            teachers.append(teacher_fields(fields, places, n))
            if places is not None:
                _place(block, w0, *places, precision == "float16")
                spread = spread if teachers[1:] else places[1]
            fields = labels
        parts += [block, fields]
    return Landscape(parts[0], parts[1], w0, parts[2], parts[3], teachers[0] if teachers else parts[1],
                     spread)


def draw_directions(landscape: Landscape, seed: int, index: int, network: TwoLayer) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Directions (k, N) of a network's labels, orthogonal and of norm sqrt(N), the first of them w0; and the labels of the data and
    of the fresh samples."""
    n, labels = landscape.w0.size, []
    directions = directions_of(landscape.w0, seed, index, network.directions)
    for purpose, data, rows in (("simulation/data", landscape.data, landscape.h0.size),
                                ("simulation/test", landscape.test, TEST_ROWS)):
        kappa = np.concatenate([data[first : first + WIDENED_ROWS, :n].astype(np.float64) @ directions.T
                                for first in range(0, rows, WIDENED_ROWS)])[:rows] / np.sqrt(n)
        labels.append(network_labels(network, seed, purpose, index, kappa))
    return directions, labels[0], labels[1]


def directions_of(w0: np.ndarray, seed: int, index: int, count: int) -> np.ndarray:
    """The directions of a landscape, as `draw_directions` gives them."""
    more = [make_teacher(seed, index, w0.size, direction) for direction in range(1, count)]
    q, _ = np.linalg.qr(np.array([w0, *more]).T)
    return np.sqrt(w0.size) * q.T * np.sign(q.T @ w0 + (np.arange(count) > 0))[:, None]


def network_labels(network: TwoLayer, seed: int, purpose: str, index: int, kappa: np.ndarray) -> np.ndarray:
    """Labels (rows,) of a network's data whose fields of the directions are kappa (rows, k)."""
    noise = streams.normals(streams.key(seed, f"{purpose} labels", index), 0, (len(kappa), 1))[:, 0]
    return network.label(kappa, np.sqrt(network.label_noise) * noise)


def teacher_fields(h0: np.ndarray, places: tuple[np.ndarray, np.ndarray] | None, n: int) -> np.ndarray:
    """The fields of w0 (rows,): h0, or c + sqrt(Delta) h0 where `draw_labels` moves the rows to their clusters."""
    return h0 if places is None else np.sqrt(n) * places[0] + places[1] * h0


def draw_labels(model: DataModel, seed: int, purpose: str, index: int, h0: np.ndarray,
                n: int) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray] | None]:
    """Labels (rows,) of data whose teacher's fields are h0; where rows belong to clusters also c/sqrt(N) and sqrt(Delta) (rows,),
    to which `_place` moves them (else None)."""
    u = streams.uniforms(streams.key(seed, f"{purpose} labels", index), 0, (h0.size, max(1, model.draws)))
    labels, places = model.rows(h0, u)
    return labels, None if places is None else (places[0] / np.sqrt(n), places[1])


@njit(cache=True, nogil=True)
def _place(data, w0, centre, spread, half):
    """Replace every row z by centre w0 + spread z, rounded again."""
    for row in range(centre.size):
        for j in range(w0.size):
            data[row, j] = centre[row] * w0[j] + spread[row] * data[row, j]
        if half:
            round_to_half(data[row, :w0.size].view(np.uint32))


@njit(cache=True, nogil=True)
def round_to_half(bits):
    """Round float32 numbers of absolute value below 65504, given as bits, to the nearest float16, in place; ties to even."""
    for i in range(bits.size):
        if bits[i] & _MAGNITUDE < _SMALLEST_NORMAL:    # float16 has steps of 2^-24 here
            sign, x = bits[i] & ~_MAGNITUDE, bits[i:i + 1].view(np.float32)
            x[0] = np.rint(x[0] * np.float32(2.0**24)) * np.float32(2.0**-24)
            bits[i] |= sign
        else:
            bits[i] = (bits[i] + np.uint32(0xFFF) + ((bits[i] >> np.uint32(13)) & np.uint32(1))) & np.uint32(0xFFFFE000)


@njit(cache=True, nogil=True)
def _fill_row(stream, row, data, w0, fields, half):
    """One row of standard normals and its field x.w0/sqrt(N)."""
    n, normals, work = w0.size, np.empty(BLOCK), buffers()
    field = 0.0
    for first in range(0, n, BLOCK):
        fill_block(stream, row, first, normals, work)
        for j in range(first, min(first + BLOCK, n)):
            data[row, j] = normals[j - first]
        if half:
            round_to_half(data[row, first:min(first + BLOCK, n)].view(np.uint32))
        for j in range(first, min(first + BLOCK, n)):
            field += np.float64(data[row, j]) * w0[j]
    data[row, n:] = np.float32(0.0)
    fields[row] = field / np.sqrt(n)


@njit(cache=True, nogil=True)
def _fill(stream, data, w0, fields, half):
    for row in range(fields.size):
        _fill_row(stream, row, data, w0, fields, half)


@njit(cache=True, parallel=True)
def _fill_in_threads(stream, data, w0, fields, half):
    for row in prange(fields.size):
        _fill_row(stream, row, data, w0, fields, half)
