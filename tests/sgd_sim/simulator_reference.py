"""A plain float64 NumPy implementation of the dynamics, to hold the simulator against."""

from __future__ import annotations

import numpy as np


def reference(X, w0, w, eta, steps, dv, s=None, scale=1.0, ridge=None, noise=None, beta=0.0, nesterov=False, more=0.0, radius=1.0):
    """Weights at steps 0..steps, (steps + 1, N).

    s: (steps, M) mini-batches; noise: (steps, N) already scaled; eta, scale, ridge, beta: numbers or (steps,); ridge None: on the
    sphere of this radius, in units of sqrt(N). dv: a function, or one for each step. more: times the last displacement, added to
    the step.
    """
    n, path, before = w.size, [w], w
    h0 = X @ w0 / np.sqrt(n)
    eta, scale, decay, beta = (np.broadcast_to(x, steps) for x in (eta, scale, 0.0 if ridge is None else ridge, beta))
    for step in range(steps):
        y = w + beta[step] * (w - before) if nesterov else w
        h = X @ y / np.sqrt(n)
        slope = dv if callable(dv) else dv[step]
        g = scale[step] * slope(h, h0) * (1.0 if s is None else s[step])
        u = y - eta[step] * (X.T @ g) / np.sqrt(n) - eta[step] * decay[step] * y + (0.0 if noise is None else noise[step])
        if not nesterov:
            u = u + beta[step] * (w - before)
        u = u + more * (w - before)
        before, w = w, u if ridge is not None else u * radius * np.sqrt(n) / np.linalg.norm(u)
        path.append(w)
    return np.array(path)


def phase_dv(h, h0):
    return h * (h * h - h0 * h0)


def phase_loss(X, w0, path):
    """Training loss of each row of a path."""
    n = w0.size
    h0 = X @ w0 / np.sqrt(n)
    return np.array([np.mean(((X @ w / np.sqrt(n)) ** 2 - h0**2) ** 2) / 4.0 for w in path])
