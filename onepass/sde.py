"""The leading stochastic correction at large but finite dimension.

One SGD step of duration tau changes the statistics by tau times a random bracket of mean `drift` and covariance
`covariance`, so dX = drift dt + sqrt(tau) covariance^{1/2} dB with tau = model.time_step(dimension).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dmft.core import streams
from onepass.dynamics import Dynamics
from onepass.ensemble import assemble, instance_starts
from onepass.ode import increasing_times
from onepass.result import Ensemble


def symmetric_root(c: np.ndarray) -> np.ndarray:
    """Symmetric square root of positive semi-definite matrices (..., n, n). Eigenvalues that rounding, or a step
    that left the set of valid overlaps, made negative count as zero."""
    values, vectors = np.linalg.eigh(c)
    return (vectors * np.sqrt(np.clip(values, 0.0, None))[..., None, :]) @ np.swapaxes(vectors, -1, -2)


def diffuse(
    model: Dynamics,
    dimension: int,
    instances: int,
    initial: Mapping[str, np.ndarray],
    times,
    seed: int = 1,
    step: float | None = None,
) -> Ensemble:
    """Paths of the SDE. Each step adds half of its noise before and half after a Runge-Kutta step of order 4 in the drift,
    with the covariance at the midpoint of the drift's own step: for noise of size sqrt(tau) the error is O(h^4 + tau h^2)
    (in the spirit of Milstein and Tretyakov's small-noise schemes; the variance of a linear mode of rate r comes out too
    large by (r h)^2/12). The step h is at most `step` (default: 1/200 of the span, at most 0.01)."""
    t = increasing_times(times)
    tau = model.time_step(dimension)
    h_max = step or min(0.01, max(t[-1] / 200.0, 1e-12))
    x = instance_starts(model, initial, instances, dimension)
    noise = [streams.generator(seed, "onepass-sde", i) for i in range(instances)]
    out = np.empty((instances, t.size, model.layout.size))
    now = 0.0
    for index, target in enumerate(t):
        count = int(np.ceil((target - now) / h_max - 1e-9)) if target > now else 0
        if count:
            h = (target - now) / count
            xi = np.stack([g.standard_normal((count, x.shape[1])) for g in noise], axis=1)
            for n in range(count):
                root = symmetric_root(model.covariance(x + 0.5 * h * model.drift(x)))
                half = 0.5 * np.sqrt(tau * h) * (root @ xi[n][:, :, None])[:, :, 0]
                x = x + half
                k1 = model.drift(x)
                k2 = model.drift(x + 0.5 * h * k1)
                k3 = model.drift(x + 0.5 * h * k2)
                k4 = model.drift(x + h * k3)
                x = model.retract(x + h / 6.0 * (k1 + 2 * k2 + 2 * k3 + k4) + half)
            now = float(target)
        out[:, index] = x
    return assemble(model, t, out, "sde", {"dimension": dimension, "seed": seed, "step": h_max})
