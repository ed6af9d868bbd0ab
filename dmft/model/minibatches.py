"""The law of a sample's mini-batch weight s(n) for infinitely many samples: first draw, next draw, stationary mean.

The theory draws from these laws sample by sample; the simulator draws whole mini-batches of the same kinds, by its own
inner loops (sgd_sim/cpu/minibatch.py, sgd_sim/gpu/cuda/minibatch.cuh). A new law is a class here with its branch in
`next_weight` and its twin in cuda/minibatch.cuh, a line in `batch_of`, and the simulator's draw. Eq. [persistent-chain].
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
from numba import njit

from dmft.core.streams import uniform2

FULL_BATCH, BERNOULLI, POISSON, PERSISTENT = range(4)
MINIBATCHES = ("bernoulli", "without_replacement", "with_replacement")  # how sgd draws, by their names in run files
_MOST = 39.0  # draws of one sample in a Poisson mini-batch of mean at most 1: more have probability below 1e-40


class Chain(NamedTuple):
    """The move s(n) -> s(n+1) as numbers, for compiled code."""

    kind: int
    fraction: float
    p_on: float  # 0 -> 1
    p_off: float  # 1 -> 0


class MiniBatch(Protocol):
    """The law of s(n) of one sample."""

    @property
    def fraction(self) -> float:
        """l: the mean of s, at all times."""

    @property
    def random(self) -> bool:
        """Whether two samples with the same past can part because of it."""

    def first(self, u: np.ndarray) -> np.ndarray:
        """s(0) from uniforms."""

    def chain(self) -> Chain:
        """How s moves on."""


@dataclass(frozen=True)
class FullBatch:
    """Every sample at every step: gradient descent and Langevin dynamics."""

    fraction: ClassVar[float] = 1.0
    random: ClassVar[bool] = False

    def first(self, u: np.ndarray) -> np.ndarray:
        return np.ones_like(u)

    def chain(self) -> Chain:
        return Chain(FULL_BATCH, 1.0, 0.0, 0.0)


@dataclass(frozen=True)
class Bernoulli:
    """s = 1 with probability l, afresh at every step; a mini-batch of fixed size without replacement has the same limit."""

    fraction: float
    random: ClassVar[bool] = True

    def first(self, u: np.ndarray) -> np.ndarray:
        return (u < self.fraction).astype(float)

    def chain(self) -> Chain:
        return Chain(BERNOULLI, self.fraction, 0.0, 0.0)


@dataclass(frozen=True)
class Poisson:
    """How often a sample is among l M draws with replacement: Poisson of mean l, afresh at every step."""

    fraction: float
    random: ClassVar[bool] = True

    def first(self, u: np.ndarray) -> np.ndarray:
        """By inversion; a mean of at most 1 needs few terms."""
        term = np.exp(-self.fraction)
        below, count = term, np.zeros_like(u)
        for k in range(1, int(_MOST) + 1):
            count += u >= below
            term *= self.fraction / k
            below += term
        return count

    def chain(self) -> Chain:
        return Chain(POISSON, self.fraction, 0.0, 0.0)


@dataclass(frozen=True)
class Persistent:
    """A stationary Markov chain with P(s = 1) = l: eq. 7, where tau is how long a sample stays out of the mini-batch."""

    fraction: float
    p_on: float  # 0 -> 1, eta/tau
    p_off: float  # 1 -> 0, (1 - l) eta/(l tau)
    random: ClassVar[bool] = True

    @classmethod
    def from_times(cls, fraction: float, eta: float, tau: float) -> Persistent:
        return cls(fraction, eta / tau, (1 - fraction) * eta / (fraction * tau))

    @staticmethod
    def shortest(fraction: float, eta: float) -> float:
        """The smallest tau at which both switching probabilities are at most 1."""
        return eta * max(1.0, (1.0 - fraction) / fraction)

    def first(self, u: np.ndarray) -> np.ndarray:
        return (u < self.fraction).astype(float)

    def chain(self) -> Chain:
        return Chain(PERSISTENT, self.fraction, self.p_on, self.p_off)


def batch_of(kind: str, minibatch: str, fraction: float, eta: float, tau: float | None) -> MiniBatch:
    """The law that the keys of a run file's [algorithm] ask for."""
    if tau is not None:
        return Persistent.from_times(fraction, eta, tau)
    if kind != "sgd":
        return FullBatch()
    return (Poisson if minibatch == "with_replacement" else Bernoulli)(fraction)


@njit(cache=True, inline="always")
def next_weight(chain, s, key, label, n):
    """s(n+1) of a sample from s(n) and the sample's own random number of step n+1. Eq. [persistent-chain]."""
    if chain.kind == FULL_BATCH:
        return 1.0
    u, _ = uniform2(key, label, n + 1)
    if chain.kind == BERNOULLI:
        return 1.0 if u < chain.fraction else 0.0
    if chain.kind == PERSISTENT:
        if s > 0.5:
            return 1.0 if u < 1.0 - chain.p_off else 0.0
        return 1.0 if u < chain.p_on else 0.0
    term = np.exp(-chain.fraction)
    below = term
    count = 0.0
    while u >= below and count < _MOST:
        count += 1.0
        term *= chain.fraction / count
        below += term
    return count


def cuda_source() -> str:
    """`next_weight` for a GPU, with the codes of the laws as here."""
    codes = f"enum {{ FULL_BATCH = {FULL_BATCH}, BERNOULLI = {BERNOULLI}, POISSON = {POISSON}, PERSISTENT = {PERSISTENT} }};\n"
    text = (Path(__file__).parent / "cuda" / "minibatch.cuh").read_text()
    return f"{codes}#define MOST_DRAWS {_MOST}\n{text}"
