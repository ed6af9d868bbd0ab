"""The law of the fields: what every sample of the effective process is at some steps.

Kept beside the samples while they march, and part of checkpoints; a line per sample, so that ranks change nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dmft.samples.gpu import GpuSamples
from dmft.samples.lost import GONE
from dmft.samples.process import Samples
from dmft.samples.state import SampleState

CONSTANT = ("weight", "k", "y", "sd")  # of SampleState, what a sample is at all times


def on_host(samples: Samples | GpuSamples) -> SampleState:
    """The state of samples at step n, with h of the weights; copied where it is on a card."""
    state = samples.state._replace(h=samples.behind.h) if samples.behind else samples.state
    return state if isinstance(samples, Samples) else SampleState(*(samples.gpu.get(array) for array in state))


class SampleSnapshots:
    """Fields and mini-batches of the samples of a rank at steps (S,), NaN where a step has not been reached."""

    def __init__(self, steps: np.ndarray, count: int):
        self.steps = steps
        self.f, self.s = (np.full((len(steps), count), np.nan) for _ in range(2))

    def take(self, step: int, state: SampleState, m: float, b: float) -> None:
        """Keep the fields f = sd (h + m k) + b and the mini-batch s of a step, if it is wanted. Lost samples have none."""
        for i in np.flatnonzero(self.steps == step):
            self.f[i], self.s[i] = state.sd * (state.h + m * state.k) + b, state.s
            self.f[i, state.s == GONE] = np.nan

    def own(self) -> dict[str, np.ndarray]:
        """What a checkpoint holds, a line per sample."""
        return {"snapshots/f": self.f.T, "snapshots/s": self.s.T}

    def restore(self, own: Mapping[str, np.ndarray]) -> None:
        """Take over what `own` gave."""
        self.f[...], self.s[...] = own["snapshots/f"].T, own["snapshots/s"].T

    def found(self, state: SampleState) -> dict[str, np.ndarray]:
        """All that a result keeps, a line per sample: f and s (samples, S), and what does not change (samples,)."""
        return {"f": self.f.T.copy(), "s": self.s.T.copy(), **{name: np.array(getattr(state, name)) for name in CONSTANT}}
