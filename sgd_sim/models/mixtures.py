"""One-pass SGD for two-layer networks on Gaussian mixtures (Ben Arous et al. 2022, sections 4 and 5), on vectors of full length.

X ~ N(s e_q, I/lambda): q one of r coordinate directions, s = +-1, with label classes[q, s, 0] and probability classes[q, s, 1],
s = +1 first. Network sigma(v.s(W X)), cross-entropy loss plus (ridge/2)(|v|^2 + |W|^2). Binary mixture: r = 1 and
labels ((1, 0),); XOR: r = 2, labels ((1, 1), (0, 0)); all classes equally likely. An infinite snr means X = s e_q exactly.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def draw(classes, snr, rng, X):
    """Draw a data point into X (N,); returns its label."""
    q = 0
    if classes.shape[0] > 1:
        u = rng.random()
        while q < classes.shape[0] - 1 and u >= classes[q, 0, 1] + classes[q, 1, 1]:
            u -= classes[q, 0, 1] + classes[q, 1, 1]
            q += 1
    minus = 1 if rng.random() * (classes[q, 0, 1] + classes[q, 1, 1]) < classes[q, 1, 1] else 0
    if np.isinf(snr):
        X[:] = 0.0
    else:
        spread = 1.0 / np.sqrt(snr)
        for i in range(X.size):
            X[i] = spread * rng.standard_normal()
    X[q] += 1.0 - 2.0 * minus
    return classes[q, minus, 0]


@njit(cache=True, nogil=True)
def output_error(v, W, X, y, s, h):
    """sigma(v.s(W X)) - y; the fields W X go to h (p,)."""
    field = 0.0
    for i in range(v.size):
        total = 0.0
        for k in range(X.size):
            total += W[i, k] * X[k]
        h[i] = total
        field += v[i] * s(total)
    return 1.0 / (1.0 + np.exp(-field)) - y


@njit(cache=True, nogil=True)
def advance(v, W, steps, delta, ridge, snr, classes, s, ds, rng):
    """Take SGD steps in v (p,) and W (p, N), in place; both move by the gradient at the old point."""
    X, h = np.empty(W.shape[1]), np.empty(v.size)
    keep = 1.0 - delta * ridge
    for _ in range(steps):
        y = draw(classes, snr, rng, X)
        e = output_error(v, W, X, y, s, h)
        for i in range(v.size):
            kick = delta * v[i] * e * ds(h[i])
            v[i] = keep * v[i] - delta * e * s(h[i])
            for k in range(X.size):
                W[i, k] = keep * W[i, k] - kick * X[k]


def start_weights(m: np.ndarray, R: np.ndarray, dimension: int) -> np.ndarray:
    """Weights (p, N) with components m (p, r) along the means and overlaps R (p, p) across them. The law is invariant under
    rotations that fix the means, so the rest may lie along the next p coordinates."""
    p, r = m.shape
    values, vectors = np.linalg.eigh(R)
    W = np.zeros((p, dimension))
    W[:, :r] = m
    W[:, r : r + p] = (vectors * np.sqrt(np.clip(values, 0.0, None))) @ vectors.T
    return W


def statistics(v: np.ndarray, W: np.ndarray, r: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """v (p,), m (p, r), R (p, p)."""
    return v, W[:, :r], W[:, r:] @ W[:, r:].T
