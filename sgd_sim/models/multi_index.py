"""One-pass SGD of two-layer networks with the variants of SGD, on teachers that are any function of a few directions.

SGD here takes mini-batches, uses a sample several times in a row, decays its weights and its learning rate, trains the second
layer, keeps a velocity or divides gradients by their norm; it is written plainly, on vectors of full length, as the independent
baseline of onepass.networks.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit


@njit(cache=True, nogil=True, error_model="numpy")
def rate_at(t, decay, steps, half):
    """Factor of the learning rate at time t: (1 + t/decay[0])^-decay[1], times steps[i, 1] of the last line with steps[i, 0] <=
    t + half (1 before the first). half: half an SGD step, so that a change falls on the nearest one and rounding of a clock that
    was summed up cannot delay it; 0 in continuous time."""
    factor = 1.0
    for i in range(len(steps)):
        if t + half >= steps[i, 0]:
            factor = steps[i, 1]
    return factor * (1.0 + t / decay[0]) ** -decay[1]


class StudentAndTeacher(NamedTuple):
    """The functions of a step, and the second layer of the teacher."""

    s: Any                     # activation of the student
    ds: Any
    g: Any                     # link of the teacher,
    s_star: Any                # or its activation
    a_star: np.ndarray         # (k,) and second layer; (0,) with a link
    pull: Any                  # -dl/df of the loss l(y, f)


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def clean_label(both, targets):
    """The label of the teacher's fields (k,), without its noise. both: StudentAndTeacher."""
    if len(both.a_star) == 0:
        return both.g(targets.ctypes, len(targets))
    total = 0.0
    for r in range(len(targets)):
        total += both.a_star[r] * both.s_star(targets[r])
    return total / len(targets)


class StepRule(NamedTuple):
    """How a step is made, in vectors and in the chain of their overlaps."""

    clip: float
    gamma: float
    noise: float               # variance of the labels' noise
    weight_decay: float
    rate_decay: tuple[float, float]    # and rate_steps (.., 2): see `rate_at`
    rate_steps: np.ndarray
    sphere: bool
    uses: int                  # of a sample in a row
    batch: int
    rate_of_a: float           # learning rate of the second layer over that of the first; 0: fixed
    normalised: bool           # a gradient is divided by its norm
    friction: float            # of the velocity, per unit time; 0: no velocity


@njit(cache=True, nogil=True, error_model="numpy")
def advance(w, v, clock, a, steps, both, w_star, rule, rng):
    """Take SGD steps in w (p, d), norms of order sqrt(d); clock (1,) counts the time tau = gamma/(p d) a step. With the error E =
    pull(y, f), cut to [-clip, clip], and c_j = (gamma/p) rate a_j E s'(l_j), a use of a sample moves its own fields by
    c_j |x|^2; the sum of the kicks over its uses, over the batch, moves the weights, and that of E s(l_j) the second layer;
    `rate_at` gives the rate. With a velocity v (p, d) the same step moves v by friction times it, and w by tau v."""
    s, ds, pull = both.s, both.ds, both.pull
    p, d = w.shape
    k, clip, gamma, batch = len(w_star), rule.clip, rule.gamma, rule.batch
    x = np.empty((batch, d))
    fields, targets, kick, total = np.empty(p), np.empty(k), np.empty(p), np.empty((batch, p))
    push = np.empty(p)
    tau = gamma / (p * d)
    for _ in range(steps):
        rate = rate_at(clock[0], rule.rate_decay, rule.rate_steps, 0.5 * tau)
        push[:] = 0.0
        for n in range(batch):
            square = 0.0
            for i in range(d):
                x[n, i] = rng.standard_normal() / np.sqrt(d)
                square += x[n, i] ** 2
            for j in range(p):
                fields[j] = np.dot(w[j], x[n])
            for r in range(k):
                targets[r] = np.dot(w_star[r], x[n])
            y = clean_label(both, targets) + np.sqrt(rule.noise) * rng.standard_normal()
            total[n, :] = 0.0
            for _ in range(rule.uses):
                output = 0.0
                for j in range(p):
                    output += a[j] * s(fields[j]) / p
                error = min(max(pull(y, output), -clip), clip)
                norm = 0.0
                for j in range(p):
                    push[j] += error * s(fields[j])
                    kick[j] = gamma / p * rate * a[j] * error * ds(fields[j])
                    norm += kick[j] ** 2
                if rule.normalised and norm > 0.0:
                    for j in range(p):
                        kick[j] *= gamma / p * rate / np.sqrt(norm * square)
                for j in range(p):
                    total[n, j] += kick[j]
                    fields[j] += kick[j] * square
        keep = 1.0 - gamma * rate * rule.weight_decay / (p * d)
        for j in range(p):
            if rule.friction > 0.0:
                for i in range(d):
                    moved = (keep - 1.0) * w[j, i]
                    for n in range(batch):
                        moved += total[n, j] / batch * x[n, i]
                    v[j, i] += rule.friction * (moved - tau * v[j, i])
                    w[j, i] += tau * v[j, i]
            else:
                for i in range(d):
                    w[j, i] *= keep
                for n in range(batch):
                    for i in range(d):
                        w[j, i] += total[n, j] / batch * x[n, i]
            if rule.sphere:
                w[j] *= np.sqrt(d) / np.sqrt(np.dot(w[j], w[j]))
            a[j] += rule.rate_of_a * tau * rate * (push[j] / batch - rule.weight_decay * a[j])
        clock[0] += tau
