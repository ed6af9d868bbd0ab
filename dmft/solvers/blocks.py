"""Samples in blocks of fixed size: the unit of every sum, so that results do not depend on ranks or threads."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any, Protocol

import numpy as np

from dmft.core.packing import Guide
from dmft.equations.ibp import trusted_share
from dmft.equations.rows import InUse
from dmft.model.channels import JUMPS
from dmft.model.experiment import Experiment
from dmft.samples.sampling import Sampling

LARGEST_BLOCK_COUNT = 512  # blocks of a solution on the CPU, at most


class Summing(Protocol):
    """What the numerics need of a communicator."""

    rank: int
    size: int

    def sum_exact(self, partials: np.ndarray) -> np.ndarray: ...

    def sums_exact(self, several: Sequence[np.ndarray]) -> list[np.ndarray]: ...


@dataclass(frozen=True)
class Blocks:
    """All samples of a solution in blocks, and the contiguous range of blocks that one rank holds.

    The first `carriers` samples have tangents. They are spread over the first lines of all blocks, so that every rank has its share
    of the work. joined: a block may be so many of those that samples are dealt out to, so that larger ones hold the same samples in
    the same lines."""

    samples: int
    size: int
    rank: int
    ranks: int
    carriers: int
    joined: int = 1

    @property
    def total(self) -> int:
        """The number of blocks."""
        return -(-self.samples // self.size)

    @property
    def here(self) -> range:
        """The blocks of this rank."""
        return range(self.rank * self.total // self.ranks, (self.rank + 1) * self.total // self.ranks)

    @property
    def lines(self) -> slice:
        """The lines of this rank among those of all samples."""
        return slice(self.here.start * self.size, max(self.here.start * self.size, min(self.here.stop * self.size, self.samples)))

    @property
    def count(self) -> int:
        """Samples on this rank."""
        return self.lines.stop - self.lines.start

    @cached_property
    def _dealt(self) -> np.ndarray:
        """The number of samples with tangents in each block that they are dealt out to: proportional to its lines, and even."""
        size = self.size // self.joined
        lengths = np.minimum(self.samples - size * np.arange(-(-self.samples // size)), size)
        upto = 2 * (np.append(0, np.cumsum(lengths)) * (self.carriers // 2) // self.samples)
        upto[-1] = self.carriers
        dealt = np.minimum(np.diff(upto), lengths)
        for b in range(len(dealt)):  # a short last block may have too few lines for its share
            more = min(self.carriers - int(dealt.sum()), int(lengths[b] - dealt[b]))
            dealt[b] += more
        return dealt

    @property
    def carrier_lines(self) -> slice:
        """The lines of tangents of this rank among those of all samples with tangents."""
        upto = np.append(0, np.cumsum(self._dealt))
        return slice(int(upto[self._parts.start]), int(upto[self._parts.stop]))

    @property
    def _parts(self) -> range:
        """The blocks of this rank, as samples are dealt out to them."""
        return range(self.here.start * self.joined, min(self.here.stop * self.joined, len(self._dealt)))

    def indices(self) -> np.ndarray:
        """(count,) which sample is in each line of this rank."""
        carried, others, found = self.carrier_lines.start, 0, []
        others = self.carriers + self.lines.start - carried
        size = self.size // self.joined
        for b in self._parts:
            length, dealt = min(self.samples - b * size, size), int(self._dealt[b])
            found += [np.arange(carried, carried + dealt), np.arange(others, others + length - dealt)]
            carried, others = carried + dealt, others + length - dealt
        return np.concatenate([np.empty(0, np.int64), *found])


def blocks_for(samples: int, carriers: int, comm: Summing, most: int = LARGEST_BLOCK_COUNT) -> Blocks:
    """At most `most` blocks, of a size that depends on the number of samples alone (and is even, so that mirrored
    pairs stay together); so many that a few ranks can share them evenly."""
    size = 8
    while -(-samples // size) > most or (size < 64 and samples >= 128 * size):
        size *= 2
    return Blocks(samples, size, comm.rank, comm.size, carriers)


def card_blocks(samples: int, carriers: int, comm: Summing, most: int) -> Blocks:
    """Larger blocks, `most` at most, for a card; samples have the lines that they have on the CPU, for checkpoints go on on either
    device."""
    found, joined = blocks_for(samples, carriers, comm), 1
    while -(-samples // (found.size * joined)) > most:
        joined *= 2
    return replace(found, size=found.size * joined, joined=joined)


class Solver(Protocol):
    """A solution under way. A step has two halves, with one reduction over blocks and ranks between them."""

    @property
    def company(self) -> Hashable:
        """What solutions that are stepped by the same calls, and launches of a card, have in common."""

    def terms_of(self, solvers: Sequence[Any]) -> list[np.ndarray]:
        """Arrays (solvers, blocks here, L) to be summed over all blocks, of this solver and others of its company."""

    def take_of(self, solvers: Sequence[Any], totals: list[np.ndarray]) -> None:
        """Finish the step of these solvers with the sums of these arrays, each (solvers, L)."""

    def launch_steps(self, solvers: Sequence[Any]) -> bool:
        """Begin some steps of these solvers that take nobody's sums, where a card does all of it; returns whether that is so."""

    def take_steps(self, solvers: Sequence[Any]) -> bool:
        """Finish some of these steps, the next ones; returns whether there are more."""


class Alone:
    """A solution that shares nothing with others. `terms` gives its arrays (blocks here, L), `take` gets their sums."""

    @property
    def company(self) -> Hashable:
        return self

    def guides(self) -> tuple[dict[str, Guide], dict[str, Guide]]:
        """How a checkpoint packs arrays with a line per sample, and per sample with tangents: it does not."""
        return {}, {}

    def terms(self) -> list[np.ndarray]:
        """What is to be summed over all blocks, one line per block."""
        raise NotImplementedError

    def take(self, totals: list[np.ndarray]) -> None:
        """Go on from the sums over all blocks."""
        raise NotImplementedError

    def launch_steps(self, solvers: Sequence[Any]) -> bool:
        return False

    def take_steps(self, solvers: Sequence[Any]) -> bool:
        raise NotImplementedError

    def terms_of(self, solvers: Sequence[Any]) -> list[np.ndarray]:
        return [lines[None] for lines in self.terms()]

    def take_of(self, solvers: Sequence[Any], totals: list[np.ndarray]) -> None:
        self.take([total[0] for total in totals])


def step_together(solvers: Sequence[Solver], comm: Summing) -> None:
    """One step of each solver, with a single reduction over the ranks for all of them. Where there is one rank, and nothing to be
    shared, companies go in turn: a card then works on the others while the host is at one. A card that does all of a step may take
    several."""
    companies: dict[Hashable, list[Solver]] = {}
    for solver in solvers:
        companies.setdefault(solver.company, []).append(solver)
    launched = [several for several in companies.values() if comm.size == 1 and several[0].launch_steps(several)]
    rest = [several for several in companies.values() if several not in launched]
    for together in [[each] for each in rest] if comm.size == 1 else [rest]:
        terms = [several[0].terms_of(several) for several in together]
        totals = iter(comm.sums_exact([lines for own in terms for lines in own]))
        counts = [len(own) for own in terms]
        terms.clear()  # what is summed is gone before anybody continues
        for several, count in zip(together, counts, strict=True):
            several[0].take_of(several, list(islice(totals, count)))
    while launched:  # in turn, so that the card has something to do for all of them
        launched = [several for several in launched if several[0].take_steps(several)]


def normalised(weight: np.ndarray, blocks: Blocks, comm: Summing, stratum: np.ndarray | None = None,
               shares: Sequence[float] = (1.0,)) -> np.ndarray:
    """Importance weights of the samples on this rank, normalised: they add up to one over all samples, and to its share over each
    stratum (the share of a stratum without samples goes to the others). stratum (count,): that of each sample."""
    strata = np.zeros(len(weight), np.int64) if stratum is None else stratum
    parts = [weight] if len(shares) == 1 else [np.where(strata == k, weight, 0.0) for k in range(len(shares))]
    sums = [[part[b * blocks.size : (b + 1) * blocks.size].sum() for part in parts] for b in range(len(blocks.here))]
    totals = comm.sum_exact(np.array(sums).reshape(-1, len(shares)))
    if len(shares) == 1:
        return weight / totals[0]
    wanted = np.where(totals > 0, shares, 0.0)
    return weight * (wanted / wanted.sum() / np.where(totals > 0, totals, 1.0))[strata]


def estimators_of(experiment: Experiment, sampling: Sampling) -> InUse:
    """Which estimators a solution can use. For labels that jump the control variate of mu needs pairs of samples on the jump; it
    has no response Y there, nor for clusters. On a convex loss neither Y nor tangents grow, and these are hardly ever bounded."""
    stein = sampling.stein and experiment.stein and (experiment.data.control != JUMPS or sampling.pairs > 0)
    share, by = sampling.carriers / sampling.samples, sampling.estimator
    trusted = trusted_share(sampling.carriers, sampling.samples, by) if experiment.nonconvex else share
    late = by.control_fade_time if experiment.barriers else np.inf
    return InUse(stein, sampling.identity, share, trusted, by.control_fade_gradient, late)
