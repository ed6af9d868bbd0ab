"""Samples on a GPU, of one solution among those that go by the same launches (launches.py).

The card holds everything that has one line per sample, and does the equations of the weights where it can (card_steps.py); the host
does these elsewhere (equations/weights.py). Random numbers are those of the CPU, so results differ by
rounding alone. Arrays over slots have the sample as their last index here, and as their first in a checkpoint, as on the CPU.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from functools import partial

import numpy as np

from dmft.core.device import Gpu
from dmft.core.tree import check_like
from dmft.equations.history import History
from dmft.equations.on_card import Room
from dmft.equations.rows import InUse
from dmft.equations.weights import WeightDynamics
from dmft.model.experiment import Experiment
from dmft.samples.card_steps import CardSteps
from dmft.samples.launches import Company
from dmft.samples.nesterov import AtWeights
from dmft.samples.sampling import Draws, Sampling
from dmft.samples.state import Past, SampleState, by_name
from dmft.samples.tangents import Tangents
from dmft.samples.tiling import TILING, Tiling

BLOCKS = 32  # most blocks of samples; their sums are added on the host, over all ranks, exactly


class Card:
    """A card, and the solutions on it that go by the same launches: those of equal shape, dealt out to two companies, so that the
    card works on one while the host is at the other. visit: steps that it may take at a time where it does the equations."""

    def __init__(self, gpu: Gpu, visit: int = 1):
        self.gpu, self.visit = gpu, visit
        self._companies: dict[Hashable, list[Company]] = {}

    def company(self, experiment: Experiment, history: History, draws: Draws, block: int, sampling: Sampling, dtype,
              tiling: Tiling, use: InUse | None) -> Company:
        """Where a solution of this shape belongs. Histories must be alike in every step: they follow that of the first. use: given
        where the card is to do the equations, which takes room in its shared memory."""
        if use and not Room.within(self.gpu.shared_bytes, tiling.equations, history.slots):
            use = None
        shape = (history.per_level, history.fences.tobytes(), len(draws.h), int(draws.carrier.sum()), sampling.carriers, block,
                 sampling.parts, np.dtype(dtype), use)
        companies = self._companies.setdefault(shape, [])
        if len(companies) < (1 if use else 2):  # the host is hardly waited for where the card has the equations
            companies.append(Company(self.gpu, experiment, history, draws, block, sampling, dtype, tiling,
                                     partial(CardSteps, use=use, visit=self.visit) if use else None))
        return min(companies, key=lambda each: each.solutions)


class OnDevice(Mapping):
    """The arrays of `count` samples by name, with a line per sample; each is copied to the host when it is read, because they may
    be large. On the card the sample is the last index, and lines may be longer than there are samples. The card turns them over: a
    host takes a second for 0.2 GB of tangents."""

    def __init__(self, gpu: Gpu, arrays: dict, count: int):
        self._gpu, self._arrays, self._count = gpu, arrays, count

    def __getitem__(self, name: str) -> np.ndarray:
        return self._gpu.get(np.moveaxis(self._arrays[name], -1, 0)[: self._count])

    def fill(self, name: str, values: np.ndarray) -> None:
        """Overwrite one of the arrays by values with a line per sample."""
        array = self._arrays[name]
        check_like(name, values, (self._count, *array.shape[:-1]), array.dtype)
        array[..., : self._count], array[..., self._count :] = np.moveaxis(self._gpu.put(values), 0, -1), 0

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)


class GpuSamples:
    """A range of samples of one replica at step n, on a card. dtype: as of Samples."""

    def __init__(self, card: Card, weights: WeightDynamics, draws: Draws, weight: np.ndarray, block: int,
                 sampling: Sampling, dtype=np.float64, tiling: Tiling = TILING, use: InUse | None = None):
        self.gpu, self.weights, self.history, self.count = card.gpu, weights, weights.history, len(draws.h)
        self.company = card.company(weights.experiment, self.history, draws, block, sampling, dtype, tiling, use)
        self.at = self.company.enter(draws, weight, sampling, weights)
        self.carriers, self.keys, self.stein = self.company.carriers, sampling.keys, self.company.stein

    @property
    def state(self) -> SampleState:
        self.company.begin()
        return SampleState(*(array[self.at, : self.count] for array in self.company.state))

    @property
    def past(self) -> Past:
        self.company.begin()
        return Past(*(array[self.at] for array in self.company.past))

    @property
    def tangents(self) -> Tangents:
        """The tangents at step n."""
        self.company.begin()
        return Tangents(self.company.T[self.at], self.company.rows[self.weights.n % 2][self.at])

    @property
    def at_weights(self) -> AtWeights | None:
        self.company.begin()
        if not self.company.at_weights:
            return None
        h, Y, row = self.company.at_weights[self.at]
        return AtWeights(h[: self.count], Y[: self.count], row)

    @property
    def g(self) -> np.ndarray:
        """The gradient of every sample, on the card."""
        return self.company.g[self.at]

    def per_sample(self) -> OnDevice:
        """As Samples.per_sample, so that a checkpoint continues on either device. What merged blocks left is cleared: on the CPU
        slots that hold nothing are zero."""
        for array in self.past:
            array[np.flatnonzero(self.history.size[: len(array)] == 0)] = 0.0
        return self._per_sample()

    def _per_sample(self) -> OnDevice:
        behind = self.at_weights.arrays() if self.at_weights else {}
        return OnDevice(self.gpu, by_name(self.state, self.past) | behind, self.count)

    def per_tangent(self) -> OnDevice:
        """As Samples.per_tangent, but rows of tangents that hold nothing any more keep what they had: they have no weight."""
        behind = {"behind": self.at_weights.row.T} if self.at_weights else {}
        return OnDevice(self.gpu, self.tangents._asdict() | behind, self.carriers)

    def restore(self, per_sample: Mapping[str, np.ndarray], per_tangent: Mapping[str, np.ndarray], n: int) -> None:
        """As Samples.restore."""
        self.company.forget(self.at)
        for mine, stored in ((self._per_sample(), per_sample), (self.per_tangent(), per_tangent)):
            for name in mine:
                mine.fill(name, stored[name])
        self.company.rows[(n + 1) % 2][self.at] = 0.0
