"""Kernels of multi_index.py: the kicks of one sample, their averages over the fields, and the exact chain."""

from __future__ import annotations

import numpy as np
from numba import njit

from onepass.gaussian import add_moments, central_moments
from onepass.networks.chain import complete_cholesky
from sgd_sim.models.multi_index import rate_at


@njit(cache=True, error_model="numpy")
def _kicks(s, ds, pull, clip, y, fields, square, a, scale, uses, kick, total):
    """Put the sum of the kicks of a sample over its uses into total (p,). Every use moves the fields (p,), in place, by its kick
    times `square` = |x|^2; kick (p,) is scratch."""
    p = len(a)
    total[:] = 0.0
    for _ in range(uses):
        output = 0.0
        for j in range(p):
            output += a[j] * s(fields[j]) / p
        error = min(max(pull(y, output), -clip), clip)
        for j in range(p):
            kick[j] = scale * a[j] * error * ds(fields[j])
        for j in range(p):
            total[j] += kick[j]
            fields[j] += kick[j] * square


@njit(cache=True, error_model="numpy", inline="always")  # as a call it would slow the averages down by a tenth
def _fields_and_label(g, root, normals, u, teacher):
    """Put the fields root . normals (p + k,), student first, into u and the teacher's ones, the last k, into `teacher` as well;
    returns the label without its noise."""
    n, k = len(u), len(teacher)
    for i in range(n):
        u[i] = 0.0
        for l in range(n):
            u[i] += root[i, l] * normals[l]
    teacher[:] = u[n - k :]
    return g(teacher.ctypes, k)


@njit(cache=True, error_model="numpy", nogil=True)
def mean_kicks(s, ds, g, value, pull, clip, root, points, weights, label_noise, noise_weights, a, k, scale, uses):
    """E[C_j ls_r] (p, k), E[C_j l_l] (p, p), E[C_j C_l] (p, p), E[(y - f)^2], E[l(y, f)].

    root (p + k, p + k) of the covariance of the fields, student first; points (N, p + k), weights (N,); `value` is the loss l;
    label_noise (1, nodes) if all points have the same nodes, (N, nodes) if each has its own, with noise_weights (nodes,)."""
    p = len(a)
    n = p + k
    m, q, cc, risk, mean_loss = np.zeros((p, k)), np.zeros((p, p)), np.zeros((p, p)), 0.0, 0.0
    u, teacher, moved, kick, total = np.empty(n), np.empty(k), np.empty(p), np.empty(p), np.empty(p)
    for index in range(len(weights)):
        clean = _fields_and_label(g, root, points[index], u, teacher)
        own_noise = label_noise[min(index, len(label_noise) - 1)]
        for z in range(len(own_noise)):
            w, y = weights[index] * noise_weights[z], clean + own_noise[z]
            output = 0.0
            for j in range(p):
                output += a[j] * s(u[j]) / p
            risk += w * (y - output) ** 2
            mean_loss += w * value(y, output)
            moved[:] = u[:p]
            _kicks(s, ds, pull, clip, y, moved, 1.0, a, scale, uses, kick, total)
            for j in range(p):
                for r in range(k):
                    m[j, r] += w * total[j] * u[p + r]
                for l in range(p):
                    q[j, l] += w * total[j] * u[l]
                    cc[j, l] += w * total[j] * total[l]
    return m, q, cc, risk, mean_loss


@njit(cache=True, error_model="numpy", nogil=True)
def kick_covariance(s, ds, g, pull, clip, root, points, weights, label_noise, noise_weights, a, k, scale, uses, batch):
    """Covariance (p k + p (p + 1)/2, same) of (C_j ls_r, C_j l_l + C_l l_j + C_j C_l/batch) over one sample, M first, then the
    upper triangle of Q; arguments as in mean_kicks."""
    p = len(a)
    n = p + k
    size = p * k + p * (p + 1) // 2
    mean, second, row = np.zeros(size), np.zeros((size, size)), np.empty(size)
    u, teacher, moved, kick, total = np.empty(n), np.empty(k), np.empty(p), np.empty(p), np.empty(p)
    for index in range(len(weights)):
        clean = _fields_and_label(g, root, points[index], u, teacher)
        own_noise = label_noise[min(index, len(label_noise) - 1)]
        for z in range(len(own_noise)):
            w = weights[index] * noise_weights[z]
            moved[:] = u[:p]
            _kicks(s, ds, pull, clip, clean + own_noise[z], moved, 1.0, a, scale, uses, kick, total)
            place = p * k
            for j in range(p):
                for r in range(k):
                    row[j * k + r] = total[j] * u[p + r]
                for l in range(j, p):
                    row[place] = total[j] * u[l] + total[l] * u[j] + total[j] * total[l] / batch
                    place += 1
            add_moments(row, w, mean, second)
    return central_moments(mean, second)


@njit(cache=True, error_model="numpy", nogil=True)
def chain(om, clock, steps, s, ds, g, pull, a, rule, dimension, rng):
    """Advance om = [[P, M^T], [M, Q]], teacher first, in place; rule: a `StepRule`. The parts of the samples of a batch
    orthogonal to all weights enter through their scalar products alone, a Wishart matrix, of which `across` is Bartlett's
    triangular factor."""
    p, n, gamma, batch = len(a), om.shape[0], rule.gamma, rule.batch
    k = n - p
    factor = np.zeros((n, n))
    white, across = np.empty((batch, n)), np.zeros((batch, batch))
    fields, total = np.empty((batch, n)), np.empty((batch, p))
    teacher, moved, kick = np.empty(k), np.empty(p), np.empty(p)
    tau = gamma / (p * dimension)
    for _ in range(steps):
        rate = rate_at(clock[0], rule.rate_decay, rule.rate_steps, 0.5 * tau)
        complete_cholesky(om, factor, 0)
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
            y = g(teacher.ctypes, k) + np.sqrt(rule.noise) * rng.standard_normal()
            moved[:] = fields[b, k:]
            _kicks(s, ds, pull, rule.clip, y, moved, square, a, gamma / p * rate, rule.uses, kick, total[b])
        keep = 1.0 - gamma * rate * rule.weight_decay / (p * dimension)
        for j in range(p):
            for r in range(k):
                om[k + j, r] *= keep
                for b in range(batch):
                    om[k + j, r] += total[b, j] * fields[b, r] / (batch * dimension)
                om[r, k + j] = om[k + j, r]
            for l in range(j + 1):
                change = 0.0
                for b in range(batch):
                    change += keep * (total[b, j] * fields[b, k + l] + total[b, l] * fields[b, k + j]) / batch
                    for c in range(batch):
                        product = 0.0
                        for i in range(n):
                            product += white[b, i] * white[c, i]
                        for i in range(min(b, c) + 1):
                            product += across[b, i] * across[c, i]
                        change += total[b, j] * total[c, l] * product / (dimension * batch * batch)
                om[k + j, k + l] = keep * keep * om[k + j, k + l] + change / dimension
                om[k + l, k + j] = om[k + j, k + l]
        if rule.sphere:
            for j in range(k, n):
                kick[j - k] = 1.0 / np.sqrt(om[j, j])
            for j in range(k, n):
                for i in range(n):
                    om[j, i] *= kick[j - k]
                    om[i, j] *= kick[j - k]
        clock[0] += tau
