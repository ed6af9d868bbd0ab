"""The law of the fields: what every sample of the effective process is at some steps, and what the Hessian there needs of its past.

Kept beside the samples while they march, and part of checkpoints; a line per sample, so that ranks change nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dmft.equations.weights import Closing, WeightDynamics
from dmft.samples.gpu import GpuSamples
from dmft.samples.lost import GONE
from dmft.samples.process import Samples
from dmft.samples.state import SampleState

CONSTANT = ("weight", "k", "y", "sd")  # of SampleState, what a sample is at all times


def on_host(samples: Samples | GpuSamples) -> SampleState:
    """The state of samples at step n, with h of the weights; copied where it is on a card."""
    state = samples.state._replace(h=samples.at_weights.h) if samples.at_weights else samples.state
    return state if isinstance(samples, Samples) else SampleState(*(samples.gpu.get(array) for array in state))


def gradients(samples: Samples | GpuSamples) -> np.ndarray:
    """g of every sample at step n, after `row_sums`."""
    return samples.fields.g if isinstance(samples, Samples) else samples.gpu.get(samples.g)[: samples.count]


class SampleSnapshots:
    """Fields and mini-batches of the samples of a rank at steps (S,), NaN where a step has not been reached; at visited steps (V,)
    the fields h + m k, the sums of gradients since the visited step before, and C between them."""

    def __init__(self, steps: np.ndarray, visited: np.ndarray, count: int):
        self.steps, self.visited = steps, visited
        self.f, self.s = (np.full((len(steps), count), np.nan) for _ in range(2))
        self.h, self.g = (np.zeros((len(visited), count)) for _ in range(2))
        self.gram = np.zeros((len(visited), len(visited)))
        self.scale = 1.0  # A_n, what w_n has been multiplied by since the last visited step

    def take(self, weights: WeightDynamics, closing: Closing, samples: Samples | GpuSamples, m: float) -> None:
        """Keep what is wanted of the present step, after its row is known; before the step is made."""
        step = weights.n - weights.experiment.hidden
        if step in self.steps or step in self.visited:
            state = on_host(samples)
            for i in np.flatnonzero(self.steps == step):
                self.f[i], self.s[i] = state.sd * (state.h + m * state.k) + weights.b, state.s
                self.f[i, state.s == GONE] = np.nan
            for i in np.flatnonzero(self.visited == step):
                self.h[i] = state.h + m * state.k
                self._enter_gram(int(i), weights)
        if len(self.visited) and 0 <= step < self.visited[-1]:
            now, drive = weights.settings, closing.drive
            if step in self.visited:
                self.scale = 1.0  # of a new sum; with a ridge that of the whole run would leave all range
            following = self.scale * drive.a * (1.0 - now.eta * now.ridge)
            self.g[np.searchsorted(self.visited, step, side="right")] += now.eta * drive.a / following * gradients(samples)
            self.scale = following  # [hess-snapshots]

    def _enter_gram(self, i: int, weights: WeightDynamics) -> None:
        """C(n, k) of visited step i with those before it, each of which is a block by itself."""
        state, history = weights.state, weights.history
        slots = history.order[np.searchsorted(history.first[history.order], self.visited[:i] + weights.experiment.hidden)]
        row = np.append(state.Q_row[slots] + state.m * state.m_past[slots], state.Q_now + state.m**2)
        self.gram[i, : i + 1] = self.gram[: i + 1, i] = row

    def own(self) -> dict[str, np.ndarray]:
        """What a checkpoint holds, a line per sample."""
        return {f"snapshots/{name}": getattr(self, name).T for name in ("f", "s", "h", "g")}

    def shared(self) -> dict[str, np.ndarray]:
        """What a checkpoint holds besides, the same on every rank."""
        return {"gram": self.gram, "scale": np.array(self.scale)}

    def restore(self, own: Mapping[str, np.ndarray], shared: Mapping[str, Any]) -> None:
        """Take over what `own` and `shared` gave."""
        for name in ("f", "s", "h", "g"):
            getattr(self, name)[...] = own[f"snapshots/{name}"].T
        self.gram[...], self.scale = shared["gram"], float(shared["scale"])

    def found(self, state: SampleState) -> dict[str, np.ndarray]:
        """All that a result keeps, a line per sample: f and s (samples, S), h and g (samples, V) where there are visited steps, and
        what does not change (samples,)."""
        names = ("f", "s", "h", "g") if len(self.visited) else ("f", "s")
        return ({name: getattr(self, name).T.copy() for name in names}
                | {name: np.array(getattr(state, name)) for name in CONSTANT})
