"""Samples in blocks of fixed size: the unit of every sum, so that results do not depend on ranks or threads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

LARGEST_BLOCK_COUNT = 512


class Summing(Protocol):
    """What the numerics ask of a communicator."""

    rank: int
    size: int

    def sum_exact(self, partials: np.ndarray, total_blocks: int) -> np.ndarray: ...


@dataclass(frozen=True)
class Blocks:
    """All samples of a solution, and the contiguous range of blocks that one rank holds."""

    samples: int
    size: int
    rank: int
    ranks: int

    @property
    def total(self) -> int:
        return -(-self.samples // self.size)

    @property
    def here(self) -> range:
        return range(self.rank * self.total // self.ranks, (self.rank + 1) * self.total // self.ranks)

    @property
    def first(self) -> int:
        """Index of the first sample on this rank."""
        return self.here.start * self.size

    @property
    def count(self) -> int:
        """Samples on this rank."""
        return max(0, min(self.here.stop * self.size, self.samples) - self.first)


def blocks_for(samples: int, comm: Summing, most: int = LARGEST_BLOCK_COUNT) -> Blocks:
    """At most `most` blocks, of a size that depends on the number of samples alone (and is even, so that mirrored
    pairs stay together)."""
    size = 8
    while -(-samples // size) > most or (size < 64 and samples >= 32 * size):
        size *= 2
    return Blocks(samples, size, comm.rank, comm.size)


def normalised(weight: np.ndarray, blocks: Blocks, comm: Summing) -> np.ndarray:
    """Importance weights of the samples on this rank, made to add up to one over all samples."""
    sums = [weight[b * blocks.size : (b + 1) * blocks.size].sum() for b in range(len(blocks.here))]
    return weight / comm.sum_exact(np.array(sums).reshape(-1, 1), blocks.total)[0]
