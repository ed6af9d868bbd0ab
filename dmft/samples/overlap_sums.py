"""Sums over samples with the weight k^2, for random starts: what row n of K1 and Z needs. Eq. [random-K]."""

from __future__ import annotations

import numpy as np
from numba import njit, prange

from dmft.equations.random_start import CURVATURE, FIELD, K1_RESPONSE, K1_RESPONSE2, NOISE, OVERLAP_SCALARS, SQUARE
from dmft.equations.rows import GROUPS
from dmft.samples.formulas import moment_of, square_of
from dmft.samples.state import Fields, Past, SampleState
from dmft.samples.tangents import bounded


@njit(cache=True)
def _sum_block(first, last, used, state, fields, past, row, identity, most, line):
    """line (OVERLAP_SCALARS + GROUPS slots): sums over samples first .. last-1, in order."""
    slots = past.G.shape[1]
    products, responses = OVERLAP_SCALARS, OVERLAP_SCALARS + slots
    overlaps = OVERLAP_SCALARS + 2 * slots
    line[:] = 0.0
    for i in range(first, last):
        k2, g, t = state.k[i] * state.k[i], fields.g[i], state.tangent_index[i]
        w = state.weight[i] * k2
        wg, wgp = w * g, w * fields.gp[i]
        line[CURVATURE] += wgp  # [random-K]
        line[SQUARE] += moment_of(w, g, g)  # [random-K]
        line[FIELD] += moment_of(w, g, state.h[i])  # [random-ibp]
        line[NOISE] += moment_of(w, g, g) * k2
        for j in range(used):
            line[products + j] += wg * past.G[i, j]  # [random-K]
        if t >= 0:
            if identity:
                total, share = bounded(row[t], used, most)
                wgp *= share
                line[K1_RESPONSE] += wgp * total
                line[K1_RESPONSE2] += square_of(wgp * total, state.weight[i])
            for j in range(used):
                line[responses + j] += wgp * row[t, j]  # [random-K]
        if identity:
            for j in range(used):
                line[overlaps + j] += wg * past.H[i, j]  # [random-ibp]


@njit(cache=True, parallel=True)
def _sums(block, used, state, fields, past, row, identity, most, out):
    """out (blocks, OVERLAP_SCALARS + GROUPS slots): sums over the samples of each block."""
    for b in prange(out.shape[0]):
        _sum_block(b * block, min((b + 1) * block, len(state.h)), used, state, fields, past, row, identity, most, out[b])


def overlap_sums(block: int, used: int, state: SampleState, fields: Fields, past: Past, row: np.ndarray,
                 identity: bool, most: float) -> np.ndarray:
    """(blocks, OVERLAP_SCALARS + GROUPS slots): sums over blocks of samples; row (carriers, slots): the tangents of step n,
    bounded by `most` with [ibp]."""
    out = np.empty((-(-len(state.h) // block), OVERLAP_SCALARS + GROUPS * past.G.shape[1]))
    _sums(block, used, state, fields, past, row, identity, most, out)
    return out
