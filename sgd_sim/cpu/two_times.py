"""Two-time quantities of an instance: C(t, t'), M_C(t, t') and what the response R(t, t') is made of. Eq. [sim-pairs].

Weights and gradients g of some steps t' are kept, and at every recorded step t their products with those of t are taken. For the
response an instance has a second copy with the same data, start, mini-batches and heat, which is pushed by FORCE z(t') at each kept
step; both record the parts of their weights along every z(t'), and R(t, t') is the difference over FORCE. Because data, teacher
and start are isotropic, z need not be random: the signs of Walsh functions are orthogonal, so that one push changes the parts
along the others by fluctuations of the response alone. Kept arrays are float32: a sum of many products is accurate to 1e-7.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy  # its parts load when they are used
from numba import njit

from dmft.core.compiled import UNCOUNTED
from sgd_sim.recording import FORCE, PAIR_GRADIENTS, PAIR_PROBES, PAIR_WEIGHTS
from sgd_sim.states import States


class Pairs(NamedTuple):
    """Two-time quantities of a batch of lanes; no kept steps where none are wanted."""

    steps: np.ndarray     # (J,) kept steps t', increasing
    probes: np.ndarray    # (J, N) float32, z(t')
    w: np.ndarray         # (lanes, J, N) float32
    g: np.ndarray         # (lanes, J, M) float32
    values: np.ndarray    # (lanes, 3, recorded steps, J), see recording.py
    force: np.ndarray     # (lanes,) size of the push, 0 for the instance itself
    now: np.ndarray       # (M,) float32, scratch: gradients of this step


def make_pairs(states: States, lines: np.ndarray, width: int, n: int, samples: int) -> Pairs:
    """The two-time quantities of some lines, as far as they have come, in that many lanes."""
    def in_lanes(array: np.ndarray) -> np.ndarray:
        return np.concatenate([array[lines], np.zeros((width - lines.size, *array.shape[1:]), array.dtype)])

    return Pairs(states.kept, make_probes(states.kept.size, n), in_lanes(states.kept_w), in_lanes(states.kept_g),
                 in_lanes(states.pairs), in_lanes(forces(states)), np.zeros(samples, np.float32))


def make_probes(count: int, n: int) -> np.ndarray:
    """(count, N) float32: orthogonal vectors of signs, 0 in the few columns after the last whole period."""
    period = 1 << count.bit_length()
    probes = np.zeros((count, n), np.float32)
    if count:
        probes[:, :n // period * period] = np.tile(scipy.linalg.hadamard(period)[1:count + 1], n // period)
    return probes


def forces(states: States) -> np.ndarray:
    """(lines,) size of the push: 0 for the instances themselves."""
    return FORCE * (np.arange(states.step.size) % states.copies)


@njit(**UNCOUNTED, nogil=True)
def pair_weights(pairs, lanes, step, column):
    """Enter C(t, t') = w_t.w_t'/N and the parts of w_t along z(t') into a column of every live lane."""
    n = lanes.w.shape[0]
    for lane in range(lanes.live.size):
        if not lanes.live[lane]:
            continue
        for j in range(pairs.steps.size):
            if pairs.steps[j] > step:
                break
            if pairs.steps[j] == step:
                for i in range(n):
                    pairs.w[lane, j, i] = lanes.w[i, lane]
            total, along, square = 0.0, 0.0, 0.0
            for i in range(n):
                z = np.float64(pairs.probes[j, i])
                total += lanes.w[i, lane] * pairs.w[lane, j, i]
                along += z * lanes.w[i, lane]
                square += z * z
            pairs.values[lane, PAIR_WEIGHTS, column, j] = total / n  # [sim-pairs]
            pairs.values[lane, PAIR_PROBES, column, j] = along / square if pairs.steps[j] < step else 0.0  # [sim-pairs] causal


@njit(**UNCOUNTED, nogil=True)
def pair_gradients(pairs, lane, n, step, column):
    """Enter M_C(t, t') = sum_mu g_mu(t) g_mu(t')/N into a column of a lane, whose gradients are in pairs.now."""
    for j in range(pairs.steps.size):
        if pairs.steps[j] > step:
            break
        if pairs.steps[j] == step:
            for mu in range(pairs.now.size):
                pairs.g[lane, j, mu] = pairs.now[mu]
        total = 0.0
        for mu in range(pairs.now.size):
            total += np.float64(pairs.now[mu]) * np.float64(pairs.g[lane, j, mu])
        pairs.values[lane, PAIR_GRADIENTS, column, j] = total / n  # [sim-pairs]


@njit(**UNCOUNTED, nogil=True)
def push(pairs, lanes, rate, step):
    """Add the force of a kept step, as a part of the gradient: before they are rescaled the weights move by force z more."""
    for j in range(pairs.steps.size):
        if pairs.steps[j] == step:
            for lane in range(lanes.live.size):
                for i in range(lanes.w.shape[0]):
                    lanes.total[i, lane] -= pairs.force[lane] / rate * pairs.probes[j, i]
