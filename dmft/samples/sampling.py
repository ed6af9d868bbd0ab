"""The start of every sample: (k, y, sd) of its data, h(0), s(0), its importance weight, and the first normals of its noise chi.

A sample is known by its index among all samples of a replica, so any range of samples can be drawn on any rank. Eq. [draws]. The
parts of the variance reduction, each of which can be switched off:

- "sobol": (h0, h(0), s(0)), the first ten normals behind chi and the first four changes of a persistent s are a
  scrambled Sobol set, one independent scrambling per replica, so that the spread of replicas still gives the error bars. Two
  neighbours in it have opposite later normals, so that what is linear in these nearly drops out of averages.
- "weights": the start is drawn too wide and weighted back, because g ~ h^3 lives in its tails. (Much wider and samples start where
  the explicit step is unstable, eta v'' > 2.) Where a loss has barriers the noise of late times comes from samples on them,
  whose field is small while h0 is large: h0 and h(0) are then turned into the field h(0) + m0 h0 and what is independent of it,
  which is drawn much too wide.
- "stein" (a control variate of mu) and "ibp" (the response completed by an identity) are estimators, not draws: see
  equations/rows.py and equations/ibp.py. With "ibp" only some samples have tangents. For labels that jump, "stein" needs
  additional samples on the jump: pairs that differ in their label alone, with weight 0 in every average.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from dmft.core import streams
from dmft.equations.tuning import ESTIMATOR, Estimator
from dmft.model.experiment import Experiment
from dmft.model.runfile import VARIANCE_PARTS
from dmft.samples.points import PointSet, too_wide

NEIGHBOURS = [0, 1, 3]  # columns in which neighbours are close: the start and the first normal
PARTS = VARIANCE_PARTS


class Draws(NamedTuple):
    """The start of a range of samples."""

    batch_index: np.ndarray  # (count,) of the sample in the stream of mini-batches
    noise_index: np.ndarray  # (count,) in the stream of later normals, where neighbours share one
    sign: np.ndarray  # (count,) of these normals
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


@dataclass(frozen=True)
class Sampling:
    """How one solution is sampled. `name` keys its random numbers: (replica,), or (replica, sweep) where every
    sweep of the iteration has numbers of its own. `tangents` is the share of samples that have tangents, with "ibp"."""

    samples: int
    seed: int
    name: tuple[int, ...]
    parts: frozenset[str]
    tangents: float = 1.0
    estimator: Estimator = ESTIMATOR
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
        wanted = max(math.ceil(self.tangents * self.samples), self.estimator.least_carriers)
        return min(wanted + wanted % 2, self.samples)

    @property
    def keys(self) -> tuple[np.uint64, np.uint64]:
        """Streams of the Gaussian noises and of the mini-batches."""
        return streams.key(self.seed, "chi", *self.name), streams.key(self.seed, "batch", *self.name)


def point_set(sampling: Sampling, dimensions: int) -> PointSet:
    return PointSet(sampling.seed, sampling.name, dimensions, "sobol" in sampling.parts)


class Later(NamedTuple):
    """The later normals of points of the set, each (count,)."""

    noise_index: np.ndarray
    sign: np.ndarray


def later_normals(experiment: Experiment, drawn: PointSet, count: int, columns: list[int] = NEIGHBOURS, batch: int = 2) -> Later:
    """Those of the first `count` points: two neighbours, by these columns, share an index and have opposite signs; batch: the
    column of s(0). Neighbours are looked for among the second half of the points, the second half of the first half, and so on: the
    solution with half the samples, which is there to estimate the bias, then has the first samples of the whole one, noise and
    all."""
    later = Later(np.arange(count), np.ones(count))
    if not drawn.sobol:
        return later

    def on(points: np.ndarray) -> np.ndarray:
        return experiment.batch.first(points[:, batch]) > 0.0 if experiment.batches.lingers else np.zeros(len(points))

    code, last = drawn.codes(count, columns, on), count
    while last:
        first = last // 2
        place = np.empty(last - first, np.int64)
        place[np.argsort(code[first:last], kind="stable")] = np.arange(last - first)
        later.noise_index[first:last], later.sign[first:last] = first + place // 2, 1.0 - 2.0 * (place % 2)  # [draws]
        last = first
    return later


class _Columns(NamedTuple):
    """Where the numbers of a sample are among the columns of its point; its start (`_Start`) and s(0) are the first three."""

    z: slice
    changes: slice
    extra: slice  # of the data model

    @classmethod
    def of(cls, experiment: Experiment, sampling: Sampling) -> _Columns:
        sobol = "sobol" in sampling.parts
        z = 3 + (sampling.estimator.sobol_steps if sobol else 0)  # in a shorter run too: the scrambling depends on the dimension
        changes = z + (sampling.estimator.sobol_changes if sobol and experiment.batches.lingers else 0)
        return cls(slice(3, z), slice(z, changes), slice(changes, changes + experiment.data.draws))


class _Start(NamedTuple):
    """h0 and h(0) of points, and their importance weights, each (count,)."""

    h0: np.ndarray
    h: np.ndarray
    weight: np.ndarray


def _start(experiment: Experiment, points: np.ndarray, wide: bool, by: Estimator) -> _Start:
    """From the first two columns of points: h0 and h(0) or, where a loss has barriers, the field and what is independent of it.
    wide: whether they are drawn too wide, and how. Eq. [draws]."""
    spread, norm = math.sqrt(experiment.h_start_variance), math.sqrt(experiment.q_start)
    factors, upto = (by.start_width, by.start_width), math.inf
    cosine, sine = 1.0, 0.0  # of the angle by which the two columns are turned
    if experiment.start.random:
        factors = by.random_h0_width, 1.0
    elif wide and experiment.barriers and abs(experiment.m0) < by.warm_overlap * norm:
        cosine, sine, upto = experiment.m0 / norm, spread / norm, by.barrier_width_upto
        factors = by.field_width, by.barrier_width
    one, weight_of_one = too_wide(points[:, 0], factors[0] if wide else 1.0)
    other, weight_of_other = too_wide(points[:, 1], factors[1] if wide else 1.0, upto, by.start_width)
    if experiment.start.random and wide:
        one = np.clip(one, -by.random_h0_max, by.random_h0_max)
    return _Start(cosine * one + sine * other, spread * (sine * one - cosine * other), weight_of_one * weight_of_other)  # [draws]


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
    columns, point = _Columns.of(experiment, sampling), sampling.samples + pair
    points = point_set(sampling, columns.extra.stop).at(point)
    jump = experiment.data.jump(points[:, columns.extra])
    s = experiment.batch.first(points[:, 2], sampling.keys[1], point)
    zero, one = np.zeros(len(index)), np.ones(len(index))
    return Draws(batch_index=point, noise_index=point, sign=one, k=jump.k, y=label, sd=one, slope=zero, shift=zero,
                 stratum=np.zeros(len(index), np.int64), jump=label * jump.size / sampling.pairs,
                 h=np.sqrt(experiment.h_start_variance) * ndtri(points[:, 1]), s=s, weight=zero,
                 carrier=np.zeros(len(index), bool), z=ndtri(points[:, columns.z]),
                 changes=first_changes(experiment, s, points[:, columns.changes]))


def _draw_samples(experiment: Experiment, sampling: Sampling, index: np.ndarray) -> Draws:
    """The samples that enter averages."""
    columns = _Columns.of(experiment, sampling)
    carrier, mirror, count = index < sampling.carriers, np.ones(len(index)), sampling.samples
    if experiment.mirrored:
        mirror[index % 2 == 1] = -1
        index, count = index // 2, -(-count // 2)
    drawn = point_set(sampling, columns.extra.stop)
    points, later = drawn.at(index), later_normals(experiment, drawn, count)
    s = experiment.batch.first(points[:, 2], sampling.keys[1], index)
    start = _start(experiment, points, "weights" in sampling.parts, sampling.estimator)
    return Draws(
        batch_index=index,
        noise_index=later.noise_index[index],
        sign=mirror * later.sign[index],
        **experiment.data.draw(start.h0, points[:, columns.extra])._asdict(),
        jump=np.zeros(len(index)),
        h=mirror * start.h,
        s=s,
        weight=start.weight,
        carrier=carrier,
        z=mirror[:, None] * ndtri(points[:, columns.z]),
        changes=first_changes(experiment, s, points[:, columns.changes]),
    )


def first_changes(experiment: Experiment, s: np.ndarray, u: np.ndarray) -> np.ndarray:
    """As Batches.changes, or (count, 0) where there are no uniforms."""
    return experiment.batches.changes(s, u) if u.shape[1] else np.empty(u.shape, np.int64)


def tangent_indices(carrier: np.ndarray) -> np.ndarray:
    """(count,): where each sample is in the arrays of tangents; -1 for a sample without tangents."""
    return np.where(carrier, np.cumsum(carrier) - 1, -1)
