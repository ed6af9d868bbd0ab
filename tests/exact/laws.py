"""Laws of the mini-batch weight s as lists of all paths, s (paths, rows) with their probabilities (paths,)."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np


class Paths(NamedTuple):
    """s/l along every path, and the probability of each."""

    weight: np.ndarray  # (paths, rows)
    probability: np.ndarray  # (paths,)


def full_batch(rows: int) -> Paths:
    return Paths(np.ones((1, rows)), np.ones(1))


def chain(fraction: float, p_on: float, p_off: float, rows: int, scale: float | None = None) -> Paths:
    """A chain of two states, stationary from the start; scale: 1/l where it is not rescaled otherwise. Eq. [persistent-chain]."""
    s = np.array(list(product((0, 1), repeat=rows)))
    move = np.array([[1 - p_on, p_on], [p_off, 1 - p_off]])
    probability = np.where(s[:, 0] == 1, fraction, 1 - fraction) * move[s[:, :-1], s[:, 1:]].prod(axis=1)
    return Paths(s * (1 / fraction if scale is None else scale), probability)


def persistent(fraction: float, eta: float, tau: float, rows: int, scale: float | None = None) -> Paths:
    return chain(fraction, eta / tau, (1 - fraction) * eta / (fraction * tau), rows, scale)


def bernoulli(fraction: float, rows: int) -> Paths:
    return chain(fraction, fraction, 1 - fraction, rows)


def epochs(period: int, rows: int, cyclic: bool = False) -> Paths:
    """Once in every epoch of `period` steps, at a place drawn anew for every epoch, or once for all. Eq. [epochs]."""
    count = -(-rows // period)
    places = [(place,) * count for place in range(period)] if cyclic else list(product(range(period), repeat=count))
    s = np.eye(period)[np.array(places)].reshape(len(places), count * period)[:, :rows]
    return Paths(period * s, np.full(len(places), 1 / len(places)))
