"""The start of every sample: (k, y, sd) of its data, h(0), s(0), its importance weight, and the first normals of its noise chi.

A sample is known by its index among all samples of a replica, so any range of samples can be drawn on any rank.
The parts of the variance reduction, each of which can be switched off:

- "sobol": (h0, h(0), s(0)), the first SOBOL_CHANGES changes of a persistent s and the first SOBOL_STEPS normals behind chi are a
  scrambled Sobol set, one independent scrambling per replica, so that the spread of replicas still gives the error bars;
- "weights": h0 and h(0) are drawn WIDER times too wide and weighted back: g ~ h^3 lives in the tails.
  (Much wider and samples start where the explicit step is unstable, eta v'' > 2.)
- "stein" (a control variate of mu) and "ibp" (the response completed by an identity) are estimators, not draws: see
  equations/rows.py and equations/ibp.py. With "ibp" only some samples have tangents. For labels that jump, "stein" needs
  additional samples on the jump: pairs that differ in their label alone, with weight 0 in every average.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri
from scipy.stats import qmc

from dmft.core import streams
from dmft.model.experiment import Experiment
from dmft.model.minibatches import first_weights
from dmft.model.runfile import VARIANCE_PARTS

SOBOL_STEPS = 10  # first steps whose normals are part of the Sobol set
SOBOL_CHANGES = 4  # first changes of a persistent mini-batch weight that are part of it
WIDER = 1.2  # factor by which h0 and h(0) are drawn too wide, with "weights"
# For random starts there are averages with the weight h0^2: h0 alone is drawn wider, and cut off where its weight is negligible and
# the explicit step of most runs is still stable.
WIDER_RANDOM, LARGEST_H0 = 1.4, 6.0
PARTS = VARIANCE_PARTS
LEAST_CARRIERS = 512  # least number of samples with tangents, which give the shape of a row of the response (or all, if fewer)


class Draws(NamedTuple):
    """The start of a range of samples."""

    name: np.ndarray  # (count,) names the sample's later random numbers
    sign: np.ndarray  # (count,) -1 for the mirror image of a pair (m0 = 0)
    k: np.ndarray  # (count,) coefficient of the input along w0
    y: np.ndarray  # (count,) label of the sample in the data
    sd: np.ndarray  # (count,) spread of the input
    slope: np.ndarray  # (count,) derivative of the label in h0
    shift: np.ndarray  # (count,) k - h0
    stratum: np.ndarray  # (count,) index in the data model's strata
    jump: np.ndarray  # (count,) weight of g in mu, for samples on a jump of the labels
    h: np.ndarray  # (count,) h(0)
    s: np.ndarray  # (count,) s(0)
    weight: np.ndarray  # (count,) not normalised
    carrier: np.ndarray  # (count,) whether the sample has tangents
    z: np.ndarray  # (count, steps) first normals behind chi
    changes: np.ndarray  # (count, 1 + changes) s(0) and its first changes, or (count, 0) where they are left to chance


def _unit_cube(seed: int, name: tuple[int, ...], first: int, count: int, dimensions: int, sobol: bool) -> np.ndarray:
    """Points first .. first+count-1 of the set of one solution in the open unit cube, (count, dimensions)."""
    if not sobol:
        return streams.uniforms(streams.key(seed, "start", *name), first, (count, dimensions))
    engine = qmc.Sobol(dimensions, scramble=True, rng=streams.generator(seed, "sobol", *name))
    if first:
        engine.fast_forward(first)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # any sample count is allowed; powers of two balance best
        points = engine.random(count)
    return np.clip(points, 1e-12, 1 - 1e-12)


@dataclass(frozen=True)
class Sampling:
    """How one solution is sampled. `name` keys its random numbers: (replica,), or (replica, sweep) where every
    sweep of the iteration has numbers of its own. `tangents` is the share of samples that have tangents, with "ibp"."""

    samples: int
    seed: int
    name: tuple[int, ...]
    parts: frozenset[str]
    tangents: float = 1.0
    least_carriers: int = LEAST_CARRIERS
    pairs: int = 0  # pairs of samples on the jump of the labels

    @property
    def total(self) -> int:
        """The number of samples, those on jumps included."""
        return self.samples + 2 * self.pairs

    @property
    def stein(self) -> bool:
        return "stein" in self.parts

    @property
    def identity(self) -> bool:
        return "ibp" in self.parts

    @property
    def carriers(self) -> int:
        """The number of samples with tangents. They are the first ones: a stretch of a Sobol sequence is well spread, every 16th
        point of it is not. Even, for mirrored pairs."""
        if not self.identity:
            return self.samples
        wanted = max(math.ceil(self.tangents * self.samples), self.least_carriers)
        return min(wanted + wanted % 2, self.samples)

    @property
    def keys(self) -> tuple[np.uint64, np.uint64]:
        """Streams of the Gaussian noises and of the mini-batches."""
        return streams.key(self.seed, "chi", *self.name), streams.key(self.seed, "batch", *self.name)


def _points(sampling: Sampling, index: np.ndarray, dimensions: int) -> np.ndarray:
    """The points of the samples `index` in the open unit cube, (count, dimensions). Consecutive indices are drawn together."""
    chosen, place = np.unique(index, return_inverse=True)
    sobol = "sobol" in sampling.parts
    stretches = np.split(chosen, np.flatnonzero(np.diff(chosen) > 1) + 1) if len(chosen) else []
    drawn = [_unit_cube(sampling.seed, sampling.name, int(part[0]), len(part), dimensions, sobol) for part in stretches]
    return np.concatenate([np.empty((0, dimensions)), *drawn])[place]


class _Columns(NamedTuple):
    """Where the numbers of a sample are among the columns of its point; h0, h(0) and s(0) are the first three."""

    changes: slice
    z: slice
    extra: slice  # of the data model

    @classmethod
    def of(cls, experiment: Experiment, sampling: Sampling) -> _Columns:
        sobol = "sobol" in sampling.parts
        changes = 3 + (SOBOL_CHANGES if sobol and experiment.batches.lingers else 0)
        z = changes + (SOBOL_STEPS if sobol else 0)  # in a shorter run too: the scrambling depends on the dimension
        return cls(slice(3, changes), slice(changes, z), slice(z, z + experiment.data.draws))


def draw(experiment: Experiment, sampling: Sampling, index: np.ndarray) -> Draws:
    """The samples of these indices (count,) of a solution; those from sampling.samples on are pairs on a jump of the labels."""
    own, pairs = index[index < sampling.samples], index[index >= sampling.samples]
    draws = _draw_samples(experiment, sampling, own)
    if not len(pairs):
        return draws
    both = [np.concatenate(part) for part in zip(draws, _draw_pairs(experiment, sampling, pairs), strict=True)]
    place = np.argsort(np.concatenate([np.flatnonzero(index < sampling.samples), np.flatnonzero(index >= sampling.samples)]))
    return Draws(*(array[place] for array in both))


def _draw_pairs(experiment: Experiment, sampling: Sampling, index: np.ndarray) -> Draws:
    """Samples on the jump: both members of a pair come from one point of the set, with labels +1 and -1. They are neither drawn too
    wide nor flipped."""
    pair, label = (index - sampling.samples) // 2, 1.0 - 2.0 * (index % 2 != sampling.samples % 2)
    columns, name = _Columns.of(experiment, sampling), sampling.samples + pair
    points = _points(sampling, name, columns.extra.stop)
    jump = experiment.data.jump(points[:, columns.extra])
    s = first_weights(experiment.batch, points[:, 2], sampling.keys[1], name)
    zero, one = np.zeros(len(index)), np.ones(len(index))
    return Draws(name=name, sign=one, k=jump.k, y=label, sd=one, slope=zero, shift=zero, stratum=np.zeros(len(index), np.int64),
                 jump=label * jump.size / sampling.pairs, h=np.sqrt(experiment.h_start_variance) * ndtri(points[:, 1]),
                 s=s, weight=zero, carrier=np.zeros(len(index), bool), z=ndtri(points[:, columns.z]),
                 changes=_changes(experiment, s, points[:, columns.changes]))


def _draw_samples(experiment: Experiment, sampling: Sampling, index: np.ndarray) -> Draws:
    """The samples that enter averages."""
    parts = sampling.parts
    columns = _Columns.of(experiment, sampling)
    carrier, sign = index < sampling.carriers, np.ones(len(index))
    if experiment.mirrored:
        sign[index % 2 == 1] = -1
        index = index // 2
    points = _points(sampling, index, columns.extra.stop)
    s = first_weights(experiment.batch, points[:, 2], sampling.keys[1], index)
    wider = WIDER if "weights" in parts else 1.0
    y0, y = ndtri(points[:, 0]), ndtri(points[:, 1])
    weight, h0 = wider**2 * np.exp(-0.5 * (wider**2 - 1) * (y0**2 + y**2)), wider * y0
    if experiment.start.random and "weights" in parts:
        wider = 1.0
        weight, h0 = np.exp(-0.5 * (WIDER_RANDOM**2 - 1) * y0**2), np.clip(WIDER_RANDOM * y0, -LARGEST_H0, LARGEST_H0)
    return Draws(
        name=index,
        sign=sign,
        **experiment.data.draw(h0, points[:, columns.extra])._asdict(),
        jump=np.zeros(len(index)),
        h=sign * wider * np.sqrt(experiment.h_start_variance) * y,
        s=s,
        weight=weight,
        carrier=carrier,
        z=sign[:, None] * ndtri(points[:, columns.z]),
        changes=_changes(experiment, s, points[:, columns.changes]),
    )


def _changes(experiment: Experiment, s: np.ndarray, u: np.ndarray) -> np.ndarray:
    """As Batches.changes, or (count, 0) where there are no uniforms."""
    return experiment.batches.changes(s, u) if u.shape[1] else np.empty(u.shape, np.int64)


def lines_of(carrier: np.ndarray) -> np.ndarray:
    """(count,): the line of each sample in the arrays of tangents; -1 for a sample without tangents."""
    return np.where(carrier, np.cumsum(carrier) - 1, -1)
