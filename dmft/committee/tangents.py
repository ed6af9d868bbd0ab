"""Tangents of a committee, one sample at a time: T_nj = dh_n/dP_j (p x p), or T_nj times a sign vector. Eqs. [c-T], [c-probe].

The columns of T that are kept are those of T_nj E, with E (p, c): the p x p identity, or one random sign vector (c = 1). Rows of
the past lie packed as equations/history.py says: slot I has p rows, one for each unit of h, of c stop[I] entries each.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from dmft.committee.formulas import curved, pushed_tangent, stiffness
from dmft.core.compiled import INNER
from dmft.equations.blocks import NONE
from dmft.samples.formulas import clipped, flushed, overshoots, share_of, square_of


@njit(**INNER)
def merge_wide(v, merges, width):
    """Blocks that become one in a vector with `width` entries for every slot. Eq. [dyadic]."""
    for k in range(merges.shape[0]):
        older, newer, into = merges[k, 0], merges[k, 1], merges[k, 2]
        for c in range(width):
            total = v[older * width + c]
            v[older * width + c] = 0.0
            if newer != NONE:
                total += v[newer * width + c]
                v[newer * width + c] = 0.0
            v[into * width + c] = total  # [dyadic]


@njit(**INNER)
def _merge_rows(T, merge, units, width, offset, stop):
    """The same in the packed tangents of one sample: columns, then rows. merge (1, 3)."""
    older, newer, into = merge[0, 0], merge[0, 1], merge[0, 2]
    last = max(older, newer)
    for i in range(len(offset) - 1, -1, -1):
        if stop[i] <= last:
            break
        length = stop[i] * width
        for r in range(units):
            begin = offset[i] * units * width + r * length
            merge_wide(T[begin : begin + length], merge, width)
    length = stop[into] * width
    for r in range(units):
        both, one = offset[into] * units * width + r * length, offset[older] * units * width + r * stop[older] * width
        for j in range(length):
            T[both + j] = T[one + j]
        for j in range(stop[older] * width):
            T[one + j] = 0.0
        if newer != NONE:
            other = offset[newer] * units * width + r * stop[newer] * width
            for j in range(length):
                T[both + j] += T[other + j]
            for j in range(stop[newer] * width):
                T[other + j] = 0.0


@njit(**INNER)
def _gather(T, memory, offset, stop, used, width, out):
    """out (p, slots c) += sum over past rows (I, q) of memory[r, (I, q)] T[(I, q), .]: every row is read once for all units."""
    units = memory.shape[0]
    for i in range(used):
        length = stop[i] * width
        for q in range(units):
            begin = offset[i] * units * width + q * length
            row = T[begin : begin + length]
            for r in range(units):
                weight, line = memory[r, i * units + q], out[r]
                if weight != 0.0:
                    for j in range(length):
                        line[j] += weight * row[j]


@njit(**INNER)
def advance_tangents(T, row, E, gp, drive, step, used, following):
    """The tangents of one sample from step n to n+1: T packed, row (p, slots c) of step n, in place. gp: d (p,), curve, bend (p,)
    of g' = curve d d^T + diag(bend) at the present step; step: as of samples/process.py. following (p, slots c + p): room to work
    in. Eq. [c-T]."""
    d, curve, bend = gp
    A, keep, memory = drive.A, drive.keep, drive.memory
    eta, merges, slot, offset, stop = step.eta, step.merges, step.slot, step.offset, step.stop
    tiny, most = step.tangent_flush, step.tangent_max
    units, width = E.shape
    length = used * width
    for r in range(units):
        for j in range(length):
            following[r, j] = 0.0
    _gather(T, memory, offset, stop, used, width, following)
    beyond = overshoots(eta, stiffness(curve, d, bend, units, 1))
    for j in range(length):
        along = 0.0
        for r in range(units):
            along += d[r] * row[r, j]
        for r in range(units):
            u = pushed_tangent(eta, following[r, j], curved(curve * along, d[r], bend[r], row[r, j]))
            for q in range(units):
                u += keep[r, q] * row[q, j]  # [c-T]
            following[r, j] = u
        # A works on the whole column, so that it is kept apart until all of it is known
        for r in range(units):
            u = 0.0
            for q in range(units):
                u += A[r, q] * following[q, j]
            u = flushed(u, tiny)
            following[r, following.shape[1] - units + r] = clipped(u, most) if beyond else u
        for r in range(units):
            following[r, j] = following[r, following.shape[1] - units + r]
    for k in range(merges.shape[0]):
        _merge_rows(T, merges[k : k + 1], units, width, offset, stop)
    for r in range(units):
        merge_wide(row[r], merges, width)
        merge_wide(following[r], merges, width)
        begin = offset[slot] * units * width + r * length
        for j in range(length):
            T[begin + j] = row[r, j]
        for j in range(length):
            row[r, j] = following[r, j]
    for c in range(width):
        along = 0.0
        for r in range(units):
            along += d[r] * E[r, c]
        for r in range(units):  # the source
            u = 0.0
            for q in range(units):
                u += A[r, q] * curved(curve * along, d[q], bend[q], E[q, c])
            row[r, slot * width + c] = -eta * u  # [c-T]


@njit(**INNER)
def add_response(w, row, E, gp, used, most, responses, numbers, response, response2):
    """Add g'_n T_nj E^T of one sample, times its weight, to responses (p, slots p), their sum over j to numbers[response ..], and
    its square to numbers[response2]. Where sum_j |T| is beyond `most`, all of it is made smaller. Eqs. [c-MR], [c-probe]."""
    d, curve, bend = gp
    units, width = E.shape
    total = 0.0
    for r in range(units):
        for j in range(used * width):
            total += abs(np.float64(row[r, j]))
    total /= units
    weight = w * share_of(total, most)
    for r in range(units):
        line = responses[r]
        for q in range(units):
            whole = 0.0
            for i in range(used):
                entry = 0.0
                for c in range(width):
                    along, j = 0.0, i * width + c
                    for u in range(units):
                        along += d[u] * row[u, j]
                    entry += curved(curve * along, d[r], bend[r], row[r, j]) * E[q, c]  # [c-MR], [c-probe]
                line[i * units + q] += weight * entry
                whole += entry
            numbers[response + r * units + q] += weight * whole
            numbers[response2] += square_of(weight * whole, w)
