"""The leading stochastic correction at large but finite dimension.

One SGD step of duration tau changes the statistics by tau times a random bracket of mean `drift` and covariance
`covariance`, so dX = drift dt + sqrt(tau) covariance^{1/2} dB with tau = model.time_step(dimension).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dmft.core import streams
from onepass.dynamics import Dynamics
from onepass.gaussian import symmetric_root
from onepass.process import from_bytes, to_bytes
from onepass.stretches import Stretch


class SdeGrid:
    """Steps of the SDE, at most `longest`, and all equal between two marks: times of the result, and changes of a schedule."""

    def __init__(self, t: np.ndarray, longest: float, changes: np.ndarray):
        marks = np.union1d(t, changes)
        before = np.concatenate([[0.0], marks[:-1]])
        counts = [max(1, int(np.ceil((b - a) / longest - 1e-9))) if b > a else 0 for a, b in zip(before, marks, strict=True)]
        self.ends = np.cumsum(counts)       # steps taken when each mark is reached
        self.lengths = [(b - a) / max(n, 1) for a, b, n in zip(before, marks, counts, strict=True)]
        self.records = self.ends[np.searchsorted(marks, t)]     # steps taken when each time of the result is reached


class SdePaths:
    """Instances of the SDE that step together. Each step adds half of its noise before and half after a Runge-Kutta step of
    order 4 in the drift, with the covariance at the midpoint of the drift's own step: for noise of size sqrt(tau) the error is
    O(h^4 + tau h^2) (in the spirit of Milstein and Tretyakov's small-noise schemes; the variance of a linear mode of rate r
    comes out too large by (r h)^2/12).

    Noise is keyed by instance, and `drift`, `covariance` and `retract` of a model treat each line of x separately: a path does not
    depend on which others are stepped with it. A path that diverges is NaN from there on.
    """

    def __init__(self, model: Dynamics, tau: float, grid: SdeGrid, x0: np.ndarray, seed: int, instances: Sequence[int], step: int):
        self.model, self.tau, self.grid, self.x, self.step = model, tau, grid, x0.copy(), step
        self.noise = [streams.generator(seed, "onepass-sde", i) for i in instances]

    def advance(self, steps: int) -> None:
        last = self.step + steps
        while self.step < last:
            segment = int(np.searchsorted(self.grid.ends, self.step, side="right"))
            count = min(last, int(self.grid.ends[segment])) - self.step
            xi = np.stack([g.standard_normal((count, self.x.shape[1])) for g in self.noise], axis=1)
            for n in range(count):
                finite = np.isfinite(self.x).all(axis=1)
                self.x[~finite] = np.nan
                with np.errstate(over="ignore", invalid="ignore"):      # of paths that diverge
                    if finite.all():
                        self.x = self._moved(self.x, xi[n], self.grid.lengths[segment])
                    elif finite.any():
                        self.x[finite] = self._moved(self.x[finite], xi[n][finite], self.grid.lengths[segment])
            self.step += count

    def _moved(self, x: np.ndarray, xi: np.ndarray, h: float) -> np.ndarray:
        """x (instances, size) after a step of length h with standard normals xi."""
        stretch = Stretch(self.model, x, h)
        drift = stretch.drift
        root = symmetric_root(stretch.covariance(x + 0.5 * h * drift(x)))
        half = 0.5 * np.sqrt(self.tau * h) * (root @ xi[:, :, None])[:, :, 0]
        x = x + half
        k1 = drift(x)
        k2 = drift(x + 0.5 * h * k1)
        k3 = drift(x + 0.5 * h * k2)
        k4 = drift(x + h * k3)
        return self.model.retract(x + h / 6.0 * (k1 + 2 * k2 + 2 * k3 + k4) + half)

    def flat(self) -> np.ndarray:
        return self.x.copy()

    def snapshot(self) -> np.ndarray:
        return np.stack([to_bytes((x, noise)) for x, noise in zip(self.x, self.noise, strict=True)])

    def restore(self, lines: np.ndarray) -> None:
        for x, noise, line in zip(self.x, self.noise, lines, strict=True):
            from_bytes((x, noise), line)
