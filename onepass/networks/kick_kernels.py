"""Kernels of a network's step: the kicks of one sample, their averages over the fields, and the exact chain."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from onepass.gaussian import add_moments, central_moments, lower_root
from onepass.networks.chain import LOST_PIVOT
from sgd_sim.models.multi_index import clean_label, rate_at


class FieldQuadrature(NamedTuple):
    """Points for the fields of one sample and for the noise of its label."""

    root: np.ndarray           # (p + k, p + k) of the covariance of the fields, student first
    points: np.ndarray         # (N, p + k)
    weights: np.ndarray        # (N,)
    label_noise: np.ndarray    # (1, nodes) if all points have the same nodes, (N, nodes) if each has its own
    noise_weights: np.ndarray  # (nodes,)


@njit(cache=True, error_model="numpy")
def _kicks(both, rule, y, fields, square, a, scale, kick, total, push):
    """Put the sum of the kicks of a sample over its uses into total (p,), and that of E s(l_j) into push (p,). Every use moves the
    fields (p,), in place, by its kick times `square` = |x|^2; kick (p,) is scratch. Where the rule normalises, the kicks of a use,
    along x, have the length `scale` together. both: StudentAndTeacher; rule: StepRule."""
    s, ds, pull, clip, uses, normalised = both.s, both.ds, both.pull, rule.clip, rule.uses, rule.normalised
    p = len(a)
    total[:] = 0.0
    push[:] = 0.0
    for _ in range(uses):
        output = 0.0
        for j in range(p):
            kick[j] = s(fields[j])
            output += a[j] * kick[j] / p
        error = min(max(pull(y, output), -clip), clip)
        norm = 0.0
        for j in range(p):
            push[j] += error * kick[j]
            kick[j] = scale * a[j] * error * ds(fields[j])
            norm += kick[j] ** 2
        shorter = scale / np.sqrt(norm * square) if normalised and norm > 0.0 else 1.0
        for j in range(p):
            kick[j] *= shorter
            total[j] += kick[j]
            fields[j] += kick[j] * square


@njit(cache=True, error_model="numpy", inline="always")  # as a call it would slow the averages down by a tenth
def _fields_and_label(both, root, normals, u, teacher):
    """Put the fields root . normals (p + k,), student first, into u and the teacher's ones, the last k, into `teacher` as well;
    returns the label without its noise."""
    n, k = len(u), len(teacher)
    for i in range(n):
        u[i] = 0.0
        for l in range(n):
            u[i] += root[i, l] * normals[l]
    teacher[:] = u[n - k :]
    return clean_label(both, teacher)


@njit(cache=True, error_model="numpy", nogil=True)
def mean_kicks(both, value, rule, quadrature, a, k, scale):
    """E[E s(l_j)] (p,), E[C_j ls_r] (p, k), E[C_j l_l] (p, p), E[C_j C_l] (p, p), E[(y - f)^2], E[l(y, f)]. `value` is the loss
    l; quadrature: FieldQuadrature."""
    s, (root, points, weights, label_noise, noise_weights) = both.s, quadrature
    p = len(a)
    n = p + k
    es, m, q, cc, risk, mean_loss = np.zeros(p), np.zeros((p, k)), np.zeros((p, p)), np.zeros((p, p)), 0.0, 0.0
    u, teacher, moved, kick, total, push = np.empty(n), np.empty(k), np.empty(p), np.empty(p), np.empty(p), np.empty(p)
    for index in range(len(weights)):
        clean = _fields_and_label(both, root, points[index], u, teacher)
        own_noise = label_noise[min(index, len(label_noise) - 1)]
        for z in range(len(own_noise)):
            w, y = weights[index] * noise_weights[z], clean + own_noise[z]
            output = 0.0
            for j in range(p):
                output += a[j] * s(u[j]) / p
            risk += w * (y - output) ** 2
            mean_loss += w * value(y, output)
            moved[:] = u[:p]
            _kicks(both, rule, y, moved, 1.0, a, scale, kick, total, push)
            for j in range(p):
                es[j] += w * push[j]
                for r in range(k):
                    m[j, r] += w * total[j] * u[p + r]
                for l in range(p):
                    q[j, l] += w * total[j] * u[l]
                    cc[j, l] += w * total[j] * total[l]
    return es, m, q, cc, risk, mean_loss


@njit(cache=True, error_model="numpy", nogil=True)
def kick_covariance(both, rule, quadrature, a, k, scale):
    """Covariance (p + p k + p (p + 1)/2, same) of (rate_of_a scale E s(l_j), C_j ls_r, C_j l_l + C_l l_j + C_j C_l/batch) over one
    sample: a first, then M, then the upper triangle of Q; arguments as in mean_kicks."""
    root, points, weights, label_noise, noise_weights = quadrature
    batch, rate_of_a = rule.batch, rule.rate_of_a
    p = len(a)
    n = p + k
    size = p + p * k + p * (p + 1) // 2
    mean, second, row = np.zeros(size), np.zeros((size, size)), np.empty(size)
    u, teacher, moved, kick, total, push = np.empty(n), np.empty(k), np.empty(p), np.empty(p), np.empty(p), np.empty(p)
    for index in range(len(weights)):
        clean = _fields_and_label(both, root, points[index], u, teacher)
        own_noise = label_noise[min(index, len(label_noise) - 1)]
        for z in range(len(own_noise)):
            w = weights[index] * noise_weights[z]
            moved[:] = u[:p]
            _kicks(both, rule, clean + own_noise[z], moved, 1.0, a, scale, kick, total, push)
            place = p + p * k
            for j in range(p):
                row[j] = rate_of_a * scale * push[j]
                for r in range(k):
                    row[p + j * k + r] = total[j] * u[p + r]
                for l in range(j, p):
                    row[place] = total[j] * u[l] + total[l] * u[j] + total[j] * total[l] / batch
                    place += 1
            add_moments(row, w, mean, second)
    return central_moments(mean, second)


@njit(cache=True, error_model="numpy", nogil=True)
def chain(om, clock, a, steps, both, k, rule, dimension, rng):
    """Advance the overlaps om (n, n) of teacher (k), student (p) and, with a velocity, of the velocities (p), and the second layer
    a (p,), in place; rule: a `StepRule`. A step is linear in all vectors and in the samples x_b, vectors -> A vectors + B x, so

        om -> A om A^T + (A F B^T + B F^T A^T)/d + B X B^T/d,

    F (n, batch) the fields and X (batch, batch) the scalar products of the samples, of which the parts orthogonal to all vectors
    are a Wishart matrix: `across` is Bartlett's triangular factor."""
    p, n, gamma, batch = len(a), om.shape[0], rule.gamma, rule.batch
    factor = np.zeros((n, n))
    white, across = np.empty((batch, n)), np.zeros((batch, batch))
    fields, total, push = np.empty((batch, n)), np.empty((batch, p)), np.empty((batch, p))
    teacher, moved, kick = np.empty(k), np.empty(p), np.empty(p)
    A, B, kicked, half = np.eye(n), np.zeros((n, batch)), np.empty((n, n + batch)), np.empty((n, n))
    tau = gamma / (p * dimension)
    for _ in range(steps):
        rate = rate_at(clock[0], rule.rate_decay, rule.rate_steps, 0.5 * tau)
        lower_root(om, factor, 0, LOST_PIVOT)
        for b in range(batch):
            square = 0.0
            for i in range(n):
                white[b, i] = rng.standard_normal()
                square += white[b, i] ** 2
                fields[b, i] = 0.0
                for l in range(i + 1):
                    fields[b, i] += factor[i, l] * white[b, l]
            for c in range(b):
                across[b, c] = rng.standard_normal()
                square += across[b, c] ** 2
            rest = rng.chisquare(dimension - n - b) if dimension - n - b > 0 else 0.0
            across[b, b] = np.sqrt(rest)
            square = (square + rest) / dimension
            teacher[:] = fields[b, :k]
            y = clean_label(both, teacher) + np.sqrt(rule.noise) * rng.standard_normal()
            moved[:] = fields[b, k : k + p]
            _kicks(both, rule, y, moved, square, a, gamma / p * rate, kick, total[b], push[b])
        keep = 1.0 - tau * rate * rule.weight_decay
        for j in range(k, k + p):
            A[j, j] = keep
            for b in range(batch):
                B[j, b] = total[b, j - k] / batch
            if rule.friction > 0.0:
                v = j + p
                A[v, v], A[v, j] = 1.0 - rule.friction * tau, rule.friction * (keep - 1.0)
                A[j, v], A[j, j] = tau * A[v, v], 1.0 + tau * A[v, j]
                for b in range(batch):
                    B[v, b] = rule.friction * B[j, b]
                    B[j, b] = tau * B[v, b]
            mean = 0.0
            for b in range(batch):
                mean += push[b, j - k] / batch
            a[j - k] += rule.rate_of_a * tau * rate * (mean - rule.weight_decay * a[j - k])
        for i in range(n):
            kicked[i, :] = 0.0          # B x, in the frame of the samples: n coordinates along the vectors, then those across
            for b in range(batch):
                for m in range(n):
                    kicked[i, m] += B[i, b] * white[b, m]
                for m in range(b + 1):
                    kicked[i, n + m] += B[i, b] * across[b, m]
            for l in range(n):
                half[i, l] = 0.0
                for m in range(n):
                    half[i, l] += A[i, m] * om[m, l]
                for b in range(batch):
                    half[i, l] += B[i, b] * fields[b, l] / dimension
        for i in range(n):
            for l in range(i + 1):
                if i < k:
                    continue        # of the teacher
                value = 0.0
                for m in range(n):
                    value += half[i, m] * A[l, m]
                for b in range(batch):
                    for m in range(n):
                        value += A[i, m] * fields[b, m] * B[l, b] / dimension
                for m in range(n + batch):
                    value += kicked[i, m] * kicked[l, m] / dimension / dimension
                om[i, l] = om[l, i] = value
        if rule.sphere:
            for j in range(k, n):
                kick[j - k] = 1.0 / np.sqrt(om[j, j])
            for j in range(k, n):
                for i in range(n):
                    om[j, i] *= kick[j - k]
                    om[i, j] *= kick[j - k]
        clock[0] += tau
