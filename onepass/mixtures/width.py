"""Does width help? The share of runs in which a network on a mixture learns every Gaussian, against its number of neurons.

At large snr a neuron of random start serves one of the means, each with the same probability where both labels have equally many:
the sign of v chooses the label, the signs of m(0) the mean (Ben Arous et al. 2022, section 5). All 2r means are served with the
probability of the coupon collector, sum_j (-1)^j C(2r, j) (1 - j/2r)^p: 3/32 for XOR with p = 4, near 1 for p >> 2r log 2r.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import comb
from typing import NamedTuple

import numpy as np

from dmft.model.activations import RELU, activation, apply
from onepass.mixtures.binary_mixture import BinaryMixture
from onepass.mixtures.mixture_model import GaussianMixture
from onepass.mixtures.xor_mixture import XorMixture


class SolvedShare(NamedTuple):
    """Shares of solved runs by width, their errors, and the probabilities expected (NaN where they are not known)."""

    neurons: np.ndarray
    share: np.ndarray
    error: np.ndarray
    expected: np.ndarray


def coverage(neurons: int, means: int) -> float:
    """Probability that each of the means is served, when every neuron serves one of them at random."""
    return float(sum((-1) ** j * comb(means, j) * (1.0 - j / means) ** neurons for j in range(means + 1)))


def served(model: GaussianMixture, v: np.ndarray, m: np.ndarray) -> np.ndarray:
    """Which means, (..., directions, 2), the network has learnt, for v (..., p) and m (..., p, directions): the probability of the
    right label there is beyond the middle of 1/2 and of its value 1 - 2 r alpha at the fixed points of infinite snr. (The sign of
    the output would not do: neurons that serve nothing decay, and keep their signs.)"""
    s = activation(model.activation).s
    fields = np.stack([np.einsum("...i,...iq->...q", v, apply(s, sign * m)) for sign in (1.0, -1.0)], axis=-1)
    right = 1.0 / (1.0 + np.exp(np.where(model.labels > 0.5, -fields, fields)))
    return right > 0.75 - model.directions * model.ridge


def solved_share(model: GaussianMixture, widths: Sequence[int], dimension: int, instances: int, t_max: float,
                 seed: int = 1) -> SolvedShare:
    """The exact chain from random starts, for each width. What to expect is known for ReLU and the classes of the papers (one
    direction with two labels, or XOR): with more directions of a label a neuron can serve several means."""
    share = []
    for p in widths:
        net = replace(model, neurons=p)
        end = net.chain(dimension, instances, net.random_start(dimension, instances, seed), [t_max], seed)
        share.append(float(np.mean(served(net, end.v[:, 0], end.m[:, 0]).all(axis=(-1, -2)))))
    usual = {1: BinaryMixture.labels, 2: XorMixture.labels}.get(model.directions)
    known = activation(model.activation) is RELU and model.class_weights is None and usual is not None and (
        np.array_equal(model.labels, usual) or np.array_equal(model.labels, 1.0 - usual))
    found = np.array(share)
    expected = np.array([coverage(p, 2 * model.directions) if known else np.nan for p in widths])
    spread = np.sqrt(np.maximum(found * (1.0 - found), 1.0 / instances) / instances)
    return SolvedShare(np.array(widths), found, spread, expected)
