"""Samples in blocks of fixed size: the unit of every sum, so that results do not depend on ranks or threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

import numpy as np

LARGEST_BLOCK_COUNT = 512
POOLS = 16  # of samples that may split: many, so that ranks can share them; large, so that few samples do not fill one


class Summing(Protocol):
    """What the numerics ask of a communicator."""

    rank: int
    size: int

    def sum_exact(self, partials: np.ndarray) -> np.ndarray: ...

    def sums_exact(self, several: Sequence[np.ndarray]) -> list[np.ndarray]: ...


@dataclass(frozen=True)
class Blocks:
    """All samples of a solution in blocks, and the contiguous range of blocks that one rank holds.

    Where samples may split (splitting.py) a block, then also called a pool, has `spare` empty places after its samples, and its
    places are summed in `sums` equal parts."""

    samples: int
    size: int
    rank: int
    ranks: int
    spare: int = 0
    sums: int = 1

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

    @property
    def places(self) -> int:
        """Places of a block."""
        return self.size + self.spare

    @property
    def lines(self) -> slice:
        """The places of this rank among all of `all_lines`."""
        if not self.spare:
            return slice(self.first, self.first + self.count)
        return slice(self.here.start * self.places, self.here.stop * self.places)

    @property
    def all_lines(self) -> int:
        return self.total * self.places if self.spare else self.samples

    def spread(self, array: np.ndarray) -> np.ndarray:
        """(count, ...) -> (places on this rank, ...): zeros in empty places."""
        if not self.spare:
            return array
        out = np.zeros((len(self.here), self.places, *array.shape[1:]), array.dtype)
        for k in range(len(out)):
            samples = array[k * self.size : (k + 1) * self.size]
            out[k, : len(samples)] = samples
        return out.reshape(len(out) * self.places, *array.shape[1:])


def blocks_for(samples: int, comm: Summing, most: int = LARGEST_BLOCK_COUNT) -> Blocks:
    """At most `most` blocks, of a size that depends on the number of samples alone (and is even, so that mirrored
    pairs stay together); so many that a few ranks can share them evenly."""
    size = 8
    while -(-samples // size) > most or (size < 64 and samples >= 128 * size):
        size *= 2
    return Blocks(samples, size, comm.rank, comm.size)


def pools_for(samples: int, comm: Summing, spare: float, sums: int) -> Blocks:
    """At most POOLS blocks with empty places, `spare` as a share of the samples."""
    size = blocks_for(samples, comm, POOLS).size
    blocks = Blocks(samples, size, comm.rank, comm.size, int(spare * size), sums)
    assert blocks.places % sums == 0, "a part must not reach into another pool, perhaps on another rank"
    return blocks


class Solver(Protocol):
    """A solution in the making: a step is made of terms to be added over all blocks, and of what is done with the sums."""

    def terms(self) -> list[np.ndarray]: ...

    def take(self, totals: list[np.ndarray]) -> None: ...


def step_together(solvers: Sequence[Solver], comm: Summing) -> None:
    """One step of each, with a single reduction over the ranks for all of them."""
    terms = [solver.terms() for solver in solvers]
    totals = iter(comm.sums_exact([lines for own in terms for lines in own]))
    for solver, own in zip(solvers, terms, strict=True):
        solver.take(list(islice(totals, len(own))))


def normalised(weight: np.ndarray, blocks: Blocks, comm: Summing) -> np.ndarray:
    """Importance weights of the samples on this rank, made to add up to one over all samples."""
    sums = [weight[b * blocks.size : (b + 1) * blocks.size].sum() for b in range(len(blocks.here))]
    return weight / comm.sum_exact(np.array(sums).reshape(-1, 1))[0]
