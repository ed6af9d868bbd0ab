"""Where samples start and what drives them: (k, y, sd) of their data, h(0), s(0), importance weights, first normals of chi.

A sample is known by its index among all samples of a replica, so any range of samples can be drawn on any rank.
Variance reduction, each part switchable:

- "sobol": (h0, h(0), s(0)) and the first SOBOL_STEPS normals behind chi are a scrambled Sobol set, one
  independent scrambling per replica, so that replicas still give honest error bars;
- "weights": h0 and h(0) are drawn WIDER times too wide and weighted back: g ~ h^3 lives in the tails.
  (Much wider and samples start where the explicit step is unstable, eta v'' > 2.)
- "stein" is an estimator, not a draw: see equations/rows.py;
- "splitting" happens on the way, in the march: see splitting.py.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri
from scipy.stats import qmc

from dmft.core import streams
from dmft.model.experiment import Experiment
from dmft.model.runfile import VARIANCE_PARTS

SOBOL_STEPS = 10
WIDER = 1.2
PARTS = VARIANCE_PARTS
FIXED = tuple(part for part in PARTS if part != "splitting")  # leave the samples what they are: all that the iteration can use


class Draws(NamedTuple):
    """The start of a range of samples."""

    name: np.ndarray  # (count,) names the sample's later random numbers
    sign: np.ndarray  # (count,) -1 for the mirror image of a pair (m0 = 0)
    k: np.ndarray  # (count,) coefficient of the input along w0
    y: np.ndarray  # (count,) label of the sample in the data
    sd: np.ndarray  # (count,) spread of the input
    h: np.ndarray  # (count,) h(0)
    s: np.ndarray  # (count,) s(0)
    weight: np.ndarray  # (count,) not normalised
    z: np.ndarray  # (count, steps) first normals behind chi


def _unit_cube(seed: int, name: tuple[int, ...], first: int, count: int, dimensions: int, sobol: bool) -> np.ndarray:
    """Points first .. first+count-1 of the replica's set in the open unit cube, (count, dimensions)."""
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
    sweep of the iteration has numbers of its own."""

    samples: int
    seed: int
    name: tuple[int, ...]
    parts: frozenset[str]

    @property
    def stein(self) -> bool:
        return "stein" in self.parts

    @property
    def keys(self) -> tuple[np.uint64, np.uint64]:
        """Streams of the Gaussian noises and of the mini-batches."""
        return streams.key(self.seed, "chi", *self.name), streams.key(self.seed, "batch", *self.name)

    @property
    def split_key(self) -> np.uint64:
        """Stream of the labels of samples that come from splitting."""
        return streams.key(self.seed, "split", *self.name)


def draw(experiment: Experiment, sampling: Sampling, first: int, count: int) -> Draws:
    """Samples first .. first+count-1 of a solution."""
    seed, name, parts = sampling.seed, sampling.name, sampling.parts
    sobol = "sobol" in parts
    z_steps = SOBOL_STEPS if sobol else 0  # also in a shorter run: the scrambling depends on the dimension
    index = np.arange(first, first + count)
    sign = np.ones(count)
    if experiment.mirrored:
        sign[index % 2 == 1] = -1
        index = index // 2
    low = index[0] if count else 0
    points = _unit_cube(seed, name, int(low), int(index[-1] - low + 1) if count else 0, 3 + z_steps, sobol)
    points = points[index - low]
    wider = WIDER if "weights" in parts else 1.0
    y0, y = ndtri(points[:, 0]), ndtri(points[:, 1])
    weight = wider**2 * np.exp(-0.5 * (wider**2 - 1) * (y0**2 + y**2))
    return Draws(
        name=index,
        sign=sign,
        **experiment.data.draw(wider * y0)._asdict(),
        h=sign * wider * np.sqrt(experiment.h_start_variance) * y,
        s=experiment.batch.first(points[:, 2]),
        weight=weight,
        z=sign[:, None] * ndtri(points[:, 3:]),
    )
