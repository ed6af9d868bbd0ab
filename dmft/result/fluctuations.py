"""Fluctuations of m from a random start, from the rows of all replicas: V, the gain and their kernels, with errors.

V is quadratic in K1, so that rows are averaged over replicas before V is formed; its error is a jackknife estimate, from the
changes when one replica is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from dmft.core import streams
from dmft.equations.kernels import Wanted, history_for
from dmft.equations.random_start import Fluctuations, OverlapRows, fluctuations, sample_paths
from dmft.files.layouts import RANDOM_START
from dmft.model.curves import HALF_PREFIX
from dmft.model.experiment import Experiment
from dmft.model.runfile import Run
from dmft.result.statistics import ReplicaStatistics


class RandomStart(NamedTuple):
    """Results by name, each with its error under the name with _error."""

    curves: dict[str, np.ndarray]  # RANDOM_START (n+1,)
    kernels: dict[str, np.ndarray]  # V, K1, Z (P, P)
    bias: dict[str, np.ndarray]  # RANDOM_START (n+1,): their change when half the samples are used, where that was solved


def jackknife_error(values: np.ndarray) -> np.ndarray:
    """Jackknife error of a statistic from its values (count, ...) with one replica left out each; NaN when count < 2."""
    count = len(values)
    if count < 2:
        return np.full(values.shape[1:], np.nan)
    return np.sqrt((count - 1) / count * np.sum((values - values.mean(axis=0)) ** 2, axis=0))


def random_start(run: Run, replicas: Mapping[str, np.ndarray], per_level: int | None, maps: bool = True) -> RandomStart:
    """V, gain and kernels from the rows of a march (the fields of OverlapRows, with replicas on the first axis, and those of half
    the samples). per_level: blocks per level of its history; maps: whether kernels are wanted."""
    experiment, wanted, count = Experiment.from_run(run), Wanted.of(run), len(replicas["a"])
    halves = {name.removeprefix(HALF_PREFIX): rows for name, rows in replicas.items() if name.startswith(HALF_PREFIX)}

    def each(rows: Mapping[str, np.ndarray], maps: bool) -> list[Fluctuations]:
        """The fluctuations of the mean over all replicas, then of the means with one replica left out."""
        choices = range(-1, count if count > 1 else 0)
        return [fluctuations(experiment, history_for(experiment, per_level, wanted), OverlapRows.mean(rows, left_out),
                             wanted if maps else None) for left_out in choices]

    whole, half = each(replicas, maps), each(halves, False) if halves else []

    def with_error(name: str, values: list[np.ndarray]) -> dict[str, np.ndarray]:
        return {name: values[0], f"{name}_error": jackknife_error(np.array(values[1:]).reshape(len(values) - 1, *values[0].shape))}

    curves: dict[str, np.ndarray] = {}
    kernels: dict[str, np.ndarray] = {}
    bias: dict[str, np.ndarray] = {}
    for name in RANDOM_START:
        ours = [getattr(one, name) for one in whole]
        curves |= with_error(name, ours)
        if half:
            bias |= with_error(name, [getattr(b, name) - a for a, b in zip(ours, half, strict=True)])
    for name in whole[0].kernels:
        kernels |= with_error(name, [one.kernels[name] for one in whole])
    return RandomStart(curves, kernels, bias)


def fluctuations_of(run: Run, statistics: ReplicaStatistics, per_level: int | None, maps: bool = True) -> RandomStart | None:
    """`random_start` of finished replicas, of those that averages run over; None where the start is not random."""
    rows = {name: statistics.chosen(values) for name, values in statistics.random_start.items()}
    return random_start(run, rows, per_level, maps) if rows else None


def drawn_paths(run: Run, replicas: Mapping[str, np.ndarray], paths: int, seed: int) -> np.ndarray:
    """Paths (paths, n+1) of sqrt(N) m from the rows of all replicas."""
    per_level = int(replicas["per_level"][0]) or None
    experiment = Experiment.from_run(run)
    return sample_paths(experiment, history_for(experiment, per_level, Wanted.of(run)), OverlapRows.mean(replicas), paths,
                        streams.generator(seed, "escape"))
