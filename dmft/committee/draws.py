"""The start of every sample of a committee: kappa, label, h(0), s(0) and the first normals behind chi, from one point of a set.

With one unit and one direction the points are those of samples/sampling.py without importance weights. Eq. [draws].
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from dmft.committee.steps import lower_root
from dmft.model.experiment import Experiment
from dmft.model.network import TwoLayer
from dmft.samples.sampling import Sampling, first_changes, later_normals, point_set

NEAR = 2  # of the kappas and of the h(0), how many decide which samples are neighbours


class UnitDraws(NamedTuple):
    """The start of a range of samples; each (count,) unless told."""

    batch_index: np.ndarray  # as of samples/sampling.py
    noise_index: np.ndarray
    sign: np.ndarray  # of these normals
    kappa: np.ndarray  # (count, k)
    y: np.ndarray
    slope: np.ndarray  # (count, k) dphi/dkappa
    h: np.ndarray  # (count, p)
    s: np.ndarray
    carrier: np.ndarray  # whether the sample has tangents
    probe: np.ndarray  # (count, p) signs of [c-probe]
    z: np.ndarray  # (count, steps p) first normals behind chi
    changes: np.ndarray  # (count, 1 + changes) as of samples/sampling.py


def draw_units(experiment: Experiment, network: TwoLayer, sampling: Sampling, index: np.ndarray) -> UnitDraws:
    """The samples of these indices (count,) of a solution."""
    p, k, sobol, by = network.units, network.directions, "sobol" in sampling.parts, sampling.estimator
    batch = k + p
    z = batch + 1 + (p * -(-by.sobol_steps // p) if sobol else 0)
    changes = z + (by.sobol_changes if sobol and experiment.batches.lingers else 0)
    drawn = point_set(sampling, changes + (network.label_noise > 0))
    near = [*range(min(k, NEAR)), *(k + r for r in range(min(p, NEAR))), batch + 1]
    later = later_normals(experiment, drawn, sampling.samples, near, batch)
    points = drawn.at(index)
    kappa = ndtri(points[:, :k])  # [draws]
    y = network.label(kappa, np.sqrt(network.label_noise) * ndtri(points[:, -1]) if network.label_noise > 0 else 0.0)
    s = experiment.batch.first(points[:, batch], sampling.keys[1], index)
    lower_root(network.Q0, np.zeros(p), root := np.zeros((p, p)))
    slope = network.label.slope(kappa) if network.by_parts else np.zeros_like(kappa)
    return UnitDraws(index, later.noise_index[index], later.sign[index], kappa, y, slope, -ndtri(points[:, k:batch]) @ root.T, s,
                     index < sampling.carriers, probes(index, p), ndtri(points[:, batch + 1 : z]),
                     first_changes(experiment, s, points[:, z:changes]))


def probes(index: np.ndarray, units: int) -> np.ndarray:
    """Sign vectors (count, p) of samples: those of consecutive ones go through the rows of a Hadamard matrix, so that the mean of
    eps eps^T over 2^n >= p of them is exactly 1. Eq. [c-probe]."""
    size = 1 << max(units - 1, 0).bit_length()
    parity = np.array([[bin(i & j).count("1") % 2 for j in range(units)] for i in range(size)])
    return 1.0 - 2.0 * parity[index % size]  # [c-probe]
