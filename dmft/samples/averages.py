"""Averages of a function of one sample, value(f, y, h0), for curves that are no part of the row sums."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numba import njit

from dmft.core.compiled import UNCOUNTED
from dmft.model.curves import CurveDefinition
from dmft.samples.formulas import field_of
from dmft.samples.state import SampleState


class AveragedOver(NamedTuple):
    """What an average needs to know of the samples of a network, as of SampleState; each (count,)."""

    weight: np.ndarray
    k: np.ndarray  # field of the first direction
    y: np.ndarray
    sd: np.ndarray
    s: np.ndarray


@lru_cache
def _make_sums(curve: CurveDefinition):
    """A function that sums up the weighted values of a curve over the samples of each block; with a curve of the package, kept on
    disk. Lost samples count as in the loss, with 0. Eq. [lost]."""
    value, at = curve.value, field_of

    @njit(**{**UNCOUNTED, "cache": not curve.source})
    def sums(block, state, h, m, b, out):
        weight, k, y, sd, s = state.weight, state.k, state.y, state.sd, state.s
        for line in range(len(out)):
            total = 0.0
            for i in range(line * block, min((line + 1) * block, len(h))):
                if s[i] >= 0.0:  # [lost]
                    total += weight[i] * value(at(sd[i], h[i], m, k[i], b), y[i], sd[i] * k[i])
            out[line] = total

    return sums


def averaged_sums(curves: tuple[CurveDefinition, ...], block: int, state: SampleState | AveragedOver, h: np.ndarray, m: float,
                  b: float) -> np.ndarray:
    """(blocks, curves): weighted sums over blocks of samples, in order. h (count,), m, b: of the fields sd (h + m k) + b."""
    sums = np.empty((len(curves), -(-len(h) // block)))
    for curve, line in zip(curves, sums, strict=True):
        _make_sums(curve)(block, state, h, m, b, line)
    return np.ascontiguousarray(sums.T)
