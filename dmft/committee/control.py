"""The control variate of mu: Y = dh/dkappa through the label alone, (k, p) a sample, and what it adds to mu. Eq. [c-stein]."""

from __future__ import annotations

from numba import njit

from dmft.committee.formulas import curved, pushed_control, stiffness
from dmft.committee.tangents import merge_wide
from dmft.core.compiled import INNER
from dmft.equations.noise import dot
from dmft.samples.formulas import clipped, most_of_control


@njit(**INNER)
def add_control(w, Y, gp, mixed, slope, outlier, numbers, label, wild):
    """Add g' Y + (s/l) d2v/dh dy (dphi/dkappa)^T of one sample, times its weight, to numbers[label ..], (p, k), and its weight to
    numbers[wild] where Y is beyond `outlier`. mixed: (s/l) dl'/dy; slope (k,): dphi/dkappa. Eq. [c-stein]."""
    d, curve, bend = gp
    k, p = Y.shape
    largest = 0.0
    for t in range(k):
        along = mixed * slope[t]
        for r in range(p):
            along += curve * d[r] * Y[t, r]
            largest = max(largest, abs(Y[t, r]))
        for r in range(p):
            numbers[label + r * k + t] += w * curved(along, d[r], bend[r], Y[t, r])
    if largest > outlier:
        numbers[wild] += w


@njit(**INNER)
def advance_control(Y, past, gp, mixed, slope, drive, step, used, room):
    """Y of one sample from step n to n+1 in place, and its past (k, slots p), sums over blocks. room (p,). Eq. [c-stein]."""
    d, curve, bend = gp
    k, p = Y.shape
    most = most_of_control(step.eta, stiffness(curve, d, bend, p, 1), step.tangent_max, step.y_max)
    for t in range(k):
        along = mixed * slope[t]
        for r in range(p):
            along += curve * d[r] * Y[t, r]
        for r in range(p):
            room[r] = pushed_control(step.eta, dot(drive.memory[r], past[t], used), along, d[r], bend[r], Y[t, r])
            for q in range(p):
                room[r] += drive.keep[r, q] * Y[t, q]
        if len(step.merges):
            merge_wide(past[t], step.merges, p)
        for r in range(p):
            past[t, step.slot * p + r] = Y[t, r]
        for r in range(p):
            following = 0.0
            for q in range(p):
                following += drive.A[r, q] * room[q]
            Y[t, r] = clipped(following, most)
