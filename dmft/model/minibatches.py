"""The law of a sample's mini-batch weight s(n) for infinitely many samples: first draw, next draw, stationary mean.

The theory draws from these laws sample by sample; the simulator draws whole mini-batches of the same kinds, by its own
inner loops (sgd_sim/kernels/minibatch.py, sgd_sim/gpu/cuda/minibatch.cuh). Which keys of a run file ask for which law: kinds.py. A
new law is a class here with its branch in `next_weight`, and the simulator's draw. Eq. [persistent-chain].
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np
from numba import njit

from dmft.core.cuda_numbers import Array, Kind
from dmft.core.streams import uniform2
from dmft.core.to_cuda import CudaFunctions

CHAIN_FULL, CHAIN_BERNOULLI, CHAIN_POISSON, CHAIN_PERSISTENT, CHAIN_RESHUFFLED, CHAIN_CYCLIC = range(6)
NO_STREAM, NOBODY = np.uint64(0), np.zeros(0, np.int64)
NEVER = 2**62  # the step of a change that a run does not see
_MOST = 39.0  # most draws of one sample in a Poisson mini-batch; for a mean of at most 1 more have probability below 1e-40


class Chain(NamedTuple):
    """The law of the move s(n) -> s(n+1) as plain numbers, for compiled code."""

    kind: int
    fraction: float
    p_on: float  # 0 -> 1
    p_off: float  # 1 -> 0
    period: int = 1  # steps of an epoch
    begin: int = 0  # first step of the first epoch of this length


@dataclass(frozen=True)
class MiniBatch:
    """The law of s(n) of one sample at constant settings; `Batches` has the laws of all steps. fraction: l, the mean of s at all
    times."""

    fraction: float = 1.0
    persists: ClassVar[bool] = False  # whether it is a chain whose changes of s can be drawn beforehand
    fixed_size = False  # whether a simulation draws a fixed number of rows where it could draw them independently

    def first(self, u: np.ndarray, key: np.uint64 = NO_STREAM, index: np.ndarray = NOBODY) -> np.ndarray:
        """s(0) of samples: from uniforms (count,), or from the stream `key` and the samples' indices in it (count,)."""
        return (u < self.fraction).astype(float)

    def chain(self) -> Chain:
        """The law of the move from s(n) to s(n+1)."""
        raise NotImplementedError

    def after(self, before: MiniBatch, relax: bool) -> Chain:
        """The law of the move from an s that has the law `before` to one that has this law."""
        return self.chain()

    def flaw(self) -> str:
        """What is wrong with the numbers of the law, in a few words; "" where they are sound."""
        return ""

    def begun(self, n: int, more: bool = False) -> MiniBatch:
        """This law with epochs that begin at step n; more: n steps later than they do."""
        return self


@dataclass(frozen=True)
class FullBatch(MiniBatch):
    """Every sample at every step: gradient descent and Langevin dynamics."""

    def first(self, u: np.ndarray, key: np.uint64 = NO_STREAM, index: np.ndarray = NOBODY) -> np.ndarray:
        return np.ones_like(u)

    def chain(self) -> Chain:
        return Chain(CHAIN_FULL, 1.0, 0.0, 0.0)


@dataclass(frozen=True)
class Bernoulli(MiniBatch):
    """s = 1 with probability l, drawn anew at every step; a mini-batch of fixed size without replacement has the same limit."""

    fixed_size: bool = False

    def chain(self) -> Chain:
        return Chain(CHAIN_BERNOULLI, self.fraction, 0.0, 0.0)


@dataclass(frozen=True)
class Poisson(MiniBatch):
    """How often a sample is among l M draws with replacement: Poisson of mean l, drawn anew at every step."""

    def first(self, u: np.ndarray, key: np.uint64 = NO_STREAM, index: np.ndarray = NOBODY) -> np.ndarray:
        return poisson_counts(self.fraction, u)

    def chain(self) -> Chain:
        return Chain(CHAIN_POISSON, self.fraction, 0.0, 0.0)


@dataclass(frozen=True)
class Persistent(MiniBatch):
    """A stationary Markov chain with P(s = 1) = l: eq. 7, where tau is how long a sample stays out of the mini-batch."""

    p_on: float = 0.0  # 0 -> 1, eta/tau
    p_off: float = 0.0  # 1 -> 0, (1 - l) eta/(l tau)
    persists: ClassVar[bool] = True

    @classmethod
    def from_times(cls, fraction: float, eta: float, tau: float) -> Persistent:
        """From l, the learning rate and the persistence time."""
        return cls(fraction, eta / tau, (1 - fraction) * eta / (fraction * tau))  # [persistent-chain]

    def chain(self) -> Chain:
        return Chain(CHAIN_PERSISTENT, self.fraction, self.p_on, self.p_off)

    def flaw(self) -> str:
        """The chain must be stationary: s(0) is drawn with P(s = 1) = l."""
        on, off = self.p_on, self.p_off
        sound = 0 <= on <= 1 and 0 <= off <= 1 and abs((1 - self.fraction) * on - self.fraction * off) < 1e-9
        return "" if sound else f"has p_on = {on:g}, p_off = {off:g}; they must lie in [0, 1], with (1-l) p_on = l p_off"

    def after(self, before: MiniBatch, relax: bool) -> Chain:
        """The rates are those of the law before, the mean is that of this one."""
        if not before.persists:
            return Chain(CHAIN_BERNOULLI, self.fraction, 0.0, 0.0)  # a persistent chain begins in its stationary law
        now = before.chain()
        if relax or now.fraction == self.fraction:
            return now
        # After the ordinary move the chain is thinned, or filled, to the new fraction: one move with these rates.
        stay, enter = min(1.0, self.fraction / now.fraction), max(0.0, self.fraction - now.fraction) / (1.0 - now.fraction or 1.0)
        p_on = now.p_on * stay + (1.0 - now.p_on) * enter  # [schedule]
        p_off = 1.0 - ((1.0 - now.p_off) * stay + now.p_off * enter)  # [schedule]
        return Chain(CHAIN_PERSISTENT, self.fraction, p_on, p_off)


@dataclass(frozen=True)
class Epochs(MiniBatch):
    """Every sample once in an epoch of E = 1/l steps: at a position that is drawn anew for every epoch, or once. Eq. [epochs].

    Positions of E samples with consecutive indices are a cyclic shift of 0 .. E-1, so that every step has its share of them; for
    one sample the position is uniform, and epochs are independent."""

    cyclic: bool = False
    begin: int = 0

    @property
    def period(self) -> int:
        return round(1 / self.fraction)

    def first(self, u: np.ndarray, key: np.uint64 = NO_STREAM, index: np.ndarray = NOBODY) -> np.ndarray:
        return epoch_positions(self.chain(), key, index, 0)

    def chain(self) -> Chain:
        return Chain(CHAIN_CYCLIC if self.cyclic else CHAIN_RESHUFFLED, self.fraction, 0.0, 0.0, self.period, self.begin)

    def flaw(self) -> str:
        """An epoch has a whole number of steps."""
        return "" if whole_epochs(self.fraction) else "needs 1/l to be a whole number of mini-batches an epoch"

    def begun(self, n: int, more: bool = False) -> Epochs:
        return replace(self, begin=n + (self.begin if more else 0))


def whole_epochs(fraction: np.ndarray | float) -> np.ndarray:
    """Whether 1/l is a whole number, up to the rounding of a decimal fraction such as 0.333333."""
    return np.abs(1 / fraction - np.rint(1 / fraction)) < 1e-5 / fraction


MINIBATCH_LAWS = (FullBatch, Bernoulli, Poisson, Persistent, Epochs)  # that theory and simulator know


@dataclass(frozen=True)
class Batches:
    """The law of the mini-batches of a run whose settings may change from step to step. Eq. [schedule]."""

    laws: tuple[MiniBatch, ...]  # without repetition
    which: np.ndarray  # (steps,) index of the law of each step
    relax: bool = False  # a persistent chain approaches a new batch fraction by its own rates, not at once

    def law(self, n: int) -> MiniBatch:
        """The law of s(n)."""
        return self.laws[self.which[min(n, len(self.which) - 1)]]

    def chain(self, n: int) -> Chain:
        """The law of the move from s(n) to s(n+1)."""
        return self.law(n + 1).after(self.law(n), self.relax)

    @property
    def lingers(self) -> bool:
        """Whether changes of s are drawn beforehand: every step has a persistent chain, and the first one is neither a full batch
        nor Bernoulli's law. Later ones do not count, so that a longer run has the same changes."""
        first = self.law(0).chain()
        return all(law.persists for law in self.laws) and first.fraction < 1.0 and first.p_on + first.p_off < 1.0 - 1e-9

    def changes(self, s: np.ndarray, u: np.ndarray) -> np.ndarray:
        """s(0) and the first steps at which persistent chains change, (count, 1 + changes), from s(0) and uniforms (count,
        changes). Exact: the next change is at the first step at which the sum of -log(1 - p) over the moves since the last one
        reaches -log(1 - u). Changes after the end are at NEVER. Eq. [persistent-chain]."""
        steps = len(self.which)
        chains = [self.chain(n) for n in range(steps)]
        # A certain move (p = 1) has to stay finite in the sums; it still comes before any -log(1 - u).
        hazard = [np.append(0.0, np.cumsum(-np.log1p(-np.minimum([getattr(chain, rate) for chain in chains], 1 - 1e-16))))
                  for rate in ("p_on", "p_off")]
        on, now, found = s > 0.5, np.zeros(len(s), np.int64), [s.astype(np.int64)]
        for column in -np.log1p(-u.T):
            for state in (0, 1):
                mine, summed = on == state, hazard[state]
                begin = np.minimum(now[mine], steps)
                now[mine] = np.maximum(np.searchsorted(summed, summed[begin] + column[mine]), begin + 1)
            now[now > steps] = NEVER
            found.append(now.copy())
            on = ~on
        return np.column_stack(found)

    @classmethod
    def of(cls, laws: list[MiniBatch], relax: bool = False) -> Batches:
        """From the law of every step."""
        found: dict[MiniBatch, int] = {}
        which = np.array([found.setdefault(law, len(found)) for law in laws], np.int64)
        return cls(tuple(found), which, relax)

    @classmethod
    def steady(cls, law: MiniBatch, steps: int) -> Batches:
        """One law for all steps."""
        return cls((law,), np.broadcast_to(np.int64(0), steps))


@njit(cache=True, inline="always")
def poisson_count(mean, u):
    """A Poisson number from a uniform, by inversion; a mean of at most 1 needs few terms."""
    term = np.exp(-mean)
    below = term
    count = 0.0
    while u >= below and count < _MOST:
        count += 1.0
        term *= mean / count
        below += term
    return count


@njit(cache=True)
def poisson_counts(mean, u):
    """The same of uniforms (count,)."""
    return np.array([poisson_count(mean, each) for each in u])


@njit(cache=True)
def epoch_positions(chain, key, index, n):
    """s(n) of samples whose mini-batches are drawn by epochs."""
    return np.array([next_weight(chain, 0.0, key, index[i], n - 1) for i in range(len(index))])


@njit(cache=True, inline="always")
def next_weight(chain, s, key, index, n):
    """s(n+1) of a sample from s(n) and the sample's own random number of step n+1. Eqs. [persistent-chain], [epochs]."""
    if chain.kind == CHAIN_FULL:
        return 1.0
    if chain.kind >= CHAIN_RESHUFFLED:
        since = (n + 1 - chain.begin) % chain.period
        epoch = chain.begin if chain.kind == CHAIN_CYCLIC else n + 1 - since
        shift, _ = uniform2(key, index // chain.period, epoch)
        return 1.0 if (index + int(shift * chain.period)) % chain.period == since else 0.0  # [epochs]
    u, _ = uniform2(key, index, n + 1)
    if chain.kind == CHAIN_BERNOULLI:
        return 1.0 if u < chain.fraction else 0.0
    if chain.kind == CHAIN_PERSISTENT:
        if s > 0.5:
            return 1.0 if u < 1.0 - chain.p_off else 0.0  # [persistent-chain]
        return 1.0 if u < chain.p_on else 0.0  # [persistent-chain]
    return poisson_count(chain.fraction, u)


@njit(cache=True, inline="always")
def own_weight(chain, s, key, index, n, known, changes):
    """s(n+1) of a sample: from its first changes as long as they are known, by chance afterwards. changes (known,): its row of
    Batches.changes."""
    if known == 0 or changes[known - 1] <= n:
        return next_weight(chain, s, key, index, n)
    passed = changes[0]  # s(0)
    for k in range(1, known):
        if changes[k] <= n + 1:
            passed += 1
    return float(passed % 2)


def cuda_source() -> str:
    """`own_weight` in CUDA C++."""
    kinds: dict[str, Kind] = {"chain": Chain, "s": "real", "key": "word", "index": "int", "n": "int", "known": "int",
                              "changes": Array("int")}
    return CudaFunctions(by_hand={uniform2: "uniform2"}).add(own_weight, kinds).text
